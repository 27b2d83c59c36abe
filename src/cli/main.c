/* cli/main.c - the program */
#include "base/base.h"

int main(void)
{
    return 0;
}

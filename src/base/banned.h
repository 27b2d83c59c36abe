/* base/banned.h - functions that do not compile here (rule U4)
 *
 * They take no length, keep hidden state, or cannot report an error. Use
 * base/num.h to parse numbers and base/buf.h to build strings.
 */
#ifndef SL_BASE_BANNED_H
#define SL_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC poison atoi atol atoll atof strtol strtoll strtoul strtoull
#pragma GCC poison sscanf strcpy strcat sprintf vsprintf strtok gets
#pragma GCC poison rand srand localtime gmtime strncpy strncat

#endif

/* engine/convert.h - models in their forms, for the program's verbs */
#ifndef SL_ENGINE_CONVERT_H
#define SL_ENGINE_CONVERT_H

#include "text/tokenize.h"

/* The tokenizer of a model in any form; the caller closes *out. */
int sl_convert_tokenizer(struct sl_tokenizer **out, const char *path,
                         struct sl_err *err);

#endif

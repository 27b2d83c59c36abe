/* base/json.h - JSON files through jansson
 *
 * For files from outside: duplicate keys are refused, nesting is limited to
 * SL_JSON_DEPTH, and numbers are checked where they are read. Getters leave
 * *out untouched and return 0 when the key is absent or null and `need` is
 * false; a wrong type or range is SL_EFORMAT with the key, value and range.
 */
#ifndef SL_BASE_JSON_H
#define SL_BASE_JSON_H

#include <jansson.h>

#include "base/err.h"

#define SL_JSON_DEPTH 128

/* Parse text (need not end with zero). The caller ends *out with json_decref.
 * `what` names the text in messages. Unpaired surrogates, zero bytes in
 * strings and trailing bytes are refused. */
int sl_json_parse(json_t **out, const char *s, size_t len, const char *what,
                  struct sl_err *err);

/* The same for a whole file of at most max bytes. */
int sl_json_load(json_t **out, const char *path, size_t max,
                 struct sl_err *err);

int sl_json_i64(int64_t *out, const json_t *obj, const char *key, bool need,
                int64_t lo, int64_t hi, struct sl_err *err);
int sl_json_f64(double *out, const json_t *obj, const char *key, bool need,
                double lo, double hi, struct sl_err *err);
int sl_json_bool(bool *out, const json_t *obj, const char *key, bool need,
                 struct sl_err *err);

/* Borrowed from obj, until it ends. */
int sl_json_str(const char **out, const json_t *obj, const char *key, bool need,
                struct sl_err *err);

#endif

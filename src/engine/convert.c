/* engine/convert.c - models in their forms; see convert.h */
#include "engine/convert.h"

#include "base/file.h"
#include "model/source.h"
#include "text/tokenizer_json.h"

int sl_convert_tokenizer(struct sl_tokenizer **out, const char *path,
                         struct sl_err *err)
{
    struct sl_source *src = NULL;
    int rc;

    /* A folder with a tokenizer need not hold a model. */
    if (sl_file_kind(path) == SL_FILE_DIR)
        return sl_tokenizer_load(out, path, err);
    rc = sl_source_open(&src, path, err);
    if (!rc)
        rc = sl_source_tokenizer(out, src, err);
    sl_source_close(&src);
    return rc;
}

/* model/blocks.c - the blocks of a GGUF file; see blocks.h
 *
 *     0 ... n_layer - 1             layers of the model
 *     n_layer ... block_count - 1   layers that draft (MTP), each with tensors
 *                                   named blk.N.nextn.*
 *
 * where n_layer = block_count - nextn_predict_layers. A file whose tensors
 * contradict these two numbers is refused: taken at its word, it would lose
 * layers and still talk.
 */
#include "model/blocks.h"

#include "base/num.h"

#define MARK ".nextn."

int64_t sl_block_of(const char *name)
{
    const char *dot = strncmp(name, "blk.", 4) ? NULL : strchr(name + 4, '.');
    int64_t n;

    if (!dot || sl_num_i64(&n, name + 4, (size_t)(dot - name - 4), 0, INT32_MAX,
                           "a block", NULL))
        return -1;
    return n;
}

static bool has_mark(const struct sl_ckpt *c, int64_t block)
{
    static const char *const parts[] = {"eh_proj.weight",
                                        "enorm.weight",
                                        "hnorm.weight",
                                        "shared_head_norm.weight",
                                        "shared_head_head.weight",
                                        "embed_tokens.weight"};
    char name[64];
    size_t k;

    for (size_t i = 0; i < SL_COUNTOF(parts); i++) {
        snprintf(name, sizeof(name), "blk.%lld" MARK "%s", (long long)block,
                 parts[i]);
        if (sl_ckpt_find(c, name, &k))
            return true;
    }
    return false;
}

int sl_blocks_check(const struct sl_ckpt *c, int64_t n_layer, int64_t n_block,
                    struct sl_err *err)
{
    for (size_t i = 0; i < sl_ckpt_n_tensor(c); i++) {
        const char *name = sl_ckpt_get(c, i)->name;
        int64_t b = sl_block_of(name);
        bool mark = b >= 0 && strstr(name, MARK);

        if (b >= n_block)
            return sl_fail(err, SL_EFORMAT,
                           "the tensor '%.100s' is of block %lld, and "
                           "block_count says that there are %lld; use another "
                           "file",
                           name, (long long)b, (long long)n_block);
        if (mark ? b < n_layer : b >= n_layer && !has_mark(c, b))
            return sl_fail(
                err, SL_EFORMAT,
                "the tensor '%.100s' is of %s, and by block_count, "
                "%lld, and nextn_predict_layers, %lld, block %lld "
                "is %s; use another file",
                name, mark ? "an MTP block" : "a block without " MARK "*",
                (long long)n_block, (long long)(n_block - n_layer),
                (long long)b, mark ? "a layer of the model" : "an MTP block");
    }
    return 0;
}

/* text/tag.c - the tags of tool calls; see tag.h */
#include "text/tag.h"

int sl_tag_exact(const char *s, size_t len, const char *tag)
{
    size_t n = strlen(tag);

    if (memcmp(s, tag, sl_min(n, len)) != 0)
        return 0;
    return len < n ? SL_TAG_MORE : (int)n;
}

static size_t skip_blank(const char *s, size_t len, size_t i)
{
    for (int n = 0; n < SL_TAG_MAX_BLANK && i < len; n++, i++)
        if (s[i] != ' ' && s[i] != '\t')
            break;
    return i;
}

int sl_tag_loose(const char *s, size_t len, bool close, const char *word,
                 char end)
{
    size_t n = strlen(word), i = 1, k;

    if (len == 0)
        return SL_TAG_MORE;
    if (s[0] != '<')
        return 0;
    i = skip_blank(s, len, i);
    if (close) {
        if (i == len)
            return SL_TAG_MORE;
        if (s[i] != '/')
            return 0;
        i = skip_blank(s, len, i + 1);
    }
    k = sl_min(n, len - i);
    if (memcmp(s + i, word, k) != 0)
        return 0;
    if (k < n)
        return SL_TAG_MORE;
    i = skip_blank(s, len, i + n);
    if (i == len)
        return SL_TAG_MORE;
    return s[i] == end ? (int)(i + 1) : 0;
}

/* server/kept.c - what is told of kept prefixes; see kept.h */
#include "server/kept.h"

typedef unsigned long long num;

void sl_kept_metrics(struct sl_buf *b, const struct sl_prefix_cache_stats *p,
                     const char *labels)
{
    /* Series of a family stand together. */
    const struct {
        const char *family, *type, *help; /* help NULL: as the one before */
        const char *label;                /* NULL: none */
        uint64_t n;
    } series[] = {
        {"prompts_total", "counter",
         "Prompts, by whether they began with a kept prefix.", "result=\"hit\"",
         p->n_hit},
        {"prompts_total", NULL, NULL, "result=\"miss\"", p->n_miss},
        {"tokens_saved_total", "counter", "Tokens that were not read again.",
         NULL, p->n_tok_hit},
        {"prefixes", "gauge", "Prefixes that are kept.", "where=\"memory\"",
         p->n_kept},
        {"prefixes", NULL, NULL, "where=\"disk\"", p->n_disk},
        {"bytes", "gauge", "What they hold; what several share counts once.",
         "kind=\"pages\"", p->page_bytes},
        {"bytes", NULL, NULL, "kind=\"states\"", p->state_bytes},
        {"bytes", NULL, NULL, "kind=\"disk\"", p->disk_bytes},
        {"kept_total", "counter", "Prefixes that were kept.",
         "where=\"memory\"", p->n_put},
        {"kept_total", NULL, NULL, "where=\"disk\"", p->n_disk_put},
        {"evictions_total", "counter",
         "Prefixes in memory, and files on the disk, that made room.",
         "where=\"memory\"", p->n_evict},
        {"evictions_total", NULL, NULL, "where=\"disk\"", p->n_disk_evict},
        {"disk_loads_total", "counter", "Prefixes read back from the disk.",
         NULL, p->n_disk_load},
        {"disk_tokens_total", "counter", "Tokens read back from the disk.",
         NULL, p->n_disk_tok},
        {"disk_dropped_total", "counter",
         "Prefixes that were damaged, or could not be written.", NULL,
         p->n_disk_drop},
    };

    for (size_t i = 0; i < SL_COUNTOF(series); i++) {
        const char *name = series[i].family;

        if (series[i].help)
            sl_buf_fmt(b,
                       "# HELP sluice:prefix_cache_%s %s\n"
                       "# TYPE sluice:prefix_cache_%s %s\n",
                       name, series[i].help, name, series[i].type);
        sl_buf_fmt(b, "sluice:prefix_cache_%s{%s%s%s} %llu\n", name, labels,
                   series[i].label ? "," : "",
                   series[i].label ? series[i].label : "", (num)series[i].n);
    }
}

void sl_kept_json(struct sl_buf *b, const struct sl_prefix_cache_stats *p,
                  bool enabled)
{
    sl_buf_fmt(b,
               "{\"enabled\":%s,\"prefixes\":%u,\"hits\":%llu,\"misses\":%llu,"
               "\"tokens_saved\":%llu,\"kept\":%llu,\"evictions\":%llu,"
               "\"bytes\":{\"pages\":%llu,\"states\":%llu,\"disk\":%llu},"
               "\"disk\":",
               enabled ? "true" : "false", p->n_kept, (num)p->n_hit,
               (num)p->n_miss, (num)p->n_tok_hit, (num)p->n_put,
               (num)p->n_evict, (num)p->page_bytes, (num)p->state_bytes,
               (num)p->disk_bytes);
    if (p->on_disk)
        sl_buf_fmt(b,
                   "{\"prefixes\":%u,\"kept\":%llu,\"loads\":%llu,"
                   "\"tokens\":%llu,\"evicted_files\":%llu,\"dropped\":%llu}}",
                   p->n_disk, (num)p->n_disk_put, (num)p->n_disk_load,
                   (num)p->n_disk_tok, (num)p->n_disk_evict,
                   (num)p->n_disk_drop);
    else
        sl_buf_str(b, "null}");
}

#include "bench/peer/peer_options.h"
#include "internal.h"

#include <string.h>

static bool has_mask_keys(const clattn_problem *p)
{
    return p->mask_keys > 0;
}

static bool has_blocks(const clattn_problem *p)
{
    return p->block_q > 0;
}

static bool has_caches(const clattn_problem *p)
{
    return ca_cache_normal(p->k_cache, p->dtype) || ca_cache_normal(p->v_cache, p->dtype);
}

static bool has_f32_o(const clattn_problem *p)
{
    return p->o_f32 && p->dtype != CLATTN_F32;
}

static bool has_pages(const clattn_problem *p)
{
    return p->page_size > 0;
}

static bool is_packed(const clattn_problem *p)
{
    return p->total_q > 0 || p->total_kv > 0;
}

static const struct {
    const char *word, *lacks;
    bool (*has)(const clattn_problem *);
} options[] = {
    {"mask_keys", "it takes no masks of the last keys", has_mask_keys},
    {"blocks", "it takes no block lists", has_blocks},
    {"caches", "it takes no caches of another format than q", has_caches},
    {"o_f32", "it writes no o of another dtype than q's", has_f32_o},
    {"pages", "it takes no paged caches", has_pages},
    {"packed", "it takes no packed batches", is_packed},
};

#define NUM_OPTIONS (sizeof options / sizeof *options)

unsigned peer_options_read(const json_t *list)
{
    unsigned taken = 0;

    for (size_t n = 0; n < json_array_size(list); n++)
        for (size_t m = 0; m < NUM_OPTIONS; m++) {
            const char *word = json_string_value(json_array_get(list, n));
            if (word != NULL && strcmp(word, options[m].word) == 0)
                taken |= 1u << m;
        }
    return taken;
}

const char *peer_options_refuse(unsigned taken, const clattn_problem *problem)
{
    for (size_t m = 0; m < NUM_OPTIONS; m++)
        if ((taken >> m & 1u) == 0 && options[m].has(problem))
            return options[m].lacks;
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
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

/* ---- options that are on or off ---------------------------------------------------------------- */

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words && strcmp(word, *words) != 0)
        words++;
    return *words != NULL;
}

/* Every peer is told of these. */
static const char *const told[] = {"alibi", "sinks", "q_lengths", "kv_lengths", NULL};

/* These change no result that a peer is asked for, or stand in `options`. */
static const char *const untold[] = {"lse", "strict", "o_f32", NULL};

json_t *peer_flags(const clattn_problem *problem)
{
    json_t *fields = json_object();
    int failed = 0;

#define FLAG(ID, member, word, OF, difference)                                                     \
    CA_IF_ATTENTION(OF, if (is_one_of(#member, told)) failed |=                                    \
                        json_object_set_new(fields, #member, json_boolean(problem->member != 0));)
    CA_FLAGS(FLAG)
#undef FLAG
    if (failed == 0)
        return fields;
    json_decref(fields);
    return NULL;
}

/* One that is new is not asked of any, until it is among what they are told. */
static const char *refuse_flags(const clattn_problem *p)
{
#define FLAG(ID, member, word, OF, difference)                                                     \
    CA_IF_ATTENTION(OF,                                                                            \
                    if (p->member && !is_one_of(#member, told) &&                                  \
                        !is_one_of(#member, untold)) return "\"" word                              \
                                                            "\" is not asked of other libraries";)
    CA_FLAGS(FLAG)
#undef FLAG
    return NULL;
}

/* ---- what many have not -------------------------------------------------------------------------- */

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
    return refuse_flags(problem);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peer/peer_options.h"
#include "internal.h"

#include <string.h>

enum option { MASK_KEYS, BLOCKS, CACHES, F32_O, PAGES, PACKED, FUNCTIONS, TOPK, NUM_OPTIONS };

static const struct {
    const char *word, *lacks;
} options[NUM_OPTIONS] = {
    [MASK_KEYS] = {"mask_keys", "it takes no masks of the last keys"},
    [BLOCKS] = {"blocks", "it takes no block lists"},
    [CACHES] = {"caches", "it takes no caches of another format than q"},
    [F32_O] = {"o_f32", "it writes no o of another dtype than q's"},
    [PAGES] = {"pages", "it takes no paged caches"},
    [PACKED] = {"packed", "it takes no packed batches"},
    [FUNCTIONS] = {"functions", "it takes no functions of scores and masks"},
    [TOPK] = {"topk", "it takes no lists of chosen keys"},
};

static bool has_option(const clattn_problem *p, enum option option)
{
    const bool has[NUM_OPTIONS] = {
        [MASK_KEYS] = p->mask_keys > 0,
        [BLOCKS] = p->block_q > 0,
        [CACHES] = ca_cache_normal(p->k_cache, p->dtype) || ca_cache_normal(p->v_cache, p->dtype),
        [F32_O] = p->o_f32 && p->dtype != CLATTN_F32,
        [PAGES] = p->page_size > 0,
        [PACKED] = p->total_q > 0 || p->total_kv > 0,
        [FUNCTIONS] = p->score_function != NULL || p->mask_function != NULL,
        [TOPK] = p->topk > 0,
    };

    return has[option];
}

/* ---- options that are on or off ---------------------------------------------------------------- */

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words && strcmp(word, *words) != 0)
        words++;
    return *words != NULL;
}

/* Every peer is told of these. */
static const char *const told[] = {"alibi", "sinks", "q_lengths", "kv_lengths", NULL};

/* Options that peers are not told: they change no result that a peer is asked for, or stand in
 * `options`. */
static const char *const untold[] = {"lse", "strict", "o_f32", "invariant", "topk_heads", NULL};

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

unsigned peer_options_read(const json_t *list)
{
    unsigned taken = 0;

    for (size_t n = 0; n < json_array_size(list); n++)
        for (int m = 0; m < NUM_OPTIONS; m++) {
            const char *word = json_string_value(json_array_get(list, n));
            if (word != NULL && strcmp(word, options[m].word) == 0)
                taken |= 1u << m;
        }
    return taken;
}

const char *peer_options_refuse(unsigned taken, const clattn_problem *problem)
{
    for (int m = 0; m < NUM_OPTIONS; m++)
        if ((taken >> m & 1u) == 0 && has_option(problem, (enum option)m))
            return options[m].lacks;
    return refuse_flags(problem);
}

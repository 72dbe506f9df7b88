/* SPDX-License-Identifier: Apache-2.0 */
/* Appends: on CPUs rows of several tokens at a time, on GPUs 32 columns of a token. How:
 * src/families/append_tokens/append_tokens.cl. */
#include "base/sizes.h"
#include "device/capacity.h"
#include "families/append_tokens/append_tokens_sizes.h"
#include "families/family_units.h"
#include "families/registry.h"

#define TUNABLES_DEF "families/append_tokens/append_tokens.def"
#include "families/expand.h"

#define TOKEN_ARGUMENTS                                                                            \
    (CA_BIT(CA_APPEND_POSITIONS) | CA_BIT(CA_APPEND_COS) | CA_BIT(CA_APPEND_SIN) |                 \
     CA_BIT(CA_APPEND_KV_LENGTHS))

/* Returns the number of items, each with a share of the tokens' rows. */
static size_t shares(const struct ca_problem *p, const size_t *values, size_t dim)
{
    return ca_divide_up(p->normal.append.batch * p->normal.append.tokens, values[TOKENS_INDEX]) *
           values[HEAD_GROUPS_INDEX] * (values[WHOLE_ROWS_INDEX] ? 1 : ca_divide_up(dim, CA_BLOCK));
}

static struct ca_ndrange items(const struct ca_problem *p, const size_t *values, size_t dim)
{
    const size_t local = values[GROUP_ITEMS_INDEX];

    return (struct ca_ndrange){{ca_round_up(shares(p, values, dim), local), 1, 1}, {local, 1, 1}};
}

static struct ca_ndrange tokens_ndrange(const struct ca_problem *p, const size_t *values)
{
    return items(p, values, ca_larger(p->normal.append.dim_qk, p->normal.append.dim_v));
}

static struct ca_ndrange queries_ndrange(const struct ca_problem *p, const size_t *values)
{
    struct ca_ndrange range = items(p, values, p->normal.append.dim_qk);

    if (p->normal.append.queries == CLATTN_QUERIES_NONE)
        range.global[0] = 0;
    return range;
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)dev;
    return p->normal.append.dim_qk > CL_INT_MAX / 4 || p->normal.append.dim_v > CL_INT_MAX / 4
               ? "a row has more than 2^29 elements"
               : NULL;
}

/* On CPUs an item has enough tokens for a few KiB of a head's rows, but each compute unit has
 * several items. */
static void adapt_to_cpu(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    /* the largest number of bytes for cosines and sines: a share of L2 */
    const size_t most = (size_t)96 << 10;
    const size_t widest = p->normal.append.rotary == CLATTN_ROTARY_PAIRS
                              ? 8
                              : 16; /* 8: neighbours swap in one instruction */

    values[SIMD_WIDTH_INDEX] =
        dev->vector_width_float >= 8 ? ca_smaller(dev->vector_width_float, widest) : 4;
    values[WHOLE_ROWS_INDEX] = 1;
    values[TOKENS_INDEX] = 64;
    while (values[TOKENS_INDEX] > 1 &&
           (shares(p, values, p->normal.append.dim_qk) < (size_t)4 * dev->compute_units ||
            private_bytes(p, values) > most))
        values[TOKENS_INDEX] /= 2;
    values[WHOLE_ROWS_INDEX] = private_bytes(p, values) <= most;
}

/* On GPUs heads are divided until each compute unit has a few items. */
static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    enum { ENOUGH = 1024 };

    if (ca_fills_vectors(dev)) {
        adapt_to_cpu(p, dev, values);
        return;
    }
    values[SIMD_WIDTH_INDEX] = 4;
    values[GROUP_ITEMS_INDEX] = dev->max_work_group_size >= 64 ? 64 : 1;
    while (values[HEAD_GROUPS_INDEX] < 32 &&
           values[HEAD_GROUPS_INDEX] < p->normal.append.kv_heads &&
           shares(p, values, p->normal.append.dim_qk) < ENOUGH * (size_t)dev->compute_units)
        values[HEAD_GROUPS_INDEX] *= 2;
}

static const struct ca_family family = {
    CA_FAMILY("append_tokens"),
    .operation = CLATTN_APPEND,
    .source = ca_source_append_tokens,
    OWN_MEMBERS,
    CA_STAGES({"append_tokens",
               TOKEN_ARGUMENTS | CA_BIT(CA_APPEND_SLOTS) | CA_BIT(CA_APPEND_PAGE_TABLE) |
                   CA_BIT(CA_APPEND_K) | CA_BIT(CA_APPEND_V) | CA_BIT(CA_APPEND_K_CACHE) |
                   CA_BIT(CA_APPEND_V_CACHE) | CA_BIT(CA_APPEND_K_SCALES) |
                   CA_BIT(CA_APPEND_V_SCALES),
               tokens_ndrange},
              {"rotate_queries", TOKEN_ARGUMENTS | CA_BIT(CA_APPEND_Q) | CA_BIT(CA_APPEND_Q_OUT),
               queries_ndrange}),
    .private_bytes = private_bytes,
    .preference = ca_only_preference,
};

const struct ca_family *const ca_append_tokens[] = {&family, NULL};

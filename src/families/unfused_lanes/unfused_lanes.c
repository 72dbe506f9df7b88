/* SPDX-License-Identifier: Apache-2.0 */
/* The family for CPUs with scores in memory (src/families/unfused_lanes/unfused_lanes.cl). */
#include "base/sizes.h"
#include "device/capacity.h"
#include "families/block_bits.h"
#include "families/family_units.h"
#include "families/registry.h"
#include "families/unfused/unfused.h"
#include "families/unfused_lanes/unfused_lanes_sizes.h"

#define TUNABLES_DEF "families/unfused_lanes/unfused_lanes.def"
#include "families/expand.h"

static struct ca_ndrange scores_ndrange(const struct ca_problem *p, const size_t *values)
{
    return ca_single_items(ca_divide_up(p->normal.seq_kv, values[BLOCK_N_INDEX]),
                           ca_divide_up(p->normal.seq_q, values[BLOCK_M_INDEX]),
                           p->normal.batch * p->normal.heads);
}

static struct ca_ndrange softmax_ndrange(const struct ca_problem *p, const size_t *values)
{
    return (struct ca_ndrange){{ca_divide_up(p->normal.batch * p->normal.heads * p->normal.seq_q,
                                             values[SOFTMAX_ROWS_INDEX]),
                                1, 1},
                               {1, 1, 1}};
}

static struct ca_ndrange values_ndrange(const struct ca_problem *p, const size_t *values)
{
    return (struct ca_ndrange){{ca_divide_up(p->normal.seq_q, values[BLOCK_M_INDEX]),
                                p->normal.batch * p->normal.heads, 1},
                               {1, 1, 1}};
}

/* The scores, then the bits of block lists. */
static size_t workspace_bytes(const struct ca_problem *p, const size_t *values)
{
    return ca_unfused_workspace_bytes(p, values) + ca_block_bits_bytes(p);
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    /* The tunables with the least private memory. If they do not fit, none do. */
    static const size_t least[NUM_TUNABLES] = {
        [SIMD_WIDTH_INDEX] = 4, [REGISTER_VECTORS_INDEX] = 1, [REGISTER_ROWS_INDEX] = 1,
        [BLOCK_N_INDEX] = 64,   [BLOCK_M_INDEX] = 16,         [SOFTMAX_ROWS_INDEX] = 1};
    const char *why = ca_unfused_unsupported(p, dev);

    return why ? why : reject(p, dev, least);
}

/* Chooses sums that fill the registers, in panels with few vectors beyond dim_v. */
static void block_registers(const struct ca_problem *p, const clattn_device_info *dev,
                            size_t *values)
{
    const int wide = ca_vector_lanes(dev) == 16;

    values[SIMD_WIDTH_INDEX] = ca_vector_lanes(dev);
    const size_t vectors = ca_divide_up(p->normal.dim_v, values[SIMD_WIDTH_INDEX]);
    values[REGISTER_VECTORS_INDEX] = !wide                                  ? 2
                                     : vectors % 4 == 0 || vectors % 4 == 3 ? 4
                                     : vectors > 2                          ? 3
                                                                            : 2;
    values[REGISTER_ROWS_INDEX] = (wide ? 24 : 12) / values[REGISTER_VECTORS_INDEX];
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    size_t *const queries = &values[BLOCK_M_INDEX], *const keys = &values[BLOCK_N_INDEX];
    const size_t enough = (size_t)4 * dev->compute_units;

    block_registers(p, dev, values);
    values[SOFTMAX_ROWS_INDEX] = 64; /* each row prefetches the next one */
    while (values[SOFTMAX_ROWS_INDEX] > 4 &&
           p->normal.batch * p->normal.heads * p->normal.seq_q / values[SOFTMAX_ROWS_INDEX] <
               enough)
        values[SOFTMAX_ROWS_INDEX] /= 4;
    while (*queries > 64 &&
           ca_divide_up(p->normal.seq_q, *queries) * p->normal.batch * p->normal.heads < enough)
        *queries /= 2;
    while (*keys > 64 && *keys / 2 >= p->normal.seq_kv)
        *keys /= 2;
    while (reject(p, dev, values) && *keys > 64)
        *keys /= 2;
    while (reject(p, dev, values) && *queries > 64)
        *queries /= 2;
    if (reject(p, dev, values)) { /* the least that unsupported() has found to fit */
        values[SIMD_WIDTH_INDEX] = 4;
        values[REGISTER_VECTORS_INDEX] = values[REGISTER_ROWS_INDEX] = 1;
        *queries = 16;
    }
}

static int preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    if (!ca_fills_vectors(dev))
        return 5;
    return p->normal.scores == CLATTN_SCORES_NONE ? 55 : 97;
}

static const struct ca_family family = {
    CA_FAMILY("unfused_lanes"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_unfused_lanes,
    OWN_MEMBERS,
    CA_STAGES(CA_MARK_BLOCKS, {"scores", CA_UNFUSED_SCORES_ARGUMENTS, scores_ndrange},
              {"softmax", CA_UNFUSED_SOFTMAX_ARGUMENTS, softmax_ndrange},
              {"values", CA_UNFUSED_VALUES_ARGUMENTS, values_ndrange}),
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .preference = preference,
};

const struct ca_family *const ca_unfused_lanes[] = {&family, NULL};

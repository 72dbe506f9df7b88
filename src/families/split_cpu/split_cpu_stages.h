/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a unit of split_cpu, for its C file:
 *
 *   SPLIT_STAGES        for struct ca_family
 *   workspace_bytes()   likewise
 *   groups()            of the first stage
 *
 * Before including this: families/expand.h, of its tunables, and SIMD_WIDTH and KV_HEADS where these are none. */
#include "families/block_bits.h"
#include "families/split.h"

static size_t groups(const struct ca_problem *p, const size_t *values)
{
#include "families/names.h"
    return ca_split_groups(p, BLOCK_M, KV_HEADS, ca_split_parts(p, SPLIT_K));
}

static struct ca_ndrange split_ndrange(const struct ca_problem *p, const size_t *values)
{
#include "families/names.h"
    const size_t blocks = ca_split_divide(ca_split_rows_per_kv_head(p), BLOCK_M);

    return ca_single_items(p->normal.batch, ca_split_divide(p->normal.kv_heads, KV_HEADS),
                           blocks * ca_split_parts(p, SPLIT_K));
}

/* Returns whether a second stage combines partial results. The kernels' COMBINES is the same condition. */
static int combines(const struct ca_problem *p, const size_t *values)
{
    return values[SPLIT_K_INDEX] > 1 || p->normal.invariant;
}

static struct ca_ndrange combine_ndrange(const struct ca_problem *p, const size_t *values)
{
    return ca_single_items(combines(p, values) ? p->normal.seq_q : 0, p->normal.heads,
                           p->normal.batch);
}

/* Partial results, as rows of whole vectors with a maximum and a sum each; the bits of block lists come last. */
static size_t workspace_bytes(const struct ca_problem *p, const size_t *values)
{
#include "families/names.h"
    const size_t columns = ca_split_divide(p->normal.dim_v, SIMD_WIDTH) * SIMD_WIDTH;

    return (combines(p, values) ? ca_split_rows(p) * ca_split_parts(p, SPLIT_K) : 0) *
               (columns + 2) * sizeof(cl_float) +
           ca_block_bits_bytes(p);
}

#define SPLIT_STAGES                                                                               \
    CA_MARK_BLOCKS, {"split", CA_SPLIT_ARGUMENTS | CA_COMBINE_OUTPUTS, split_ndrange},             \
    {                                                                                              \
        "combine", CA_COMBINE_ARGUMENTS, combine_ndrange                                           \
    }

/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a unit of split_gpu, for its C file:
 *
 *   SPLIT_STAGES        for struct ca_family
 *   workspace_bytes()   likewise
 *
 * Before including this: block_m(values), the rows of a group, work_items(values) and combine_items(values), the items
 * of a group of each stage, and the tunable SPLIT_K. */
#include "families/block_bits.h"
#include "families/split.h"

static struct ca_ndrange split_ndrange(const struct ca_problem *p, const size_t *values)
{
    return ca_groups(
        ca_split_groups(p, block_m(values), 1, ca_split_parts(p, values[SPLIT_K_INDEX])),
        work_items(values));
}

static struct ca_ndrange combine_ndrange(const struct ca_problem *p, const size_t *values)
{
    return ca_groups(ca_split_divide(p->normal.dim_v, COMBINED_COLUMNS) * ca_split_rows(p),
                     combine_items(values));
}

/* Partial results, rows with a maximum and a sum each; the bits of block lists come last. */
static size_t workspace_bytes(const struct ca_problem *p, const size_t *values)
{
    return ca_split_rows(p) * ca_split_parts(p, values[SPLIT_K_INDEX]) * (p->normal.dim_v + 2) *
               sizeof(cl_float) +
           ca_block_bits_bytes(p);
}

#define SPLIT_STAGES                                                                               \
    CA_MARK_BLOCKS, {"split", CA_SPLIT_ARGUMENTS, split_ndrange},                                  \
    {                                                                                              \
        "combine", CA_COMBINE_ARGUMENTS, combine_ndrange                                           \
    }

/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a family of projections whose work-groups own tiles of y, for the C file of one:
 *
 *   PROJECTION_STAGES(kernel)   for struct ca_family
 *   workspace_bytes()            likewise
 *   num_tiles()                  of y
 *
 * Before including this: block_m(values), the rows of a tile, work_items(values), those of a group, and the tunables
 * BLOCK_N and SPLIT_K. */
#include "families/projection_sizes.h"

static size_t num_tiles(const clattn_problem *p, const size_t *values)
{
    return ca_divide_up(ca_projection_rows(p), block_m(values)) *
           ca_divide_up(ca_projection_columns(p), values[BLOCK_N_INDEX]);
}

static struct ca_ndrange tiles_ndrange(const clattn_problem *p, const size_t *values)
{
    struct ca_ndrange range = ca_groups(num_tiles(p, values), work_items(values));

    range.global[1] = values[SPLIT_K_INDEX];
    return range;
}

static struct ca_ndrange sum_ndrange(const clattn_problem *p, const size_t *values)
{
    return ca_any_groups(
        values[SPLIT_K_INDEX] > 1 ? ca_projection_rows(p) * ca_projection_columns(p) : 0);
}

static size_t workspace_bytes(const clattn_problem *p, const size_t *values)
{
    return ca_projection_split_bytes(p, values[SPLIT_K_INDEX]);
}

/* The list, by what the first is called in cl/. */
#define PROJECTION_STAGES(kernel)                                                                  \
    {kernel, CA_PROJECTION_ARGUMENTS, tiles_ndrange},                                              \
    {                                                                                              \
        "projection_sum", CA_PROJECTION_SUM_ARGUMENTS, sum_ndrange                                 \
    }

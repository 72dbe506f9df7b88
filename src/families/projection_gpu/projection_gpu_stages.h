/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a family of projections whose work-groups own tiles of y, for the C file of one:
 *
 *   PROJECTION_STAGES(kernel), PROJECTION_NUM_STAGES   for struct ca_family
 *   workspace_bytes()                                  likewise
 *   num_tiles()                                        of y
 *
 * Before including this: block_m(values), the rows of a tile, work_items(values), those of a group, and the tunables
 * BLOCK_N and SPLIT_K. */
#include "families/projection_sizes.h"

static size_t num_tiles(const clattn_problem *p, const size_t *values)
{
    return ca_projection_tile_count(p, block_m(values), values[BLOCK_N_INDEX]);
}

static void tiles_ndrange(const clattn_problem *p, const size_t *values,
                          const clattn_device_info *dev, struct ca_ndrange *range)
{
    (void)dev;
    *range = ca_projection_tiles_ndrange(p, block_m(values), values[BLOCK_N_INDEX],
                                         values[SPLIT_K_INDEX], work_items(values));
}

static void sum_ndrange(const clattn_problem *p, const size_t *values,
                        const clattn_device_info *dev, struct ca_ndrange *range)
{
    *range = ca_projection_sum_ndrange(p, dev, values[SPLIT_K_INDEX]);
}

static size_t workspace_bytes(const clattn_problem *p, const size_t *values,
                              const clattn_device_info *dev)
{
    (void)dev;
    return ca_projection_split_bytes(p, values[SPLIT_K_INDEX]);
}

/* The list, by what the first is called in cl/. */
#define PROJECTION_STAGES(kernel)                                                                  \
    {                                                                                              \
        {kernel, CA_PROJECTION_ARGUMENTS, tiles_ndrange},                                          \
        {                                                                                          \
            "projection_sum", CA_PROJECTION_SUM_ARGUMENTS, sum_ndrange                             \
        }                                                                                          \
    }
enum { PROJECTION_NUM_STAGES = 2 };

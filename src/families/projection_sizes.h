/* SPDX-License-Identifier: Apache-2.0 */
/* The common sizes of families of projections: the dims of the product, and the workspace for sums
 * of parts of the depth when SPLIT_K groups share it. */
#ifndef CA_PROJECTION_SIZES_H
#define CA_PROJECTION_SIZES_H

#include "base/sizes.h"
#include "device/capacity.h"
#include "families/family.h"

/* The arguments of the stages: before the product, of the product, and of the sum of its parts. */
#define CA_PROJECTION_ARGUMENTS                                                                    \
    (CA_BIT(CA_PROJECTION_X) | CA_BIT(CA_PROJECTION_W) | CA_BIT(CA_PROJECTION_BIAS) |              \
     CA_BIT(CA_PROJECTION_Y) | CA_BIT(CA_WORKSPACE))
#define CA_PROJECTION_SUM_ARGUMENTS                                                                \
    (CA_BIT(CA_PROJECTION_BIAS) | CA_BIT(CA_PROJECTION_Y) | CA_BIT(CA_WORKSPACE) | CA_READ_ONLY)

#define CA_PROJECTION_PARTS_ARGUMENTS                                                              \
    (CA_BIT(CA_PROJECTION_X) | CA_BIT(CA_PROJECTION_W) | CA_BIT(CA_WORKSPACE))

static inline size_t ca_projection_rows(const struct ca_problem *p)
{
    return p->normal.projection.batch * p->normal.projection.rows;
}

static inline size_t ca_projection_columns(const struct ca_problem *p)
{
    return p->normal.projection.y_heads * p->normal.projection.y_dim;
}

static inline size_t ca_projection_depth(const struct ca_problem *p)
{
    return p->normal.projection.x_heads * p->normal.projection.x_dim;
}

/* The bytes of the workspace; 0 without splits. */
static inline size_t ca_projection_split_bytes(const struct ca_problem *p, size_t splits)
{
    return splits > 1 ? splits * ca_projection_rows(p) * ca_projection_columns(p) * sizeof(cl_float)
                      : 0;
}

/* The number of tiles that keep the device busy: two work-groups for each core. */
static inline size_t ca_projection_enough_tiles(const clattn_device_info *dev)
{
    return 2 * ca_device_cores(dev);
}

/* The number of parts of the depth, each of at least 256, for a product with `tiles` tiles: as
 * many as keep the device busy. */
static inline size_t ca_projection_splits(const struct ca_problem *p, const clattn_device_info *dev,
                                          size_t tiles)
{
    size_t splits = 1;

    while (splits < 32 && tiles * splits < ca_projection_enough_tiles(dev) &&
           ca_projection_depth(p) >= splits * 2 * 256)
        splits *= 2;
    return splits;
}

#endif

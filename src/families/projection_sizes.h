/* SPDX-License-Identifier: Apache-2.0 */
/* The common sizes of families of projections: the dims of the product, and the workspace for sums
 * of parts of the depth when SPLIT_K groups share it. */
#ifndef CA_PROJECTION_SIZES_H
#define CA_PROJECTION_SIZES_H

#include "base/sizes.h"
#include "device/capacity.h"
#include "families/family.h"

/* Arguments of the two stages: the product, and the sum of its parts. */
#define CA_PROJECTION_ARGUMENTS                                                                    \
    (CA_BIT(CA_PROJECTION_X) | CA_BIT(CA_PROJECTION_W) | CA_BIT(CA_PROJECTION_BIAS) |              \
     CA_BIT(CA_PROJECTION_Y) | CA_BIT(CA_WORKSPACE))
#define CA_PROJECTION_SUM_ARGUMENTS                                                                \
    (CA_BIT(CA_PROJECTION_BIAS) | CA_BIT(CA_PROJECTION_Y) | CA_BIT(CA_WORKSPACE) | CA_READ_ONLY)

static inline size_t ca_projection_rows(const clattn_problem *p)
{
    return p->projection.batch * p->projection.rows;
}

static inline size_t ca_projection_columns(const clattn_problem *p)
{
    return p->projection.y_heads * p->projection.y_dim;
}

static inline size_t ca_projection_depth(const clattn_problem *p)
{
    return p->projection.x_heads * p->projection.x_dim;
}

/* Bytes of the workspace; none without splits. */
static inline size_t ca_projection_split_bytes(const clattn_problem *p, size_t splits)
{
    return splits > 1 ? splits * ca_projection_rows(p) * ca_projection_columns(p) * sizeof(cl_float)
                      : 0;
}

/* ---- families for CPUs: cl/cpu/projection_blocks.h ------------------------------------------ */

enum { CA_SUM_RUN = 256 }; /* columns of a work-item of the sum */

/* Groups of blocks of at most `block`, made of whole units, that share n. */
static inline size_t ca_projection_blocks(size_t n, size_t unit, size_t block)
{
    return ca_divide_up(ca_divide_up(n, unit), ca_divide_up(block, unit));
}

/* The range of the stage that adds the parts: nothing without splits. */
static inline struct ca_ndrange ca_projection_sum_runs_ndrange(const clattn_problem *p,
                                                               size_t splits)
{
    return (struct ca_ndrange){{splits > 1 ? ca_divide_up(ca_projection_columns(p), CA_SUM_RUN) : 0,
                                ca_projection_rows(p), 1},
                               {1, 1, 1}};
}

/* ---- families whose work-groups own a tile of y: cl/gpu/projection_task.h --------------------- */

enum { CA_SUM_ITEMS = 64 };

static inline size_t ca_projection_tile_count(const clattn_problem *p, size_t block_m,
                                              size_t block_n)
{
    return ca_divide_up(ca_projection_rows(p), block_m) *
           ca_divide_up(ca_projection_columns(p), block_n);
}

/* The range of the stage that multiplies: a work-group of `items` items for each tile and split. */
static inline struct ca_ndrange ca_projection_tiles_ndrange(const clattn_problem *p, size_t block_m,
                                                            size_t block_n, size_t splits,
                                                            size_t items)
{
    return (struct ca_ndrange){{items * ca_projection_tile_count(p, block_m, block_n), splits, 1},
                               {items, 1, 1}};
}

/* The range of the stage that adds the parts: a work-item for each element of y; nothing without
 * splits. */
static inline struct ca_ndrange
ca_projection_sum_ndrange(const clattn_problem *p, const clattn_device_info *dev, size_t splits)
{
    const size_t items = ca_smaller(CA_SUM_ITEMS, dev->max_work_group_size);
    const size_t sums = splits > 1 ? ca_projection_rows(p) * ca_projection_columns(p) : 0;

    return (struct ca_ndrange){{ca_divide_up(sums, items) * items, 1, 1}, {items, 1, 1}};
}

/* Two work-groups for each of the device's cores keep it busy. */
static inline size_t ca_projection_enough_tiles(const clattn_device_info *dev)
{
    return 2 * ca_device_cores(dev);
}

/* Parts of the depth, of at least 256, for a product with `tiles` tiles: as many as keep the device
 * busy. */
static inline size_t ca_projection_splits(const clattn_problem *p, const clattn_device_info *dev,
                                          size_t tiles)
{
    size_t splits = 1;

    while (splits < 32 && tiles * splits < ca_projection_enough_tiles(dev) &&
           ca_projection_depth(p) >= splits * 2 * 256)
        splits *= 2;
    return splits;
}

#endif

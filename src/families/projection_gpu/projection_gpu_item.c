/* SPDX-License-Identifier: Apache-2.0 */
/* projection_gpu_item: matrix products for GPUs; see src/families/projection_gpu/projection_gpu_item.cl. */
#include "device/capacity.h"
#include "families/family_units.h"
#include "families/projection_gpu/projection_gpu_item_sizes.h"
#include "families/registry.h"
#include <string.h>

static size_t work_items(const size_t *values);

#define TUNABLES_DEF "families/projection_gpu/projection_gpu_item.def"
#define TUNABLES_UNIT UNIT_ITEM
#include "families/expand.h"

static size_t work_items(const size_t *values)
{
    return values[BLOCK_M_INDEX] / values[THREAD_M_INDEX] * values[BLOCK_N_INDEX] /
           values[THREAD_N_INDEX];
}

/* The registers of a work-item: the sums, and the elements loaded for a stage. */
static size_t private_bytes(const struct ca_problem *p, const size_t *values)
{
    const size_t across = values[BLOCK_M_INDEX] + values[BLOCK_N_INDEX];

    (void)p;
    return (values[THREAD_M_INDEX] * values[THREAD_N_INDEX] +
            (values[COPIES_INDEX] ? 0 : values[BLOCK_K_INDEX] * across / work_items(values))) *
           sizeof(cl_float);
}

static size_t block_m(const size_t *values)
{
    return values[BLOCK_M_INDEX];
}

#include "families/projection_gpu/projection_gpu_stages.h"

/* The smallest configuration, which fits any suitable device. */
static const size_t smallest[NUM_TUNABLES] = {
    [BLOCK_M_INDEX] = 16, [BLOCK_N_INDEX] = 16, [THREAD_M_INDEX] = 4,
    [THREAD_N_INDEX] = 4, [BLOCK_K_INDEX] = 8,  [STAGES_INDEX] = 1,
    [PADDING_INDEX] = 0,  [GROUP_M_INDEX] = 1,  [SPLIT_K_INDEX] = 1};

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    return reject(p, dev, smallest);
}

/* Halves a block that is larger than the matrix needs, in its rows or columns. */
static void shrink_to(size_t size, size_t least, size_t *block)
{
    while (*block > least && *block / 2 >= size)
        *block /= 2;
}

/* With background copies: a second stage with a depth of 32, if as many groups stay resident. On an
 * H200 this was faster, and so was unrolling eight steps of the depth. For rows along the depth
 * (cl/gpu/depth_rows.h) four steps are unrolled, which need at most 128 registers. */
static void copy_stages(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t before = values[BLOCK_K_INDEX];
    const size_t most =
        ca_resident_local_bytes(dev) / 2 * work_items(values); /* work-items have 128 registers */

    values[STAGES_INDEX] = 2;
    values[COPIES_INDEX] = 1;
    values[UNROLL_INDEX] = 8;
    values[BLOCK_K_INDEX] = 32;
    if (local_bytes(p, values) > dev->local_memory_bytes || local_bytes(p, values) > most)
        values[BLOCK_K_INDEX] = before;
    if (values[BLOCK_K_INDEX] == 32 && p->normal.projection.x.stride[3] == 1 &&
        p->normal.projection.w.stride[1] == 1)
        values[UNROLL_INDEX] = 4;
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    size_t *const rows = &values[BLOCK_M_INDEX], *const columns = &values[BLOCK_N_INDEX];

    if (!ca_has_many_registers(dev)) /* Intel's compiler unrolls nothing with 8 rows */
        values[THREAD_M_INDEX] = values[THREAD_N_INDEX] = 4;
    else if (ca_projection_rows(p) >= 512 && ca_projection_columns(p) >= 512)
        *rows = *columns = 128;
    while (*rows > 64 && num_tiles(p, values) < ca_projection_enough_tiles(dev))
        *rows /= 2, *columns /= 2;
    shrink_to(ca_projection_rows(p), 8, rows); /* below 8 rows loads dominate */
    shrink_to(ca_projection_columns(p), 16, columns);
    if (*rows < 64) { /* a few rows read all of w, best in wide tiles and deep stages */
        values[THREAD_M_INDEX] = values[THREAD_N_INDEX] = 4;
        values[BLOCK_K_INDEX] = 32;
    }
    while (*columns < 256 && *columns * 2 <= ca_projection_columns(p) && work_items(values) < 64)
        *columns *= 2;
    while (*rows < 64 && work_items(values) < 16)
        *rows *= 2;
    if (p->normal.projection.dtype == CLATTN_F32 && ca_copies_in_background(dev))
        copy_stages(p, dev, values);
    values[SPLIT_K_INDEX] = ca_projection_splits(p, dev, num_tiles(p, values));
    if (reject(p, dev, values)) /* makes more work-items, each of which loads less */
        values[THREAD_M_INDEX] = values[THREAD_N_INDEX] = 4;
    while (reject(p, dev, values) && values[BLOCK_K_INDEX] > 8)
        values[BLOCK_K_INDEX] /= 2;
    while (reject(p, dev, values) && *columns > 16)
        *columns /= 2;
    while (reject(p, dev, values) && *rows > 16)
        *rows /= 2;
    if (reject(p, dev, values))
        memcpy(values, smallest, sizeof smallest);
}

static const char *more_options(const size_t *values, const clattn_device_info *dev)
{
    /* As many groups stay resident with 128 registers: cl/gpu/depth_rows.h would take up to 212. */
    return values[COPIES_INDEX] && ca_copies_in_background(dev)
               ? " -D ASYNC_COPIES=1 -cl-nv-maxrregcount=128"
               : "";
}

const struct ca_family ca_projection_gpu_item = {
    CA_UNIT_OF("projection_gpu", "item"),
    .operation = CLATTN_PROJECTION,
    .source = ca_source_projection_gpu_item,
    OWN_MEMBERS,
    CA_STAGES(PROJECTION_STAGES("projection_gpu_item")),
    .options = more_options,
    .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .copies_pieces = 1,
    .preference = ca_item_preference,
};

const struct ca_family *const ca_projection_gpu[] = {
    &ca_projection_gpu_item, &ca_projection_gpu_mma, &ca_projection_gpu_warpgroup, NULL};

/* SPDX-License-Identifier: Apache-2.0 */
/* Projections on CPUs by tiles of AMX; src/families/projection_cpu/projection_cpu_amx.cl says how.
 * */
#include "families/family_units.h"
#include "families/projection_cpu/projection_cpu_sizes.h"
#include "families/projection_sizes.h"
#include "families/registry.h"
#include "problem/problem.h"

#include <math.h>
#include <string.h>

enum { SIMD_WIDTH = 16, REGISTER_VECTORS = 1, REGISTER_ROWS = 32 }; /* the kernel's values */

#undef PRIVATE_BYTES
#define PRIVATE_BYTES TILE_PRIVATE_BYTES

#define TUNABLES_DEF "families/projection_cpu/projection_cpu_amx.def"
#define TUNABLES_UNIT UNIT_AMX
#include "families/expand.h"

static size_t register_rows(const size_t *values)
{
    (void)values;
    return REGISTER_ROWS;
}

static size_t panel(const size_t *values)
{
    (void)values;
    return PANEL;
}

#include "families/projection_cpu/projection_cpu_stages.h"

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)dev;
    return ca_bf16_pairs_refusal(p);
}

/* The work of the busiest unit of the device, in multiply-adds of a tile's element; infinite if
 * panels and sums leave no room in L2. Packing a column of w costs as much as multiplying it with
 * PACKING_W rows, packing a row of x as much as multiplying it with PACKING_X columns. */
static double busiest(const struct ca_problem *p, const clattn_device_info *dev,
                      const size_t *values)
{
    enum { PACKING_W = 128, PACKING_X = 48, TRANSPOSING_X = 160, L2_BYTES = 3 << 19 };
    const size_t row_groups = row_blocks(p, values), column_groups = column_blocks(p, values);
    const size_t units = dev->compute_units ? dev->compute_units : 1;
    const size_t rows =
        ca_divide_up(ca_divide_up(ca_projection_rows(p), REGISTER_ROWS), row_groups) *
        REGISTER_ROWS;
    const size_t columns =
        ca_divide_up(ca_divide_up(ca_projection_columns(p), PANEL), column_groups) * PANEL;
    const size_t depth = ca_projection_depth(p), most = values[BLOCK_K_INDEX];
    const int whole = depth <= most;
    /* How often w is packed. */
    const size_t times = whole ? 1 : ca_divide_up(rows, values[SUMS_M_INDEX]);
    const size_t bytes = ca_smaller(depth, most) * sizeof(cl_ushort) +
                         (whole ? REGISTER_ROWS : values[SUMS_M_INDEX]) * sizeof(cl_float);

    if (columns * bytes > L2_BYTES)
        return HUGE_VAL;
    return (double)ca_divide_up(row_groups * column_groups, units) * (double)depth *
           (double)(columns + (p->normal.projection.x.stride[3] == 1 ? PACKING_X : TRANSPOSING_X)) *
           (double)(rows + times * PACKING_W);
}

/* Chooses the blocks of groups: all units should end at once, and a group should pack for many
 * rows. */
static void block_groups(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    static const size_t all_depths[] = {256, 768, 1024, 2048};
    static const size_t all_rows[] = {2048, 1024, 512, 256, 128, 64};
    static const size_t all_columns[] = {768, 512, 384, 256, 128, 64};
    size_t best[NUM_TUNABLES];
    double least = HUGE_VAL;

    for (size_t n = 0; n < 4 * 6 * 6; n++) {
        values[BLOCK_K_INDEX] = all_depths[n % 4];
        values[BLOCK_M_INDEX] = all_rows[n / 4 % 6];
        values[BLOCK_N_INDEX] = all_columns[n / 4 / 6];
        values[SUMS_M_INDEX] = ca_projection_depth(p) <= values[BLOCK_K_INDEX]
                                   ? REGISTER_ROWS
                                   : ca_smaller(512, values[BLOCK_M_INDEX]);
        const double work = busiest(p, dev, values);
        if (work < least && !reject(p, dev, values)) {
            least = work;
            memcpy(best, values, sizeof best);
        }
    }
    if (least < HUGE_VAL)
        memcpy(values, best, sizeof best);
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    values[BLOCK_K_INDEX] = values[BLOCK_M_INDEX] = values[BLOCK_N_INDEX] = 64;
    values[STRIP_K_INDEX] = dev->type & CL_DEVICE_TYPE_CPU ? 256 : 64;
    if (ca_projection_rows(p) == 0) /* nothing runs: these sizes fit everywhere */
        return;
    block_groups(p, dev, values);
    split_depth(p, dev, values);
}

const struct ca_family ca_projection_cpu_amx = {
    CA_UNIT_OF("projection_cpu", "amx"),
    .operation = CLATTN_PROJECTION,
    .source = ca_source_projection_cpu_amx,
    OWN_MEMBERS,
    CA_STAGES(PROJECTION_STAGES("projection_cpu_amx")),
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .options = ca_amx_options,
    .refused_by_system = ca_amx_refused_by_system,
    .preference = ca_amx_preference,
};

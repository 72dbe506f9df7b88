/* SPDX-License-Identifier: Apache-2.0 */
/* Projections on CPUs, with columns in SIMD lanes; src/families/projection_cpu/projection_cpu.cl
 * says how. With UNIT=pairs products are those of bf16 pairs. */
#include "families/family_units.h"
#include "families/projection_cpu/projection_cpu_sizes.h"
#include "families/projection_sizes.h"
#include "families/registry.h"
#include "problem/problem.h"

#include <math.h>
#include <string.h>

#define TUNABLES_DEF "families/projection_cpu/projection_cpu.def"
#define TUNABLES_UNIT UNIT_VECTOR
#include "families/expand.h"
#undef TUNABLES_UNIT
#define TUNABLES_UNIT UNIT_PAIRS
#define TUNABLES_TABLE tunables_of_pairs
#include "families/table.h"

static size_t panel(const size_t *values)
{
    return values[SIMD_WIDTH_INDEX] * values[REGISTER_VECTORS_INDEX];
}

static size_t register_rows(const size_t *values)
{
    return values[REGISTER_ROWS_INDEX];
}

#include "families/projection_cpu/projection_cpu_stages.h"

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    (void)dev;
    return NULL;
}

/* Chooses sums that fill the registers: 24 of 32 with vectors of 16, else 12 of 16. There are no
 * more rows than x has, unless strips of x are packed anyway. A layer's gradients of biases,
 * products with one row of ones, then share the program of its weights' gradients. */
static void block_registers(const struct ca_problem *p, const clattn_device_info *dev,
                            size_t *values)
{
    const int wide = ca_vector_lanes(dev) == 16;
    const size_t rows = p->normal.projection.x.stride[3] == 1 ? ca_projection_rows(p) : 6;

    values[SIMD_WIDTH_INDEX] = ca_vector_lanes(dev);
    values[REGISTER_VECTORS_INDEX] = wide ? 4 : 2;
    values[REGISTER_ROWS_INDEX] = rows > 4 ? 6 : rows > 2 ? 4 : rows > 1 ? 2 : 1;
}

/* The work of the busiest unit of the device, in multiply-adds of one vector lane; infinite if the
 * panels of a group leave no room in the L2 cache for streamed data. Packing a column of w costs as
 * much as multiplying it with PACKING rows, and storing the sums of a part of the depth as much as
 * STORING more of the depth. */
static double busiest(const struct ca_problem *p, const clattn_device_info *dev,
                      const size_t *values)
{
    enum { PACKING = 80, STORING = 30, PANEL_BYTES = 3 << 18 };
    const size_t row_groups = row_blocks(p, values), column_groups = column_blocks(p, values);
    const size_t rows = ca_divide_up(ca_projection_rows(p), row_groups);
    const size_t panels = ca_divide_up(ca_projection_columns(p), panel(values));
    const size_t columns = ca_divide_up(panels, column_groups) * panel(values);
    const size_t all_depth = ca_projection_depth(p);
    const size_t parts = ca_divide_up(all_depth, values[BLOCK_K_INDEX]);
    const size_t units = dev->compute_units ? dev->compute_units : 1;

    if (ca_divide_up(all_depth, parts ? parts : 1) * columns * sizeof(cl_float) > PANEL_BYTES)
        return HUGE_VAL;
    return (double)ca_divide_up(row_groups * column_groups, units) * (double)columns *
           (double)(rows + PACKING) * (double)(all_depth + parts * STORING);
}

/* Chooses the blocks of groups: all units should end at once, and a group should pack for many
 * rows. */
static void block_groups(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    static const size_t all_depths[] = {512, 256, 128, 768, 1024};
    static const size_t all_rows[] = {2048, 1024, 512, 256, 128, 64};
    static const size_t all_columns[] = {256, 384, 192, 128, 64};
    /* Strips of a transposed x are packed, best into the L1 cache. Depths below 512 never save
     * work; they are for devices with less private memory than CPUs have. */
    const size_t num_depths = p->normal.projection.x.stride[3] == 1 ? 5 : 3;
    size_t best[NUM_TUNABLES];
    double least = HUGE_VAL;

    for (size_t n = 0; n < num_depths * 6 * 5; n++) {
        values[BLOCK_K_INDEX] = all_depths[n % num_depths];
        values[BLOCK_M_INDEX] = all_rows[n / num_depths % 6];
        values[BLOCK_N_INDEX] = all_columns[n / num_depths / 6];
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
    block_registers(p, dev, values);
    if (ca_projection_rows(p) == 0) { /* nothing runs: these sizes fit everywhere */
        values[BLOCK_K_INDEX] = values[BLOCK_M_INDEX] = values[BLOCK_N_INDEX] = 64;
        return;
    }
    block_groups(p, dev, values);
    split_depth(p, dev, values);
}

const struct ca_family ca_projection_cpu_vector = {
    CA_UNIT_OF("projection_cpu", "vector"),
    .operation = CLATTN_PROJECTION,
    .source = ca_source_projection_cpu,
    OWN_MEMBERS,
    CA_STAGES(PROJECTION_STAGES("projection_cpu")),
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .preference = ca_vector_preference,
};

/* ---- projection_cpu UNIT=pairs -------------------------------------------------------------------------- */

static const char *unsupported_by_pairs(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)dev;
    return ca_bf16_pairs_refusal(p);
}

/* Groups of neighbouring columns share rows; more rows than these would come from L3 (measured).
 * */
static void adapt_pairs(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t most = ca_projection_x_in_pairs(&p->normal.projection) ? 1024 : 512;

    adapt(p, dev, values);
    while (column_blocks(p, values) > 1 && values[BLOCK_M_INDEX] > most)
        values[BLOCK_M_INDEX] /= 2;
}

const struct ca_family ca_projection_cpu_pairs = {
    CA_UNIT_OF("projection_cpu", "pairs"),
    .operation = CLATTN_PROJECTION,
    .source = ca_source_projection_cpu,
    CA_TUNABLES(tunables_of_pairs),
    CA_STAGES(PROJECTION_STAGES("projection_cpu")),
    .unsupported = unsupported_by_pairs,
    .adapt = adapt_pairs,
    .reject = reject,
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .options = ca_bf16_pairs_options,
    .preference = ca_bf16_pairs_preference,
};

const struct ca_family *const ca_projection_cpu[] = {
    &ca_projection_cpu_vector, &ca_projection_cpu_pairs, &ca_projection_cpu_amx, NULL};

/* Projections on CPUs by tiles of AMX. How it computes: cl/kernels/projection_amx.cl. */
#include "device/capacity.h"
#include "families/amx/amx.h"
#include "families/kernels/bf16_pairs.h"
#include "families/kernels/projection_sizes.h"
#include "families/registry.h"
#include "problem/problem.h"

#include <math.h>
#include <string.h>

static size_t private_bytes(const clattn_problem *p, const size_t *values);

#define TUNABLES_DEF "families/tunables/projection_amx.def"
#include "families/tunables/expand.h"

extern const char ca_source_projection_amx[];

enum { PANEL = 32, STRIP = 32, STEP = 32 }; /* columns, rows and depth of a register tile */

/* Follows the arrays in cl/kernels/projection_amx.cl. */
static size_t private_bytes(const clattn_problem *p, const size_t *values)
{
    const size_t rows = values[BLOCK_M_INDEX], columns = ca_round_up(values[BLOCK_N_INDEX], PANEL);
    const size_t depth = values[BLOCK_K_INDEX];
    const size_t sums = values[SUMS_M_INDEX] * columns;

    (void)p;
    return columns * depth * sizeof(cl_ushort) + (sums + columns) * sizeof(cl_float) +
           STRIP * values[STRIP_K_INDEX] * sizeof(cl_ushort) +
           2 * (rows + columns + depth) * sizeof(cl_long);
}

static size_t row_blocks(const clattn_problem *p, const size_t *values)
{
    return ca_projection_blocks(ca_projection_rows(p), STRIP, values[BLOCK_M_INDEX]);
}

static size_t column_blocks(const clattn_problem *p, const size_t *values)
{
    return ca_projection_blocks(ca_projection_columns(p), PANEL, values[BLOCK_N_INDEX]);
}

static void ndrange(const clattn_problem *p, const size_t *values, const clattn_device_info *dev,
                    struct ca_ndrange *range)
{
    (void)dev;
    *range = (struct ca_ndrange){
        {column_blocks(p, values), row_blocks(p, values), values[SPLIT_K_INDEX]}, {1, 1, 1}};
}

static void sum_ndrange(const clattn_problem *p, const size_t *values,
                        const clattn_device_info *dev, struct ca_ndrange *range)
{
    (void)dev;
    *range = ca_projection_sum_runs_ndrange(p, values[SPLIT_K_INDEX]);
}

static size_t workspace_bytes(const clattn_problem *p, const size_t *values,
                              const clattn_device_info *dev)
{
    (void)dev;
    return ca_projection_split_bytes(p, values[SPLIT_K_INDEX]);
}

static const char *unsupported(const clattn_problem *p, const clattn_device_info *dev)
{
    (void)dev;
    return ca_bf16_pairs_refusal(p);
}

static void adapt(const clattn_problem *p, const clattn_device_info *dev, size_t *values)
{
    (void)dev;
    if (ca_projection_depth(p) > values[BLOCK_K_INDEX])
        values[SUMS_M_INDEX] = 512;
}

static int preference(const clattn_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return ca_amx_preference(dev, 92);
}

const struct ca_family ca_projection_amx = {
    .name = "projection_amx",
    .operation = CLATTN_PROJECTION,
    .source = ca_source_projection_amx,
    .tunables = tunables,
    .num_tunables = NUM_TUNABLES,
    .stages = {{"projection_amx", CA_PROJECTION_ARGUMENTS, ndrange},
               {"projection_sum", CA_PROJECTION_SUM_ARGUMENTS, sum_ndrange}},
    .num_stages = 2,
    .unsupported = unsupported,
    .adapt = adapt,
    .reject = reject,
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .options = ca_amx_options,
    .refused_by_system = ca_amx_refused_by_system,
    .preference = preference,
};

/* The fused forward for CPUs: SIMD lanes are queries. How it computes: cl/kernels/fused_lanes.cl. */
#include "device/capacity.h"
#include "families/family.h"
#include "families/registry.h"

static size_t private_bytes(const clattn_problem *p, const size_t *values);

#define TUNABLES_DEF "families/tunables/fused_lanes.def"
#include "families/tunables/expand.h"

#include "families/kernels/fused_lanes.h"

extern const char ca_source_fused_lanes[];

/* Follows the arrays in cl/kernels/fused_lanes.cl. */
static size_t private_bytes(const clattn_problem *p, const size_t *values)
{
    const size_t width = values[SIMD_WIDTH_INDEX], block = width * values[BLOCK_VECTORS_INDEX];
    const size_t keys = values[BLOCK_N_INDEX];

    return ((p->dim_qk + p->dim_v + 2 * width) * values[BLOCKS_PER_TILE_INDEX] * block +
            keys * block + keys * (p->dim_qk + p->dim_v)) *
           sizeof(cl_float);
}

static const char *unsupported(const clattn_problem *p, const clattn_device_info *dev)
{
    static const size_t least[NUM_TUNABLES] = {
        [SIMD_WIDTH_INDEX] = 4, [BLOCK_VECTORS_INDEX] = 1, [QK_KEYS_INDEX] = 8,
        [PV_COLUMNS_INDEX] = 8, [BLOCK_N_INDEX] = 24,      [BLOCKS_PER_TILE_INDEX] = 1};

    return refusal(p, dev, least);
}

static int preference(const clattn_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return ca_fills_vectors(dev) ? 90 : 10;
}

const struct ca_family ca_fused_lanes = {
    .name = "fused_lanes",
    .operation = CLATTN_FORWARD,
    .source = ca_source_fused_lanes,
    .tunables = tunables,
    .num_tunables = NUM_TUNABLES,
    .stages = {CA_MARK_BLOCKS,
               CA_MARK_PAIRS(marks_ndrange),
               {"fused_lanes", CA_FUSED_ARGUMENTS | CA_BLOCK_BITS | CA_OF_MARKS, ndrange}},
    .num_stages = 3,
    .unsupported = unsupported,
    .adapt = adapt,
    .reject = reject,
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .preference = preference,
};

/* The fused forward for CPUs with an instruction for pairs of bf16: cl/kernels/fused_dot.cl says how. */
#include "device/capacity.h"
#include "families/registry.h"

static size_t private_bytes(const clattn_problem *p, const size_t *values);

#define TUNABLES_DEF "families/tunables/fused_dot.def"
#include "families/tunables/expand.h"

#include "families/kernels/fused_lanes.h"

extern const char ca_source_fused_dot[];

/* Follows the arrays in cl/kernels/fused_lanes.cl. */
static size_t private_bytes(const clattn_problem *p, const size_t *values)
{
    const size_t width = values[SIMD_WIDTH_INDEX], block = width * values[BLOCK_VECTORS_INDEX];
    const size_t keys = values[BLOCK_N_INDEX], pairs = (p->dim_qk + 1) / 2;

    return ((pairs + p->dim_v + 2 * width) * values[BLOCKS_PER_TILE_INDEX] * block + keys * block +
            keys * pairs + keys / 2 * p->dim_v) *
           sizeof(cl_float);
}

static const char *unsupported(const clattn_problem *p, const clattn_device_info *dev)
{
    const size_t least[NUM_TUNABLES] = {[EMULATE_INDEX] = !ca_multiplies_bf16_pairs(dev),
                                        [SIMD_WIDTH_INDEX] = 16,
                                        [BLOCK_VECTORS_INDEX] = 1,
                                        [QK_KEYS_INDEX] = 8,
                                        [PV_COLUMNS_INDEX] = 8,
                                        [BLOCK_N_INDEX] = 24,
                                        [BLOCKS_PER_TILE_INDEX] = 1};

    if (p->dtype != CLATTN_BF16)
        return "the instruction multiplies pairs of bf16 alone";
    if (p->strict)
        return "weights become bf16 on their way, which a strict problem does not allow";
    if (p->k_cache != CLATTN_CACHE_PLAIN || p->v_cache != CLATTN_CACHE_PLAIN)
        return "the instruction takes two operands of bf16, and k or v is stored otherwise";
    if (p->mask_keys)
        return "where the columns of a mask begin a pair of keys may be cut";
    return refusal(p, dev, least);
}

static void adapt_pairs(const clattn_problem *p, const clattn_device_info *dev, size_t *values)
{
    values[EMULATE_INDEX] = !ca_multiplies_bf16_pairs(dev);
    adapt(p, dev, values);
}

/* Never of itself where it would be emulated: that is for tests. Before fused_lanes, but behind what is
 * for few queries. */
static int preference(const clattn_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return ca_multiplies_bf16_pairs(dev) ? 91 : CA_ONLY_IF_FORCED;
}

const struct ca_family ca_fused_dot = {
    .name = "fused_dot",
    .operation = CLATTN_FORWARD,
    .source = ca_source_fused_dot,
    .tunables = tunables,
    .num_tunables = NUM_TUNABLES,
    .stages = {CA_MARK_BLOCKS,
               CA_MARK_PAIRS(marks_ndrange),
               {"fused_lanes", CA_FUSED_ARGUMENTS | CA_BLOCK_BITS | CA_OF_MARKS, ndrange}},
    .num_stages = 3,
    .unsupported = unsupported,
    .adapt = adapt_pairs,
    .reject = reject,
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .preference = preference,
};

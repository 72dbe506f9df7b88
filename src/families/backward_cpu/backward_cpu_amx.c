/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients for CPUs by tiles of AMX. How they are computed: src/families/backward_cpu/backward_cpu.cl. */
#include "base/sizes.h"
#include "families/amx.h"
#include "families/backward_cpu/backward_cpu.h"
#include "families/backward_cpu/backward_cpu_sizes.h"
#include "families/bf16_pairs.h"
#include "families/block_bits.h"
#include "families/family_units.h"
#include "families/pair_marks.h"
#include "families/registry.h"

enum { SIMD_WIDTH = 16, DQ_ROWS = 32 }; /* as the kernel defines them for tiles */

static size_t private_bytes(const clattn_problem *p, const size_t *values);

#define TUNABLES_DEF "families/backward_cpu/backward_cpu_amx.def"
#define TUNABLES_UNIT UNIT_AMX
#include "families/expand.h"

extern const char *const ca_source_backward_cpu[];

static size_t block(const size_t *values)
{
    return SIMD_WIDTH * values[BLOCK_VECTORS_INDEX];
}

static size_t private_bytes(const clattn_problem *p, const size_t *values)
{
#include "families/names.h"
    return PRIVATE_BYTES;
}

static struct ca_backward_lanes_sizes sizes_of(const clattn_problem *p, const size_t *values)
{
#include "families/names.h"
    return (struct ca_backward_lanes_sizes){.block_m = BLOCK_M,
                                            .block_n = BLOCK_N,
                                            .row = ROW_QK,
                                            .rows_after = ROWS_AFTER,
                                            .split_k = SPLIT_K};
}

static size_t workspace_bytes(const clattn_problem *p, const size_t *values,
                              const clattn_device_info *dev)
{
    const struct ca_backward_lanes_sizes sizes = sizes_of(p, values);

    (void)dev;
    return ca_backward_lanes_workspace_bytes(p, &sizes);
}

static void lanes_ndrange(const clattn_problem *p, const size_t *values,
                          const clattn_device_info *dev, struct ca_ndrange *range)
{
    (void)dev;
    *range = (struct ca_ndrange){{values[SPLIT_K_INDEX], p->kv_heads, p->batch}, {1, 1, 1}};
}

static void rows_ndrange(const clattn_problem *p, const size_t *values,
                         const clattn_device_info *dev, struct ca_ndrange *range)
{
    const struct ca_backward_lanes_sizes sizes = sizes_of(p, values);

    (void)dev;
    ca_backward_lanes_rows_ndrange(p, &sizes, range);
}

static void bias_ndrange(const clattn_problem *p, const size_t *values,
                         const clattn_device_info *dev, struct ca_ndrange *range)
{
    const struct ca_backward_lanes_sizes sizes = sizes_of(p, values);

    (void)dev;
    ca_backward_lanes_bias_ndrange(p, &sizes, range);
}

static const char *unsupported(const clattn_problem *p, const clattn_device_info *dev)
{
    /* The least private memory that any choice of tunables needs. */
    static const size_t least[NUM_TUNABLES] = {[BLOCK_VECTORS_INDEX] = 2,
                                               [BLOCK_M_INDEX] = 32,
                                               [BLOCKS_PER_TILE_INDEX] = 1,
                                               [SPLIT_K_INDEX] = 1};
    const char *why = ca_bf16_pairs_refusal(p);

    return why ? why : reject(p, dev, least);
}

/* If windows cut many tiles, tiles are smaller, and chunks of keys as large. */
static void adapt(const clattn_problem *p, const clattn_device_info *dev, size_t *values)
{
    if (p->causal || p->window_left != CLATTN_UNLIMITED || p->window_right != CLATTN_UNLIMITED) {
        values[BLOCK_VECTORS_INDEX] = 4;
        values[BLOCK_M_INDEX] = 128;
        values[BLOCKS_PER_TILE_INDEX] = 8;
    }
    while (values[BLOCK_VECTORS_INDEX] > 2 &&
           (block(values) / 2 >= p->seq_kv || (p->block_q && block(values) > p->block_kv)))
        values[BLOCK_VECTORS_INDEX] /= 2;
    while (values[BLOCK_M_INDEX] > 32 && values[BLOCK_M_INDEX] / 2 >= p->seq_q)
        values[BLOCK_M_INDEX] /= 2;
    while (p->block_q && values[BLOCKS_PER_TILE_INDEX] > 1 &&
           values[BLOCKS_PER_TILE_INDEX] * block(values) > p->block_kv)
        values[BLOCKS_PER_TILE_INDEX] /= 2;
    values[SPLIT_K_INDEX] = ca_backward_split(p, dev);
    while (reject(p, dev, values) && values[BLOCKS_PER_TILE_INDEX] > 1)
        values[BLOCKS_PER_TILE_INDEX] /= 2;
    while (reject(p, dev, values) && values[SPLIT_K_INDEX] > 1)
        values[SPLIT_K_INDEX] /= 2;
    if (reject(p, dev, values)) { /* the least that unsupported() has found to fit */
        values[BLOCK_VECTORS_INDEX] = 2;
        values[BLOCK_M_INDEX] = 32;
    }
}

static int preference(const clattn_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return ca_amx_preference(dev, 92);
}

const struct ca_family ca_backward_cpu_amx = {
    .name = "backward_cpu",
    .full_name = "backward_cpu UNIT=amx",
    .operation = CLATTN_BACKWARD,
    .source = ca_source_backward_cpu,
    .tunables = tunables,
    .num_tunables = NUM_TUNABLES,
    .stages = CA_BACKWARD_LANES_STAGES(rows_ndrange, lanes_ndrange, bias_ndrange),
    .num_stages = 7,
    .unsupported = unsupported,
    .adapt = adapt,
    .reject = reject,
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .options = ca_amx_options,
    .refused_by_system = ca_amx_refused_by_system,
    .preference = preference,
};

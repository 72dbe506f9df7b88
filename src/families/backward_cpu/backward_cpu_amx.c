/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients for CPUs by tiles of AMX; src/families/backward_cpu/backward_cpu.cl says how. */
#include "families/backward_cpu/backward_cpu_sizes.h"
#include "families/family_units.h"
#include "families/registry.h"

enum { SIMD_WIDTH = 16, DQ_ROWS = 32 }; /* the kernel's values with UNIT=amx */

#define TUNABLES_DEF "families/backward_cpu/backward_cpu_amx.def"
#define TUNABLES_UNIT UNIT_AMX
#include "families/expand.h"

static size_t block(const size_t *values)
{
    return SIMD_WIDTH * values[BLOCK_VECTORS_INDEX];
}

#include "families/backward_cpu/backward_cpu_stages.h"

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    /* The tunables with the least private memory. If they do not fit, none do. */
    static const size_t least[NUM_TUNABLES] = {[UNIT_INDEX] = UNIT_AMX,
                                               [BLOCK_VECTORS_INDEX] = 2,
                                               [BLOCK_M_INDEX] = 32,
                                               [BLOCKS_PER_TILE_INDEX] = 1,
                                               [SPLIT_K_INDEX] = 1};
    const char *why = ca_bf16_pairs_refusal(p);

    return why ? why : reject(p, dev, least);
}

/* If windows mask parts of many tiles, tiles are smaller, and chunks of keys have the same size. */
static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    if (p->normal.causal || p->normal.window_left != CLATTN_UNLIMITED ||
        p->normal.window_right != CLATTN_UNLIMITED) {
        values[BLOCK_VECTORS_INDEX] = 4;
        values[BLOCK_M_INDEX] = 128;
        values[BLOCKS_PER_TILE_INDEX] = 8;
    }
    while (values[BLOCK_VECTORS_INDEX] > 2 &&
           (block(values) / 2 >= p->normal.seq_kv ||
            (p->normal.block_q && block(values) > p->normal.block_kv)))
        values[BLOCK_VECTORS_INDEX] /= 2;
    while (values[BLOCK_M_INDEX] > 32 && values[BLOCK_M_INDEX] / 2 >= p->normal.seq_q)
        values[BLOCK_M_INDEX] /= 2;
    while (p->normal.block_q && values[BLOCKS_PER_TILE_INDEX] > 1 &&
           values[BLOCKS_PER_TILE_INDEX] * block(values) > p->normal.block_kv)
        values[BLOCKS_PER_TILE_INDEX] /= 2;
    values[SPLIT_K_INDEX] = suggested_split(p, dev);
    while (reject(p, dev, values) && values[BLOCKS_PER_TILE_INDEX] > 1)
        values[BLOCKS_PER_TILE_INDEX] /= 2;
    while (reject(p, dev, values) && values[SPLIT_K_INDEX] > 1)
        values[SPLIT_K_INDEX] /= 2;
    if (reject(p, dev, values)) { /* the least that unsupported() has found to fit */
        values[BLOCK_VECTORS_INDEX] = 2;
        values[BLOCK_M_INDEX] = 32;
    }
}

const struct ca_family ca_backward_cpu_amx = {
    CA_UNIT_OF("backward_cpu", "amx"),
    .operation = CLATTN_BACKWARD,
    .source = ca_source_backward_cpu,
    OWN_MEMBERS,
    CA_STAGES(BACKWARD_STAGES),
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .options = ca_amx_options,
    .refused_by_system = ca_amx_refused_by_system,
    .preference = ca_amx_preference,
};

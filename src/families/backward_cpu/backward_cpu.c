/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients on CPUs, with keys in SIMD lanes; src/families/backward_cpu/backward_cpu.cl says how.
 * With UNIT=pairs products are those of bf16 pairs. */
#include "families/backward_cpu/backward_cpu_sizes.h"
#include "families/family_units.h"
#include "families/registry.h"

#include <math.h>

#define TUNABLES_DEF "families/backward_cpu/backward_cpu.def"
#define TUNABLES_UNIT UNIT_VECTOR
#include "families/expand.h"
#undef TUNABLES_UNIT
#define TUNABLES_UNIT UNIT_PAIRS
#define TUNABLES_TABLE tunables_of_pairs
#include "families/table.h"

#include "families/backward_cpu/backward_cpu_stages.h"

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    /* The tunables with the least private memory. If they do not fit, none do. */
    static const size_t least[NUM_TUNABLES] = {
        [SIMD_WIDTH_INDEX] = 4,  [BLOCK_VECTORS_INDEX] = 1,   [QK_ROWS_INDEX] = 8,
        [DKV_COLUMNS_INDEX] = 8, [BLOCK_M_INDEX] = 24,        [DQ_ROWS_INDEX] = 8,
        [DQ_VECTORS_INDEX] = 1,  [BLOCKS_PER_TILE_INDEX] = 1, [SPLIT_K_INDEX] = 1};

    return reject(p, dev, least);
}

/* Chooses sums that fill the registers: 24 of 32 with vectors of 16, else 12 of 16. */
static void block_registers(const size_t mv, const int wide, size_t *values)
{
    static const size_t sums[2][5] = {{0, 12, 6, 4}, {0, 12, 12, 8, 6}}; /* indexed by [wide][mv] */

    values[BLOCK_VECTORS_INDEX] = mv;
    values[QK_ROWS_INDEX] = sums[wide][mv];
    values[DKV_COLUMNS_INDEX] = sums[wide][mv];
}

/* Returns the number of vectors of keys with the least cost for the blocks of a column of the block
 * lists. Blocks begin with the column, if it has a whole one, and the last may have few keys. */
static size_t vectors_of_column(const struct ca_problem *p, const size_t width, const int wide)
{
    static const double speed[] = {0.0, 0.78, 0.94, 0.99, 1.0}; /* the speeds of fused_cpu */
    const size_t column =
        p->normal.block_kv < p->normal.seq_kv ? p->normal.block_kv : p->normal.seq_kv;
    double least = INFINITY;
    size_t best = 1;

    for (size_t mv = 1; column && mv <= (wide ? 4 : 3); mv++) {
        const size_t keys = width * mv;
        const double cost =
            (p->normal.block_kv >= keys ? (double)ca_round_up(column, keys) / (double)column
                                        : 1.0 + (double)(keys - 1) / (double)p->normal.block_kv) /
            speed[mv];
        if (cost < least) {
            least = cost;
            best = mv;
        }
    }
    return best;
}

/* Chooses blocks that fit columns and rows of the block lists. */
static void adapt_to_blocks(const struct ca_problem *p, const int wide, size_t *values)
{
    const size_t width = values[SIMD_WIDTH_INDEX];

    block_registers(vectors_of_column(p, width, wide), wide, values);
    values[DQ_ROWS_INDEX] = 4; /* leaves few rows outside whole register tiles */
    while (values[BLOCKS_PER_TILE_INDEX] > 1 &&
           values[BLOCKS_PER_TILE_INDEX] * values[BLOCK_VECTORS_INDEX] * width > p->normal.block_kv)
        values[BLOCKS_PER_TILE_INDEX] /= 2;
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const int wide = ca_vector_lanes(dev) == 16;

    values[SIMD_WIDTH_INDEX] = ca_vector_lanes(dev);
    block_registers(p->normal.seq_kv <= values[SIMD_WIDTH_INDEX] ? 1
                    : p->normal.seq_kv < 192                     ? 2
                    : wide                                       ? 4
                                                                 : 3,
                    wide, values);
    values[DQ_VECTORS_INDEX] = wide ? 4 : 2;
    values[BLOCK_M_INDEX] = p->normal.seq_q >= 384 ? 96 : 48;
    if (p->normal.block_q)
        adapt_to_blocks(p, wide, values);
    values[SPLIT_K_INDEX] = suggested_split(p, dev);
    if (reject(p, dev, values))
        values[BLOCK_M_INDEX] = 48;
    while (reject(p, dev, values) && values[BLOCKS_PER_TILE_INDEX] > 1)
        values[BLOCKS_PER_TILE_INDEX] /= 2;
    while (reject(p, dev, values) && values[SPLIT_K_INDEX] > 1)
        values[SPLIT_K_INDEX] /= 2;
    while (reject(p, dev, values) && values[BLOCK_VECTORS_INDEX] > 1)
        block_registers(values[BLOCK_VECTORS_INDEX] - 1, wide, values);
    if (reject(p, dev, values)) { /* the least that unsupported() has found to fit */
        values[SIMD_WIDTH_INDEX] = 4;
        block_registers(1, 0, values);
        values[BLOCK_M_INDEX] = 24;
        values[DQ_ROWS_INDEX] = 8;
        values[DQ_VECTORS_INDEX] = 1;
    }
}

const struct ca_family ca_backward_cpu_vector = {
    CA_UNIT_OF("backward_cpu", "vector"), .operation = CLATTN_BACKWARD,
    .source = ca_source_backward_cpu,     OWN_MEMBERS,
    CA_STAGES(BACKWARD_STAGES),           .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,       .preference = ca_vector_preference,
};

/* ---- backward_cpu UNIT=pairs ---------------------------------------------------------------------------- */

static const char *unsupported_by_pairs(const struct ca_problem *p, const clattn_device_info *dev)
{
    const char *why = ca_bf16_pairs_refusal(p);

    return why ? why : unsupported(p, dev);
}

const struct ca_family ca_backward_cpu_pairs = {
    CA_UNIT_OF("backward_cpu", "pairs"),
    .operation = CLATTN_BACKWARD,
    .source = ca_source_backward_cpu,
    CA_TUNABLES(tunables_of_pairs),
    CA_STAGES(BACKWARD_STAGES),
    .unsupported = unsupported_by_pairs,
    .adapt = adapt,
    .reject = reject,
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .options = ca_bf16_pairs_options,
    .preference = ca_bf16_pairs_preference,
};

const struct ca_family *const ca_backward_cpu[] = {&ca_backward_cpu_vector, &ca_backward_cpu_pairs,
                                                   &ca_backward_cpu_amx, NULL};

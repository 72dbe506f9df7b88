/* SPDX-License-Identifier: Apache-2.0 */
/* The fused forward for CPUs by tiles of AMX; src/families/fused_cpu/fused_cpu.cl says how. */
#include "base/sizes.h"
#include "families/block_bits.h"
#include "families/family.h"
#include "families/family_units.h"
#include "families/key_means.h"
#include "families/operand_sizes.h"
#include "families/pair_marks.h"
#include "families/registry.h"

enum { SIMD_WIDTH = 16, L2_BYTES = 1 << 20 };
enum { INVARIANT_KEYS = 192 }; /* BLOCK_N of every invariant problem */

#define PRIVATE_SIZES_FILE "families/fused_cpu/fused_cpu_sizes.h"
#define TUNABLES_DEF "families/fused_cpu/fused_cpu_amx.def"
#define TUNABLES_UNIT UNIT_AMX
#include "families/expand.h"

static size_t block_m(const size_t *values)
{
    return SIMD_WIDTH * values[BLOCK_VECTORS_INDEX];
}

static size_t chunk(const size_t *values)
{
    return block_m(values) * values[BLOCKS_PER_TILE_INDEX];
}

static size_t least_keys(const struct ca_problem *p)
{
    return p->normal.invariant ? INVARIANT_KEYS : 64;
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    /* The tunables with the least private memory. If they do not fit, none do. */
    const size_t least[NUM_TUNABLES] = {[UNIT_INDEX] = UNIT_AMX,
                                        [BLOCK_VECTORS_INDEX] = 1,
                                        [BLOCK_N_INDEX] = least_keys(p),
                                        [BLOCKS_PER_TILE_INDEX] = 1};
    const char *why = ca_bf16_parts_refusal(p);

    if (why)
        return why;
    if (p->normal.mask_keys)
        return "where the columns of a mask begin a tile of keys may be cut";
    if (p->normal.block_q && p->normal.page_size)
        return "this family does not walk block lists of keys in pages";
    if (p->normal.scores != CLATTN_SCORES_NONE)
        return "the score matrix is wanted, which a fused family never forms";
    return reject(p, dev, least);
}

/* Few queries leave lanes empty, but a block of one vector reads each tile of keys for half as many
 * products. */
static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const int band = p->normal.window_left != CLATTN_UNLIMITED &&
                     p->normal.window_right != CLATTN_UNLIMITED &&
                     p->normal.window_left + p->normal.window_right < 1024;
    const size_t row =
        sizeof(cl_float) * (p->normal.dim_qk / 2 + p->normal.dim_v); /* bytes of a query */

    values[BLOCK_VECTORS_INDEX] = p->normal.seq_q <= SIMD_WIDTH || band ? 1 : 2;
    if (ca_marks_pairs(p)) /* tiles in common masks are 64 keys wide, or a multiple */
        values[BLOCK_N_INDEX] = least_keys(p);
    values[BALANCE_CAUSAL_INDEX] = p->normal.causal && p->normal.window_left == CLATTN_UNLIMITED;
    values[BLOCKS_PER_TILE_INDEX] = band ? 1 : 16;
    while (p->normal.block_q && values[BLOCKS_PER_TILE_INDEX] > 1 &&
           chunk(values) > p->normal.block_q)
        values[BLOCKS_PER_TILE_INDEX] /= 2; /* the blocks of a chunk then see the same keys */
    while (values[BLOCKS_PER_TILE_INDEX] > 1 &&
           (ca_query_chunks(p, chunk(values)) * p->normal.heads * p->normal.batch <
                (size_t)4 * dev->compute_units ||
            chunk(values) / 2 >= p->normal.seq_q || chunk(values) * row > L2_BYTES / 2))
        values[BLOCKS_PER_TILE_INDEX] /= 2;
    while (reject(p, dev, values) && values[BLOCKS_PER_TILE_INDEX] > 1)
        values[BLOCKS_PER_TILE_INDEX] /= 2;
    if (reject(p, dev, values)) { /* the least that unsupported() has found to fit */
        values[BLOCK_VECTORS_INDEX] = 1;
        values[BLOCK_N_INDEX] = least_keys(p);
    }
}

/* The products of parts in a product of sums of a and b parts. */
static size_t products_of_parts(size_t a, size_t b, size_t orders)
{
    size_t count = 0;

    for (size_t i = 0; i < a && i < orders; i++)
        count += orders - i < b ? orders - i : b;
    return count;
}

/* The time of sums of parts over that of UNIT=vector. A Xeon's pair of threads that others used too took 0.17 for each product
 * of tiles, and for weights as long as for 20 dims of UNIT=vector; alone they took less
 * (bench/results/paired-parts-xeon-2026-11-30.txt). */
static double time_of_parts(const struct ca_problem *p)
{
    const size_t values[NUM_TUNABLES] = {[UNIT_INDEX] = UNIT_AMX};
#include "families/names.h"
#include "families/part_sizes.h"
    /* A tile has twice as many bytes as pairs. */
    const size_t of_qk = (OPERAND_BYTES ? 1 : products_of_parts(K_PARTS, Q_PARTS, QK_ORDERS)) * 2 *
                         TILE * TILES(QK_OPERANDS(DIM_QK)),
                 of_pv = products_of_parts(V_PARTS, Q_PARTS, PV_ORDERS) * ROUNDED(DIM_V);
    const double dims = (double)(DIM_QK + DIM_V);

    return 0.17 * (double)(of_qk + of_pv) / dims + 2.0 * 20.0 / dims;
}

static int preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    const int in_parts = ca_bf16_pairs_or_bytes_refusal(p) != NULL;

    return in_parts && time_of_parts(p) > 0.95 ? ca_amx_preference_with(dev, 89)
                                               : ca_amx_preference(p, dev);
}

#define FIRST_IN_WORKSPACE ca_key_means_bytes
#define QUERIES_PER_ITEM chunk
#include "families/fused_stages.h"

const struct ca_family ca_fused_cpu_amx = {
    CA_UNIT_OF("fused_cpu", "amx"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_fused_cpu,
    OWN_MEMBERS,
    CA_STAGES(CA_KEY_MEANS, FUSED_STAGES("fused_cpu")),
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .options = ca_amx_options,
    .refused_by_system = ca_amx_refused_by_system,
    .preference = preference,
    .keeps_invariant = 1,
    .multiplies_bytes = CA_BYTES_TOO,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The forward for few queries and many keys, on CPUs: the keys of a kv head are split over groups.
 * src/families/split_cpu/split_cpu.cl says how. */
#include "base/sizes.h"
#include "device/capacity.h"
#include "families/family.h"
#include "families/family_units.h"
#include "families/operand_sizes.h"
#include "families/registry.h"
#include "families/split.h"

/* The size counts converted keys. */
enum { STAGES_K = 1 };

enum { INVARIANT_KEYS = 32 }; /* BLOCK_N of every invariant problem */

#define TUNABLES_DEF "families/split_cpu/split_cpu.def"
#define TUNABLES_UNIT UNIT_VECTOR
#define PRIVATE_SIZES_FILE "families/split_cpu/split_cpu_sizes.h"
#include "families/expand.h"

#include "families/split_cpu/split_cpu_stages.h"

enum { TILE_BYTES = 32 << 10 }; /* the largest number of bytes for a tile's keys as f32 */

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    /* The least memory that any choice of tunables needs. */
    const int invariant = p->normal.invariant;
    const size_t width = invariant ? ca_vector_lanes(dev) : 4;
    const size_t least[NUM_TUNABLES] = {
        [SIMD_WIDTH_INDEX] = width, [BLOCK_M_INDEX] = 1,
        [QK_ROWS_INDEX] = 1,        [QK_DEPTH_INDEX] = width,
        [STAGE_K_INDEX] = 1,        [PV_ROWS_INDEX] = 1,
        [PV_VECTORS_INDEX] = 8,     [BLOCK_N_INDEX] = invariant ? INVARIANT_KEYS : 16,
        [PREFETCH_TILES_INDEX] = 0, [SPLIT_K_INDEX] = 1,
        [KV_HEADS_INDEX] = 1};

    if (p->normal.scores != CLATTN_SCORES_NONE)
        return "the score matrix is wanted, which this family never forms";
    return reject(p, dev, least);
}

static int is_quantized(const struct ca_problem *p)
{
    return ca_problem_cache(&p->normal, CA_K) != CLATTN_CACHE_PLAIN ||
           ca_problem_cache(&p->normal, CA_V) != CLATTN_CACHE_PLAIN;
}

/* Returns whether blocks of an argument have scales. A tile's scales are read before its products. */
static int has_block_scales(const struct ca_problem *p, unsigned argument)
{
    const clattn_cache cache = ca_problem_cache(&p->normal, argument);

    return cache != CLATTN_CACHE_PLAIN && !ca_has_scales(cache);
}

static int any_block_scales(const struct ca_problem *p)
{
    return has_block_scales(p, CA_K) || has_block_scales(p, CA_V);
}

/* Keys in a tile, the same for contiguous and paged ones: o then has the same bits. Some instructions are run once for each
 * tile, row and register tile, so that long tiles take fewer. With vectors of 16, L1 limits tiles: it holds the keys of
 * many rows as f32, and prefetched keys of bytes. One row or two of f32 are read in place and wait for memory the least
 * with the longest tiles: K and V then alternate less often. */
static size_t tile_keys(const struct ca_problem *p, size_t width, size_t rows, int converts,
                        int tall)
{
    const size_t longest = TILE_BYTES / sizeof(cl_float) / ca_larger(p->normal.dim_qk, 1);
    size_t keys = 64;

    if (width == 16 && rows >= 16)
        keys = (tall ? 32 : 16) * (rows > 16 ? 2 : 1);
    else if (width == 16 && is_quantized(p))
        keys = any_block_scales(p) && p->normal.dim_qk < 256 ? 64 : 32;
    else if (width == 16 && !converts)
        keys = 16;
    while (!converts && rows <= 2 && keys < 128 && 2 * keys <= longest)
        keys *= 2;
    return keys;
}

/* Register tiles for this many rows; many rows make a vector of sums of scores. Converted keys are not kept as f32 for a
 * single register tile, nor by vectors of 16 for fewer rows than these have lanes: it was slower. Eight sums of values
 * hide the latency of a multiply-add. They cover as many rows as there are, so that fewer values are kept for the next
 * rows, and whole turns: code for remaining columns takes registers, and time to compile. If memory is the limit, small
 * rows (quantized or in pages) are prefetched from further ahead; with vectors of 16 those of bytes only if their blocks
 * have scales, which are read early. One row of f32 by vectors of eight and fewer is not prefetched: the processor's own
 * prefetching keeps up, and a prefetch is one more instruction beside every two multiply-adds. */
static void block_registers(const struct ca_problem *p, size_t *values)
{
    const size_t width = values[SIMD_WIDTH_INDEX], rows = values[BLOCK_M_INDEX];
    const int converts_k = ca_problem_converts(&p->normal, CA_K);
    const int converts = converts_k || ca_problem_converts(&p->normal, CA_V);
    const int few_columns = width > 4 && rows >= width && !p->normal.invariant;
    const int square = rows >= 4 && (converts || width < 16);
    /* Returns whether many rows are multiplied by few vectors of values at a time. */
    const int tall = width == 16 && converts && rows >= width;
    const int whole = ca_split_divide(p->normal.dim_v, width) % 8 == 0;

    values[QK_ROWS_INDEX] = ca_smaller(rows, few_columns ? width * width / 16 : 4);
    values[QK_DEPTH_INDEX] = few_columns ? 4 : width;
    values[STAGE_K_INDEX] =
        !converts_k || (width == 16 ? rows >= width : rows > values[QK_ROWS_INDEX]);
    values[PV_ROWS_INDEX] = ca_smaller(rows, tall ? 8 : square ? 4 : 2);
    values[PV_VECTORS_INDEX] = width < 16 ? 8 / values[PV_ROWS_INDEX] : tall ? 2 : square ? 4 : 8;
    if (width < 16 && rows == 1 && !whole)
        values[PV_VECTORS_INDEX] = 4;
    values[BLOCK_N_INDEX] =
        p->normal.invariant ? INVARIANT_KEYS : tile_keys(p, width, rows, converts, tall);
    /* Returns whether memory rather than arithmetic limits the speed. */
    const int waits = rows < 16 && (width == 16 || !values[STAGE_K_INDEX]);
    const int in_order = rows == 1 && !converts && p->normal.page_size % values[BLOCK_N_INDEX] == 0;
    const int small_rows = width == 16 ? any_block_scales(p) : is_quantized(p);
    values[PREFETCH_TILES_INDEX] = waits && (small_rows || p->normal.page_size) ? 2
                                   : width < 16 && in_order                     ? 0
                                                                                : 1;
}

enum { LEAST_PART = 512 }; /* keys of a work-item; its first tiles are not prefetched */

/* The number of kv heads that take turns at each tile. If a key's rows of all heads are adjacent,
 * one head has pieces of a few hundred bytes: memory reads them at half its rate, and they fall in
 * few sets of a cache. So all heads, or LEAST_BYTES of them, are read in order; not if arithmetic
 * is the limit or units would be idle. */
static size_t heads_in_turn(const struct ca_problem *p, const clattn_device_info *dev,
                            const size_t *values)
{
    enum { LEAST_BYTES = 1024 }; /* 768 bytes, or six heads of twelve, were slower than one head */
    const struct ca_tunable *tunable = &tunables[KV_HEADS_INDEX];
    const int quantized = is_quantized(p);
    const int interleaved = p->normal.k.stride[1] < p->normal.k.stride[2] &&
                            p->normal.v.stride[1] < p->normal.v.stride[2];
    const size_t bytes = ca_dtype_bytes(ca_problem_dtype(&p->normal, CA_K));

    if (!interleaved || quantized || p->normal.block_q || ca_split_rows_per_kv_head(p) > 2 * bytes)
        return 1;
    for (size_t n = tunable->num_candidates; n-- > 0;) {
        const size_t heads = tunable->candidates[n];
        const size_t parts = ca_split_divide(p->normal.seq_kv, LEAST_PART);
        const size_t items = ca_split_groups(p, values[BLOCK_M_INDEX], heads, parts);
        const int in_order =
            heads == p->normal.kv_heads || heads * p->normal.dim_qk * bytes >= LEAST_BYTES;
        if (p->normal.kv_heads % heads == 0 && in_order && items >= (size_t)2 * dev->compute_units)
            return heads;
    }
    return 1;
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t rows = ca_split_rows_per_kv_head(p);

    values[SIMD_WIDTH_INDEX] = ca_vector_lanes(dev);
    values[BLOCK_M_INDEX] = 1;
    while (values[BLOCK_M_INDEX] < rows && values[BLOCK_M_INDEX] < 32)
        values[BLOCK_M_INDEX] *= 2;
    block_registers(p, values);
    values[KV_HEADS_INDEX] = heads_in_turn(p, dev, values);
    if (values[KV_HEADS_INDEX] > 1) { /* the tiles of all heads share the caches */
        values[BLOCK_N_INDEX] = ca_smaller(values[BLOCK_N_INDEX], 32);
        values[PREFETCH_TILES_INDEX] = 1;
    }
    values[SPLIT_K_INDEX] = 1;
    while (!p->normal.invariant && values[SPLIT_K_INDEX] < 128 &&
           groups(p, values) < (size_t)8 * dev->compute_units &&
           p->normal.seq_kv / values[SPLIT_K_INDEX] >= LEAST_PART)
        values[SPLIT_K_INDEX] *= 2;
    if (reject(p, dev, values))
        values[KV_HEADS_INDEX] = 1;
    while (reject(p, dev, values) && values[SPLIT_K_INDEX] > 1)
        values[SPLIT_K_INDEX] /= 2;
    while (!p->normal.invariant && reject(p, dev, values) && values[BLOCK_N_INDEX] > 16)
        values[BLOCK_N_INDEX] /= 2;
    while (reject(p, dev, values) && values[BLOCK_M_INDEX] > 4) {
        values[BLOCK_M_INDEX] /= 2;
        block_registers(p, values);
        if (!p->normal.invariant)
            values[BLOCK_N_INDEX] = 16;
    }
    if (reject(p, dev, values)) { /* the least that unsupported() has found to fit */
        values[SIMD_WIDTH_INDEX] = values[QK_DEPTH_INDEX] =
            p->normal.invariant ? ca_vector_lanes(dev) : 4;
        values[BLOCK_M_INDEX] = values[QK_ROWS_INDEX] = values[PV_ROWS_INDEX] = 1;
        values[STAGE_K_INDEX] = 1;
    }
}

/* Returns whether queries are so few that fused_cpu, with queries in lanes, would leave three of
 * four lanes idle. Few keys are faster here, too, if they fill a tile or two. */
static int leaves_lanes_idle(const struct ca_problem *p, const clattn_device_info *dev)
{
    return 4 * p->normal.seq_q <= dev->vector_width_float && p->normal.seq_kv >= 32;
}

/* Returns whether queries fill fused_cpu's blocks of three vectors of eight, and heads fill the
 * device. In split_cpu, for up to 32 rows a kv head, so many queries mean that heads share no
 * keys. */
static int fills_blocks(const struct ca_problem *p, const clattn_device_info *dev)
{
    return dev->vector_width_float <= 8 && p->normal.seq_q > 20 &&
           p->normal.heads * p->normal.batch >= (size_t)4 * dev->compute_units &&
           !p->normal.block_q;
}

static int preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    if (!ca_fills_vectors(dev))
        return 5;
    return (ca_is_for_split(p) && !fills_blocks(p, dev)) || leaves_lanes_idle(p, dev) ? 92 : 30;
}

const struct ca_family ca_split_cpu_vector = {
    CA_UNIT_OF("split_cpu", "vector"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_split_cpu,
    OWN_MEMBERS,
    CA_STAGES(SPLIT_STAGES),
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .preference = preference,
    .keeps_invariant = 1,
};

const struct ca_family *const ca_split_cpu[] = {&ca_split_cpu_vector, &ca_split_cpu_pairs,
                                                &ca_split_cpu_amx, NULL};

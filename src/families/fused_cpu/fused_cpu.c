/* SPDX-License-Identifier: Apache-2.0 */
/* The fused forward for CPUs, with queries in SIMD lanes; src/families/fused_cpu/fused_cpu.cl says
 * how. With UNIT=pairs products are those of bf16 pairs, with UNIT=bytes scores are those of bytes. */
#include "base/sizes.h"
#include "families/block_bits.h"
#include "families/family.h"
#include "families/family_units.h"
#include "families/key_means.h"
#include "families/operand_sizes.h"
#include "families/pair_marks.h"
#include "families/registry.h"

enum { INVARIANT_KEYS = 96 }; /* BLOCK_N of every invariant problem: each QK_KEYS divides it */

static int reads_in_place(const struct ca_problem *p);
static int has_rows_apart(const struct ca_problem *p);

#define PRIVATE_SIZES_FILE "families/fused_cpu/fused_cpu_sizes.h"
#define TUNABLES_DEF "families/fused_cpu/fused_cpu.def"
#define TUNABLES_UNIT UNIT_VECTOR
#include "families/expand.h"
#undef TUNABLES_UNIT
#define TUNABLES_UNIT UNIT_PAIRS
#define TUNABLES_TABLE tunables_of_pairs
#include "families/table.h"
#undef TUNABLES_UNIT
#define TUNABLES_UNIT UNIT_BYTES
#define TUNABLES_TABLE tunables_of_bytes
#include "families/table.h"

/* Returns whether products can read keys and values in place. */
static int reads_in_place(const struct ca_problem *p)
{
    return !ca_problem_converts(&p->normal, CA_K) && !ca_problem_converts(&p->normal, CA_V) &&
           !p->normal.page_size && !p->normal.int8;
}

/* Returns whether rows of keys or values have a gap between them. */
static int has_rows_apart(const struct ca_problem *p)
{
    return p->normal.k.stride[2] > p->normal.dim_qk || p->normal.v.stride[2] > p->normal.dim_v;
}

/* The number of queries in a block. */
static size_t block_m(const size_t *values)
{
    return values[SIMD_WIDTH_INDEX] * values[BLOCK_VECTORS_INDEX];
}

/* The queries of one group, or of half a pair. */
static size_t chunk(const size_t *values)
{
    return block_m(values) * values[BLOCKS_PER_TILE_INDEX];
}

static size_t groups(const struct ca_problem *p, const size_t *values)
{
    return ca_query_chunks(p, chunk(values)) * p->normal.heads * p->normal.batch;
}

/* Vectors of 16 have exponentials of their own, and so other bits. */
static size_t least_width(const struct ca_problem *p, const clattn_device_info *dev)
{
    return p->normal.invariant ? ca_vector_lanes(dev) : 4;
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    /* The tunables with the least private memory. If they do not fit, none do. */
    const size_t least[NUM_TUNABLES] = {[SIMD_WIDTH_INDEX] = least_width(p, dev),
                                        [BLOCK_VECTORS_INDEX] = 1,
                                        [QK_KEYS_INDEX] = 8,
                                        [PV_COLUMNS_INDEX] = 8,
                                        [BLOCK_N_INDEX] = p->normal.invariant ? INVARIANT_KEYS : 24,
                                        [BLOCKS_PER_TILE_INDEX] = 1};

    if (p->normal.block_q && p->normal.page_size)
        return "this family does not walk block lists of keys in pages";
    if (p->normal.scores != CLATTN_SCORES_NONE)
        return "the score matrix is wanted, which a fused family never forms";
    return reject(p, dev, least);
}

/* Chooses sums that fill the registers: 24 of 32 with vectors of 16, else 12 of 16. */
static void block_registers(const size_t mv, const int wide, size_t *values)
{
    static const size_t sums[2][5] = {{0, 12, 6, 4}, {0, 12, 12, 8, 6}}; /* indexed by [wide][mv] */

    values[BLOCK_VECTORS_INDEX] = mv;
    values[QK_KEYS_INDEX] = sums[wide][mv];
    values[PV_COLUMNS_INDEX] = sums[wide][mv];
}

/* The approximate number of keys that a query sees, and the further ones that a block of bm queries
 * visits. */
static void count_keys(const struct ca_problem *p, const double bm, double *seen, double *more)
{
    const double keys = (double)p->normal.seq_kv;
    const int left = p->normal.window_left != CLATTN_UNLIMITED;
    const int right = p->normal.window_right != CLATTN_UNLIMITED;
    const double window = (double)p->normal.window_left + (double)p->normal.window_right + 1.0;

    *seen = left && right && window < keys ? window : left || right ? keys / 2.0 : keys;
    *more = left && right ? bm - 1.0 : left || right ? bm / 2.0 : 0.0;
}

/* The measured relative speed of blocks of mv vectors. */
static const double speed[] = {0.0, 0.78, 0.94, 0.99, 1.0};

/* The mean cost of a head's blocks of mv vectors, in units of a whole block; the last one may have
 * few queries. */
static double mean_block(const struct ca_problem *p, const size_t width, const size_t mv)
{
    const size_t bm = width * mv, blocks = ca_divide_up(p->normal.seq_q, bm), lower = mv / 2;
    const double slower = width >= 16 ? 0.9 : 0.6; /* a half block has fewer sums */

    if (p->normal.seq_q - (blocks - 1) * bm > lower * width)
        return 1.0;
    return ((double)blocks - 1.0 +
            (double)lower / (double)mv * speed[mv] / (slower * speed[lower])) /
           (double)blocks;
}

/* The cost of a row of the block lists with blocks of mv vectors. If it has a whole block, blocks
 * begin with the row and the last may have few queries; else they see the lists of all their
 * rows. */
static double listed_row_cost(const struct ca_problem *p, const size_t width, const size_t mv)
{
    const size_t bm = width * mv,
                 row = p->normal.block_q < p->normal.seq_q ? p->normal.block_q : p->normal.seq_q;

    return (p->normal.block_q >= bm ? (double)(ca_divide_up(row, bm) * bm) / (double)row
                                    : 1.0 + (double)(bm - 1) / (double)p->normal.block_q) /
           speed[mv];
}

/* The cost of blocks of mv vectors, relative to the least possible work. */
static double cost(const struct ca_problem *p, const clattn_device_info *dev, const size_t width,
                   const size_t mv)
{
    const size_t bm = width * mv,
                 blocks = ca_divide_up(p->normal.seq_q, bm) * p->normal.heads * p->normal.batch;
    const double rounds = (double)ca_divide_up(blocks, dev->compute_units);
    double seen, more;

    if (p->normal.block_q && p->normal.seq_q)
        return listed_row_cost(p, width, mv);
    count_keys(p, (double)bm, &seen, &more);
    return rounds * (double)(dev->compute_units * bm) * (seen + more) / (seen * speed[mv]) *
           mean_block(p, width, mv);
}

/* Returns whether each query has biases or a mask of its own. */
static int has_rows_of_pairs(const struct ca_problem *p)
{
    return (p->normal.bias && p->normal.bias_layout.stride[2]) ||
           (p->normal.mask && p->normal.mask_layout.stride[2]);
}

/* Returns whether short rows lie whole pages apart (as where all heads' rows of a token are
 * adjacent): they map to so few sets of a cache that a tile of them evicts itself. */
static int rows_share_sets(const clattn_layout *rows, const size_t dim)
{
    const size_t step = (size_t)rows->stride[2] * sizeof(cl_float);

    return step % 4096 == 0 && step >= 4 * dim * sizeof(cl_float);
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const int wide = ca_vector_lanes(dev) == 16;
    const int band = p->normal.window_left != CLATTN_UNLIMITED &&
                     p->normal.window_right != CLATTN_UNLIMITED &&
                     p->normal.window_left + p->normal.window_right < 1024;
    const int stage_kv = reads_in_place(p) && (rows_share_sets(&p->normal.k, p->normal.dim_qk) ||
                                               rows_share_sets(&p->normal.v, p->normal.dim_v));
    const int finds_keys = p->normal.mask_function && ca_marks_pairs(p);
    const int copies = stage_kv || !reads_in_place(p);
    size_t best = 1;

    values[SIMD_WIDTH_INDEX] = ca_vector_lanes(dev);
    for (size_t mv = 2; mv <= (wide ? 4 : 3); mv++)
        if (cost(p, dev, values[SIMD_WIDTH_INDEX], mv) <
            cost(p, dev, values[SIMD_WIDTH_INDEX], best))
            best = mv;
    if (has_rows_of_pairs(p) && best > 3)
        best = 3;
    block_registers(best, wide, values);
    if (has_rows_of_pairs(p)) /* a row of a mask's tile is then whole cache lines */
        values[BLOCK_N_INDEX] = 192;
    if (ca_marks_pairs(p)) /* tiles in common masks are 64 keys wide, or a multiple */
        values[BLOCK_N_INDEX] = 64 % values[QK_KEYS_INDEX] ? 48 : 64;
    if (finds_keys) /* marks of a few keys cut long tiles */
        values[BLOCK_N_INDEX] = 192;
    if (band) { /* makes few tiles that have few masked keys */
        values[BLOCK_N_INDEX] = 192;
        values[QK_KEYS_INDEX] = values[QK_KEYS_INDEX] > 8 ? 8 : values[QK_KEYS_INDEX];
    }
    if (p->normal.invariant)
        values[BLOCK_N_INDEX] = INVARIANT_KEYS;
    values[BALANCE_CAUSAL_INDEX] = p->normal.causal && p->normal.window_left == CLATTN_UNLIMITED;
    /* The first tile of a band, or of what marks cut, begins with the first key that its blocks see. A single block shares
     * no tiles: where tiles are copied, that takes an eighth of its time. Rows of pairs lie in as
     * many pages. */
    values[BLOCKS_PER_TILE_INDEX] = (band || finds_keys) && !copies ? 1
                                    : has_rows_of_pairs(p)          ? 4
                                                                    : 8;
    while (p->normal.block_q && values[BLOCKS_PER_TILE_INDEX] > 1 &&
           chunk(values) > p->normal.block_q)
        values[BLOCKS_PER_TILE_INDEX] /= 2; /* the blocks of a chunk then see the same keys */
    /* A chunk's queries and outputs should take no more than half of an L2 cache of 1 MiB. */
    while (values[BLOCKS_PER_TILE_INDEX] > 1 &&
           (groups(p, values) < (size_t)4 * dev->compute_units ||
            chunk(values) / 2 >= p->normal.seq_q ||
            chunk(values) * (p->normal.dim_qk + p->normal.dim_v) * sizeof(cl_float) > (size_t)512
                                                                                          << 10))
        values[BLOCKS_PER_TILE_INDEX] /= 2;
    values[STAGE_KV_INDEX] =
        stage_kv && values[BLOCKS_PER_TILE_INDEX] > 1; /* a single block would use a copy once */
    while (reject(p, dev, values) && values[BLOCKS_PER_TILE_INDEX] > 1)
        values[BLOCKS_PER_TILE_INDEX] /= 2;
    while (reject(p, dev, values) && values[BLOCK_VECTORS_INDEX] > 1)
        block_registers(values[BLOCK_VECTORS_INDEX] - 1, wide, values);
    if (reject(p, dev, values)) { /* the least that unsupported() has found to fit */
        values[SIMD_WIDTH_INDEX] = least_width(p, dev);
        block_registers(1, 0, values);
        values[BLOCK_N_INDEX] = p->normal.invariant ? INVARIANT_KEYS : 24;
    }
}

#define FIRST_IN_WORKSPACE ca_key_means_bytes
#define QUERIES_PER_ITEM chunk
#define MARKS_HALVES
#include "families/fused_stages.h"

const struct ca_family ca_fused_cpu_vector = {
    CA_UNIT_OF("fused_cpu", "vector"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_fused_cpu,
    OWN_MEMBERS,
    CA_STAGES(FUSED_STAGES("fused_cpu")),
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .preference = ca_vector_preference,
    .keeps_invariant = 1,
};

/* ---- fused_cpu UNIT=pairs ------------------------------------------------------------------------------- */

static const char *unsupported_by_pairs(const struct ca_problem *p, const clattn_device_info *dev)
{
    const char *why = ca_bf16_pairs_or_bytes_refusal(p);

    if (why)
        return why;
    if (p->normal.mask_keys)
        return "where the columns of a mask begin a pair of keys may be cut";
    return unsupported(p, dev);
}

const struct ca_family ca_fused_cpu_pairs = {
    CA_UNIT_OF("fused_cpu", "pairs"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_fused_cpu,
    CA_TUNABLES(tunables_of_pairs),
    CA_STAGES(FUSED_STAGES("fused_cpu")),
    .unsupported = unsupported_by_pairs,
    .adapt = adapt,
    .reject = reject,
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .options = ca_bf16_pairs_options,
    .preference = ca_bf16_pairs_preference,
    .keeps_invariant = 1,
};

/* ---- fused_cpu UNIT=bytes ------------------------------------------------------------------------------- */

const struct ca_family ca_fused_cpu_bytes = {
    CA_UNIT_OF("fused_cpu", "bytes"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_fused_cpu,
    CA_TUNABLES(tunables_of_bytes),
    CA_STAGES(CA_KEY_MEANS, FUSED_STAGES("fused_cpu")),
    .unsupported = unsupported,
    .adapt = adapt,
    .reject = reject,
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .options = ca_bytes_options,
    .preference = ca_bytes_preference,
    .multiplies_bytes = CA_BYTES_ALONE,
};

const struct ca_family *const ca_fused_cpu[] = {&ca_fused_cpu_vector, &ca_fused_cpu_pairs,
                                                &ca_fused_cpu_amx, &ca_fused_cpu_bytes, NULL};

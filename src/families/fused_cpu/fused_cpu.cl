/* SPDX-License-Identifier: Apache-2.0 */
/* fused_cpu: o = softmax(scale q k^T, masked) v, and lse, in one pass over the keys, on CPUs.
 *
 * NDRange    local (1, 1, 1), global (chunks, heads, batch): one work-item has a chunk of
 *            BLOCKS_PER_TILE blocks of BLOCK_M = BLOCK_VECTORS * SIMD_WIDTH queries of one head.
 *            With BALANCE_CAUSAL it has the chunks x and chunks - 1 - x, and the first size is
 *            half: under a causal mask all work-items then have the same work.
 * SIMD lanes are queries: an element of K or V, as it lies in memory, is broadcast to all lanes and
 *            multiplied with BLOCK_VECTORS vectors of queries (or weights), so that nothing is
 *            transposed but the block's q and o, and the softmax needs no step across lanes.
 * Tiles      of at most BLOCK_N keys: scores to private memory, online softmax, values. A tile that
 *            no query of the block sees is skipped; in one of full visibility no mask is
 *            read; at the edges of a window half a block may be idle. The blocks of a chunk take
 *            turns at each tile while it is in L2.
 * Keys       and values in f32 are read in place or, with STAGE_KV, from a copy of the tile with adjacent
 *            rows; f16, bf16 and quantized ones from a converted copy.
 * Prefetch   Between their products blocks prefetch the rows that come next.
 * Dropout    comes after row_sum. Four keys at a time share a counter's words.
 * Masked     The product of a weight of 0 and a value that is not finite is NaN. So a chunk with
 *            sums that are not finite is computed again. This time the values of each tile of partial
 *            visibility are tested, and masked pairs are skipped where one is not finite. With parts tiles of full
 *            visibility are tested, too, and products that meet an infinity are computed value by value.
 * Invariant  With HAS_INVARIANT tiles end at multiples of BLOCK_N, which the host fixes, and blocks divide none.
 *            A key that a query does not see changes none of its sums: each adds its keys in turn.
 * Ragged     Nothing outside the tensors is read: lanes beyond the last query repeat it, scores
 *            beyond the last key repeat its and are ignored. A block of few queries is computed
 *            with half of its vectors.
 * Speed      rint, fmax, any and the conversions of OpenCL are slow on CPUs; their replacements here
 *            rely on IEEE addition, so never build them with fast-math options.
 * Units      vector: floats. pairs: products of bf16 pairs (cl/bf16/pairs.h), two multiply-adds in each lane of an
 *            instruction. amx: products by tiles of a matrix unit (cl/bf16/tiles.h). Both take q and k as they are
 *            stored, and weights rounded to bf16, which a problem of standard precision allows. Numbers in a format of
 *            bytes are exact in bf16; their scales multiply scores and weights. Tiles of f16, and of blocks with scales, are
 *            multiplied as sums of parts in bf16 (cl/bf16/parts.h); then weights have two parts too. bytes: q and k are
 *            rounded to bytes for precision=int8 (cl/cpu/key_bytes.h), and four of their products are added in each
 *            lane of an instruction, or by tiles with UNIT=amx; values are multiplied as floats. For these three the host also
 *            defines EMULATE.
 * Tunables   src/families/fused_cpu/fused_cpu.def or fused_cpu_amx.def, all defined by the host; no fallbacks here. */
#include "common/common.h"
#include "families/units.h"
#if OPERAND_PAIRS &&                                                                               \
    (!defined(EMULATE) || (DTYPE != DTYPE_BF16 && !(OPERAND_TILES && DTYPE == DTYPE_F16)) ||       \
     (!K_CACHE && K_DTYPE != DTYPE) || (!V_CACHE && V_DTYPE != DTYPE) || HAS_STRICT ||             \
     HAS_MASK_KEYS)
#error                                                                                             \
    "pairs are of q in bf16, tiles in f16 too, of k and v of its dtype or in blocks, of standard precision, without mask_keys, and need EMULATE defined"
#endif
#if OPERAND_BYTES && (!defined(EMULATE) || !HAS_INT8)
#error "bytes are of problems with precision=int8, and need EMULATE defined"
#endif
#if UNIT == UNIT_AMX
#define SIMD_WIDTH 16 /* queries in a row of a tile */
#define QK_KEYS 8     /* keys whose products become scores at a time */
#define PV_COLUMNS 8  /* unused with UNIT=amx */
#define STAGE_KV 0    /* pairs are always copied */
#endif
#if !defined(SIMD_WIDTH) || !defined(BLOCK_VECTORS) || !defined(QK_KEYS) ||                        \
    !defined(PV_COLUMNS) || !defined(BLOCK_N) || !defined(BLOCKS_PER_TILE) ||                      \
    !defined(BALANCE_CAUSAL) || !defined(STAGE_KV)
#error "fused_cpu.cl must be built with all of its tunables defined"
#endif

#include "common/sequence.h"
#include "families/key_mean_sizes.h"
#include "families/operand_sizes.h"
#include "families/fused_cpu/fused_cpu_sizes.h"
#define ON_CACHE_LINE __attribute__((aligned(64)))
#define STAGE_PAGES
#include "cpu/fused_pack.h"
#include "score/mark_blocks.h"
#include "cpu/fused_products.h"

/* The queries of a chunk. With block lists, chunks begin with rows of blocks, if these have as many
 * queries: the blocks of a chunk then see the same keys. */
enum {
    CHUNK = BLOCK_M * BLOCKS_PER_TILE,
    CHUNKS_FOLLOW_ROWS = HAS_BLOCKS & (BLOCK_Q >= CHUNK),
    /* 1 if marks say which keys a mask function shows. */
    MARKS_SHOW_KEYS = HAS_MARKS && HAS_MASK_FUNCTION
};

/* Adds keys j .. j + count - 1, at most BLOCK_N, to one block. partial: some pairs may be masked.
 * With check_values, *nonfinite says whether v has a value there that is not finite; -1 if not
 * known yet. */
INLINE void add_tile(const int partial, const struct arguments *args,
                     const struct query_block block, const long j, const int count, const lanes *q,
                     source k, const long k_row, source v, const long v_row, lanes *s,
                     const int check_values, struct prefetch_streams *streams, int *nonfinite,
                     lanes *row_max, lanes *row_sum, lanes *o)
{
    lanes old_max[BLOCK_VECTORS], new_max[BLOCK_VECTORS];
    lanes rescale[BLOCK_VECTORS], base[BLOCK_VECTORS], sum[BLOCK_VECTORS];
    int mark_hidden = 0;

    /* scores */
    struct score_tile tile;
    find_score_tile(args, block, j, &tile);
#if OPERAND_TILES
    tile.by_values = check_values && meet_nonfinite(q, k, k_row, count);
#endif
    ints masks[MASK_VECTORS];
    if (HIDES_ANYWHERE && !load_biases_and_masks(args, block, j, count, &tile, streams, s, masks))
        return;
    lanes by_distance[DISTANCE_VECTORS];
    if (HAS_DISTANCE_FUNCTION) {
        find_tile_distances(&tile, count, by_distance);
        tile.by_distance = by_distance;
    }
    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        old_max[m] = new_max[m] = row_max[m];
    multiply_qk(&tile, q, k, k_row, k_column(args), count, streams, s, new_max);

    /* softmax */
    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++) {
        base[m] = new_max[m] == -INFINITY ? (lanes)(0.0f) : new_max[m];
        rescale[m] = exponential(old_max[m] - base[m]);
        row_max[m] = new_max[m];
    }
    if (((HIDES & partial) | IN_PARTS) &&
        check_values) { /* keys that round count up to whole steps are masked too */
        if (*nonfinite < 0)
            *nonfinite = has_nonfinite(v, v_row, v_column(args), WHOLE_STEPS(count)) ||
                         has_nonfinite_scale(&tile, count);
        mark_hidden = *nonfinite;
    }
    weigh_keys_of_block(&tile, mark_hidden, base, count, s, sum);
    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        row_sum[m] = FMA(row_sum[m], rescale[m], sum[m]);
    if (HAS_DROPOUT) {
        drop_block_weights(args, block, j, count, s);
        if (OPERAND_PAIRS && !mark_hidden)
            pair_block_weights(count, tile.v_scales, s);
    }

    /* values */
    if (mark_hidden)
        add_visible(&tile, rescale, s, v, v_row, v_column(args), count, o);
    else
        multiply_pv(&tile, rescale, s, v, v_row, v_column(args), count, o);
}

/* Finishes rows in SIMD lanes: returns the factors of their sums. A sink becomes a part of row_max
 * and row_sum. */
INLINE lanes finish_rows(const struct arguments *args, const long h, lanes *row_max, lanes *row_sum)
{
    if (!HAS_SINKS)
        return 1.0f / *row_sum;
    const lanes sink = args->sinks[h] * SCORE_UNIT;
    const lanes new_max = sink > *row_max ? sink : *row_max;
    const lanes rescale = exponential(*row_max - new_max);

    *row_sum = FMA(*row_sum, rescale, exponential(sink - new_max));
    *row_max = new_max;
    return rescale / *row_sum;
}

/* Stores o and lse of a block. */
NOINLINE void finish_block(const struct arguments *restrict args, const struct query_block block,
                           const lanes *packed_o, lanes *row_max, lanes *row_sum)
{
    lanes factor[BLOCK_VECTORS];

    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++) {
        const ints sees_none =
            row_sum[m] == 0.0f | COUNT_UP + (float)(m * SIMD_WIDTH) >= (float)block.queries;
        const lanes outputs = finish_rows(args, block.h, row_max + m, row_sum + m);
        factor[m] = sees_none ? (lanes)(-1.0f) : outputs;
        if (!HAS_LSE)
            continue;
        const lanes sums =
            sees_none ? (lanes)(-INFINITY) : row_max[m] * score_to_log() + log(row_sum[m]);
        float rows[SIMD_WIDTH];
        VECTOR(vstore)(sums, 0, rows);
        for (int r = 0; r < min((long)SIMD_WIDTH, QUERIES_END(block) - block.i - m * SIMD_WIDTH);
             r++)
            args->lse[lse_head(args, block.b * args->shape->heads + block.h, block.h) + block.i +
                      m * SIMD_WIDTH + r] = rows[r];
    }
    unpack_outputs(args, block, packed_o, factor,
                   args->o + row_offset(args->shape->o_stride, block.b, block.h, block.i));
}

/* Block n of the chunk that starts with chunk's first query. */
INLINE struct query_block block_of(const struct query_block chunk, const int n)
{
    struct query_block block = chunk;

    block.i = chunk.i + n * BLOCK_M;
    block.queries = (int)clamp(chunk.e.queries - block.i, 0L, (long)BLOCK_M);
    return block;
}

/* The mark of the block and the tile of keys from j on. */
INLINE int mark_of_tile(const struct arguments *args, const struct query_block block, const long j)
{
    return mark_of_pairs(args, block.marks, block.b, block.h, block.i, block.queries, j,
                         min((long)BLOCK_N, args->shape->seq_kv - j));
}

/* Keys begin .. end - 1. */
struct key_range {
    long begin, end;
};

/* The keys j0 .. j1 - 1 of a tile without the first and last ones that are hidden from all queries of the block. */
INLINE struct key_range shown_keys(const struct arguments *args, const struct query_block block,
                                   const long j0, const long j1)
{
    struct key_range shown = {j0, j1};

    if (!block.marks)
        return shown;
    const __global uchar *lower = block.marks + marks_of_block(args, block.b, block.h, block.i);
    const __global uchar *upper = lower + (block.queries > MARK_M ? marked_tiles(args) : 0);
    while (shown.begin < shown.end &&
           lower[shown.begin / MARK_N] & upper[shown.begin / MARK_N] & MARK_EMPTY)
        shown.begin = (shown.begin / MARK_N + 1) * MARK_N;
    while (shown.begin < shown.end &&
           lower[(shown.end - 1) / MARK_N] & upper[(shown.end - 1) / MARK_N] & MARK_EMPTY)
        shown.end = (shown.end - 1) / MARK_N * MARK_N;
    return shown;
}

/* Returns whether eight marks are those of tiles without a visible key. */
INLINE bool are_empty(const __global uchar *marks)
{
    const ulong each = MARK_EMPTY * 0x0101010101010101UL;

    return (as_ulong(vload8(0, marks)) & each) == each;
}

/* The keys that some of a chunk's queries may see, from the begin of a tile on. */
INLINE struct key_range visible_keys(const struct arguments *args, const struct query_block chunk,
                                     const long queries)
{
    const long last = queries > 0 ? end_key(args, chunk.e, chunk.i + queries - 1) : 0;
    struct key_range visible = {last, 0};

    if (!chunk.marks)
        return (struct key_range){0, last};
    for (long i = chunk.i; i < chunk.i + queries; i += MARK_M) {
        const __global uchar *marks = chunk.marks + marks_of_block(args, chunk.b, chunk.h, i);
        long n = 0, end = (last + MARK_N - 1) / MARK_N;
        while (n + 8 <= end && are_empty(marks + n))
            n += 8;
        while (n < end && marks[n] & MARK_EMPTY)
            n++;
        while (end >= n + 8 && are_empty(marks + end - 8))
            end -= 8;
        while (end > n && marks[end - 1] & MARK_EMPTY)
            end--;
        if (n < end) {
            visible.begin = min(visible.begin, n * MARK_N / BLOCK_N * BLOCK_N);
            visible.end = max(visible.end, min(end * MARK_N, last));
        }
    }
    return visible;
}

/* Returns whether no key of the tile is visible to a block of the chunk. */
INLINE bool is_empty_for_all(const struct arguments *args, const struct query_block chunk,
                             const long j)
{
    bool empty = true;

    for (int n = 0; n < BLOCKS_PER_TILE && empty; n++) {
        const struct query_block block = block_of(chunk, n);
        empty = block.queries == 0 || mark_of_tile(args, block, j) & MARK_EMPTY;
    }
    return empty;
}

/* Returns whether all sums of a chunk are finite. */
NOINLINE int are_finite(lanes (*packed_o)[ROUNDED(DIM_V) * BLOCK_VECTORS])
{
    lanes zero[4] = {0.0f, 0.0f, 0.0f, 0.0f};

    for (int n = 0; n < BLOCKS_PER_TILE; n++) {
        for (int d = 0; d < ROUNDED(DIM_V) * BLOCK_VECTORS; d += 4) {
            UNROLL
            for (int c = 0; c < 4; c++)
                zero[c] = FMA(packed_o[n][d + c], (lanes)(0.0f), zero[c]);
        }
    }
    return !any_lane(zero[0] + zero[1] + (zero[2] + zero[3]) != 0.0f);
}

/* Products take values of KEYS_TOGETHER neighbouring keys at a time, from the tile's first key j0
 * on. Returns the first of those keys that key j is among. */
INLINE long with_whole_operand(const long j0, const long j)
{
    return j0 + (j - j0) / KEYS_TOGETHER * KEYS_TOGETHER;
}

/* The keys that some of a chunk's queries may see by windows, lengths and marks. */
INLINE struct key_range keys_of_chunk(const struct arguments *args, const struct query_block chunk,
                                      const long queries)
{
    if (MARKS_SHOW_KEYS)
        return visible_keys(args, chunk, queries);
    const long first = first_key(args, chunk.e, chunk.i);

    return (struct key_range){HAS_INVARIANT ? with_whole_operand(0, first) : first,
                              queries > 0 ? end_key(args, chunk.e, chunk.i + queries - 1) : 0};
}

/* The first key from j on that block lists leave to some of the chunk's queries. */
INLINE long listed_from(const struct query_block chunk, const struct block_rows listing,
                        const long j, const long end)
{
    return HAS_BLOCKS ? run_begin(chunk.bits, listing, j, end) : j;
}

/* Loads the scales of keys j .. j + count - 1 of the chunk's kv head and of their values, with zeros up to a tile. */
INLINE void load_scales_apart(const struct arguments *args, const struct query_block chunk,
                              const long j, const int count, float *k_scales, float *v_scales)
{
    const long kv_head = chunk.h / args->shape->group;

    for (int n = 0; n < BLOCK_N; n++) {
        k_scales[n] = n < count ? scale_of_row(k_scales_from(args, chunk.b, kv_head, j), n) : 0.0f;
        v_scales[n] = n < count ? scale_of_row(v_scales_from(args, chunk.b, kv_head, j), n) : 0.0f;
    }
}

/* Computes and stores a chunk and returns 1; 0 if its sums are not finite, unless values are
 * checked. */
NOINLINE int compute_chunk(const struct arguments *restrict args, const struct query_block chunk,
                           const int check_values)
{
    lanes packed_q[BLOCKS_PER_TILE][PACKED_Q];
    lanes packed_o[BLOCKS_PER_TILE][PACKED_O];
    lanes s[TILE_SCORES];
    lanes row_max[BLOCKS_PER_TILE][BLOCK_VECTORS], row_sum[BLOCKS_PER_TILE][BLOCK_VECTORS];
    const long queries = min(chunk.e.queries - chunk.i, (long)BLOCK_M * BLOCKS_PER_TILE);
    const struct key_range seen = keys_of_chunk(args, chunk, queries);
    const long begin = seen.begin, end = seen.end;
    operand k_staged[STAGED ? STAGED_K : 1] ON_CACHE_LINE;
    operand v_staged[STAGED ? STAGED_V : 1] ON_CACHE_LINE;
    float k_scales[SCALES_APART ? BLOCK_N : 1], v_scales[SCALES_APART ? BLOCK_N : 1];
    const long k_row = STAGED ? KEY_OPERANDS : args->shape->k_stride[2];
    const long v_row = !STAGED ? args->shape->v_stride[2] : OPERAND_TILES ? 1 : DIM_V;

    for (int n = 0; n < BLOCKS_PER_TILE; n++) {
        const struct query_block block = block_of(chunk, n);
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            row_max[n][m] = -INFINITY;
            row_sum[n][m] = 0.0f;
        }
        for (int d = 0; d < ROUNDED(DIM_V) * BLOCK_VECTORS; d++)
            packed_o[n][d] = 0.0f;
        if (block.queries > 0 && begin < end)
            pack_block_queries(
                args, block, args->q + row_offset(args->shape->q_stride, block.b, block.h, block.i),
                packed_q[n]);
    }
    const long kv_head = chunk.h / args->shape->group;
    const __global k_storage *const k =
        k_place(args->k, head_offset(args->shape->k_stride, cache_batch(chunk.b), kv_head));
    const __global v_storage *const v =
        v_place(args->v, head_offset(args->shape->v_stride, cache_batch(chunk.b), kv_head));
    const struct block_rows listing = block_rows_of(chunk.i, max(queries, 1L));
    for (long j0 = listed_from(chunk, listing, begin, end), j1; j0 < end;
         j0 = listed_from(chunk, listing, j1, end)) {
        j1 = HAS_BLOCKS /* this family refuses block lists with pages */
                 ? run_end(chunk.bits, listing, j0, min(j0 + BLOCK_N, end))
                 : next_run(args, chunk.b, begin, end, BLOCK_N, &j0);
        if (HAS_MARKS && is_empty_for_all(args, chunk, j0))
            continue;
        if (STAGED)
            stage_tile(args, chunk.b, chunk.h / args->shape->group, j0, (int)(j1 - j0), k, v,
                       k_staged, v_staged);
        if (SCALES_APART)
            load_scales_apart(args, chunk, j0, (int)(j1 - j0), k_scales, v_scales);
        source tile_k = source_of(k_staged, k + j0 * k_row);
        source tile_v = source_of(v_staged, v + j0 * v_row);
        int nonfinite = -1;
        for (int n = 0; n < BLOCKS_PER_TILE; n++) {
            struct query_block block = block_of(chunk, n);
            if (block.queries == 0)
                break;
            if (HAS_MARKS) {
                block.mark = mark_of_tile(args, block, j0);
                if (block.mark & MARK_EMPTY)
                    continue;
            }
            struct prefetch_streams streams = streams_of_tile(args, chunk, n, j1, end, k, v);
            if (HAS_WINDOW || HAS_MASK_FUNCTION) /* blocks see different keys */
                nonfinite = -1;
            const long last = block.i + block.queries - 1;
            const long all_begin = first_key(args, block.e, last);
            const long all_end = end_key(args, block.e, block.i);
            long block_begin = max(first_key(args, block.e, block.i), j0);
            long block_end = min(end_key(args, block.e, last), j1), stop;
            if (MARKS_SHOW_KEYS) {
                const struct key_range shown = shown_keys(args, block, j0, j1);
                block_begin = shown.begin;
                block_end = min(block_end, shown.end);
            }
            for (long j = with_whole_operand(j0, block_begin); j < block_end; j = stop) {
                const source keys = tile_k + (j - j0) * k_row;
                const source values = tile_v + OPERANDS_BEFORE(j - j0) * v_row;
                block.k_scales = k_scales + (j - j0);
                block.v_scales = v_scales + (j - j0);
                /* A few keys that all queries see do not pay for a tile of their own. In an invariant problem none
                 * does: the largest score of a whole tile scales a query's sums. */
                const bool pays = HAS_INVARIANT
                                      ? all_end >= block_end
                                      : all_end >= block_end || all_end - j >= BLOCK_N / 2;
                const bool full = !HIDES_ANYWHERE && j >= all_begin && pays;
                stop = full && all_end < block_end ? with_whole_operand(j0, all_end) : block_end;
                if (HAS_MASK_KEYS) { /* no tile is partly within the mask's columns */
                    if (j < block.e.mask_begin)
                        stop = min(stop, block.e.mask_begin);
                    nonfinite = -1;
                }
                add_tile(!full, args, block, j, (int)(stop - j), packed_q[n], keys, k_row, values,
                         v_row, s, check_values, &streams, &nonfinite, row_max[n], row_sum[n],
                         packed_o[n]);
            }
        }
    }
    if ((HIDES | IN_PARTS) && !check_values && !are_finite(packed_o))
        return 0;
    for (int n = 0; n < BLOCKS_PER_TILE; n++)
        finish_block(args, block_of(chunk, n), packed_o[n], row_max[n], row_sum[n]);
    return 1;
}

/* The number of chunks of a head. */
INLINE long count_chunks(const struct arguments *args)
{
    if (CHUNKS_FOLLOW_ROWS)
        return block_rows(args) * ((min((long)BLOCK_Q, args->shape->seq_q) + CHUNK - 1) / CHUNK);
    return (args->shape->seq_q + CHUNK - 1) / CHUNK;
}

/* Sets *chunk to chunk number n of its head. */
INLINE void set_chunk(const struct arguments *args, const long n, struct query_block *chunk)
{
    chunk->i = n * CHUNK;
    if (HAS_BLOCKS)
        chunk->end = args->shape->seq_q;
    if (CHUNKS_FOLLOW_ROWS) {
        const long of_row = (min((long)BLOCK_Q, args->shape->seq_q) + CHUNK - 1) / CHUNK,
                   row = n / of_row;
        chunk->i = row * BLOCK_Q + n % of_row * CHUNK;
        chunk->end = min((row + 1) * BLOCK_Q, args->shape->seq_q);
        chunk->e.queries = min(chunk->e.queries, chunk->end);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void fused_cpu(PARAMETERS_fused_cpu)
{
    struct arguments arguments = ARGUMENTS_fused_cpu;
    ENTER_SEQUENCE(args, &arguments, get_global_id(2));
    const long chunks = count_chunks(args), x = get_global_id(0);
    struct query_block chunk;

    LEAVE_IF_BEYOND(x, BALANCE_CAUSAL ? (chunks + 1) / 2 : chunks);
    chunk.h = get_global_id(1);
    chunk.b = get_global_id(2);
    configure_tiles();
    if (HAS_MARKS)
        chunk.marks = all_marks(args);
    if (HAS_BLOCKS)
        chunk.bits = block_bits_of(args, args->workspace + marks_begin(args), chunk.b, chunk.h);
    const struct extent e = extent_of(args, chunk.b);
    for (int late = 0; late <= BALANCE_CAUSAL; late++) {
        const long n = late ? chunks - 1 - x : x;
        if (late && n == x)
            break;
        chunk.e = e;
        set_chunk(args, n, &chunk);
        int check_values = 0; /* rarely needed; testing v in advance would take time */
        while (!compute_chunk(args, chunk, check_values))
            check_values = 1;
    }
    release_tiles();
}

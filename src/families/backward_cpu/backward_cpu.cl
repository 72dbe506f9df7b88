/* SPDX-License-Identifier: Apache-2.0 */
/* backward_cpu: dq, dk and dv in one pass over the pairs, for CPUs. Formulas: clattn/problem.h.
 *
 * Stages     backward_rows    delta = dot(do, o) of each row, and -lse, into the workspace; if lse is
 *                             large, the factor that makes the row's weights sum to 1 (cpu/backward_rows.h)
 *            backward_cpu   local (1, 1, 1), global (SPLIT_K, kv_heads, batch): one work-item has
 *                             every SPLIT_K-th chunk of BLOCKS_PER_TILE blocks of BLOCK_N keys of
 *                             one kv head, and all queries that see them, of all query heads of
 *                             that head. It owns dk and dv of its keys; its share of dq goes to
 *                             sums of its own in the workspace
 *            backward_bias    dbias: the scores once more, and dS summed over the dims that the bias
 *                             broadcasts over
 *            backward_sum     dq from the sums of the SPLIT_K work-items
 *            backward_heads   dslopes, dsinks
 *            backward_function  dfunction, from sums that work-items of backward_cpu have made, each of its own
 *                             pairs. With it there are at most as many work-items as arrays of sums, each with the
 *                             shares of several (families/function_sums.h)
 *            Each sum is formed in an order that depends on nothing but the problem and the
 *            tunables: the same inputs give the same bits.
 * SIMD lanes are keys: an element of q or do is broadcast to all lanes and multiplied with
 *            BLOCK_VECTORS vectors of keys or values, so that only the block's k and v and its dk
 *            and dv are transposed. In dq they are columns.
 * Tiles      of at most BLOCK_M queries, copied once for all blocks of a chunk, since L2 does not
 *            hold all of a head: products, scores and weights, their gradients, then the sums of
 *            dv, dk and dq. Queries that see no key of the chunk are in no tile; those of a tile
 *            that see no key of a block are skipped; in a tile of full visibility no mask is
 *            read. dq is added to in the workspace, DQ_ROWS rows at a time.
 * Ragged     Nothing outside the tensors is read: keys beyond the last are zeros.
 * Lists      With block lists tiles hold queries that list some column of the chunk; rows of a tile that
 *            list none of a block's keys are skipped.
 * Marks      A first stage marks tiles that a mask or a bias leaves empty or full (score/mark_pairs.h):
 *            backward_cpu skips empty tiles, and reads no mask in full ones.
 * Workspace  [rows][4] statistics (common/backward.h); [SPLIT_K][batch][heads][SUM_ROWS][ROW_QK] sums of dq;
 *            [SPLIT_K][batch][heads] sums of dslopes; arrays of sums of dfunction; the bits of block lists, or the marks of
 *            masks and biases
 * Units      vector: floats. pairs: products of bf16 pairs (cl/bf16/pairs.h). amx: products by tiles of a matrix
 *            unit (cl/bf16/tiles.h); dq is then summed up in private memory over the blocks of a chunk before it
 *            is added to the workspace. Both take q, k, v and do as they are stored, and weights and dS rounded to
 *            bf16, which a problem of standard precision allows; the host also defines EMULATE.
 * Tunables   src/families/backward_cpu/backward_cpu.def or backward_cpu_amx.def, all defined by the host; no
 *            fallbacks here. */
#include "common/common.h"

#include "families/units.h"
#if OPERAND_PAIRS && (!defined(EMULATE) || DTYPE != DTYPE_BF16 || HAS_STRICT)
#error "pairs are of bf16 of standard precision, and need EMULATE defined"
#endif
#if UNIT == UNIT_AMX
#define SIMD_WIDTH 16 /* keys in a row of a tile */
#define DQ_ROWS 32    /* rows of P and dS that are multiplied together */
#define QK_ROWS 32    /* unused with UNIT=amx, as are the next two */
#define DKV_COLUMNS 16
#define DQ_VECTORS 1
#endif
#if !defined(SIMD_WIDTH) || !defined(BLOCK_VECTORS) || !defined(QK_ROWS) ||                        \
    !defined(DKV_COLUMNS) || !defined(BLOCK_M) || !defined(DQ_ROWS) || !defined(DQ_VECTORS) ||     \
    !defined(BLOCKS_PER_TILE) || !defined(SPLIT_K)
#error "backward_cpu.cl must be built with all of its tunables defined"
#endif

#include "families/backward_cpu/backward_cpu_sizes.h"
#define DISTANCE_ROWS BLOCK_M
#define DISTANCE_KEYS BLOCK_N
#include "score/key_lanes.h"
#include "common/backward.h"

#define SUM_ROWS(args) (longest_q(args) + ROWS_AFTER)

/* The number of head h's first row among a work-item's sums of dq. */
INLINE long sum_row(const struct arguments *args, const long b, const long h)
{
    return (b * args->shape->heads + h) * SUM_ROWS(args);
}

/* The offset of a work-item's sums of dq in the workspace, a multiple of a cache line. The sums of
 * dslopes follow those of the last work-item. */
INLINE long sums_begin(const struct arguments *args, const long split)
{
    const long row_stats =
        (ROW_STATISTICS * args->shape->batch * args->shape->heads * longest_q(args) + 15) / 16 * 16;

    return row_stats + split * args->shape->batch * args->shape->heads * SUM_ROWS(args) * ROW_QK;
}

/* The sums of dfunction follow; each work-item has an array of its own. */
#define LOAD_SUMS(args)                                                                            \
    SPLIT_K *(args)->shape->batch *(args)->shape->kv_heads,                                        \
        sums_begin(args, SPLIT_K) + SPLIT_K *(args)->shape->batch *(args)->shape->heads
#include "score/function_sums.h"

#define MARK_M BACKWARD_MARK_QUERIES
#define MARK_N (SIMD_WIDTH * BLOCK_VECTORS)
#include "score/backward_weights.h"
#include "score/mark_blocks.h"
#include "cpu/backward_rows.h"
#if HAS_DBIAS
#include "cpu/backward_bias.h"
#endif

/* Adds P^T dO to dV and dS^T Q to dK, for some rows of a tile. */
NOINLINE void add_key_gradients(const struct query_tile *tile, const struct row_range rows,
                                struct key_block *block)
{
    const int begin = rows.begin / VALUES_IN_OPERAND, end = OPERANDS(rows.end);

    ADD_ROWS(DIM_V, tile->p, d_o_operands(tile), OPERAND_TILES ? BLOCK_M / 2 : ROW_V, begin, end,
             block->dv);
    ADD_ROWS(DIM_QK, tile->ds, q_operands(tile), OPERAND_TILES ? BLOCK_M / 2 : ROW_QK, begin, end,
             block->dk);
}

/* Adds the contributions of some rows of a tile (all of them, if the tile is visible in full) to
 * dk, dv and dq. */
INLINE void add_gradients_of_tile(const int partial, const struct arguments *args,
                                  const struct head head, struct key_block *block,
                                  const struct row_range rows, struct query_tile *tile,
                                  __global float *dq, lanes *slope_sums)
{
    const operand *q = (const operand *)tile->q, *d_o = (const operand *)tile->d_o;
    /* The first or last step may include a row that sees no key of the block. */
    const bool ends_within = OPERAND_TILES ? rows.end != tile->count : true;
    const int cut = rows.begin % ROWS_OF_STEP || (rows.end % ROWS_OF_STEP && ends_within);
    if ((OPERAND_TILES & WEIGHTS_IN_REGISTERS & !ADDS_DISTANCES) && !partial && !cut &&
        !tile->lacks) {
        const operand *ds = compute_whole_tile(args->shape->scale * SCALE_UNIT, block, rows, tile);
        add_key_gradients(tile, rows, block);
        add_to_query_sums(ds, block, rows, tile, dq);
        return;
    }
    const int hidden = compute_weights(partial, 0, args, head, block, rows, tile, slope_sums);
    const int rows_apart = (hidden || cut) && tile->nonfinite;
    /* a weight of 0 times an infinity is NaN */
    const int keys_apart = (partial || hidden) && block->nonfinite;

    if (rows_apart) {
        add_visible_rows(DIM_V, tile->p, tile->p, d_o, OPERANDS(ROW_V), rows.begin, rows.end,
                         block->dv);
        add_visible_rows(DIM_QK, tile->p, tile->ds, q, OPERANDS(ROW_QK), rows.begin, rows.end,
                         block->dk);
    }
    if (keys_apart)
        add_visible_query_gradients((const float *)tile->p, (const float *)tile->ds,
                                    (const operand *)block->k_rows, block->keys, rows.begin,
                                    rows.end, dq);
    const operand *ds = operands_of_weights(rows, tile);
    if (!rows_apart)
        add_key_gradients(tile, rows, block);
    if (!keys_apart)
        add_to_query_sums(ds, block, rows, tile, dq);
}

/* Loads `count` blocks of keys from key j on, and zeroes their gradients. */
INLINE void load_key_blocks(const struct arguments *args, const struct head head, const long j,
                            const int count, struct key_block *blocks)
{
    for (int n = 0; n < count; n++) {
        struct key_block *block = blocks + n;
        load_key_block(args, head, j + n * BLOCK_N, block);
        for (int d = 0; d < ROW_QK * BLOCK_VECTORS; d++)
            block->dk[d] = 0.0f;
        for (int d = 0; d < ROW_V * BLOCK_VECTORS; d++)
            block->dv[d] = 0.0f;
    }
}

/* The keys of a chunk. If columns of the block lists are as long, chunks begin with a column: all
 * blocks of a chunk are then visible to the same queries. */
enum {
    CHUNK = BLOCKS_PER_TILE * BLOCK_N,
    CHUNKS_FOLLOW_COLUMNS = HAS_BLOCKS & (BLOCK_KV >= CHUNK)
};

/* The number of chunks in a column of the block lists. */
INLINE long chunks_of_column(const struct arguments *args)
{
    return (min((long)BLOCK_KV, args->shape->seq_kv) + CHUNK - 1) / CHUNK;
}

INLINE long count_key_chunks(const struct arguments *args)
{
    if (CHUNKS_FOLLOW_COLUMNS)
        return block_columns(args) * chunks_of_column(args);
    return (args->shape->seq_kv + CHUNK - 1) / CHUNK;
}

/* Finds the blocks of chunk n, if there is such a chunk, and its first key. The head gets the
 * chunk's end and, with block lists, the number of keys in use, keys_of_batch. */
INLINE int find_chunk(const struct arguments *args, const long n, const long keys_of_batch,
                      long *first, struct head *head)
{
    long end = args->shape->seq_kv;

    *first = n * CHUNK;
    if (CHUNKS_FOLLOW_COLUMNS && args->shape->seq_kv > 0) {
        const long of_column = chunks_of_column(args), column = n / of_column;
        *first = column * BLOCK_KV + n % of_column * CHUNK;
        end = min((column + 1) * BLOCK_KV, args->shape->seq_kv);
    }
    if (HAS_BLOCKS) {
        head->keys_end = end;
        head->e.keys = min(keys_of_batch, end);
    }
    return (int)clamp((end - *first + BLOCK_N - 1) / BLOCK_N, 0L, (long)BLOCKS_PER_TILE);
}

/* The first query from i on that block lists leave to one of the keys. */
INLINE long first_listed_query(const struct head head, const long j, const int keys, const long i,
                               const long end)
{
    return HAS_BLOCKS ? next_listed_query(head, j, keys, i, end) : i;
}

/* Computes the share of one of SPLIT_K work-items of a kv head. */
NOINLINE void compute_split(const struct arguments *restrict args, const long split,
                            const long kv_head, struct head head)
{
    const long chunks = count_key_chunks(args);
    struct key_block blocks[BLOCKS_PER_TILE];
    struct query_tile tile;

    const __global float *row_stats = args->workspace;
    __global float *sums = args->workspace + sums_begin(args, split);
    __global float *slope_sums_of_heads =
        args->workspace + sums_begin(args, SPLIT_K) +
        (split * args->shape->batch + head.b) * args->shape->heads;
    const long first_head = kv_head * args->shape->group,
               end_head = first_head + args->shape->group;
    const long keys_of_batch = head.e.keys;
    for (long n = sum_row(args, head.b, first_head) * ROW_QK;
         n < sum_row(args, head.b, end_head) * ROW_QK; n++)
        sums[n] = 0.0f;
    for (long h = first_head; HAS_DSLOPES && h < end_head; h++)
        slope_sums_of_heads[h] = 0.0f;
    /* Work-items take chunks in alternating order, so that under a causal mask all have the same
     * work. */
    for (long deal = 0; deal * SPLIT_K < chunks; deal++) {
        const long chunk = deal * SPLIT_K + (deal % 2 ? SPLIT_K - 1 - split : split);
        long first_of_chunk;
        const int count = find_chunk(args, chunk, keys_of_batch, &first_of_chunk, &head);
        if (count == 0)
            continue;
        head.h = first_head;
        load_key_blocks(args, head, first_of_chunk, count, blocks);
        const struct key_block *last = blocks + count - 1;
        const int keys = (int)max(0L, min(head.e.keys, last->j + BLOCK_N) - blocks->j);
        const long begin = first_query(args, head.e, blocks->j);
        const long end = end_query(args, head.e, blocks->j, keys);
        for (; head.h < end_head; head.h++) {
            lanes slope_sums = 0.0f;
            if (HAS_BLOCKS)
                head.bits = block_bits_of(args, row_stats + marks_begin(args), head.b, head.h);
            for (long i = first_listed_query(head, blocks->j, keys, begin, end), stop; i < end;
                 i = first_listed_query(head, blocks->j, keys, stop, end)) {
                stop = min(i + BLOCK_M, end);
                if (HAS_BLOCKS)
                    stop = end_listed_query(head, blocks->j, keys, i, stop);
                if (HAS_MARKS &&
                    mark_of_pairs(args, head.marks, head.b, head.h, i, stop - i, blocks->j, keys) &
                        MARK_EMPTY)
                    continue;
                __global float *dq = sums + (sum_row(args, head.b, head.h) + i) * ROW_QK;
                load_query_tile(args, head, i, (int)(stop - i), row_stats, &tile);
                for (int n = 0; n < count; n++) {
                    struct key_block *block = blocks + n;
                    const struct row_range rows = visible_rows(args, head, block, &tile);
                    if (rows.begin < rows.end && is_listed(head, block, &tile))
                        add_gradients_of_tile(is_partial_tile(args, head, block, &tile), args, head,
                                              block, rows, &tile, dq, &slope_sums);
                }
                end_query_sums(&tile, dq);
            }
            if (HAS_DSLOPES)
                slope_sums_of_heads[head.h] += sum_lanes(slope_sums);
        }
        head.h = first_head;
        for (int n = 0; n < count; n++)
            store_key_gradients(args, head, blocks + n);
    }
}

/* Calls compute_split() for a kv head of batch b. of_loads: the work-item's sums of dfunction. */
INLINE void enter_split(struct arguments *own, const long split, const long kv_head, const long b,
                        __global float *of_loads)
{
    ENTER_SEQUENCE(args, own, b);
    struct head head;

    head.b = b;
    head.h = kv_head * args->shape->group;
    head.e = extent_of(args, head.b);
    if (HAS_MARKS)
        head.marks = all_marks(args);
    if (HAS_DFUNCTION)
        head.of_loads = of_loads;
    compute_split(args, split, kv_head, head);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void backward_cpu(PARAMETERS_backward_cpu)
{
    struct arguments arguments = ARGUMENTS_backward_cpu;

    configure_tiles();
#if HAS_DFUNCTION /* a work-item has the shares of several, one after the other */
    const struct arguments whole = arguments;
    const struct load_sums place = place_load_sums(&whole);
    const long items = place.most, kv_heads = whole.shape->kv_heads;
    const long elements = function_gradients(&whole);
    __global float *const of_loads = whole.workspace + place.begin + get_global_id(0) * elements;

    for (long n = 0; n < elements; n++)
        of_loads[n] = 0.0f;
    for (long n = get_global_id(0); n < items; n += get_global_size(0)) {
        arguments = whole;
        enter_split(&arguments, n % SPLIT_K, n / SPLIT_K % kv_heads, n / SPLIT_K / kv_heads,
                    of_loads);
    }
#else
    enter_split(&arguments, get_global_id(0), get_global_id(1), get_global_id(2), 0);
#endif
    release_tiles();
}

/* Global (seq_q, heads, batch): a row of dq. */
__kernel void backward_sum(PARAMETERS_backward_sum)
{
    const long i = get_global_id(0), h = get_global_id(1), b = get_global_id(2);
    struct arguments arguments = ARGUMENTS_backward_sum;
    ENTER_SEQUENCE(args, &arguments, b);
    LEAVE_IF_BEYOND(i, args->shape->seq_q);
    const __global float *sums = args->workspace + (sum_row(args, b, h) + i) * ROW_QK;

    __global o_storage *row = args->dq + row_offset(args->shape->dq_stride, b, h, i);
    for (int d = 0; d < DIM_QK; d += SIMD_WIDTH) {
        lanes sum = VECTOR(vload)(0, sums + sums_begin(args, 0) + d);
        for (long split = 1; split < SPLIT_K; split++)
            sum += VECTOR(vload)(0, sums + sums_begin(args, split) + d);
        store_row(sum * args->shape->scale, row + d * dq_step(args), dq_step(args), DIM_QK - d);
    }
}

#if HAS_DSLOPES || HAS_DSINKS
/* Global (heads): sums over batches and rows, in ascending order. */
__kernel void backward_heads(PARAMETERS_backward_heads)
{
    const struct arguments arguments = ARGUMENTS_backward_heads, *const args = &arguments;
    const long h = get_global_id(0);
    const __global float *rows = args->workspace;
    const __global float *totals = rows + sums_begin(args, SPLIT_K);
    float sum = 0.0f;

    for (long n = 0; HAS_DSLOPES && n < SPLIT_K * args->shape->batch; n++)
        sum += totals[n * args->shape->heads + h];
    if (HAS_DSLOPES)
        args->dslopes[h] = sum;
    sum = 0.0f;
    for (long b = 0; HAS_DSINKS && b < args->shape->batch; b++) {
        long first = 0, queries = args->shape->seq_q;
        if (HAS_TOTAL_Q)
            find_rows_of(args->q_starts, b, args->shape->total_q, args->shape->seq_q, &first,
                         &queries);
        for (long i = 0; i < queries; i++)
            sum += sink_term(args->sinks[h], args->lse[lse_of(args, b, h, first + i)],
                             rows + ROW_STATISTICS * row_of(args, b, h, i));
    }
    if (HAS_DSINKS)
        args->dsinks[h] = sum;
}
#endif

/* fused_lanes: o = softmax(scale q k^T, masked) v, and lse, in one pass over the keys.
 *
 * NDRange    local (1, 1, 1), global (chunks, heads, batch): one work-item has a chunk of
 *            BLOCKS_PER_TILE blocks of BLOCK_M queries of one head. With BALANCE_CAUSAL it has the
 *            chunks x and chunks - 1 - x, and the first size is half: under a causal mask all
 *            groups then have the same work.
 * Lanes      are queries: an element of K or V, as it lies in memory, is broadcast to all lanes and
 *            multiplied with BLOCK_VECTORS vectors of queries (or weights), so that nothing is
 *            transposed but the block's q and o, and the softmax needs no step across lanes.
 * Tiles      of at most BLOCK_N keys: scores to private memory, maximum, exponential, values. Keys
 *            that no query of the block sees are in no tile; keys that all of them see are in tiles
 *            that hide nothing; at the edges of a window half a block may sit out. The blocks of a
 *            chunk take turns at each tile while it is in the cache, and ask between their products
 *            for what comes next.
 * Dropout    comes after the sum of the weights. Four keys at a time share a counter's words.
 * Ragged     Nothing outside the tensors is read: lanes beyond the last query repeat it, scores
 *            beyond the last key repeat its and are ignored. A block of few queries is computed
 *            with half of its vectors.
 * Speed      rint, fmax, any and the conversions of OpenCL are slow on CPUs; what stands here in
 *            their place relies on IEEE addition, so never build it with fast-math options.
 * Tunables   src/families/tunables/fused_lanes.def, all defined by the host; no fallbacks here. */
#include "common/builtins.h"
#include "common/common.h"

#if !defined(SIMD_WIDTH) || !defined(BLOCK_VECTORS) || !defined(QK_KEYS) ||                        \
    !defined(PV_COLUMNS) || !defined(BLOCK_N) || !defined(BLOCKS_PER_TILE) ||                      \
    !defined(BALANCE_CAUSAL)
#error "fused_lanes.cl must be built with all of its tunables defined"
#endif

#include "cpu/lane_rows.h"
#include "cpu/lane_tile.h"

/* Keys j .. j + count - 1 of at most BLOCK_N. hides: some may be hidden from some queries.
 * spoils: whether v holds what is not finite there, or -1, if not known yet. careful: what is
 * hidden may be such, which a weight of 0 would not keep away. */
INLINE void add_tile(const int hides, SHAPE_PARAMS, const struct place block, const long j,
                     const int count, const lanes *q, source k, const long k_row, source v,
                     const long v_row, lanes *s, const int careful, struct ahead *ahead,
                     int *spoils, lanes *top, lanes *total,
                     lanes *o BIAS_PARAM MASK_PARAM SLOPES_PARAM)
{
    lanes old_top[BLOCK_VECTORS], new_top[BLOCK_VECTORS], factor[BLOCK_VECTORS],
        base[BLOCK_VECTORS], sum[BLOCK_VECTORS];
    int marks = 0;

    struct sight sight = sight_of(a, at, block, j SLOPES_ARG);
#if HIDES_ANYWHERE
    ints masks[MASK_VECTORS];
    if (!read_changes(a, at, block, j, count, &sight, ahead, s, masks BIAS_ARG MASK_ARG))
        return;
#endif

    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        old_top[m] = new_top[m] = top[m];
    multiply_keys(&sight, q, k, k_row, K_COLUMN, count, ahead, s, new_top);
    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++) {
        base[m] = new_top[m] == -INFINITY ? (lanes)(0.0f) : new_top[m];
        factor[m] = EXPONENTIAL(old_top[m] - base[m]);
        top[m] = new_top[m];
    }
    if (HIDES && hides && careful) {
        if (*spoils < 0)
            *spoils = has_nonfinite(v, v_row, V_COLUMN, count);
        marks = *spoils;
    }
    weigh(&sight, marks, base, count, s, sum);
    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++)
        total[m] = fma(total[m], factor[m], sum[m]);
#if HAS_DROPOUT
    drop_weights(a, at, block, j, count, s);
#endif

    if (marks)
        add_visible(factor, s, v, v_row, V_COLUMN, count, o);
    else
        add_values(&sight, factor, s, v, v_row, V_COLUMN, count, o);
}

/* The sums of a block become o and lse. */
NOINLINE void finish_block(SHAPE_PARAMS, const struct place block, const lanes *packed_o,
                           lanes *top, lanes *total, __global storage *o SINKS_PARAM LSE_PARAM)
{
    lanes factor[BLOCK_VECTORS];

    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++) {
        const ints unseeing =
            total[m] == 0.0f | COUNT_UP + (float)(m * SIMD_WIDTH) >= (float)block.queries;
#if HAS_SINKS
        const lanes sink = sinks[at.sinks + block.h] * UNIT;
        const lanes new_top = sink > top[m] ? sink : top[m];
        const lanes rescale = EXPONENTIAL(top[m] - new_top);
        total[m] = fma(total[m], rescale, EXPONENTIAL(sink - new_top));
        factor[m] = unseeing ? (lanes)(-1.0f) : rescale / total[m];
        top[m] = new_top;
#else
        factor[m] = unseeing ? (lanes)(-1.0f) : 1.0f / total[m];
#endif
#if HAS_LSE
        const lanes sums = unseeing ? (lanes)(-INFINITY) : top[m] * SCORE_TO_LOG + log(total[m]);
        float rows[SIMD_WIDTH];
        VECTOR(vstore)(sums, 0, rows);
        for (int r = 0; r < min((long)SIMD_WIDTH, a.seq_q - block.i - m * SIMD_WIDTH); r++)
            lse[at.lse + (block.b * a.heads + block.h) * a.seq_q + block.i + m * SIMD_WIDTH + r] =
                rows[r];
#endif
    }
    unpack_outputs(a, block, packed_o, factor,
                   o + at.o + block.b * a.o_stride[0] + block.h * a.o_stride[1] +
                       block.i * a.o_stride[2]);
}

/* What block n of the chunk that starts with chunk's first query holds. */
INLINE struct place block_of(const struct place chunk, const int n)
{
    struct place block = chunk;

    block.i = chunk.i + n * BLOCK_M;
    block.queries = (int)clamp(chunk.e.queries - block.i, 0L, (long)BLOCK_M);
    return block;
}

/* Whether all sums of the blocks are finite. */
NOINLINE int are_finite(lanes (*packed_o)[ROUNDED(DIM_V) * BLOCK_VECTORS])
{
    lanes zero[4] = {0.0f, 0.0f, 0.0f, 0.0f};

    for (int n = 0; n < BLOCKS_PER_TILE; n++) {
        for (int d = 0; d < ROUNDED(DIM_V) * BLOCK_VECTORS; d += 4) {
            UNROLL
            for (int c = 0; c < 4; c++)
                zero[c] = fma(packed_o[n][d + c], (lanes)(0.0f), zero[c]);
        }
    }
    return !any_lane(zero[0] + zero[1] + (zero[2] + zero[3]) != 0.0f);
}

/* Writes a chunk's results and returns 1; 0 if, not being careful, it spoilt them. */
NOINLINE int compute_chunk(SHAPE_PARAMS, const struct place chunk, const __global storage *q,
                           const __global k_storage *k, const __global v_storage *v,
                           __global storage *o BIAS_PARAM MASK_PARAM SLOPES_PARAM SINKS_PARAM
                               LSE_PARAM, const int careful)
{
    lanes packed_q[BLOCKS_PER_TILE][ROUNDED(DIM_QK) * BLOCK_VECTORS],
        packed_o[BLOCKS_PER_TILE][ROUNDED(DIM_V) * BLOCK_VECTORS];
    lanes s[ROUNDED(BLOCK_N) * BLOCK_VECTORS], top[BLOCKS_PER_TILE][BLOCK_VECTORS],
        total[BLOCKS_PER_TILE][BLOCK_VECTORS];
    const long queries = min(chunk.e.queries - chunk.i, (long)BLOCK_M * BLOCKS_PER_TILE);
    const long begin = first_key(a, chunk.e, chunk.i);
    const long end = queries > 0 ? end_key(a, chunk.e, chunk.i + queries - 1) : 0;
#if STAGED
    float k_staged[BLOCK_N * DIM_QK], v_staged[BLOCK_N * DIM_V];
    const long k_row = DIM_QK, v_row = DIM_V;
#else
    const long k_row = a.k_stride[2], v_row = a.v_stride[2];
#endif

    for (int n = 0; n < BLOCKS_PER_TILE; n++) {
        const struct place block = block_of(chunk, n);
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            top[n][m] = -INFINITY;
            total[n][m] = 0.0f;
        }
        for (int d = 0; d < ROUNDED(DIM_V) * BLOCK_VECTORS; d++)
            packed_o[n][d] = 0.0f;
        if (block.queries > 0 && begin < end)
            pack_queries(a, block, q + at.q + block.b * a.q_stride[0] + block.h * a.q_stride[1] +
                                       block.i * a.q_stride[2], packed_q[n]);
    }
    k = K_PLACE(k, at.k + chunk.b * a.k_stride[0] + chunk.h / a.group * a.k_stride[1]);
    v = V_PLACE(v, at.v + chunk.b * a.v_stride[0] + chunk.h / a.group * a.v_stride[1]);
    for (long tile = begin; tile < end; tile += BLOCK_N) {
        const long tile_end = min(tile + BLOCK_N, end);
#if STAGED
        for (int n = 0; n < (int)(tile_end - tile); n++) {
            stage_key(k_staged + n * DIM_QK, K_PLACE(k, (tile + n) * a.k_stride[2]), K_STEP);
            stage_value(v_staged + n * DIM_V, V_PLACE(v, (tile + n) * a.v_stride[2]), V_STEP);
        }
        source tile_k = k_staged, tile_v = v_staged;
#else
        source tile_k = k + tile * k_row, tile_v = v + tile * v_row;
#endif
        int spoils = -1;
        for (int n = 0; n < BLOCKS_PER_TILE; n++) {
            const struct place block = block_of(chunk, n);
            if (block.queries == 0)
                break;
            struct ahead ahead = look_ahead(a, at, chunk, n, tile_end, end, q, k, v, o);
            if (HAS_WINDOW) /* each block has keys of its own */
                spoils = -1;
            const long last = block.i + block.queries - 1;
            const long all_begin = first_key(a, block.e, last);
            const long all_end = end_key(a, block.e, block.i);
            const long block_end = min(end_key(a, block.e, last), tile_end);
            long stop;
            for (long j = max(first_key(a, block.e, block.i), tile); j < block_end; j = stop) {
                const source keys = tile_k + (j - tile) * k_row;
                const source values = tile_v + (j - tile) * v_row;
                /* A rest that all see is worth no tile of its own. */
                const bool all_see = !HIDES_ANYWHERE && j >= all_begin &&
                                     (all_end >= block_end || all_end - j >= BLOCK_N / 2);
                stop = all_see ? min(all_end, block_end) : block_end;
                add_tile(!all_see, a, at, block, j, (int)(stop - j), packed_q[n], keys, k_row,
                         values, v_row, s, careful, &ahead, &spoils, top[n], total[n],
                         packed_o[n] BIAS_ARG MASK_ARG SLOPES_ARG);
            }
        }
    }
    if (HIDES && !careful && !are_finite(packed_o))
        return 0;
    for (int n = 0; n < BLOCKS_PER_TILE; n++)
        finish_block(a, at, block_of(chunk, n), packed_o[n], top[n], total[n],
                     o SINKS_ARG LSE_ARG);
    return 1;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void fused_lanes(PARAMETERS_fused_lanes)
{
    const long chunks = (a.seq_q + BLOCK_M * BLOCKS_PER_TILE - 1) / (BLOCK_M * BLOCKS_PER_TILE);
    const long x = get_global_id(0);
    struct place chunk;

    chunk.h = get_global_id(1);
    chunk.b = get_global_id(2);
    chunk.e = extent_of(a, at, chunk.b Q_LENGTHS_ARG KV_LENGTHS_ARG);
    for (int part = 0; part <= BALANCE_CAUSAL; part++) {
        const long n = part ? chunks - 1 - x : x;
        if (part && n == x)
            break;
        chunk.i = n * BLOCK_M * BLOCKS_PER_TILE;
        int careful = 0; /* seldom needed, and looking through v in advance takes time */
        while (!compute_chunk(a, at, chunk, q, k, v,
                              o BIAS_ARG MASK_ARG SLOPES_ARG SINKS_ARG LSE_ARG, careful))
            careful = 1;
    }
}

/* fused_tiles: forward attention for GPUs; the scores never reach global memory.
 *
 * A work-group owns BLOCK_M query rows of one (batch, head) and walks over the keys that any of
 * them may see, BLOCK_N at a time:
 *   1. s = q k^T, with K (and Q, unless Q_RESIDENT) staged in local memory by BLOCK_K columns;
 *   2. online softmax: the rows' maxima over the work-group, then weights from scores;
 *   3. o += p v, with the weights and V staged in local memory by STAGE_N keys.
 *
 * Items     THREADS_N along keys and output dims, THREADS_M = BLOCK_M / THREAD_M along rows. An item keeps THREAD_M
 *           x THREAD_N scores and THREAD_M x DIMS4 float4 of output in registers: key lane + THREADS_N * c, row
 *           ROW(r), dims 4 * (lane + THREADS_N * n). Both products read 16 bytes of local memory at a
 *           time, and neighbouring lanes read neighbouring banks.
 * NDRange   local THREADS = THREADS_N * THREADS_M; one group for each block of queries of each (batch, head).
 * Dropout   Four neighbouring lanes share the random numbers of their keys: cl/gpu/tile_dropout.h.
 * Ragged    Nothing outside the tensors is read; local memory holds 0 there.
 * Hidden    Where some key of a block is hidden from some row, V's Infs and NaNs are staged as 0:
 *           a weight of 0 would not silence them. Rows that do see them get them at the end.
 * Barriers  Every item reaches every barrier; nothing relies on sub-group lockstep. A stage is
 *           filled between two barriers and read between the next two.
 * Tunables  src/families/tunables/fused_tiles.def, all defined by the host; no fallbacks here. */
#include "common/builtins.h"
#include "score/score.h"
#if !defined(BLOCK_M) || !defined(BLOCK_N) || !defined(THREADS_N) || !defined(THREAD_M) ||                \
    !defined(BLOCK_K) || !defined(STAGE_N) || !defined(Q_RESIDENT) || !defined(SHARE_KV) ||        \
    !defined(PADDING) || !defined(LOAD_WIDTH) || !defined(EXP)
#error "fused_tiles.cl must be built with all of its tunables defined"
#endif

#define THREADS_M (BLOCK_M / THREAD_M)
#define THREADS (THREADS_N * THREADS_M)
#define THREAD_N (BLOCK_N / THREADS_N)
#define QUADS (THREAD_M / 4)
#define DIMS4 ((DIM_V + 4 * THREADS_N - 1) / (4 * THREADS_N))
/* An item's rows are quads, THREADS_M quads apart: row r of an item, in the block. */
#define ROW_FROM_FIRST(r) ((r) / 4 * THREADS_M * 4 + (r) % 4)
#define ROW(r) (band * 4 + ROW_FROM_FIRST(r))
#define KEPT_ROWS BLOCK_M
#define KEPT_COLUMNS THREAD_N

/* Local memory, counted in float4. Columns of q and k are padded with zeros to whole stages. */
#define MIN(x, y) ((x) < (y) ? (x) : (y))
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#define STAGE MIN(BLOCK_K, (DIM_QK + 3) / 4 * 4)
#define STAGED_DIM ((DIM_QK + STAGE - 1) / STAGE * STAGE)
#define WEIGHT_KEYS MAX(STAGE_N, THREADS_N)
#define K_STRIDE ((STAGE + PADDING) / 4)
#define Q_STRIDE (Q_RESIDENT ? (STAGED_DIM + PADDING) / 4 : K_STRIDE)
#define V_STRIDE (THREADS_N * DIMS4)
#define ROW_STRIDE ((BLOCK_M + PADDING) / 4)
#define K_AT (BLOCK_M * Q_STRIDE)
#define K_END (K_AT + BLOCK_N * K_STRIDE)
#define WEIGHTS_AT (!SHARE_KV ? K_END : Q_RESIDENT ? K_AT : 0)
#define V_AT (WEIGHTS_AT + WEIGHT_KEYS * ROW_STRIDE)
#define V_END (V_AT + STAGE_N * V_STRIDE)
#define PARTIAL_AT MAX(K_END, V_END)
#define LOCAL_FLOAT4S (PARTIAL_AT + THREADS_N * ROW_STRIDE)

#include "gpu/local_barrier.h"
#include "gpu/tile_exp.h"
#include "gpu/tile_dropout.h"
#include "gpu/tile_load.h"
#include "gpu/quantized_tile.h"
#include "gpu/query_block.h"

/* Fills the stage of V. Sets *tainted if some key is hidden and an Inf or NaN became 0 for it. */
__attribute__((always_inline))
static inline void stage_values(__local float4 *v_tile, const __global v_storage *from,
                                const struct attention_shape a, const int rows, const bool aligned,
                                const bool hides_some, volatile __local int *tainted)
{
    if (load_cache_tile(V_CACHE, v_tile, V_STRIDE, STAGE_N, 4 * V_STRIDE, from, a.v_stride[2],
                        V_STEP, rows, 0, DIM_V, WIDTH(UNIT_V, DIM_V), aligned, hides_some))
        atomic_or(tainted, 1);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1)))
void fused_tiles(PARAMETERS_fused_tiles)
{
    __local float4 tiles[LOCAL_FLOAT4S];
    __local int v_tainted; /* not 0 once an Inf or NaN of V was staged as 0 */
    /* Each row's highest score so far, and what a new one scales earlier weights by. */
    __local float4 maximum[BLOCK_M / 4], rescale[BLOCK_M / 4];
#if HAS_DROPOUT
    __local uchar kept[KEPT_BYTES];
#endif
    __local float4 *const q_tile = tiles, *const k_tile = tiles + K_AT;
    __local float4 *const weights = tiles + WEIGHTS_AT, *const v_tile = tiles + V_AT;
    __local float4 *const partial = tiles + PARTIAL_AT;
    const int item = get_local_id(0), lane = item % THREADS_N, band = item / THREADS_N;
    const struct query_block block = find_query_block(a, at Q_LENGTHS_ARG KV_LENGTHS_ARG);
    const struct extent e = block.e;
    const long bh = block.bh, b = block.b, h = block.h, i0 = block.i0;
    const long begin = block.begin, end = block.end;
    const int queries = block.queries;
    const __global storage *const q_rows =
        q + at.q + b * a.q_stride[0] + h * a.q_stride[1] + i0 * a.q_stride[2];
    const __global k_storage *const k_rows =
        K_PLACE(k, at.k + b * a.k_stride[0] + h / a.group * a.k_stride[1]);
    const __global v_storage *const v_rows =
        V_PLACE(v, at.v + b * a.v_stride[0] + h / a.group * a.v_stride[1]);
    const bool q_aligned = rows_aligned(q_rows, a.q_stride[2], WIDTH(UNIT_Q, DIM_QK));
    const bool k_aligned =
        !K_CACHE && rows_aligned((const __global storage *)k_rows, a.k_stride[2],
                                 WIDTH(UNIT_K, DIM_QK));
    const bool v_aligned =
        !V_CACHE && rows_aligned((const __global storage *)v_rows, a.v_stride[2],
                                 WIDTH(UNIT_V, DIM_V));
    float4 out[THREAD_M][DIMS4];
    float sum[THREAD_M]; /* of weights, over this item's keys only */
#if HAS_SINKS && (HAS_MASK || HAS_BIAS)
    __local int row_sees[BLOCK_M];
    uint rows_seeing = 0; /* bit r: some key is visible to row r */
    for (int row = item; row < BLOCK_M; row += THREADS)
        row_sees[row] = 0;
#endif

#pragma unroll
    for (int r = 0; r < THREAD_M; r++) {
        sum[r] = 0.0f;
#pragma unroll
        for (int n = 0; n < DIMS4; n++)
            out[r][n] = 0.0f;
    }
    for (int row = item; row < BLOCK_M; row += THREADS)
        ((__local float *)maximum)[row] = -INFINITY;
    if (item == 0)
        v_tainted = 0;
    if (Q_RESIDENT && begin < end)
        load_tile(q_tile, Q_STRIDE, BLOCK_M, STAGED_DIM, q_rows, a.q_stride[2], Q_STEP, queries, 0,
                  DIM_QK, WIDTH(UNIT_Q, DIM_QK), q_aligned, false);
    LOCAL_BARRIER();

    for (long j0 = begin; j0 < end; j0 += BLOCK_N) {
        const int keys = min(end - j0, (long)BLOCK_N);
        const bool hides = HAS_MASK || HAS_BIAS || j0 < block.seen_by_all_from ||
                           j0 + BLOCK_N > block.seen_by_all_to;
        const __global v_storage *const v_block = V_PLACE(v_rows, j0 * a.v_stride[2]);
        float s[THREAD_M][THREAD_N], highest[THREAD_M];

#pragma unroll
        for (int r = 0; r < THREAD_M; r++)
#pragma unroll
            for (int c = 0; c < THREAD_N; c++)
                s[r][c] = 0.0f;
        if (!SHARE_KV) /* early, so that it arrives during the first product */
            stage_values(v_tile, v_block, a, keys, v_aligned, hides, &v_tainted);
        for (int first = 0; first < STAGED_DIM; first += STAGE) {
            if (!Q_RESIDENT)
                load_tile(q_tile, Q_STRIDE, BLOCK_M, STAGE, q_rows, a.q_stride[2], Q_STEP, queries,
                          first, DIM_QK, WIDTH(UNIT_Q, DIM_QK), q_aligned, false);
            load_cache_tile(K_CACHE, k_tile, K_STRIDE, BLOCK_N, STAGE,
                            K_PLACE(k_rows, j0 * a.k_stride[2]), a.k_stride[2], K_STEP, keys,
                            first, DIM_QK, WIDTH(UNIT_K, DIM_QK), k_aligned, false);
            LOCAL_BARRIER(); /* the stage is complete */
            /* Constants away from one pointer each, which spares the loop its index arithmetic. */
            const __local float4 *q_item =
                q_tile + ROW(0) * Q_STRIDE + (Q_RESIDENT ? first / 4 : 0);
            const __local float4 *k_item = k_tile + lane * K_STRIDE;
            for (int d = 0; d < STAGE; d += 4, q_item++, k_item++) {
                float4 k4[THREAD_N];
#pragma unroll
                for (int c = 0; c < THREAD_N; c++)
                    k4[c] = k_item[THREADS_N * c * K_STRIDE];
#pragma unroll
                for (int r = 0; r < THREAD_M; r++) {
                    const float4 q4 = q_item[ROW_FROM_FIRST(r) * Q_STRIDE];
#pragma unroll
                    for (int c = 0; c < THREAD_N; c++) {
                        s[r][c] = MULTIPLY_ADD(q4.x, k4[c].x, s[r][c]);
                        s[r][c] = MULTIPLY_ADD(q4.y, k4[c].y, s[r][c]);
                        s[r][c] = MULTIPLY_ADD(q4.z, k4[c].z, s[r][c]);
                        s[r][c] = MULTIPLY_ADD(q4.w, k4[c].w, s[r][c]);
                    }
                }
            }
            if (first + STAGE < STAGED_DIM)
                LOCAL_BARRIER(); /* the stage may be overwritten */
        }

        const struct score_tile tile =
            score_tile_at(a, at, e, b, h, i0, j0, queries, keys,
                          MAX(BLOCK_M, BLOCK_N) SCORE_OPERANDS_ARG);
#pragma unroll
        for (int r = 0; r < THREAD_M; r++) {
            const int row = ROW(r);
            highest[r] = -INFINITY;
#pragma unroll
            for (int c = 0; c < THREAD_N; c++) {
                const int key = lane + THREADS_N * c;
                struct score x = score_of(a, tile, row, key, s[r][c]);
                if (hides) {
                    const bool sees = hide(a, tile, in_window(tile, row, key), row, key, &x);
#if HAS_SINKS && (HAS_MASK || HAS_BIAS)
                    rows_seeing |= (uint)sees << r;
#endif
                    x.value = sees ? x.value : -INFINITY;
                }
                s[r][c] = x.value;
                highest[r] = fmax(highest[r], s[r][c]);
            }
        }
#pragma unroll
        for (int g = 0; g < QUADS; g++)
            partial[lane * ROW_STRIDE + g * THREADS_M + band] =
                (float4)(highest[4 * g], highest[4 * g + 1], highest[4 * g + 2],
                         highest[4 * g + 3]);
#if HAS_DROPOUT
        draw_kept(a, at, bh, i0, j0 KEPT_ARG);
#endif
        LOCAL_BARRIER(); /* the maxima are complete; nobody reads q and k any more */
        for (int row = item; row < BLOCK_M; row += THREADS) {
            __local float *const row_maximum = (__local float *)maximum + row;
            const float old = *row_maximum;
            float new = old;
            for (int l = 0; l < THREADS_N; l++)
                new = fmax(new, ((__local float *)partial)[l * ROW_STRIDE * 4 + row]);
            *row_maximum = new;
            ((__local float *)rescale)[row] = EXP2((old - FINITE(new)) * LOG2E);
        }
        LOCAL_BARRIER(); /* the rows' state is complete */

#pragma unroll
        for (int r = 0; r < THREAD_M; r++) {
            const float reference = FINITE(((__local float *)maximum)[ROW(r)]);
            const float row_rescale = ((__local float *)rescale)[ROW(r)];
            sum[r] *= row_rescale;
#pragma unroll
            for (int n = 0; n < DIMS4; n++)
                out[r][n] *= row_rescale;
#pragma unroll
            for (int c = 0; c < THREAD_N; c++) {
                s[r][c] = EXP2((s[r][c] - reference) * LOG2E);
                sum[r] += s[r][c];
#if HAS_DROPOUT
                s[r][c] *= kept_factor(a, ROW(r), c KEPT_ARG);
#endif
            }
        }

        for (int j = 0; j < BLOCK_N; j += STAGE_N) {
            if (j >= keys)
                break;
            if (j % WEIGHT_KEYS == 0)
#pragma unroll
                for (int c = 0; c < THREAD_N; c++)
                    if (c / (WEIGHT_KEYS / THREADS_N) == j / WEIGHT_KEYS)
#pragma unroll
                        for (int g = 0; g < QUADS; g++)
                            weights[(lane + THREADS_N * (c % (WEIGHT_KEYS / THREADS_N))) * ROW_STRIDE +
                                    g * THREADS_M + band] =
                                (float4)(s[4 * g][c], s[4 * g + 1][c], s[4 * g + 2][c],
                                         s[4 * g + 3][c]);
            if (SHARE_KV || j > 0)
                stage_values(v_tile, V_PLACE(v_block, j * a.v_stride[2]), a, keys - j, v_aligned,
                             hides, &v_tainted);
            LOCAL_BARRIER(); /* weights and V are complete */
            const __local float4 *p_item = weights + j % WEIGHT_KEYS * ROW_STRIDE + band;
            const __local float4 *v_item = v_tile + lane;
#pragma unroll 2
            for (int key = 0; key < STAGE_N; key++, p_item += ROW_STRIDE, v_item += V_STRIDE) {
                float4 v4[DIMS4];
#pragma unroll
                for (int n = 0; n < DIMS4; n++)
                    v4[n] = v_item[n * THREADS_N];
#pragma unroll
                for (int g = 0; g < QUADS; g++) {
                    const float4 p4 = p_item[g * THREADS_M];
                    const float p[4] = {p4.x, p4.y, p4.z, p4.w};
#pragma unroll
                    for (int r = 0; r < 4; r++)
#pragma unroll
                        for (int n = 0; n < DIMS4; n++)
                            out[4 * g + r][n] =
                                MULTIPLY_ADD((float4)p[r], v4[n], out[4 * g + r][n]);
                }
            }
            LOCAL_BARRIER(); /* weights and V may be overwritten */
        }
    }

    /* v_tainted is final: a barrier ended the last stage. Here only what is not finite counts. */
    for (long j = v_tainted ? begin : end; j < end; j++)
#pragma unroll
        for (int n = 0; n < DIMS4; n++) {
            const int d = 4 * (lane + THREADS_N * n);
            const long row = j * a.v_stride[2];
            const float4 v4 = (float4)(load_v(v_rows, row, min(d, DIM_V - 1) * V_STEP),
                                       load_v(v_rows, row, min(d + 1, DIM_V - 1) * V_STEP),
                                       load_v(v_rows, row, min(d + 2, DIM_V - 1) * V_STEP),
                                       load_v(v_rows, row, min(d + 3, DIM_V - 1) * V_STEP));
            int tainted = 0;
            const float4 finite = finite_or_0(v4, &tainted);
            if (tainted)
#pragma unroll
                for (int r = 0; r < THREAD_M; r++)
                    if (visible(a, at, first_key(a, e, i0 + ROW(r)), end_key(a, e, i0 + ROW(r)), b,
                                h, i0 + ROW(r), j SCORE_OPERANDS_ARG))
                        out[r][n] += (v4 - finite) * dropout_factor(a, at, bh, i0 + ROW(r), j);
        }
#pragma unroll
    for (int g = 0; g < QUADS; g++)
        partial[lane * ROW_STRIDE + g * THREADS_M + band] =
            (float4)(sum[4 * g], sum[4 * g + 1], sum[4 * g + 2], sum[4 * g + 3]);
#if HAS_SINKS && (HAS_MASK || HAS_BIAS)
#pragma unroll
    for (int r = 0; r < THREAD_M; r++)
        if (rows_seeing >> r & 1u)
            atomic_or(&row_sees[ROW(r)], 1);
#endif
    LOCAL_BARRIER(); /* the sums are complete */
#pragma unroll
    for (int r = 0; r < THREAD_M; r++) {
        const long i = i0 + ROW(r);
        bool sees_any = first_key(a, e, i) < end_key(a, e, i);
        float total = 0.0f;

#if HAS_SINKS && (HAS_MASK || HAS_BIAS)
        sees_any = sees_any && row_sees[ROW(r)];
#endif
        for (int l = 0; l < THREADS_N; l++)
            total += ((__local float *)partial)[l * ROW_STRIDE * 4 + ROW(r)];
        const struct row_end ended =
            end_row(a, at, h, sees_any, ((__local float *)maximum)[ROW(r)], total SINKS_ARG);
        if (i >= a.seq_q)
            continue;
        __global storage *const o_row = o + at.o + b * a.o_stride[0] + h * a.o_stride[1] +
                                        i * a.o_stride[2];
#pragma unroll
        for (int n = 0; n < DIMS4; n++)
            store4(ended.zero ? 0.0f : out[r][n] * ended.factor, o_row, O_STEP, 4 * (lane + THREADS_N * n), DIM_V,
                   WIDTH(UNIT_O, DIM_V));
#if HAS_LSE
        if (lane == 0)
            lse[at.lse + bh * a.seq_q + i] =
                ended.zero ? -INFINITY : ended.highest + log(ended.total);
#endif
    }
}

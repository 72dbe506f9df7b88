/* fused_mma: forward attention by matrix instructions; the scores never reach global memory.
 *
 * A work-group of SUB_GROUPS sub-groups owns BLOCK_M query rows of one (batch, head), of which each
 * sub-group has M_FRAGMENTS fragments, and walks over the keys that any of them may see, BLOCK_N
 * at a time:
 *   1. s = q k^T, fragment by fragment, with K in local memory;
 *   2. online softmax in registers: a row's maximum over the lanes that share it, weights;
 *   3. o += p v, with the weights as operands where they are, and V in local memory.
 * Where the device copies to local memory in the background (HAS_COPIES), V arrives during 1. and
 * the next K during 2. and 3.
 *
 * Fragments cl/mma/fragment.h: the layouts of an instruction, which EMULATE replaces by local memory.
 * Sums      f32. Weights are rounded to 16 bits, and so is what that rounding takes off them: two
 *           parts of f16 (scaled by 2^15: small weights are not subnormal) or three of bf16 are
 *           multiplied one after the other, which leaves the accuracy of f32.
 * NDRange   local THREADS = FRAGMENT_LANES * SUB_GROUPS; one group for each block of queries of each
 *           (batch, head).
 * Ragged    Nothing outside the tensors is read; local memory holds 0 there.
 * Hidden    A weight of 0 does not silence an Inf or NaN of V. Where some output comes to one, all
 *           is computed again with 0 in the place of V's, and rows that see them get
 *           them at the end.
 * Barriers  Every item reaches every barrier; only the instructions' own lockstep is relied on.
 * Tunables  src/families/tunables/fused_mma.def, all defined by the host; no fallbacks here. */
#include "common/builtins.h"
#include "score/score.h"
#if !defined(INSTRUCTION) || !defined(EMULATE) || !defined(SUB_GROUPS) ||                          \
    !defined(M_FRAGMENTS) || !defined(BLOCK_N) || !defined(Q_RESIDENT) || !defined(EXP)
#error "fused_mma.cl must be built with all of its tunables defined"
#endif
#if DTYPE == DTYPE_F32 || K_CACHE || V_CACHE || SCORES
#error "fused_mma.cl takes f16 and bf16 alone"
#endif

#include "mma/fragment.h"
#include "gpu/tile_exp.h"
#if HAS_DROPOUT
#define RANDOM_LANES 1
#include "common/philox.h"
#endif

#define THREADS (FRAGMENT_LANES * SUB_GROUPS)
#define LOAD_WIDTH 8
#define TILE_ROWS (M_FRAGMENTS * FRAGMENT_QUERIES)
#define BLOCK_M (SUB_GROUPS * TILE_ROWS)
#define ROUND_UP(x, multiple) (((x) + (multiple) - 1) / (multiple) * (multiple))
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#define COLUMNS ROUND_UP(DIM_QK, FRAGMENT_DEPTH)
#define DIMS ROUND_UP(DIM_V, OTHERS_AT_ONCE * FRAGMENT_OTHERS)
#define DEPTHS (COLUMNS / FRAGMENT_DEPTH)
#define KEY_TILES (BLOCK_N / FRAGMENT_OTHERS)
#define KEY_SLABS (BLOCK_N / FRAGMENT_DEPTH)
#define DIM_TILES (DIMS / FRAGMENT_OTHERS)
#define KEY_SUMS (KEY_TILES * FRAGMENT_SUMS)
#define DIM_SUMS (DIM_TILES * FRAGMENT_SUMS)

#include "gpu/tile_load.h"
#include "mma/fragment_tile.h"

/* Local memory, counted in elements. Q, where it stays in registers, passes through K's and V's. */
#define ROW_STRIDE (COLUMNS + ROW_PADDING)
#define V_STRIDE (DIMS + (PACKED_VALUES ? 0 : ROW_PADDING))
#define K_AT (Q_RESIDENT ? 0 : BLOCK_M * ROW_STRIDE)
#define V_AT (K_AT + BLOCK_N * ROW_STRIDE)
#define V_END (V_AT + BLOCK_N * V_STRIDE)
#define LOCAL_ELEMENTS MAX(V_END, BLOCK_M * ROW_STRIDE)

#if DTYPE == DTYPE_F16
#define WEIGHT_PARTS 2
#define WEIGHT_SCALE 32768.0f
#else
#define WEIGHT_PARTS 3
#define WEIGHT_SCALE 1.0f
#endif

/* The row, in the block, of the n-th query of a lane in a tile; key or dim of sum x. */
#define ROW(n) (tile_row + lane_query(lane, n))
#define KEY(x) (KEY_STEP(x) + sum_other(lane, 0))
#define KEY_STEP(x) ((x) / FRAGMENT_SUMS * FRAGMENT_OTHERS + sum_other(0, (x) % FRAGMENT_SUMS))

#include "gpu/query_block.h"

#if !HAS_COPIES
static inline void copies_wait(void) {}
#endif

/* ---- parts of the kernel --------------------------------------------------------------------- */

/* Sets *tainted if some Inf or NaN became 0. */
__attribute__((always_inline)) static inline void
fill_values(__local ushort *v_tile, const __global storage *from, const struct attention_shape a,
            const int rows, const bool aligned, const bool finite, volatile __local int *tainted)
{
#if PACKED_VALUES
    const int bad = fill_packed(v_tile, BLOCK_N, from, a.v_stride[2], V_STEP, rows, DIM_V,
                                WIDTH(UNIT_V, DIM_V), aligned, finite);
#else
    const int bad = fill_rows(v_tile, V_STRIDE, BLOCK_N, DIMS, from, a.v_stride[2], V_STEP, rows,
                              DIM_V, WIDTH(UNIT_V, DIM_V), aligned, finite);
#endif
    if (bad)
        atomic_or(tainted, 1);
}

#if HAS_DROPOUT
/* Bit n of kept[four * BLOCK_M + row] tells whether the row's weight for key 4 * four + n stays. */
static inline void draw_kept(SHAPE_PARAMS, const long bh, const long i0, const long j0,
                             __local uchar *kept)
{
    for (int t = get_local_id(0); t < BLOCK_M * (BLOCK_N / 4); t += THREADS) {
        float x[4];
        dropout_factors(a, at, bh, (uint)(i0 + t % BLOCK_M), (uint)(j0 / 4 + t / BLOCK_M), x);
        kept[t] = (x[0] > 0.0f) | (x[1] > 0.0f) << 1 | (x[2] > 0.0f) << 2 | (x[3] > 0.0f) << 3;
    }
}
#endif

/* ---- the kernel ------------------------------------------------------------------------------ */

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE
void fused_mma(PARAMETERS_fused_mma)
{
    __local uint4 tiles[LOCAL_ELEMENTS / 8];
    __local int row_is_zero[BLOCK_M];
    __local int not_finite; /* not 0 once an output is Inf or NaN */
    __local int v_tainted;  /* not 0 once an Inf or NaN of V became 0 */
#if HAS_DROPOUT
    __local uchar kept[BLOCK_M * (BLOCK_N / 4)];
#endif
#if EMULATE
    __local float exchanges[SUB_GROUPS * EXCHANGE_WORDS];
    __local float *const exchange = exchanges + get_local_id(0) / FRAGMENT_LANES * EXCHANGE_WORDS;
#endif
    __local ushort *const q_tile = (__local ushort *)tiles, *const k_tile = q_tile + K_AT;
    __local ushort *const v_tile = q_tile + V_AT;
    const int item = get_local_id(0), lane = item % FRAGMENT_LANES;
    const int first_row = item / FRAGMENT_LANES * TILE_ROWS; /* of the sub-group, in the block */
    const struct query_block block = find_query_block(a, at Q_LENGTHS_ARG KV_LENGTHS_ARG);
    const struct extent e = block.e;
    const long bh = block.bh, b = block.b, h = block.h, i0 = block.i0;
    const long begin = block.begin, end = block.end;
    const int queries = block.queries;
    const __global storage *const q_rows =
        q + at.q + b * a.q_stride[0] + h * a.q_stride[1] + i0 * a.q_stride[2];
    const __global storage *const k_rows =
        k + at.k + b * a.k_stride[0] + h / a.group * a.k_stride[1];
    const __global storage *const v_rows =
        v + at.v + b * a.v_stride[0] + h / a.group * a.v_stride[1];
    const bool q_aligned = rows_aligned(q_rows, a.q_stride[2], WIDTH(UNIT_Q, DIM_QK));
    const bool k_aligned = rows_aligned(k_rows, a.k_stride[2], WIDTH(UNIT_K, DIM_QK));
    const bool v_aligned = rows_aligned(v_rows, a.v_stride[2], WIDTH(UNIT_V, DIM_V));
    float out[M_FRAGMENTS][DIM_SUMS];
    float maximum[M_FRAGMENTS][LANE_QUERIES], sum[M_FRAGMENTS][LANE_QUERIES];
    uint q_words[M_FRAGMENTS][Q_RESIDENT ? DEPTHS : 1][QUERY_WORDS];
#if HAS_SINKS && (HAS_MASK || HAS_BIAS)
    float sees_any_key[M_FRAGMENTS][LANE_QUERIES]; /* 1 once the lane has met a visible key */
#endif
    bool again = false; /* the second time around */

    if (item == 0)
        not_finite = v_tainted = 0;
    if (begin < end)
        fill_rows(q_tile, ROW_STRIDE, BLOCK_M, COLUMNS, q_rows, a.q_stride[2], Q_STEP, queries,
                  DIM_QK, WIDTH(UNIT_Q, DIM_QK), q_aligned, false);
    copies_wait();
    LOCAL_BARRIER(); /* q is complete */
#if Q_RESIDENT
    UNROLL
    for (int t = 0; t < M_FRAGMENTS; t++)
        UNROLL
        for (int d = 0; d < DEPTHS; d++)
            load_query(q_words[t][d],
                       q_tile + (first_row + t * FRAGMENT_QUERIES) * ROW_STRIDE +
                           d * FRAGMENT_DEPTH, ROW_STRIDE, lane);
    LOCAL_BARRIER(); /* its place may be overwritten */
#endif

    do {
        UNROLL
        for (int t = 0; t < M_FRAGMENTS; t++) {
            UNROLL
            for (int n = 0; n < LANE_QUERIES; n++) {
                maximum[t][n] = -INFINITY;
                sum[t][n] = 0.0f;
#if HAS_SINKS && (HAS_MASK || HAS_BIAS)
                sees_any_key[t][n] = 0.0f;
#endif
            }
            UNROLL
            for (int x = 0; x < DIM_SUMS; x++)
                out[t][x] = 0.0f;
        }
#if HAS_COPIES
        if (begin < end)
            fill_rows(k_tile, ROW_STRIDE, BLOCK_N, COLUMNS, k_rows + begin * a.k_stride[2],
                      a.k_stride[2], K_STEP, min(end - begin, (long)BLOCK_N), DIM_QK,
                      WIDTH(UNIT_K, DIM_QK), k_aligned, false);
#endif

        for (long j0 = begin; j0 < end; j0 += BLOCK_N) {
            const int keys = min(end - j0, (long)BLOCK_N);
            const long next = j0 + BLOCK_N;
            const bool hides = HAS_MASK || HAS_BIAS || j0 < block.seen_by_all_from ||
                               next > block.seen_by_all_to;
            float s[M_FRAGMENTS][KEY_SUMS];

            UNROLL
            for (int t = 0; t < M_FRAGMENTS; t++)
                UNROLL
                for (int x = 0; x < KEY_SUMS; x++)
                    s[t][x] = 0.0f;
#if HAS_COPIES
            copies_wait();
            LOCAL_BARRIER(); /* K is complete, V may be overwritten */
            fill_values(v_tile, v_rows + j0 * a.v_stride[2], a, keys, v_aligned, again, &v_tainted);
#else
            LOCAL_BARRIER(); /* K and V may be overwritten */
            fill_rows(k_tile, ROW_STRIDE, BLOCK_N, COLUMNS, k_rows + j0 * a.k_stride[2],
                      a.k_stride[2], K_STEP, keys, DIM_QK, WIDTH(UNIT_K, DIM_QK), k_aligned, false);
            fill_values(v_tile, v_rows + j0 * a.v_stride[2], a, keys, v_aligned, again, &v_tainted);
            LOCAL_BARRIER(); /* K and V are complete */
#endif
            UNROLL
            for (int d = 0; d < DEPTHS; d++) {
#if !Q_RESIDENT
                UNROLL
                for (int t = 0; t < M_FRAGMENTS; t++)
                    load_query(q_words[t][0],
                               q_tile + (first_row + t * FRAGMENT_QUERIES) * ROW_STRIDE +
                                   d * FRAGMENT_DEPTH, ROW_STRIDE, lane);
#endif
                UNROLL
                for (int n = 0; n < KEY_TILES; n += OTHERS_AT_ONCE) {
                    uint k_words[OTHERS_AT_ONCE * OTHER_WORDS];
                    load_keys(k_words, k_tile + n * FRAGMENT_OTHERS * ROW_STRIDE +
                                           d * FRAGMENT_DEPTH, ROW_STRIDE, lane);
                    UNROLL
                    for (int m = 0; m < OTHERS_AT_ONCE; m++)
                        UNROLL
                        for (int t = 0; t < M_FRAGMENTS; t++)
                            multiply_add(s[t] + (n + m) * FRAGMENT_SUMS,
                                         q_words[t][Q_RESIDENT ? d : 0],
                                         k_words + m * OTHER_WORDS FRAGMENT_ARG);
                }
                IN_ORDER();
            }
#if HAS_DROPOUT
            draw_kept(a, at, bh, i0, j0, kept);
#endif
#if HAS_COPIES || HAS_DROPOUT
            copies_wait();
            LOCAL_BARRIER(); /* V and what is kept are complete, K may be overwritten */
#endif
#if HAS_COPIES
            if (next < end)
                fill_rows(k_tile, ROW_STRIDE, BLOCK_N, COLUMNS, k_rows + next * a.k_stride[2],
                          a.k_stride[2], K_STEP, min(end - next, (long)BLOCK_N), DIM_QK,
                          WIDTH(UNIT_K, DIM_QK), k_aligned, false);
#endif

            const struct score_tile tile =
                score_tile_at(a, at, e, b, h, i0, j0, queries, keys,
                              MAX(BLOCK_M, BLOCK_N) SCORE_OPERANDS_ARG);
            UNROLL
            for (int t = 0; t < M_FRAGMENTS; t++) {
                const int tile_row = first_row + t * FRAGMENT_QUERIES;
                float highest[LANE_QUERIES], rescale[LANE_QUERIES];
                /* The lane's keys that a row sees, as constant steps from its first one: compared
                 * with each key itself, these would take a register each. */
                int see_from[LANE_QUERIES], see_to[LANE_QUERIES];
                UNROLL
                for (int n = 0; n < LANE_QUERIES; n++) {
                    highest[n] = maximum[t][n];
                    see_from[n] = -BLOCK_N;
                    see_to[n] = ROW(n) < queries ? keys - sum_other(lane, 0) : -BLOCK_N;
#if HAS_WINDOW_LEFT
                    see_from[n] = ROW(n) + tile.window_begin - sum_other(lane, 0);
#endif
#if HAS_WINDOW_RIGHT
                    see_to[n] = min(see_to[n], ROW(n) + tile.window_end - sum_other(lane, 0));
#endif
                }
                UNROLL
                for (int x = 0; x < KEY_SUMS; x++) {
                    const int here = SUM_QUERY(x % FRAGMENT_SUMS);
                    struct score y = score_of(a, tile, ROW(here), KEY(x), s[t][x]);
                    if (hides) {
                        const bool sees = hide(
                            a, tile, KEY_STEP(x) >= see_from[here] && KEY_STEP(x) < see_to[here],
                            ROW(here), KEY(x), &y);
#if HAS_SINKS && (HAS_MASK || HAS_BIAS)
                        sees_any_key[t][here] = sees ? 1.0f : sees_any_key[t][here];
#endif
                        y.value = sees ? y.value : -INFINITY;
                    }
                    s[t][x] = y.value;
                    highest[here] = fmax(highest[here], s[t][x]);
                }
                query_maximum(highest FRAGMENT_ARG);
                UNROLL
                for (int n = 0; n < LANE_QUERIES; n++) {
                    rescale[n] = EXP2((maximum[t][n] - FINITE(highest[n])) * LOG2E);
                    maximum[t][n] = highest[n];
                    sum[t][n] *= rescale[n];
                }
                UNROLL
                for (int x = 0; x < DIM_SUMS; x++)
                    out[t][x] *= rescale[SUM_QUERY(x % FRAGMENT_SUMS)];
                UNROLL
                for (int x = 0; x < KEY_SUMS; x++) {
                    const int here = SUM_QUERY(x % FRAGMENT_SUMS);
                    const float weight = EXP2((s[t][x] - FINITE(highest[here])) * LOG2E);
                    sum[t][here] += weight;
                    s[t][x] = weight * WEIGHT_SCALE;
#if HAS_DROPOUT
                    if (!(kept[KEY(x) / 4 * BLOCK_M + ROW(here)] >> KEY(x) % 4 & 1))
                        s[t][x] = 0.0f;
#endif
                }
            }

            UNROLL
            for (int slab = 0; slab < KEY_SLABS; slab++) {
                uint weights[M_FRAGMENTS][WEIGHT_PARTS][QUERY_WORDS];
                UNROLL
                for (int t = 0; t < M_FRAGMENTS; t++)
                    UNROLL
                    for (int part = 0; part < WEIGHT_PARTS; part++)
                        take_weights(weights[t][part], s[t], slab FRAGMENT_ARG);
                UNROLL
                for (int n = 0; n < DIM_TILES; n += OTHERS_AT_ONCE) {
                    uint v_words[OTHERS_AT_ONCE * OTHER_WORDS];
#if PACKED_VALUES
                    load_run(v_words,
                             v_tile + packed_at(slab, n * FRAGMENT_OTHERS + other_column(lane),
                                                other_depth(lane, 0)), OTHER_WORDS);
#else
                    load_values(v_words, v_tile + slab * FRAGMENT_DEPTH * V_STRIDE +
                                             n * FRAGMENT_OTHERS, V_STRIDE, lane);
#endif
                    UNROLL
                    for (int m = 0; m < OTHERS_AT_ONCE; m++)
                        UNROLL
                        for (int part = 0; part < WEIGHT_PARTS; part++)
                            UNROLL
                            for (int t = 0; t < M_FRAGMENTS; t++)
                                multiply_add(out[t] + (n + m) * FRAGMENT_SUMS, weights[t][part],
                                             v_words + m * OTHER_WORDS FRAGMENT_ARG);
                }
                IN_ORDER();
            }
        }

        float check = 0.0f; /* stays 0 while all outputs are finite */
        UNROLL
        for (int t = 0; t < M_FRAGMENTS; t++)
            UNROLL
            for (int x = 0; x < DIM_SUMS; x++)
                check = fma(out[t][x], 0.0f, check);
        if (check != 0.0f)
            atomic_or(&not_finite, 1);
        LOCAL_BARRIER(); /* not_finite is final; nobody reads K and V any more */
        again = !again && not_finite;
    } while (again);

    UNROLL
    for (int t = 0; t < M_FRAGMENTS; t++) {
        const int tile_row = first_row + t * FRAGMENT_QUERIES;
        float factor[LANE_QUERIES];

        query_sum(sum[t] FRAGMENT_ARG);
#if HAS_SINKS && (HAS_MASK || HAS_BIAS)
        query_maximum(sees_any_key[t] FRAGMENT_ARG);
#endif
        UNROLL
        for (int n = 0; n < LANE_QUERIES; n++) {
            const int row = ROW(n);
            const long i = i0 + row;
            bool sees_any = first_key(a, e, i) < end_key(a, e, i);

#if HAS_SINKS && (HAS_MASK || HAS_BIAS)
            sees_any = sees_any && sees_any_key[t][n] > 0.0f;
#endif
            const struct row_end ended =
                end_row(a, at, h, sees_any, maximum[t][n], sum[t][n] SINKS_ARG);
            factor[n] = ended.zero ? 0.0f : ended.factor * (1.0f / WEIGHT_SCALE);
#if HAS_DROPOUT
            factor[n] *= a.keep;
#endif
            if ((lane & (SHARING_BITS_END - FIRST_SHARING_BIT)) == 0) {
                row_is_zero[row] = ended.zero;
#if HAS_LSE
                if (i < a.seq_q)
                    lse[at.lse + bh * a.seq_q + i] =
                        ended.zero ? -INFINITY : ended.highest + log(ended.total);
#endif
            }
        }
        UNROLL
        for (int x = 0; x < DIM_SUMS; x++) {
            const int here = SUM_QUERY(x % FRAGMENT_SUMS);
            const long i = i0 + ROW(here);
            const int d = KEY(x);
            if (i < a.seq_q && d < DIM_V)
                STORE(factor[here] == 0.0f ? 0.0f : out[t][x] * factor[here],
                      o + at.o + b * a.o_stride[0] + h * a.o_stride[1] + i * a.o_stride[2],
                      d * O_STEP);
        }
    }

    /* Here only what is not finite counts. */
    barrier(CLK_GLOBAL_MEM_FENCE);
    LOCAL_BARRIER(); /* the outputs are complete */
    for (int x = v_tainted ? item : queries * DIM_V; x < queries * DIM_V; x += THREADS) {
        const long i = i0 + x / DIM_V;
        const int d = x % DIM_V;
        const long at_o = at.o + b * a.o_stride[0] + h * a.o_stride[1] + i * a.o_stride[2] +
                          d * O_STEP;
        float extra = 0.0f;
        for (long j = begin; j < end; j++) {
            const float here = LOAD(v_rows, j * a.v_stride[2] + d * V_STEP);
            if (here * 0.0f != 0.0f && visible(a, at, first_key(a, e, i), end_key(a, e, i), b, h, i,
                                               j SCORE_OPERANDS_ARG))
                extra += here * dropout_factor(a, at, bh, i, j);
        }
        if (extra != 0.0f && !row_is_zero[x / DIM_V])
            STORE(LOAD(o, at_o) + extra, o, at_o);
    }
}

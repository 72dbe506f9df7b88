/* split_tiles: o = softmax(scale q k^T, masked) v, and lse, for few queries and many keys, on GPUs.
 *
 *   split    partial results of a range of keys, for all rows of a kv head: sums, maximum, total
 *   combine  o and lse from the partial results of each row, in the order of the ranges
 *
 * Rows       are the queries of all query heads that share a kv head, so that K and V are read once
 *            for BLOCK_M of them. Neither passes through local memory: an item keeps what it reads.
 * Items      THREADS_N = THREADS / THREADS_D teams, each with THREAD_N keys of a block of BLOCK_N. An item of a
 *            team has LOAD_WIDTH neighbouring columns of each chunk of THREADS_D * LOAD_WIDTH columns,
 *            of K and of V: neighbouring items read neighbouring memory.
 * Steps      1. each item: the products of its columns of all rows and its team's keys;
 *            2. for each row and team one item: the scores of the team's keys, their sums over
 *               lanes, and weights, with a maximum and a total that are the team's own, so that no
 *               team waits for another's;
 *            3. each item: its columns of its team's values, weighted and added up.
 *            In the end teams are merged as ranges are, by their maxima.
 * NDRange    local THREADS; split: a group for each (batch, kv head, range, BLOCK_M rows); combine: one
 *            for each row and 32 columns.
 * Workspace  [rows][SPLIT_K][DIM_V] o, then [rows][SPLIT_K][2] maxima and totals; rows are (batch,
 *            heads, seq_q). A range that saw nothing has a maximum of -inf and zeros.
 * Hidden     A hidden pair's weight is -0, a visible one's never, but where its score is -inf. In
 *            blocks that may hide something what has a weight of -0 is left out, whatever v holds.
 * Dropout    comes after the sum of the weights.
 * Ragged     Nothing outside the tensors is read: keys beyond the last one of a block repeat it and
 *            are hidden, columns of K beyond the last are 0.
 * Barriers   Every item reaches every barrier; nothing relies on sub-group lockstep.
 * Tunables   src/families/tunables/split_tiles.def, all defined by the host; no fallbacks here. */
#include "common/builtins.h"
#include "score/score.h"

#if !defined(BLOCK_M) || !defined(THREADS) || !defined(THREADS_D) || !defined(THREAD_N) ||                      \
    !defined(LOAD_WIDTH) || !defined(EARLY_V) || !defined(SPLIT_K) || !defined(EXP)
#error "split_tiles.cl must be built with all of its tunables defined"
#endif

#define THREADS_N (THREADS / THREADS_D)
#define BLOCK_N (THREADS_N * THREAD_N)
#include "gpu/local_barrier.h"
#include "gpu/tile_exp.h"
#include "gpu/tile_load.h"
#include "gpu/quantized_tile.h"
#include "gpu/team_keys.h"
#include "score/team_weights.h"

#define MAX(x, y) ((x) > (y) ? (x) : (y))
#define Q_FLOAT4S (BLOCK_M * CHUNKS(DIM_QK) * PIECES * THREADS_D)
#define SUM_FLOAT4S (THREADS * CHUNKS(DIM_V) * PIECES) /* of all teams, of one row */
#define SHARED_FLOAT4S MAX(THREADS_D * LANE_STRIDE, SUM_FLOAT4S)
#define WEIGHT_FLOAT4S (BLOCK_M * QUADS * THREADS_N)

/* ---- places --------------------------------------------------------------------------------- */

/* What a work-group computes. */
struct place {
    long b, kv_head, part;
    long row;    /* its first, of those that share the kv head */
    int rows;    /* in use, 1 .. BLOCK_M */
    struct extent e;
    long begin, end;         /* keys of its range */
    long all_begin, all_end; /* those that all its rows may see */
};

/* The head and the query of row r, the last one's for those after it. */
INLINE void row_of(const struct attention_shape a, const struct place *place, const int r, long *h,
                   long *i)
{
    const uint row = (uint)place->row + min(r, place->rows - 1); /* the host limits them */

    *h = place->kv_head * a.group + row / (uint)a.seq_q;
    *i = row % (uint)a.seq_q;
}

/* Whole blocks of the keys that some row of the group may see: as many for each range, or one
 * less. */
INLINE void find_range(const struct attention_shape a, struct place *place)
{
    const long first = place->row % a.seq_q;
    const bool wraps = first + place->rows > a.seq_q;
    const long low = wraps ? 0 : first, high = wraps ? a.seq_q - 1 : first + place->rows - 1;
    /* Dropout's random numbers are for four keys, of which a team has all. */
    const long begin = first_key(a, place->e, low) & ~3L;
    const long end = end_key(a, place->e, min(high, max(place->e.queries - 1, low)));
    const long blocks = (max(end - begin, 0L) + BLOCK_N - 1) / BLOCK_N;

    place->begin = begin + blocks * place->part / SPLIT_K * BLOCK_N;
    place->end = min(end, begin + blocks * (place->part + 1) / SPLIT_K * BLOCK_N);
    place->all_begin = first_key(a, place->e, high);
    place->all_end = min(end_key(a, place->e, low), end_key(a, place->e, high));
}

/* The rows' queries: four columns of a lane, of a piece, of a chunk, of a row; 0 where there are
 * none. */
INLINE void load_queries(SHAPE_PARAMS, const struct place *place, const __global storage *q,
                         __local float4 *q_tile)
{
    for (int t = get_local_id(0); t < Q_FLOAT4S; t += THREADS) {
        const int lane = t % THREADS_D, piece = t / THREADS_D % PIECES;
        const int chunk = t / (THREADS_D * PIECES) % CHUNKS(DIM_QK), r = t / (Q_FLOAT4S / BLOCK_M);
        const int column = column_of(lane, chunk) + 4 * piece;
        float x[4];
        long h, i;
        row_of(a, place, r, &h, &i);
        const __global storage *row =
            q + at.q + place->b * a.q_stride[0] + h * a.q_stride[1] + i * a.q_stride[2];
#pragma unroll
        for (int n = 0; n < 4; n++)
            x[n] = LOAD(row, min(column + n, DIM_QK - 1) * Q_STEP);
        q_tile[t] = r < place->rows ? within_row(vload4(0, x), column, DIM_QK) : 0.0f;
    }
}

/* ---- products ------------------------------------------------------------------------------- */

/* Step 1: products of the item's columns, of all rows and its team's keys. */
INLINE void multiply_keys(const struct cached k, const int count, const __local float4 *q_tile,
                          float products[BLOCK_M][THREAD_N])
{
#pragma unroll
    for (int r = 0; r < BLOCK_M; r++)
#pragma unroll
        for (int n = 0; n < THREAD_N; n++)
            products[r][n] = 0.0f;
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS(DIM_QK); chunk++) {
        float4 x[THREAD_N][PIECES];
        load_keys(k, chunk, count, x);
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
#pragma unroll
            for (int n = 0; n < THREAD_N; n++)
                x[n][piece] = within_row(x[n][piece], column_of(k.lane, chunk) + 4 * piece, DIM_QK);
#pragma unroll
            for (int r = 0; r < BLOCK_M; r++) {
                const float4 y =
                    q_tile[((r * CHUNKS(DIM_QK) + chunk) * PIECES + piece) * THREADS_D + k.lane];
#pragma unroll
                for (int n = 0; n < THREAD_N; n++) {
                    products[r][n] = MULTIPLY_ADD(y.x, x[n][piece].x, products[r][n]);
                    products[r][n] = MULTIPLY_ADD(y.y, x[n][piece].y, products[r][n]);
                    products[r][n] = MULTIPLY_ADD(y.z, x[n][piece].z, products[r][n]);
                    products[r][n] = MULTIPLY_ADD(y.w, x[n][piece].w, products[r][n]);
                }
            }
        }
    }
}

/* Step 3, for one chunk: sums[r] += weights times values; not those of -0 if `hides` (constant). */
INLINE void add_values(const bool hides, const int team, const int chunk,
                       const __local float4 *weights, float4 v[THREAD_N][PIECES],
                       float4 sums[BLOCK_M][CHUNKS(DIM_V) * PIECES])
{
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++)
#pragma unroll
        for (int quad = 0; quad < QUADS; quad++)
#pragma unroll
            for (int r = 0; r < BLOCK_M; r++) {
                const float4 p4 = weights[QUAD_AT(r, quad, team)];
                const float p[4] = {p4.x, p4.y, p4.z, p4.w};
                float4 *const sum = &sums[r][chunk * PIECES + piece];
#pragma unroll
                for (int n = 0; n < 4; n++)
                    if (!hides || as_int(p[n]) != as_int(-0.0f))
                        *sum = MULTIPLY_ADD((float4)p[n], v[4 * quad + n][piece], *sum);
            }
}

/* ---- merging -------------------------------------------------------------------------------- */

INLINE float highest_of(const __local float *tops, const int count)
{
    float highest = -INFINITY;

    for (int n = 0; n < count; n++)
        highest = fmax(highest, tops[n]);
    return highest;
}

/* ---- the kernels ---------------------------------------------------------------------------- */

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1)))
void split(PARAMETERS_split)
{
    __local float4 q_tile[Q_FLOAT4S], shared[SHARED_FLOAT4S], weights[WEIGHT_FLOAT4S];
    __local float tops[BLOCK_M * THREADS_N], totals[BLOCK_M * THREADS_N], factors[BLOCK_M * THREADS_N];
    const int item = get_local_id(0), lane = item % THREADS_D, team = item / THREADS_D;
    /* In step 2 the first items have a row and a team each. */
    const bool weighs = item < BLOCK_M * THREADS_N;
    const int own_row = min(item / THREADS_N, BLOCK_M - 1), own_team = item % THREADS_N;
    const long blocks = (a.group * a.seq_q + BLOCK_M - 1) / BLOCK_M, group = get_group_id(0) / blocks;
    struct place place;
    struct seeing own;
    float4 sums[BLOCK_M][CHUNKS(DIM_V) * PIECES];
    float top = -INFINITY, total = 0.0f;

    place.b = group / SPLIT_K / a.kv_heads;
    place.kv_head = group / SPLIT_K % a.kv_heads;
    place.part = group % SPLIT_K;
    place.row = get_group_id(0) % blocks * BLOCK_M;
    place.rows = (int)min(a.group * a.seq_q - place.row, (long)BLOCK_M);
    place.e = extent_of(a, at, place.b Q_LENGTHS_ARG KV_LENGTHS_ARG);
    find_range(a, &place);
    row_of(a, &place, own_row, &own.h, &own.i);
    own.b = place.b;
    own.e = place.e;
    own.first = first_key(a, place.e, own.i);
    own.end = own_row < place.rows ? min(end_key(a, place.e, own.i), place.end) : 0;

    const __global k_storage *const k_rows =
        K_PLACE(k, at.k + place.b * a.k_stride[0] + place.kv_head * a.k_stride[1]);
    const __global v_storage *const v_rows =
        V_PLACE(v, at.v + place.b * a.v_stride[0] + place.kv_head * a.v_stride[1]);
    const long first = place.begin + KEY_OF(team, 0);
    struct cached keys = {
        K_PLACE(k_rows, first * a.k_stride[2]), a.k_stride[2], K_STEP, team, lane,
        K_CACHE || rows_aligned((const __global storage *)k_rows, a.k_stride[2],
                                WIDTH(UNIT_K, DIM_QK)),
        K_CACHE, DIM_QK, WIDTH(UNIT_K, DIM_QK)};
    struct cached values = {
        V_PLACE(v_rows, first * a.v_stride[2]), a.v_stride[2], V_STEP, team, lane,
        V_CACHE || rows_aligned((const __global storage *)v_rows, a.v_stride[2],
                                WIDTH(UNIT_V, DIM_V)),
        V_CACHE, DIM_V, WIDTH(UNIT_V, DIM_V)};

#pragma unroll
    for (int r = 0; r < BLOCK_M; r++)
#pragma unroll
        for (int n = 0; n < CHUNKS(DIM_V) * PIECES; n++)
            sums[r][n] = 0.0f;
    if (place.begin < place.end)
        load_queries(a, at, &place, q, q_tile);
    LOCAL_BARRIER(); /* the queries are complete */

    for (long j0 = place.begin; j0 < place.end; j0 += BLOCK_N) {
        const int count = (int)min(place.end - j0, (long)BLOCK_N);
        const bool hides = HAS_MASK || HAS_BIAS || count < BLOCK_N || j0 < place.all_begin ||
                           j0 + BLOCK_N > place.all_end;
        float4 v4[EARLY_V ? CHUNKS(DIM_V) : 1][THREAD_N][PIECES];
        float products[BLOCK_M][THREAD_N];

#pragma unroll
        for (int chunk = 0; EARLY_V && chunk < CHUNKS(DIM_V); chunk++)
            load_keys(values, chunk, count, v4[chunk]);
        multiply_keys(keys, count, q_tile, products);
#pragma unroll
        for (int r = 0; r < BLOCK_M; r++)
#pragma unroll
            for (int quad = 0; quad < QUADS; quad++)
                shared[lane * LANE_STRIDE + QUAD_AT(r, quad, team)] =
                    (float4)(products[r][4 * quad], products[r][4 * quad + 1],
                             products[r][4 * quad + 2], products[r][4 * quad + 3]);
        LOCAL_BARRIER(); /* products are complete; nobody reads the last block's weights any more */
        if (weighs)
            factors[item] = weigh_keys(a, at, own, own_row, own_team, j0, shared, weights, &top,
                                       &total SCORE_OPERANDS_ARG);
        LOCAL_BARRIER(); /* weights are complete; nobody reads products any more */
#pragma unroll
        for (int r = 0; r < BLOCK_M; r++) {
            const float factor = factors[r * THREADS_N + team];
#pragma unroll
            for (int n = 0; n < CHUNKS(DIM_V) * PIECES; n++)
                sums[r][n] *= factor;
        }
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS(DIM_V); chunk++) {
            if (!EARLY_V)
                load_keys(values, chunk, count, v4[0]);
            if (hides)
                add_values(true, team, chunk, weights, v4[EARLY_V ? chunk : 0], sums);
            else
                add_values(false, team, chunk, weights, v4[EARLY_V ? chunk : 0], sums);
        }
        step_on(&keys);
        step_on(&values);
    }

    if (weighs) {
        tops[item] = top;
        totals[item] = total;
    }
    LOCAL_BARRIER(); /* maxima and totals are complete; nobody reads factors any more */
    const float highest = highest_of(tops + own_row * THREADS_N, THREADS_N);
    if (weighs)
        factors[item] = EXP2((top - FINITE(highest)) * LOG2E);
    LOCAL_BARRIER(); /* the teams' factors are complete */
    __global float *const results = workspace + at.workspace;
    __global float *const statistics =
        results + a.batch * a.heads * a.seq_q * SPLIT_K * DIM_V;
    if (weighs && own_team == 0 && own_row < place.rows) {
        total = 0.0f;
        for (int n = item; n < item + THREADS_N; n++)
            total = MULTIPLY_ADD(totals[n], factors[n], total);
        vstore2((float2)(highest, total),
                ((own.b * a.heads + own.h) * a.seq_q + own.i) * SPLIT_K + place.part, statistics);
    }
#pragma unroll
    for (int r = 0; r < BLOCK_M; r++) {
        const float factor = factors[r * THREADS_N + team];
        long h, i;
#pragma unroll
        for (int n = 0; n < CHUNKS(DIM_V) * PIECES; n++)
            shared[((team * CHUNKS(DIM_V) + n / PIECES) * THREADS_D + lane) * PIECES + n % PIECES] =
                sums[r][n] * factor;
        LOCAL_BARRIER(); /* the row's sums are complete */
        row_of(a, &place, r, &h, &i);
        __global float *const to =
            results + (((place.b * a.heads + h) * a.seq_q + i) * SPLIT_K + place.part) * DIM_V;
        for (int d = item; d < DIM_V && r < place.rows; d += THREADS) {
            float x = 0.0f;
            for (int n = 0; n < THREADS_N; n++)
                x += ((const __local float *)shared)[n * CHUNKS(DIM_V) * CHUNK + d];
            to[d] = x;
        }
        LOCAL_BARRIER(); /* the row's sums may be overwritten */
    }
}

#define COLUMNS 32 /* of a group of combine */
#define PARTS (THREADS / COLUMNS)

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1)))
void combine(PARAMETERS_combine)
{
    __local float tops[SPLIT_K], totals[SPLIT_K], factors[SPLIT_K], sums[THREADS];
    const int item = get_local_id(0), tiles = (DIM_V + COLUMNS - 1) / COLUMNS;
    const long row = get_group_id(0) / tiles, i = row % a.seq_q, bh = row / a.seq_q;
    const long b = bh / a.heads, h = bh % a.heads;
    const int d = (int)(get_group_id(0) % tiles) * COLUMNS + item % COLUMNS;
    const __global float *const results = workspace + at.workspace;
    const __global float *const statistics =
        results + (a.batch * a.heads * a.seq_q * DIM_V + 2 * row) * SPLIT_K;
    const __global float *const column = results + row * SPLIT_K * DIM_V + min(d, DIM_V - 1);
    float x = 0.0f;

    for (int n = item; n < SPLIT_K; n += THREADS) {
        tops[n] = statistics[2 * n];
        totals[n] = statistics[2 * n + 1];
    }
    LOCAL_BARRIER(); /* maxima and totals are complete */
    float highest = highest_of(tops, SPLIT_K);
#if HAS_SINKS
    highest = fmax(highest, sinks[at.sinks + h]);
#endif
    for (int n = item; n < SPLIT_K; n += THREADS)
        factors[n] = EXP2((tops[n] - FINITE(highest)) * LOG2E);
    LOCAL_BARRIER(); /* the ranges' factors are complete */
    for (int n = item / COLUMNS; n < SPLIT_K; n += PARTS)
        x = MULTIPLY_ADD(column[n * (long)DIM_V], factors[n], x);
    sums[item] = x;
    LOCAL_BARRIER(); /* the sums of PARTS items for each column are complete */
    float total = 0.0f, seen = 0.0f;
    for (int n = 0; n < SPLIT_K; n++) {
        total = MULTIPLY_ADD(totals[n], factors[n], total);
        seen += totals[n];
    }
    /* 0 is a row of hidden keys or of -inf scores alone, not one of scores far below a sink; NaN
     * goes on to o. */
    const bool zero = seen == 0.0f;
#if HAS_SINKS
    total += EXP2((sinks[at.sinks + h] - FINITE(highest)) * LOG2E);
#endif
#if HAS_LSE
    if (item == 0 && get_group_id(0) % tiles == 0)
        lse[at.lse + row] = zero ? -INFINITY : highest + log(total);
#endif
    if (item >= COLUMNS || d >= DIM_V)
        return;
    for (int n = 1; n < PARTS; n++)
        x += sums[n * COLUMNS + item];
    STORE(zero ? 0.0f : x / total,
          o + at.o + b * a.o_stride[0] + h * a.o_stride[1] + i * a.o_stride[2], d * O_STEP);
}

/* split_lanes: o = softmax(scale q k^T, masked) v, and lse, for few queries and many keys.
 *
 *   split    partial results of a range of keys, for all rows of a kv head: sums, maximum, total
 *   combine  o and lse from the partial results of each row, in the order of the ranges
 *
 * Rows       are the queries of all query heads that share a kv head, so that K and V are read once
 *            for ROWS of them.
 * NDRange    local (1, 1, 1); split: global (batch, kv_heads, SPLITS * blocks of ROWS rows), so
 *            that neighbours are of batches of any length; combine: global (seq_q, heads, batch).
 * Lanes      are columns of q, k, v and o; of scores and weights they are keys. Sums of scores are
 *            added across lanes WIDTH sums at a time.
 * Tiles      of at most BN keys: scores to private memory, maximum, exponential, values. All rows
 *            have their turn at a few keys, or columns of the tile's values, while those are near;
 *            halves are converted in the first turn. Each turn of scores asks memory for a share of
 *            the tile's values, each turn of values for one of the next keys, so that memory and
 *            arithmetic work at the same time.
 * Quantized  A tile's scales are converted before, as vectors: those of K multiply what is read,
 *            those of V the weights, of which there are fewer.
 * Workspace  (SPLITS, batch, heads, seq_q) results of PART floats: o, maximum, total.
 * Dropout    comes after the sum of the weights.
 * Ragged     Nothing outside the tensors is read: the last vector of columns overlaps the one
 *            before, scores beyond the last key repeat its and are ignored, as are rows beyond the
 *            last.
 * Tunables   src/tunables/split_lanes.def, all defined by the host; no fallbacks here. */
#include "common.cl"

#if !defined(WIDTH) || !defined(ROWS) || !defined(SCORE_ROWS) || !defined(VALUE_ROWS) ||           \
    !defined(VALUE_VECTORS) || !defined(BN) || !defined(AHEAD) || !defined(SPLITS)
#error "split_lanes.cl must be built with all of its tunables defined"
#endif

#include "quantized_lanes.h"
#include "lane_scores.h"
#include "prefetch.h"
#if HAS_DROPOUT
#define RANDOM_LANES WIDTH
#include "philox.h"
#endif

#define VECTORS(dim) (((dim) + WIDTH - 1) / WIDTH)
#define SCORE_KEYS (WIDTH / SCORE_ROWS)
#define VALUE_TURNS                                                                                \
    (ROWS / VALUE_ROWS * ((VECTORS(DIM_V) + VALUE_VECTORS - 1) / VALUE_VECTORS))
#define PART (ROUNDED(DIM_V) + 2)
/* Blocks of a row, and scales of a tile, if quantized. */
#define BLOCKS(dim) ((dim) / BLOCK_VALUES)
#define MOST_SCALES (BN * BLOCKS(DIM_QK > DIM_V ? DIM_QK : DIM_V))
/* Where the weights of a row are, as they multiply vector c of the values: one for each block, if v
 * is quantized, times its scale. */
#define WEIGHT_BLOCKS (V_CACHE ? BLOCKS(DIM_V) : 1)
#define WEIGHTS_OF(r, c) (((r) * WEIGHT_BLOCKS + (V_CACHE ? (c) * WIDTH / BLOCK_VALUES : 0)) * BN)
/* Bytes of columns of a row; they start and end with a block. */
#define BYTES(cache, columns)                                                                      \
    ((cache) ? ((columns) + 31) / 32 * BLOCK_BYTES(cache) : (columns) * (int)sizeof(storage))
/* Whether what is read is kept as f32 for the next rows. */
#define KEEP_K (STAGED && ROWS > SCORE_ROWS)
#define KEEP_V (STAGED && ROWS > VALUE_ROWS)

/* What a work-item computes; r counts its rows. */
struct place {
    long b, kv_head;
    struct extent e;
    int rows; /* in use, 1..ROWS */
    long head[ROWS], query[ROWS];
    long first[ROWS], end[ROWS]; /* keys that a row may see */
};

/* Keys that a work-item reads, or what is left of them, as they lie in memory; the scales of a tile
 * of them, if quantized. */
struct keys {
    const __global k_storage *k;
    const __global v_storage *v;
    long left;
    float *k_scales, *v_scales;
};

/* ---- columns -------------------------------------------------------------------------------- */

/* Where vector n of a row starts: the last one overlaps the one before. */
INLINE int column_of(const int n, const int dim)
{
    return dim < WIDTH ? 0 : min(n * WIDTH, dim - WIDTH);
}

INLINE lanes load_columns(const __global storage *row, const long step, const int dim, const int n)
{
    const int d = column_of(n, dim);

    return dim >= WIDTH && step == 1 ? LOAD_VECTOR(row + d)
                                     : load_row(row + d * step, step, dim - d);
}

/* Likewise, but 0 for columns that are in the vector before too. */
INLINE lanes load_new_columns(const __global storage *row, const long step, const int dim,
                              const int n)
{
    const lanes x = load_columns(row, step, dim, n);
    const int repeated = n * WIDTH - column_of(n, dim);

    return repeated ? (COUNT_UP < (float)repeated ? (lanes)(0.0f) : x) : x;
}

/* Vector d of key n of the tile. */
INLINE lanes key_columns(const struct attention_shape a, const struct keys keys, const int n,
                         const int d)
{
    const __global k_storage *row = K_PLACE(keys.k, n * a.k_stride[2]);
#if K_CACHE
    return quantized_lanes(K_CACHE, row, d * WIDTH) *
           keys.k_scales[n * BLOCKS(DIM_QK) + d * WIDTH / BLOCK_VALUES];
#else
    return load_new_columns(row, K_STEP, DIM_QK, d);
#endif
}

/* Vector c of the values of key n of the tile, over the scale of its block. */
INLINE lanes unscaled_columns(const struct attention_shape a, const struct keys keys, const int n,
                              const int c)
{
    const __global v_storage *row = V_PLACE(keys.v, n * a.v_stride[2]);
#if V_CACHE
    return quantized_lanes(V_CACHE, row, c * WIDTH);
#else
    return load_columns(row, V_STEP, DIM_V, c);
#endif
}

INLINE lanes value_columns(const struct attention_shape a, const struct keys keys, const int n,
                           const int c)
{
    const lanes x = unscaled_columns(a, keys, n, c);

    return V_CACHE ? x * keys.v_scales[c * WIDTH / BLOCK_VALUES * BN + n] : x;
}

INLINE void load_tile_scales(const struct attention_shape a, const struct keys keys,
                             const int count)
{
#if K_CACHE || V_CACHE
    ushort halves[MOST_SCALES];
    for (int n = 0; n < MOST_SCALES && count < BN; n++)
        halves[n] = 0; /* of keys that are not there, too, conversions see a number */
#endif
#if K_CACHE
    load_scales(K_CACHE, keys.k, a.k_stride[2], count, BLOCKS(DIM_QK), BLOCKS(DIM_QK), 1,
                BN * BLOCKS(DIM_QK), halves, keys.k_scales);
#endif
#if V_CACHE
    load_scales(V_CACHE, keys.v, a.v_stride[2], count, BLOCKS(DIM_V), 1, BN, BN * BLOCKS(DIM_V),
                halves, keys.v_scales);
#endif
}

/* In a turn, one of `turns` (constant), at key n of a tile: asks memory for a share of the row of
 * `bytes` bytes (constant) that lies so many tiles further, or of the last that is left. All turns
 * at all keys of a tile ask for all. cache (constant) says how the rows are stored. */
INLINE void ask_for(const int cache, const __global void *rows, const long stride,
                    const long step, const int n, const long left, const int turn,
                    const int turns, const int tiles, const int bytes)
{
    const int lines = (bytes + 63) / 64, share = (lines + turns - 1) / turns;
    const int every = lines < turns ? turns / lines : 1;
    const __global uchar *row =
        element_at(cache, rows, min((long)(n + tiles * BN), left - 1) * stride);

    if (AHEAD && step == 1 && n % every == turn % every)
        prefetch_lines(row + min(turn / every * share, lines - share) * 64, share);
}

/* ---- scores --------------------------------------------------------------------------------- */

/* Lane n is the sum of the lanes of x[n]; x is overwritten. */
INLINE lanes sums_of_lanes(lanes *x)
{
    UNROLL
    for (int stage = 0; stage < LOG2_WIDTH; stage++) {
        UNROLL
        for (int c = 0; c < WIDTH / 2; c++) {
            const int half_way = WIDTH >> (stage + 1);
            if (c < half_way)
                x[c] = LOW_PAIRS(x[c], x[c + half_way]) + HIGH_PAIRS(x[c], x[c + half_way]);
        }
    }
    return x[0];
}

/* Lane r * SCORE_KEYS + n of x becomes s[r * BN + n]. */
INLINE void store_scores(const lanes x, float *s)
{
#if SCORE_ROWS == 1
    VECTOR(vstore)(x, 0, s);
#elif SCORE_ROWS == 2
    STORE_HALF_OF_LANES(x.lo, s);
    STORE_HALF_OF_LANES(x.hi, s + BN);
#else
    STORE_QUARTER_OF_LANES(x.lo.lo, s);
    STORE_QUARTER_OF_LANES(x.lo.hi, s + BN);
    STORE_QUARTER_OF_LANES(x.hi.lo, s + 2 * BN);
    STORE_QUARTER_OF_LANES(x.hi.hi, s + 3 * BN);
#endif
}

/* s[r * BN + n] = q[r] . k[n] for count keys; the scores after them repeat the last. */
INLINE void multiply_keys(const struct attention_shape a, const struct keys keys, const int count,
                          const int rows, const lanes *q, float *s)
{
    for (int n0 = 0; n0 < count; n0 += SCORE_KEYS) {
        int key[SCORE_KEYS];
        UNROLL
        for (int n = 0; n < SCORE_KEYS; n++)
            key[n] = min(n0 + n, count - 1);
#if KEEP_K
        lanes kept[SCORE_KEYS][VECTORS(DIM_QK)];
        for (int n = 0; n < SCORE_KEYS; n++) {
            UNROLL
            for (int d = 0; d < VECTORS(DIM_QK); d++)
                kept[n][d] = key_columns(a, keys, key[n], d);
        }
#endif
        for (int r0 = 0; r0 < rows; r0 += SCORE_ROWS) {
            lanes sum[WIDTH];
            UNROLL
            for (int n = 0; n < SCORE_KEYS; n++)
                ask_for(V_CACHE, keys.v, a.v_stride[2], V_STEP, n0 + n, keys.left,
                        r0 / SCORE_ROWS, ROWS / SCORE_ROWS, AHEAD - 1, (int)BYTES(V_CACHE, DIM_V));
            UNROLL
            for (int n = 0; n < WIDTH; n++)
                sum[n] = 0.0f;
            UNROLL
            for (int d = 0; d < VECTORS(DIM_QK); d++) {
                UNROLL
                for (int n = 0; n < SCORE_KEYS; n++) {
#if KEEP_K
                    const lanes x = kept[n][d];
#else
                    const lanes x = key_columns(a, keys, key[n], d);
#endif
                    UNROLL
                    for (int r = 0; r < SCORE_ROWS; r++)
                        sum[r * SCORE_KEYS + n] = fma(q[(r0 + r) * VECTORS(DIM_QK) + d], x,
                                                      sum[r * SCORE_KEYS + n]);
                }
            }
            store_scores(sums_of_lanes(sum), s + r0 * BN + n0);
        }
    }
}

#if HAS_DROPOUT
/* The weights of keys j .. j + count - 1 of one row after dropout; one of -0 stays one. */
INLINE void drop_weights(SHAPE_PARAMS, const struct place *place, const int r, const long j,
                         const int count, float *p)
{
    for (int n0 = 0; n0 < count; n0 += 4 * WIDTH) {
        lanes x[4];
        dropout_factors(a, at, place->b * a.heads + place->head[r], (uint)place->query[r],
                        (uint)((j + n0) / 4) + VECTOR(convert_uint)(COUNT_UP), x);
        const lanes even_low = LOW_PAIRS(x[0], x[2]), odd_low = LOW_PAIRS(x[1], x[3]);
        const lanes even_high = HIGH_PAIRS(x[0], x[2]), odd_high = HIGH_PAIRS(x[1], x[3]);
        x[0] = LOW_PAIRS(even_low, odd_low);
        x[1] = HIGH_PAIRS(even_low, odd_low);
        x[2] = LOW_PAIRS(even_high, odd_high);
        x[3] = HIGH_PAIRS(even_high, odd_high);
        UNROLL
        for (int c = 0; c < 4; c++) {
            float *weights = p + n0 + c * WIDTH;
            if (n0 + c * WIDTH < BN)
                VECTOR(vstore)(VECTOR(vload)(0, weights) * x[c], 0, weights);
        }
    }
}
#endif

/* The scores of row r and keys j .. j + count - 1 become weights, -0 where a pair is hidden, of
 * which *hidden tells. What top and total hold is updated; returns the factor of older weights. */
INLINE float weigh_row(SHAPE_PARAMS, const struct place *place, const int r, const long j,
                       const int count, float *s, float *top, lanes *total,
                       int *hidden BIAS_PARAM MASK_PARAM SLOPES_PARAM)
{
    const long h = place->head[r], i = place->query[r];
    const int begins = (int)clamp(place->first[r] - j, 0L, (long)BN);
    const int ends = (int)clamp(place->end[r] - j, 0L, (long)count);
    lanes tops = -INFINITY, sums = 0.0f;
    ints gone = 0;

    for (int n = 0; n < count; n += WIDTH) {
        const lanes key = COUNT_UP + (float)n;
        const ints outside = (key < (float)begins) | (key >= (float)ends);
        const lanes x = finish_scores(a, at, VECTOR(vload)(0, s + n), place->b, h, i, j + n,
                                      place->e.diagonal, count - n BIAS_ARG MASK_ARG SLOPES_ARG);
        const lanes y = outside ? (lanes)(-INFINITY) : x;
        tops = y > tops ? y : tops;
        VECTOR(vstore)(y, 0, s + n);
    }
    const float new_top = max_lanes(tops, *top);
    const float base = new_top == -INFINITY ? 0.0f : new_top;
    for (int n = 0; n < count; n += WIDTH) {
        const lanes x = VECTOR(vload)(0, s + n);
        const ints none = x == -INFINITY;
        const lanes p = none ? (lanes)(-0.0f) : EXPONENTIAL(x - base);
        gone |= none & (COUNT_UP + (float)n < (float)count);
        sums += p;
        VECTOR(vstore)(p, 0, s + n);
    }
    const lanes factor = EXPONENTIAL((lanes)(*top - base));
    *top = new_top;
    *total = fma(*total, factor, sums);
    *hidden |= any_lane(gone);
#if HAS_DROPOUT
    drop_weights(a, at, place, r, j, count, s);
#endif
    return factor.s0;
}

/* ---- values --------------------------------------------------------------------------------- */

/* o = o * factor + sum_n p[n] v[n] for VALUE_ROWS rows and `vectors` (constant, at most
 * VALUE_VECTORS) vectors of columns from c0 on, in one of the VALUE_TURNS turns. first (constant):
 * these rows are the first to read these columns. */
INLINE void add_columns(const int first, const int turn, const int vectors,
                        const struct attention_shape a, const struct keys keys, const int count,
                        const int c0, const float *factor, const float *p, lanes *kept, lanes *o)
{
    lanes sum[VALUE_ROWS][VALUE_VECTORS];

    UNROLL
    for (int r = 0; r < VALUE_ROWS; r++) {
        UNROLL
        for (int c = 0; c < VALUE_VECTORS; c++)
            sum[r][c] = c < vectors ? o[r * VECTORS(DIM_V) + c0 + c] * factor[r] : (lanes)(0.0f);
    }
    for (int n = 0; n < count; n++) {
        lanes y[VALUE_VECTORS];
        ask_for(K_CACHE, keys.k, a.k_stride[2], K_STEP, n, keys.left, turn, VALUE_TURNS, AHEAD,
                (int)BYTES(K_CACHE, DIM_QK));
        UNROLL
        for (int c = 0; c < VALUE_VECTORS; c++) {
            if (c >= vectors)
                continue;
#if KEEP_V
            if (first)
                kept[n * VALUE_VECTORS + c] = unscaled_columns(a, keys, n, c0 + c);
            y[c] = kept[n * VALUE_VECTORS + c];
#else
            y[c] = unscaled_columns(a, keys, n, c0 + c);
#endif
        }
        UNROLL
        for (int r = 0; r < VALUE_ROWS; r++) {
            UNROLL
            for (int c = 0; c < VALUE_VECTORS; c++)
                if (c < vectors)
                    sum[r][c] = fma((lanes)(p[WEIGHTS_OF(r, c0 + c) + n]), y[c], sum[r][c]);
        }
    }
    UNROLL
    for (int r = 0; r < VALUE_ROWS; r++) {
        UNROLL
        for (int c = 0; c < VALUE_VECTORS; c++)
            if (c < vectors)
                o[r * VECTORS(DIM_V) + c0 + c] = sum[r][c];
    }
}

INLINE void add_columns_of_rows(const int vectors, const struct attention_shape a,
                                const struct keys keys, const int count, const int rows,
                                const int c0, const float *factor, const float *p, lanes *o)
{
    lanes kept[KEEP_V ? BN * VALUE_VECTORS : 1];
    const int turn = c0 / VALUE_VECTORS * (ROWS / VALUE_ROWS);

    add_columns(1, turn, vectors, a, keys, count, c0, factor, p, kept, o);
    for (int r = VALUE_ROWS; r < rows; r += VALUE_ROWS)
        add_columns(0, turn + r / VALUE_ROWS, vectors, a, keys, count, c0, factor + r,
                    p + WEIGHTS_OF(r, 0), kept, o + r * VECTORS(DIM_V));
}

#if V_CACHE
/* The weights of a row and the scales of the values become those of WEIGHTS_OF(). */
INLINE void scale_weights(const int count, const float *p, const float *scales, float *scaled)
{
    for (int c = 0; c < WEIGHT_BLOCKS; c++) {
        for (int n = 0; n < count; n += WIDTH)
            VECTOR(vstore)(VECTOR(vload)(0, p + n) * VECTOR(vload)(0, scales + c * BN + n), 0,
                           scaled + c * BN + n);
    }
}
#endif

/* Whether one of the values is infinite or NaN, which a weight of 0 would not keep away. */
INLINE int has_nonfinite(const struct attention_shape a, const struct keys keys, const int count)
{
    lanes sum = 0.0f;

    for (int n = 0; n < count; n++) {
        for (int c = 0; c < VECTORS(DIM_V); c++)
            sum = fma(value_columns(a, keys, n, c), (lanes)(0.0f), sum);
    }
    return any_lane(sum != 0.0f);
}

/* As add_columns for all columns and rows, but leaving out what a weight of -0 says is hidden. */
INLINE void add_visible(const struct attention_shape a, const struct keys keys, const int count,
                        const int rows, const float *factor, const float *p, lanes *o)
{
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < VECTORS(DIM_V); c++) {
            lanes sum = o[r * VECTORS(DIM_V) + c] * factor[r];
            for (int n = 0; n < count; n++) {
                const lanes y = value_columns(a, keys, n, c);
                if (as_int(p[r * BN + n]) >= 0)
                    sum = fma((lanes)(p[r * BN + n]), y, sum);
            }
            o[r * VECTORS(DIM_V) + c] = sum;
        }
    }
}

/* ---- ranges of keys ------------------------------------------------------------------------- */

/* Row n of block `block` of rows, for n up to ROWS; the last one in use is repeated. */
INLINE void place_rows(const struct attention_shape a, const long block, struct place *place)
{
    const long all = a.group * a.seq_q, row = block * ROWS;

    place->rows = (int)min(all - row, (long)ROWS);
    for (int r = 0; r < ROWS; r++) {
        const long n = row + min(r, place->rows - 1);
        place->head[r] = place->kv_head * a.group + n / a.seq_q;
        place->query[r] = n % a.seq_q;
        place->first[r] = first_key(a, place->e, place->query[r]);
        place->end[r] = end_key(a, place->e, place->query[r]);
    }
}

/* The rows' queries, scaled; 0 for those beyond the last. */
INLINE void pack_queries(SHAPE_PARAMS, const struct place *place, const __global storage *q,
                         lanes *packed)
{
    const float scale = HAS_SOFTCAP ? a.scale : a.scale * UNIT;

    for (int r = 0; r < ROWS; r++) {
        const __global storage *row = q + at.q + place->b * a.q_stride[0] +
                                      place->head[r] * a.q_stride[1] +
                                      place->query[r] * a.q_stride[2];
        for (int d = 0; d < VECTORS(DIM_QK); d++) {
            const lanes x = load_new_columns(row, Q_STEP, DIM_QK, d) * scale;
            packed[r * VECTORS(DIM_QK) + d] = r < place->rows ? x : (lanes)(0.0f);
        }
    }
}

/* Keys that some row may see, of which this work-item has the part'th of SPLITS. */
INLINE void range_of(const struct place *place, const long part, long *begin, long *end)
{
    long first = LONG_MAX, last = 0;

    for (int r = 0; r < place->rows; r++) {
        if (place->first[r] >= place->end[r])
            continue;
        first = min(first, place->first[r]);
        last = max(last, place->end[r]);
    }
    first = min(first, last) & ~3L; /* dropout has the same random numbers for four keys */
    const long share = (last - first + SPLITS * BN - 1) / (SPLITS * BN) * BN;
    *begin = min(first + part * share, last);
    *end = min(*begin + share, last);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void split(SHAPE_PARAMS, const __global storage *restrict q, const __global k_storage *restrict k,
           const __global v_storage *restrict v BIAS_PARAM MASK_PARAM SLOPES_PARAM Q_LENGTHS_PARAM
               KV_LENGTHS_PARAM, __global float *workspace)
{
    const long part = get_global_id(2) % SPLITS;
    struct place place;
    lanes packed_q[ROWS * VECTORS(DIM_QK)], packed_o[ROWS * VECTORS(DIM_V)], total[ROWS];
    float s[ROWS * BN], top[ROWS], factor[ROWS];
    float k_scales[K_CACHE ? MOST_SCALES : 1], v_scales[V_CACHE ? MOST_SCALES : 1];
#if V_CACHE
    float scaled[ROWS * WEIGHT_BLOCKS * BN];
#endif
    long begin, end;

    place.b = get_global_id(0);
    place.kv_head = get_global_id(1);
    place.e = extent_of(a, at, place.b Q_LENGTHS_ARG KV_LENGTHS_ARG);
    place_rows(a, get_global_id(2) / SPLITS, &place);
    range_of(&place, part, &begin, &end);
    for (int r = 0; r < ROWS; r++) {
        top[r] = -INFINITY;
        total[r] = 0.0f;
        factor[r] = 0.0f;
    }
    for (int n = 0; n < ROWS * VECTORS(DIM_V); n++)
        packed_o[n] = 0.0f;
    for (int n = 0; n < ROWS * BN; n++)
        s[n] = 0.0f; /* what lies beyond the last key is hidden, but looked at */
    if (begin < end)
        pack_queries(a, at, &place, q, packed_q);
    for (long j = begin; j < end; j += BN) {
        const int count = (int)min((long)BN, end - j);
        const struct keys keys = {
            K_PLACE(k, at.k + place.b * a.k_stride[0] + place.kv_head * a.k_stride[1] +
                           j * a.k_stride[2]),
            V_PLACE(v, at.v + place.b * a.v_stride[0] + place.kv_head * a.v_stride[1] +
                           j * a.v_stride[2]),
            end - j, k_scales, v_scales};
        int hidden = 0;
        load_tile_scales(a, keys, count);
        multiply_keys(a, keys, count, place.rows, packed_q, s);
        for (int r = 0; r < place.rows; r++)
            factor[r] = weigh_row(a, at, &place, r, j, count, s + r * BN, &top[r], &total[r],
                                  &hidden BIAS_ARG MASK_ARG SLOPES_ARG);
        if (hidden && has_nonfinite(a, keys, count)) {
            add_visible(a, keys, count, place.rows, factor, s, packed_o);
            continue;
        }
#if V_CACHE
        for (int r = 0; r < place.rows; r++)
            scale_weights(count, s + r * BN, v_scales, scaled + WEIGHTS_OF(r, 0));
        const float *weights = scaled;
#else
        const float *weights = s;
#endif
        for (int c = 0; c + VALUE_VECTORS <= VECTORS(DIM_V); c += VALUE_VECTORS)
            add_columns_of_rows(VALUE_VECTORS, a, keys, count, place.rows, c, factor, weights,
                                packed_o);
        if (VECTORS(DIM_V) % VALUE_VECTORS)
            add_columns_of_rows(VECTORS(DIM_V) % VALUE_VECTORS, a, keys, count, place.rows,
                                VECTORS(DIM_V) / VALUE_VECTORS * VALUE_VECTORS, factor, weights,
                                packed_o);
    }
    for (int r = 0; r < place.rows; r++) {
        __global float *to =
            workspace + at.workspace +
            (((part * a.batch + place.b) * a.heads + place.head[r]) * a.seq_q + place.query[r]) *
                PART;
        for (int c = 0; c < VECTORS(DIM_V) && begin < end; c++)
            VECTOR(vstore)(packed_o[r * VECTORS(DIM_V) + c], c, to);
        to[PART - 2] = top[r];
        to[PART - 1] = sum_lanes(total[r]);
    }
}

/* ---- partial results ------------------------------------------------------------------------ */

/* Parts that saw nothing have a total of 0, and perhaps no o. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void combine(SHAPE_PARAMS, __global storage *restrict o SINKS_PARAM LSE_PARAM,
             const __global float *workspace)
{
    const long i = get_global_id(0), h = get_global_id(1), b = get_global_id(2);
    const long row = (b * a.heads + h) * a.seq_q + i, step = a.batch * a.heads * a.seq_q * PART;
    const __global float *parts = workspace + at.workspace + row * PART;
    __global storage *to = o + at.o + b * a.o_stride[0] + h * a.o_stride[1] + i * a.o_stride[2];
    float top = -INFINITY, sum = 0.0f, factor[SPLITS];

#if HAS_SINKS
    const float sink = sinks[at.sinks + h] * UNIT;
    top = sink > top ? sink : top;
#endif
    for (int n = 0; n < SPLITS; n++)
        top = max_lanes((lanes)(parts[n * step + PART - 2]), top);
    const float base = top == -INFINITY ? 0.0f : top;
    for (int n = 0; n < SPLITS; n++) {
        const float total = parts[n * step + PART - 1];
        const lanes rescale = EXPONENTIAL((lanes)(parts[n * step + PART - 2] - base));
        factor[n] = total == 0.0f ? 0.0f : rescale.s0;
        sum = fma(total, factor[n], sum);
    }
    const bool sees_none = sum == 0.0f;
#if HAS_SINKS
    sum += EXPONENTIAL((lanes)(sink - base)).s0;
#endif
    const float scale = sees_none ? 0.0f : 1.0f / sum;
    for (int c = 0; c < VECTORS(DIM_V); c++) {
        const int d = column_of(c, DIM_V);
        lanes x = 0.0f;
        for (int n = 0; n < SPLITS; n++)
            if (parts[n * step + PART - 1] != 0.0f)
                x = fma(VECTOR(vload)(c, parts + n * step), (lanes)(factor[n]), x);
        store_row(x * scale, to + d * O_STEP, O_STEP, DIM_V - d);
    }
#if HAS_LSE
    lse[at.lse + row] = sees_none ? -INFINITY : fma(top, SCORE_TO_LOG, log(sum));
#endif
}

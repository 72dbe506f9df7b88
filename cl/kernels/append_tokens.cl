/* append_tokens: new keys and values are written to their places in a cache, in its format, keys and
 * queries rotated on the way.
 *
 * NDRange   One dimension, GROUP_ITEMS items in a group. Item n takes 32 columns of a token's rows, of
 *           every HEAD_GROUPS-th head: of k, then of v, then of q. Items past the last have nothing to do.
 * Places    Token i of batch b goes to row kv_lengths[b] + i of its batch, or, with PAGE_SIZE, of the pages
 *           that page_table names, or to slot slots[b, i], which counts the rows of all batches, or pages,
 *           one after the other. What is outside of the cache is skipped.
 * Rotation  Columns in pairs, (2 i, 2 i + 1) or (i, i + ROTARY_DIM / 2), become (x cos - y sin,
 *           x sin + y cos), for an angle of position * base^(-2 i / ROTARY_DIM), or of given tables. An
 *           item computes cosines and sines of its columns once for all heads.
 * Exact     What is not rotated has the bits of a conversion, or of clattn/quantize.h.
 *
 * The angle is exact but for 2^-40 of it: base^(-2 / ROTARY_DIM), which the host gives as a sum of two
 * floats, is raised to the i-th power by squaring such sums, and multiples of pi / 2 are taken off before
 * anything is rounded to one float.
 *
 * Defined by the host, besides the tunables:
 *   DTYPE                     of k, v and q (cl/common/storage.h)
 *   PAGE_SIZE                 rows of a page, or 0
 *   CACHE_DTYPE               of a cache that is not quantized
 *   TO_K, TO_V                formats of the caches, as K_CACHE elsewhere: 0, or 1 q8_0, or 2 q4_0
 *   UNIT_IN, UNIT_OUT         1: all innermost strides of what is read, of what is written, are 1
 *   ROTARY                    0 none, 1 pairs, 2 halves
 *   ROTARY_DIM, HAS_TABLES
 *   QUERIES                   0 untouched, 1 rotated to o, 2 in place
 *   HAS_SLOTS, HAS_POSITIONS, HAS_KV_LENGTHS
 *
 * In struct attention_shape: k and v (batch, kv_heads, seq_q, dim) by k_stride and v_stride, the caches
 * (batch, kv_heads, seq_kv, dim) by dk_stride and dv_stride, q and what it becomes by q_stride and o_stride;
 * window_right is the length of the tables; scale + softcap is base^(-2 / ROTARY_DIM). */
#include "common/builtins.h"
#include "common/quantize_block.h"
#include "cpu/simd_storage.h"

#define CHUNK 32 /* columns of an item: a block */
#define VECTORS (CHUNK / SIMD_WIDTH)
#define PAIRS 1
#define HALVES 2
#define IN_PLACE 2

#if UNIT_IN
#define IN_STEP(step) 1
#else
#define IN_STEP(step) (step)
#endif
#if UNIT_OUT
#define OUT_STEP(step) 1
#else
#define OUT_STEP(step) (step)
#endif

#if CACHE_DTYPE == DTYPE_F32
typedef float cache_storage;
#define STORE_CACHE(x, p) (*(p) = (x))
#define STORE_CACHE_VECTOR STORE_F32
#elif CACHE_DTYPE == DTYPE_F16
typedef half cache_storage;
#define STORE_CACHE(x, p) vstore_half_rte(x, 0, p)
#define STORE_CACHE_VECTOR STORE_F16
#else
typedef ushort cache_storage;
#define STORE_CACHE(x, p) (*(p) = bf16_round(x))
#define STORE_CACHE_VECTOR STORE_BF16
#endif

/* ---- angles --------------------------------------------------------------------------------- */

/* Numbers as sums of two floats, the second of which is below the last digit of the first. */
struct twice {
    lanes high, low;
};

INLINE struct twice product(const struct twice x, const struct twice y)
{
    struct twice z;
    const lanes p = x.high * y.high;
    const lanes rest = fma(x.high, y.high, -p) + (x.high * y.low + x.low * y.high);

    z.high = p + rest;
    z.low = rest - (z.high - p);
    return z;
}

/* Sine and cosine of angle.high + angle.low, of which multiples of pi / 2 are taken off: up to 2^22. */
#define FARTHEST 4194304L
INLINE lanes sine_cosine(const struct twice angle, lanes *cosine)
{
    const lanes n = (angle.high * 0.636619772f + 12582912.0f) - 12582912.0f;
    const ints quadrant = VECTOR(convert_int)(n);
    lanes r = fma(n, (lanes)(-1.57079601f), angle.high);
    r = fma(n, (lanes)(-3.13916473e-07f), r);
    r = fma(n, (lanes)(-5.39030295e-15f), r) + angle.low;
    const lanes z = r * r;
    lanes s = fma(z, (lanes)(-1.9515296e-4f), (lanes)(8.33216087e-3f));
    s = fma(z, s, (lanes)(-0.166666546f));
    s = fma(r * z, s, r);
    lanes c = fma(z, (lanes)(2.44331571e-5f), (lanes)(-1.38873162e-3f));
    c = fma(z, c, (lanes)(4.16666456e-2f));
    c = fma(z, c, (lanes)(-0.5f));
    c = fma(z, c, (lanes)(1.0f));
    const ints odd = (quadrant & 1) != 0;
    const lanes sine = odd ? c : s, other = odd ? s : c;
    *cosine = ((quadrant + 1) & 2) != 0 ? -other : other;
    return (quadrant & 2) != 0 ? -sine : sine;
}

/* The number of the pair that a column is in, and what its partner's sine is multiplied with. */
INLINE int pair_of(const int d)
{
    return ROTARY == PAIRS ? d >> 1 : d < ROTARY_DIM / 2 ? d : d - ROTARY_DIM / 2;
}

INLINE bool is_first(const int d)
{
    return ROTARY == PAIRS ? (d & 1) == 0 : d < ROTARY_DIM / 2;
}

INLINE int partner_of(const int d)
{
    return ROTARY == PAIRS ? d ^ 1 : d < ROTARY_DIM / 2 ? d + ROTARY_DIM / 2 : d - ROTARY_DIM / 2;
}

#if ROTARY
#if HAS_TABLES
#define TABLES_PARAM , const __global float *cos_table, const __global float *sin_table
#else
#define TABLES_PARAM
#endif

/* cosines and sines of columns d .. d + SIMD_WIDTH - 1 at a position, a sine negative for the first of a
 * pair; 1 and 0 for columns that are not rotated. */
INLINE void turn(const struct attention_shape a, const long position, const int d, lanes *cosine,
                 lanes *sine TABLES_PARAM)
{
    float c[SIMD_WIDTH], s[SIMD_WIDTH];
#if HAS_TABLES
    const long row = clamp(position, 0L, a.window_right - 1) * (ROTARY_DIM / 2);

    for (int n = 0; n < SIMD_WIDTH; n++) {
        const bool turns = d + n < ROTARY_DIM;
        c[n] = turns ? cos_table[row + pair_of(d + n)] : 1.0f;
        s[n] = turns ? sin_table[row + pair_of(d + n)] : 0.0f;
    }
#else
    const float exact = (float)clamp(position, -FARTHEST, FARTHEST);
    struct twice power = {1.0f, 0.0f}, square = {a.scale, a.softcap};
    const struct twice whole = {exact, 0.0f};
    int pairs[SIMD_WIDTH];

    for (int n = 0; n < SIMD_WIDTH; n++)
        pairs[n] = d + n < ROTARY_DIM ? pair_of(d + n) : 0;
    const ints index = VECTOR(vload)(0, pairs);
    for (int bit = 1; bit < ROTARY_DIM; bit *= 2) {
        const struct twice next = product(power, square);
        const ints set = (index & bit) != 0;
        power.high = set ? next.high : power.high;
        power.low = set ? next.low : power.low;
        square = product(square, square);
    }
    lanes cosines;
    const lanes sines = sine_cosine(product(power, whole), &cosines);
    VECTOR(vstore)(cosines, 0, c);
    VECTOR(vstore)(sines, 0, s);
    for (int n = 0; n < SIMD_WIDTH; n++) {
        c[n] = d + n < ROTARY_DIM ? c[n] : 1.0f;
        s[n] = d + n < ROTARY_DIM ? s[n] : 0.0f;
    }
#endif
    for (int n = 0; n < SIMD_WIDTH; n++)
        s[n] = is_first(d + n) ? -s[n] : s[n];
    *cosine = VECTOR(vload)(0, c);
    *sine = VECTOR(vload)(0, s);
}
#endif

/* ---- columns -------------------------------------------------------------------------------- */

/* The partners of columns d .. of a row, x; anything for columns that are not rotated, but no NaN. */
INLINE lanes load_partners(const __global storage *row, const long step, const int d, const int dim,
                           const lanes x)
{
    float y[SIMD_WIDTH];

#if ROTARY == HALVES
    if (step == 1 && (d + SIMD_WIDTH <= ROTARY_DIM / 2 ||
                      (d >= ROTARY_DIM / 2 && d + SIMD_WIDTH <= ROTARY_DIM)))
        return LOAD_VECTOR(row + partner_of(d));
#elif ROTARY == PAIRS && SIMD_WIDTH == 8
    if (d + SIMD_WIDTH <= ROTARY_DIM)
        return CHOOSE(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
#endif
    for (int n = 0; n < SIMD_WIDTH; n++)
        y[n] = d + n < ROTARY_DIM ? LOAD(row, partner_of(d + n) * step) : 0.0f;
    return VECTOR(vload)(0, y);
}

/* Loads columns d .. d + CHUNK - 1 of a row, zeros past its end, turned if it rotates. */
INLINE void load_chunk(const __global storage *row, const long step, const int d, const int dim,
                       const bool rotates, const lanes *cosine, const lanes *sine, lanes *x)
{
    UNROLL
    for (int v = 0; v < VECTORS; v++) {
        const int c = d + v * SIMD_WIDTH;
        x[v] = load_row(row + c * step, step, dim - c);
#if ROTARY
        if (rotates && c < ROTARY_DIM) {
            const lanes y = load_partners(row, step, c, dim, x[v]);
            const lanes turned = fma(x[v], cosine[v], y * sine[v]);
            float all[SIMD_WIDTH], as_is[SIMD_WIDTH];
            if (c + SIMD_WIDTH <= ROTARY_DIM) {
                x[v] = turned;
                continue;
            }
            VECTOR(vstore)(turned, 0, all);
            VECTOR(vstore)(x[v], 0, as_is);
            for (int n = 0; n < SIMD_WIDTH; n++)
                all[n] = c + n < ROTARY_DIM ? all[n] : as_is[n];
            x[v] = VECTOR(vload)(0, all);
        }
#endif
    }
}

/* Rounded to the nearest integer, away from zero at ties; |x| is below 2^31. */
INLINE ints round_away(const lanes x)
{
    const ints whole = VECTOR(convert_int)(x);
    const lanes rest = x - VECTOR(convert_float)(whole);

    return whole - (ints)(rest >= 0.5f) + (ints)(rest <= -0.5f);
}

INLINE void store_bytes(const ints x, __global uchar *p)
{
    int y[SIMD_WIDTH];

    VECTOR(vstore)(x, 0, y);
    UNROLL
    for (int n = 0; n < SIMD_WIDTH; n++)
        p[n] = (uchar)y[n];
}

/* Makes a block of a chunk (clattn/quantize.h). */
INLINE void store_block(const int format, lanes *x, __global uchar *block)
{
    const bool q8 = format == 1;
    lanes most_lanes = fabs(x[0]);
    ints odd = x[0] - x[0] != 0.0f;

    UNROLL
    for (int v = 1; v < VECTORS; v++) {
        const lanes y = fabs(x[v]);
        most_lanes = y > most_lanes ? y : most_lanes;
        odd |= x[v] - x[v] != 0.0f;
    }
    const bool finite = !any_lane(odd);
    const float most = max_lanes(most_lanes, 0.0f);
    float peak = 0.0f;
    if (!q8) {
        float all[CHUNK];
        for (int v = 0; v < VECTORS; v++)
            VECTOR(vstore)(x[v], v, all);
        for (int n = CHUNK - 1; n >= 0; n--)
            peak = fabs(all[n]) == most ? all[n] : peak;
    }
    const float scale = q8 ? fabs(over_127(most)) : peak * -0.125f;
    const bool zeros = !finite || fabs(scale) < LEAST_SCALE;
    const float factor = zeros ? 0.0f : reciprocal(scale);
    if (finite)
        vstore_half_rte(scale, 0, (__global half *)block);
    else
        *(__global ushort *)block = 0x7e00;
    UNROLL
    for (int v = 0; v < VECTORS; v++)
        x[v] = zeros ? (lanes)(0.0f) : x[v] * factor;
    if (q8) {
        UNROLL
        for (int v = 0; v < VECTORS; v++)
            store_bytes(round_away(x[v]), block + 2 + v * SIMD_WIDTH);
        return;
    }
    const ints most_of_four_bits = (ints)(15); /* min(vector, scalar) is wrong in Oclgrind 21.10 */
    UNROLL
    for (int v = 0; v < VECTORS / 2; v++) {
        const ints low = min(VECTOR(convert_int)(x[v] + 8.5f), most_of_four_bits);
        const ints high = min(VECTOR(convert_int)(x[v + VECTORS / 2] + 8.5f), most_of_four_bits);
        store_bytes(low | high << 4, block + 2 + v * SIMD_WIDTH);
    }
}

/* Stores a chunk of a row of a cache that starts at position `first`. */
INLINE void store_chunk(const int format, lanes *x, __global void *cache, const long first,
                        const long step, const int d, const int dim)
{
    if (format) {
        store_block(format, x, (__global uchar *)cache + ((first + d) >> 5) * (format == 1 ? 34 : 18));
        return;
    }
    __global cache_storage *p = (__global cache_storage *)cache + first;
    for (int v = 0; v < VECTORS; v++) {
        const int c = d + v * SIMD_WIDTH;
        float y[SIMD_WIDTH];
        if (step == 1 && dim - c >= SIMD_WIDTH) {
            STORE_CACHE_VECTOR(x[v], p + c);
            continue;
        }
        VECTOR(vstore)(x[v], 0, y);
        for (int n = 0; n < min(dim - c, SIMD_WIDTH); n++)
            STORE_CACHE(y[n], p + (c + n) * step);
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

__kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1)))
void append_tokens(PARAMETERS_append_tokens)
{
    const int chunks = (int)((max(a.dim_qk, a.dim_v) + CHUNK - 1) / CHUNK);
    const long n = get_global_id(0), token = n / (chunks * HEAD_GROUPS);
    const int rest = (int)(n - token * (chunks * HEAD_GROUPS));
    const int d = rest % chunks * CHUNK, first_head = rest / chunks;
    const long b = token / a.seq_q, i = token - b * a.seq_q;
    lanes cosine[VECTORS], sine[VECTORS], x[VECTORS];

    if (token >= a.batch * a.seq_q)
        return;
#if HAS_KV_LENGTHS
    const long cached = kv_lengths[at.kv_lengths + b];
#else
    const long cached = 0;
#endif
    const long rows = PAGE_SIZE ? PAGE_SIZE : a.seq_kv; /* of a page, or of a batch */
#if HAS_SLOTS
    const long slot = slots[at.q_lengths + token];
    const bool lies = slot >= 0 && slot < (PAGE_SIZE ? a.pages : a.batch) * rows;
    const long to = lies ? slot / rows : 0, row = lies ? slot - to * rows : 0;
#elif PAGE_SIZE
    const long key = cached + i, columns = (a.seq_kv + PAGE_SIZE - 1) / PAGE_SIZE;
    const bool is_key = key >= 0 && key < a.seq_kv;
    const long to = is_key ? page_table[at.page_table + b * columns + key / PAGE_SIZE] : -1;
    const long row = key % rows;
    const bool lies = to >= 0 && to < a.pages;
#else
    const long to = b, row = cached + i;
    const bool lies = row >= 0 && row < rows;
#endif
#if ROTARY
#if HAS_POSITIONS
    const long position = positions[at.mask + token];
#else
    const long position = cached + i;
#endif
    for (int v = 0; v < VECTORS && d < ROTARY_DIM; v++)
#if HAS_TABLES
        turn(a, position, d + v * SIMD_WIDTH, &cosine[v], &sine[v], cos + at.slopes, sin + at.sinks);
#else
        turn(a, position, d + v * SIMD_WIDTH, &cosine[v], &sine[v]);
#endif
#endif
    for (long h = first_head; lies && h < a.kv_heads; h += HEAD_GROUPS) {
        if (d < a.dim_qk) {
            load_chunk(k + at.k + b * a.k_stride[0] + h * a.k_stride[1] + i * a.k_stride[2],
                       IN_STEP(a.k_stride[3]), d, (int)a.dim_qk, true, cosine, sine, x);
            store_chunk(TO_K, x, k_cache,
                        at.dk + to * a.dk_stride[0] + h * a.dk_stride[1] + row * a.dk_stride[2],
                        OUT_STEP(a.dk_stride[3]), d, (int)a.dim_qk);
        }
        if (d < a.dim_v) {
            load_chunk(v + at.v + b * a.v_stride[0] + h * a.v_stride[1] + i * a.v_stride[2],
                       IN_STEP(a.v_stride[3]), d, (int)a.dim_v, false, cosine, sine, x);
            store_chunk(TO_V, x, v_cache,
                        at.dv + to * a.dv_stride[0] + h * a.dv_stride[1] + row * a.dv_stride[2],
                        OUT_STEP(a.dv_stride[3]), d, (int)a.dim_v);
        }
    }
}

#if QUERIES
/* Each lane's neighbour, of the pair that it is in. */
INLINE lanes swap_pairs(const lanes x)
{
#if SIMD_WIDTH == 8
    return CHOOSE(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
#else
    float y[SIMD_WIDTH], z[SIMD_WIDTH];

    VECTOR(vstore)(x, 0, y);
    for (int n = 0; n < SIMD_WIDTH; n++)
        z[n] = y[n ^ 1];
    return VECTOR(vload)(0, z);
#endif
}

/* Turns columns c .. of a row, at most SIMD_WIDTH, and of halves their partners as well: nobody else reads
 * or writes them, so that `to` may be the row itself. */
INLINE void turn_columns(const __global storage *row, const long step, __global storage *to,
                         const long to_step, const int c, const lanes cosine, const lanes sine)
{
    const int middle = ROTARY_DIM / 2, left = (ROTARY == PAIRS ? ROTARY_DIM : middle) - c;

    if (left <= 0)
        return;
    const lanes x = load_row(row + c * step, step, left);
#if ROTARY == PAIRS
    store_row(fma(x, cosine, swap_pairs(x) * sine), to + c * to_step, to_step, left);
#else
    const lanes y = load_row(row + (c + middle) * step, step, left);
    store_row(fma(x, cosine, y * sine), to + c * to_step, to_step, left);
    store_row(fma(y, cosine, -(x * sine)), to + (c + middle) * to_step, to_step, left);
#endif
}

/* Likewise of q: every column pair is one item's. */
__kernel __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1)))
void rotate_queries(PARAMETERS_rotate_queries)
{
    const int chunks = (int)((a.dim_qk + CHUNK - 1) / CHUNK);
    const long n = get_global_id(0), token = n / (chunks * HEAD_GROUPS);
    const int rest = (int)(n - token * (chunks * HEAD_GROUPS));
    const int d = rest % chunks * CHUNK, first_head = rest / chunks, dim = (int)a.dim_qk;
    const long b = token / a.seq_q, i = token - b * a.seq_q;
    lanes cosine[VECTORS], sine[VECTORS];

    if (token >= a.batch * a.seq_q)
        return;
#if HAS_POSITIONS
    const long position = positions[at.mask + token];
#elif HAS_KV_LENGTHS
    const long position = kv_lengths[at.kv_lengths + b] + i;
#else
    const long position = i;
#endif
    for (int v = 0; v < VECTORS && d < ROTARY_DIM; v++)
#if HAS_TABLES
        turn(a, position, d + v * SIMD_WIDTH, &cosine[v], &sine[v], cos + at.slopes, sin + at.sinks);
#else
        turn(a, position, d + v * SIMD_WIDTH, &cosine[v], &sine[v]);
#endif
    for (long h = first_head; h < a.heads; h += HEAD_GROUPS) {
        const long to_step = OUT_STEP(a.o_stride[3]);
        __global storage *to =
            q_out + at.o + b * a.o_stride[0] + h * a.o_stride[1] + i * a.o_stride[2];
#if QUERIES == IN_PLACE
        const __global storage *row = to;
        const long step = to_step;
#else
        const long step = IN_STEP(a.q_stride[3]);
        const __global storage *row =
            q + at.q + b * a.q_stride[0] + h * a.q_stride[1] + i * a.q_stride[2];
#endif
        UNROLL
        for (int v = 0; v < VECTORS; v++) {
            const int c = d + v * SIMD_WIDTH, rest_of = max(c, ROTARY_DIM);
            turn_columns(row, step, to, to_step, c, cosine[v], sine[v]);
#if QUERIES != IN_PLACE
            const int left = min(c + SIMD_WIDTH, dim) - rest_of;
            if (left > 0)
                store_row(load_row(row + rest_of * step, step, left), to + rest_of * to_step,
                          to_step, left);
#endif
        }
    }
}
#endif

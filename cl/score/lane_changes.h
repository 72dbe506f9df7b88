/* What changes a tile's scores between the products and the softmax, and its weights after it,
 * where lanes are queries: softcap, bias, ALiBi, mask, window; dropout.
 *
 * A block has BLOCK_VECTORS vectors of queries, a tile at most BLOCK_N keys. Biases and masks lie
 * the other way round, a query's keys in a row, so they are read by rows and transposed before the
 * products, the masks as ints of four keys' bytes. The products are changed while in registers; a
 * tile that is hidden from all queries of a block needs none. Lanes beyond the last query repeat
 * it; nothing outside the tensors is read.
 *
 * Before including this: common.cl, SIMD_WIDTH, BLOCK_VECTORS, QK_KEYS and BLOCK_N. */
#ifndef CLATTN_LANE_CHANGES_H
#define CLATTN_LANE_CHANGES_H
#include "cpu/lane_ahead.h"
#if HAS_DROPOUT
#define RANDOM_LANES SIMD_WIDTH
#include "common/philox.h"
#endif

struct __attribute__((packed)) loose_ints {
    ints x;
};
#define LOOSE_INTS(p) (((const __global struct loose_ints *)(p))->x) /* that lie at any byte */

/* What a block of queries has besides its big arrays. */
struct place {
    long b, h, i; /* i: its first query */
    struct extent e;
    int queries; /* rows of it in use, 1..BLOCK_M */
};

/* A tile's keys as a block's queries see them; keys count from the tile's first. */
struct sight {
    ints begin[BLOCK_VECTORS], last[BLOCK_VECTORS];   /* by window, of each query */
    int all_begin, all_end;     /* what every query sees by window */
    int lower_end, upper_begin; /* before, from there: by the lower, the upper part alone */
    int hides;                  /* whether bias or mask hide a pair; not 0 may be a false alarm */
    lanes distance[BLOCK_VECTORS];         /* of key 0, with ALiBi */
    float slope;
    float softcap, shrink;
    const lanes *bias; /* key n's of queries of vector m are bias[n * BLOCK_VECTORS + m] */
    const ints *mask;  /* four keys' bytes in an int: mask_of() */
};

/* A block has a lower part of so many vectors and an upper part. Where a window starts or ends,
 * keys are seen by one of them alone; a block of few queries has only the lower. */
#define LOWER (BLOCK_VECTORS / 2)
#define HAS_PARTS (LOWER > 0)

INLINE struct sight sight_of(SHAPE_PARAMS, const struct place block, const long j SLOPES_PARAM)
{
    struct sight sight;

    sight.hides = 0;
#if HAS_WINDOW
    const ints lane = VECTOR(convert_int)(COUNT_UP);
    const long last = block.i + block.queries - 1;
    sight.all_begin = (int)clamp(first_key(a, block.e, last) - j, 0L, (long)BLOCK_N);
    sight.all_end = (int)clamp(end_key(a, block.e, block.i) - j, 0L, (long)BLOCK_N);
    const long upper = block.i + LOWER * SIMD_WIDTH; /* its first query */
    sight.lower_end = BLOCK_N;
    if (upper <= last)
        sight.lower_end = (int)clamp(first_key(a, block.e, upper) - j, 0L, (long)BLOCK_N);
    sight.upper_begin =
        (int)clamp(end_key(a, block.e, upper - 1) - j, (long)sight.lower_end, (long)BLOCK_N);
#else
    sight.lower_end = block.queries > LOWER * SIMD_WIDTH ? 0 : BLOCK_N;
    sight.upper_begin = BLOCK_N;
#endif
#if HAS_ALIBI
    sight.slope = slopes[at.slopes + block.h] * UNIT;
#endif
#if HAS_SOFTCAP
    sight.softcap = a.softcap * UNIT;
    sight.shrink = min(1.0f / a.softcap, FLT_MAX);
#endif
    UNROLL
    for (int m = 0; m < BLOCK_VECTORS; m++) {
        const long now = block.i + m * SIMD_WIDTH + block.e.diagonal - j; /* of the first lane */
        (void)now;
#if HAS_WINDOW_LEFT
        sight.begin[m] = (int)clamp(now - a.window_left, -(long)BLOCK_N, (long)BLOCK_N) + lane;
#endif
#if HAS_WINDOW_RIGHT
        sight.last[m] = (int)clamp(now + a.window_right, -(long)BLOCK_M, (long)BLOCK_N) + lane;
#endif
#if HAS_ALIBI
        sight.distance[m] = (float)-now - COUNT_UP;
#endif
    }
    return sight;
}

/* ---- biases and masks, transposed ----------------------------------------------------------- */

/* What a tile is to a block, as far as biases or masks say. */
enum outlook { NONE_VISIBLE, ALL_VISIBLE, SOME_HIDDEN };

#if HAS_BIAS
/* SIMD_WIDTH queries' biases of `left` keys, at most SIMD_WIDTH, become vectors of queries. */
INLINE void load_biases_of_queries(const __global bias_storage *p, const long row, const long step,
                                   const int last, const int left, lanes *x)
{
    if (row == 0) {
        float each[SIMD_WIDTH];
        VECTOR(vstore)(load_biases(p, step, left), 0, each);
        UNROLL
        for (int c = 0; c < SIMD_WIDTH; c++)
            x[c] = each[c];
    } else {
        if (step == 1 && left >= SIMD_WIDTH && last >= SIMD_WIDTH - 1) {
            UNROLL
            for (int r = 0; r < SIMD_WIDTH; r++)
                x[r] = load_biases(p + r * row, 1, SIMD_WIDTH);
        } else {
            for (int r = 0; r < SIMD_WIDTH; r++)
                x[r] = load_biases(p + min(r, last) * row, step, left);
        }
        transpose(x);
    }
}

/* Keys j .. j + count - 1. */
NOINLINE enum outlook read_biases(const struct attention_shape a, const struct place block,
                                  const long j, const int count, const __global bias_storage *p,
                                  lanes *to)
{
    const long row = a.bias_stride[2], step = a.bias_stride[3], rest = a.seq_kv - j;
    const int square = step == 1 && rest >= SIMD_WIDTH;
    lanes least = 0.0f;
    ints some = 0;

    for (int m = 0; m < BLOCK_VECTORS; m++) {
        for (int n0 = 0; n0 < count; n0 += SIMD_WIDTH) {
            /* The last square overlaps the one before it. */
            const int n = square ? (int)min((long)n0, rest - SIMD_WIDTH) : n0;
            const int left = (int)min(rest - n, (long)SIMD_WIDTH);
            lanes x[SIMD_WIDTH];
            load_biases_of_queries(p + m * SIMD_WIDTH * row + n * step, row, step,
                                   block.queries - 1 - m * SIMD_WIDTH, left, x);
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++) {
                to[(n + c) * BLOCK_VECTORS + m] = x[c];
                least = x[c] < least ? x[c] : least;
            }
        }
    }
    if (!any_lane(least == -INFINITY))
        return ALL_VISIBLE;
    for (int n = 0; n < count * BLOCK_VECTORS; n++)
        some |= to[n] != -INFINITY;
    return any_lane(some) ? SOME_HIDDEN : NONE_VISIBLE;
}
#endif

#define PIECE (4 * SIMD_WIDTH) /* keys whose bytes of a mask fill a vector */
#define MASK_VECTORS (HAS_MASK ? (BLOCK_N + PIECE - 1) / PIECE * SIMD_WIDTH * BLOCK_VECTORS : 1)
#if HAS_MASK

/* Bytes as memory holds them: count of them, at most PIECE; zeros after them. */
INLINE ints load_bytes(const __global uchar *p, const long step, const int count)
{
    ints x = 0;
    uchar *bytes = (uchar *)&x;

    if (step == 1 && count >= PIECE)
        return LOOSE_INTS(p);
    for (int c = 0; c < min(count, PIECE); c++)
        bytes[c] = p[c * step];
    return x;
}

/* SIMD_WIDTH queries' bytes of PIECE keys, of which count exist, become vectors of queries. */
INLINE void load_mask_of_queries(const __global uchar *p, const long row, const long step,
                                 const int last, const int count, lanes *x)
{
    if (row == 0) {
        const ints y = load_bytes(p, step, count);
        const int *each = (const int *)&y;
        UNROLL
        for (int c = 0; c < SIMD_WIDTH; c++)
            x[c] = as_float(each[c]);
    } else {
        if (step == 1 && count >= PIECE && last >= SIMD_WIDTH - 1) {
            UNROLL
            for (int r = 0; r < SIMD_WIDTH; r++)
                x[r] = VECTOR(as_float)(LOOSE_INTS(p + r * row));
        } else {
            for (int r = 0; r < SIMD_WIDTH; r++)
                x[r] = VECTOR(as_float)(load_bytes(p + min(r, last) * row, step, count));
        }
        transpose(x);
    }
}

/* Keys j .. j + count - 1. SOME_HIDDEN may be a false alarm. */
NOINLINE enum outlook read_mask(const struct attention_shape a, const struct place block,
                                const long j, const int count, const __global uchar *p, ints *to)
{
    const long row = a.mask_stride[2], step = a.mask_stride[3];
    ints some = 0, gaps = 0;

    for (int n0 = 0; n0 < count; n0 += PIECE) {
        const int left = (int)min(a.seq_kv - j - n0, (long)PIECE);
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            ints *place = to + n0 / 4 * BLOCK_VECTORS + m;
            lanes x[SIMD_WIDTH];
            load_mask_of_queries(p + m * SIMD_WIDTH * row + n0 * step, row, step,
                                 block.queries - 1 - m * SIMD_WIDTH, left, x);
            UNROLL
            for (int c = 0; c < SIMD_WIDTH; c++)
                place[c * BLOCK_VECTORS] = VECTOR(as_int)(x[c]);
            for (int c = 0; n0 + 4 * c < count && c < SIMD_WIDTH; c++) {
                const ints y = place[c * BLOCK_VECTORS];
                some |= y;
                gaps |= (y - 0x01010101) & ~y; /* the highest bit of a byte that is 0 */
            }
        }
    }
    if (!any_lane(some))
        return NONE_VISIBLE;
    return any_lane(gaps & (int)0x80808080) ? SOME_HIDDEN : ALL_VISIBLE;
}

/* Not 0 where a query of vector m sees key n. */
INLINE ints mask_of(const struct sight *sight, const int n, const int m)
{
#ifdef __ENDIAN_LITTLE__
    const int byte = n % 4;
#else
    const int byte = 3 - n % 4;
#endif
    return sight->mask[n / 4 * BLOCK_VECTORS + m] & (int)(0xffu << 8 * byte);
}
#endif

/* Reads what the tile needs, and says what the next one will. Returns 0 if no query of the block
 * sees any of its keys. */
INLINE int read_changes(SHAPE_PARAMS, const struct place block, const long j, const int count,
                        struct sight *sight, struct ahead *ahead, lanes *biases,
                        ints *masks BIAS_PARAM MASK_PARAM)
{
    const int more = j + BLOCK_N < a.seq_kv;

#if HAS_BIAS
    const __global bias_storage *b = bias + at.bias + block.b * a.bias_stride[0] +
                                     block.h * a.bias_stride[1] + block.i * a.bias_stride[2] +
                                     j * a.bias_stride[3];
    const enum outlook biased = read_biases(a, block, j, count, b, biases);
    if (biased == NONE_VISIBLE)
        return 0;
    sight->bias = biases;
    ahead->streams[AHEAD_BIAS] =
        stream_of(b + BLOCK_N, a.bias_stride[2] * (long)sizeof(bias_storage),
                  more && a.bias_stride[3] == 1, a.bias_stride[2] ? block.queries : 1, BLOCK_M,
                  BLOCK_N * (int)sizeof(bias_storage));
    sight->hides |= biased == SOME_HIDDEN;
#endif
#if HAS_MASK
    const __global uchar *p = mask + at.mask + block.b * a.mask_stride[0] +
                              block.h * a.mask_stride[1] + block.i * a.mask_stride[2] +
                              j * a.mask_stride[3];
    const enum outlook masked = read_mask(a, block, j, count, p, masks);
    if (masked == NONE_VISIBLE)
        return 0;
    sight->mask = masks;
    ahead->streams[AHEAD_MASK] =
        stream_of(p + BLOCK_N, a.mask_stride[2], more && a.mask_stride[3] == 1,
                  a.mask_stride[2] ? block.queries : 1, BLOCK_M, BLOCK_N);
    sight->hides |= masked == SOME_HIDDEN;
#endif
    return 1;
}

/* ---- changes -------------------------------------------------------------------------------- */

/* x with -inf where the window hides key n from queries of vector m. */
INLINE lanes hide(const struct sight *sight, const int n, const int m, const lanes x)
{
    lanes y = x;
#if HAS_WINDOW_LEFT
    y = n < sight->begin[m] ? (lanes)(-INFINITY) : y;
#endif
#if HAS_WINDOW_RIGHT
    y = n > sight->last[m] ? (lanes)(-INFINITY) : y;
#endif
    return y;
}

#if HAS_SOFTCAP
/* Scores within the cap, which are most, are spared the division. */
INLINE void cap_scores(const struct sight *sight, lanes (*s)[BLOCK_VECTORS])
{
    lanes most = 0.0f; /* of the squares */

    UNROLL
    for (int n = 0; n < QK_KEYS; n++) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            s[n][m] *= sight->shrink;
            const lanes square = s[n][m] * s[n][m];
            most = square > most ? square : most;
        }
    }
    if (!any_lane(most > 1.0f)) {
        UNROLL
        for (int n = 0; n < QK_KEYS; n++) {
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++)
                s[n][m] = small_tangent(s[n][m]) * sight->softcap;
        }
    } else {
        UNROLL
        for (int n = 0; n < QK_KEYS; n += 2) {
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++)
                hyperbolic_tangents(&s[n][m], &s[n + 1][m], sight->softcap);
        }
    }
}
#endif

/* Products of keys n0 .. n0 + QK_KEYS - 1, of which those from count on stand for the last, become
 * scores. */
INLINE void change_scores(const struct sight *sight, const int n0, const int count,
                          lanes (*s)[BLOCK_VECTORS])
{
#if HAS_SOFTCAP
    cap_scores(sight, s);
#endif
#if HAS_BIAS || HAS_ALIBI
    UNROLL
    for (int n = 0; n < QK_KEYS; n++) {
        const int key = n0 + n;
        (void)key;
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            lanes x = s[n][m];
#if HAS_BIAS
            x += sight->bias[key * BLOCK_VECTORS + m];
#endif
#if HAS_ALIBI
            x = fma((lanes)(sight->slope), sight->distance[m] + (float)key, x);
#endif
            s[n][m] = x;
        }
    }
#endif
#if HIDES_ANYWHERE
    if (sight->hides) {
        UNROLL
        for (int n = 0; n < QK_KEYS; n++) {
            const int key = n0 + n;
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++) {
#if HAS_BIAS
                s[n][m] = sight->bias[key * BLOCK_VECTORS + m] == -INFINITY ? (lanes)(-INFINITY)
                                                                            : s[n][m];
#endif
#if HAS_MASK
                s[n][m] = mask_of(sight, key, m) == 0 ? (lanes)(-INFINITY) : s[n][m];
#endif
            }
        }
    }
#endif
#if HAS_WINDOW
    if (n0 < sight->all_begin || n0 + QK_KEYS > sight->all_end) {
        UNROLL
        for (int n = 0; n < QK_KEYS; n++) {
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++)
                s[n][m] = hide(sight, n0 + n, m, s[n][m]);
        }
    }
#endif
#if CHANGES_SCORES || HAS_WINDOW
    if (n0 + QK_KEYS > count) {
        UNROLL
        for (int n = 0; n < QK_KEYS; n++) {
            UNROLL
            for (int m = 0; m < BLOCK_VECTORS; m++)
                s[n][m] = n0 + n < count ? s[n][m] : (lanes)(-INFINITY);
        }
    }
#endif
}

#if HAS_DROPOUT
/* The weights of keys j .. j + count - 1 after dropout; one of -0 stays one. */
NOINLINE void drop_weights(SHAPE_PARAMS, const struct place block, const long j, const int count,
                           lanes *p)
{
    const uint first = (uint)block.i;

    for (int n = -(int)(j % 4); n < count; n += 4) {
        UNROLL
        for (int m = 0; m < BLOCK_VECTORS; m++) {
            lanes x[4];
            dropout_factors_of_key(a, at, block.b * a.heads + block.h,
                                   first + m * SIMD_WIDTH + VECTOR(convert_uint)(COUNT_UP),
                                   (uint)((j + n) / 4), x);
            UNROLL
            for (int c = 0; c < 4; c++)
                if (n + c >= 0 && n + c < count)
                    p[(n + c) * BLOCK_VECTORS + m] *= x[c];
        }
    }
}
#endif

#endif

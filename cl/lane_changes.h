/* What changes a tile's scores between the products and the softmax, and its weights after it, where
 * lanes are queries: softcap, bias, ALiBi, mask, window; dropout.
 *
 * A block has MV vectors of queries, a tile at most BN keys: s[n * MV + m] holds key n's scores (or
 * weights) of vector m. Biases and masks lie the other way round, a query's keys in a row, so they
 * are read by rows and transposed. Lanes beyond the last query repeat it; nothing outside the
 * tensors is read. ALiBi without a softcap and, where no other change follows it, the window are
 * better applied to products in registers: hide() and sight.distance serve that.
 *
 * Before including this: common.cl, WIDTH, MV and BN. */
#ifndef CLATTN_LANE_CHANGES_H
#define CLATTN_LANE_CHANGES_H
#include "lane_scores.h"
#if HAS_DROPOUT
#define RANDOM_LANES WIDTH
#include "philox.h"
#endif

#define BM (WIDTH * MV)

/* What a block of queries has besides its big arrays. */
struct place {
    long b, h, i; /* i: its first query */
    struct extent e;
    int queries; /* rows of it in use, 1..BM */
};

/* Whether a pass of its own changes scores after all products of a tile. */
#define CHANGES_LATER (HAS_SOFTCAP || HAS_BIAS || HAS_MASK)

/* Where a tile's keys are, as a block's queries see them; keys count from the tile's first. */
struct sight {
    ints begin[MV], last[MV]; /* by window, of each query */
    int all_begin, all_end;   /* what every query sees */
    lanes distance[MV];       /* of key 0, with ALiBi */
    float slope;
};

INLINE struct sight sight_of(SHAPE_PARAMS, const struct place block, const long j SLOPES_PARAM)
{
    struct sight sight;
#if HAS_WINDOW
    const ints lane = VECTOR(convert_int)(COUNT_UP);
    const long last = block.i + block.queries - 1;
    sight.all_begin = (int)clamp(first_key(a, block.e, last) - j, 0L, (long)BN);
    sight.all_end = (int)clamp(end_key(a, block.e, block.i) - j, 0L, (long)BN);
#endif
#if HAS_ALIBI
    sight.slope = slopes[at.slopes + block.h] * UNIT;
#endif
    UNROLL
    for (int m = 0; m < MV; m++) {
        const long now = block.i + m * WIDTH + block.e.diagonal - j; /* of the first lane */
        (void)now;
#if HAS_WINDOW_LEFT
        sight.begin[m] = (int)clamp(now - a.window_left, -(long)BN, (long)BN) + lane;
#endif
#if HAS_WINDOW_RIGHT
        sight.last[m] = (int)clamp(now + a.window_right, -(long)BM, (long)BN) + lane;
#endif
#if HAS_ALIBI
        sight.distance[m] = (float)-now - COUNT_UP;
#endif
    }
    return sight;
}

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

#if CHANGES_LATER
/* Softcap, bias, ALiBi after a softcap, and, where hides, what is masked (-inf) for keys
 * j .. j + count - 1. */
INLINE void change_scores(const int hides, SHAPE_PARAMS, const struct place at_block,
                          const struct sight *sight, const long j, const int count, lanes *s,
                          lanes *top BIAS_PARAM MASK_PARAM)
{
    UNROLL
    for (int m = 0; m < MV; m++) {
#if HAS_BIAS || HAS_MASK
        const long i = at_block.i + m * WIDTH;
#endif
        for (int n0 = 0; n0 < count; n0 += WIDTH) {
#if HAS_BIAS || HAS_MASK
            const int last = at_block.queries - 1 - m * WIDTH;
#endif
#if HAS_BIAS
            lanes biases[WIDTH];
            for (int r = 0; r < WIDTH; r++)
                biases[r] = load_biases(bias + at.bias + at_block.b * a.bias_stride[0] +
                                            at_block.h * a.bias_stride[1] +
                                            (i + min(r, last)) * a.bias_stride[2] +
                                            (j + n0) * a.bias_stride[3],
                                        a.bias_stride[3], count - n0);
            transpose(biases);
#endif
#if HAS_MASK
            lanes visible[WIDTH];
            for (int r = 0; r < WIDTH; r++)
                visible[r] = load_mask(mask + at.mask + at_block.b * a.mask_stride[0] +
                                           at_block.h * a.mask_stride[1] +
                                           (i + min(r, last)) * a.mask_stride[2] +
                                           (j + n0) * a.mask_stride[3],
                                       a.mask_stride[3], count - n0);
            transpose(visible);
#endif
            for (int c = 0; c < min(WIDTH, count - n0); c++) {
                const int n = n0 + c;
                lanes x = s[n * MV + m];
#if HAS_SOFTCAP
                x = hyperbolic_tangent(x * min(1.0f / a.softcap, FLT_MAX)) * (a.softcap * UNIT);
#endif
#if HAS_BIAS
                x = biases[c] == -INFINITY ? (lanes)(-INFINITY) : x + biases[c];
#endif
#if HAS_ALIBI && HAS_SOFTCAP
                x = fma((lanes)(sight->slope), sight->distance[m] + (float)n, x);
#endif
#if HAS_MASK
                x = visible[c] == 0.0f ? (lanes)(-INFINITY) : x;
#endif
                if (hides)
                    x = hide(sight, n, m, x);
                s[n * MV + m] = x;
                top[m] = x > top[m] ? x : top[m];
            }
        }
    }
}
#endif

#if HAS_DROPOUT
/* The weights of keys j .. j + count - 1 after dropout; one of -0 stays one. */
INLINE void drop_weights(SHAPE_PARAMS, const struct place block, const long j, const int count,
                         lanes *p)
{
    const uint first = (uint)block.i;

    for (int n = -(int)(j % 4); n < count; n += 4) {
        UNROLL
        for (int m = 0; m < MV; m++) {
            lanes x[4];
            dropout_factors(a, at, block.b * a.heads + block.h,
                            first + m * WIDTH + VECTOR(convert_uint)(COUNT_UP),
                            (words)(uint)((j + n) / 4), x);
            UNROLL
            for (int c = 0; c < 4; c++)
                if (n + c >= 0 && n + c < count)
                    p[(n + c) * MV + m] *= x[c];
        }
    }
}
#endif

#endif

/* What the two products of fused_lanes and fused_dot multiply: vectors of elements of queries or
 * weights (lanes) with elements of keys or values (operand), which are broadcast to all lanes. With
 * OPERAND_PAIRS an operand is a pair of bf16 values (cpu/pairs.h): neighbours of the dim in Q K^T,
 * neighbouring keys in P V; else a float.
 *
 *   source                    operands of keys or values, where they are or staged
 *   OPERANDS(dim)             of a row of dim values of q or k
 *   KEYS_TOGETHER             keys whose weights, and values, are in an operand
 *   spread, SPREAD(p)         *p as MULTIPLY() takes it
 *   MULTIPLY(x, y, sum)       sum + x y
 *   stage_tile()              keys and values as operands
 *   value_of()                a staged value
 *
 * A tile begins with a whole operand; where it ends with one that is not, the rest of it is 0. */
#ifndef CLATTN_FUSED_OPERANDS_H
#define CLATTN_FUSED_OPERANDS_H
#include "common/key_rows.h"
#include "cpu/quantized_simd.h"

#if OPERAND_PAIRS
#include "cpu/pairs.h"

typedef uint operand;
typedef const uint *spread;
#define OPERANDS(dim) PAIRS_IN(dim)
#define KEYS_TOGETHER 2
#define SPREAD(p) (p)
#define MULTIPLY(x, y, sum) dot_pairs(x, y, sum)

struct __attribute__((packed)) unaligned_pairs {
    pair_words x;
};
#define UNALIGNED_PAIRS(p) (((const __global struct unaligned_pairs *)(p))->x)

/* Two neighbours along the dim of which `left` exist. */
INLINE uint load_pair(const __global ushort *p, const long step, const int left)
{
    return (left > 0 ? (uint)p[0] : 0) | (left > 1 ? (uint)p[step] << 16 : 0);
}

/* The pairs of a row of dim values, of which `left` exist, at most SIMD_WIDTH pairs; zeros after them. */
INLINE lanes load_pairs_of_row(const __global ushort *p, const long step, const int left)
{
    uint x[SIMD_WIDTH];

    if (step == 1 && left >= 2 * SIMD_WIDTH)
        return VECTOR(as_float)(UNALIGNED_PAIRS(p));
    for (int c = 0; c < SIMD_WIDTH; c++)
        x[c] = load_pair(p + 2 * c * step, step, left - 2 * c);
    return VECTOR(as_float)(VECTOR(vload)(0, x));
}

INLINE void stage_key_pairs(uint *to, const __global ushort *p, const long step)
{
    int d = 0;

    if (step == 1)
        for (; d + 2 * SIMD_WIDTH <= DIM_QK; d += 2 * SIMD_WIDTH)
            VECTOR(vstore)(UNALIGNED_PAIRS(p + d), 0, to + d / 2);
    for (; d < DIM_QK; d += 2)
        to[d / 2] = load_pair(p + d * step, step, DIM_QK - d);
}

/* The values of two keys; the second may be 0. */
INLINE void stage_value_pairs(uint *to, const __global ushort *first, const __global ushort *second,
                              const long step)
{
    int d = 0;

    if (step == 1 && second)
        for (; d + SIMD_WIDTH <= DIM_V; d += SIMD_WIDTH) {
            const pair_words x = VECTOR(convert_uint)(VECTOR(vload)(0, first + d));
            const pair_words y = VECTOR(convert_uint)(VECTOR(vload)(0, second + d));
            VECTOR(vstore)(x | y << 16, 0, to + d);
        }
    for (; d < DIM_V; d++)
        to[d] = (uint)first[d * step] | (second ? (uint)second[d * step] << 16 : 0);
}

INLINE void stage_tile(SHAPE_PARAMS, const long b, const long j, const int count,
                       const __global ushort *k, const __global ushort *v, uint *k_staged,
                       uint *v_staged PAGES_PARAM)
{
    for (int n = 0; n < count; n++)
        stage_key_pairs(k_staged + n * OPERANDS(DIM_QK), k + KEY_ROW(b, j + n, a.k_stride),
                        K_STEP);
    for (int n = 0; n < count; n += 2)
        stage_value_pairs(v_staged + n / 2 * DIM_V, v + KEY_ROW(b, j + n, a.v_stride),
                          n + 1 < count ? v + KEY_ROW(b, j + n + 1, a.v_stride) : 0, V_STEP);
}

/* Value d of key n. */
INLINE float value_of(const uint *v, const int n, const int d, const long v_row,
                      const long v_column)
{
    const uint pair = v[n / 2 * v_row + d * v_column];

    return n % 2 ? second_of_word(pair) : first_of_word(pair);
}
#else
typedef float operand;
typedef lanes spread;
#define OPERANDS(dim) (dim)
#define KEYS_TOGETHER 1
#define SPREAD(p) (*(p))
#define MULTIPLY(x, y, sum) fma(x, y, sum)

#if STAGED
INLINE void stage_tile(SHAPE_PARAMS, const long b, const long j, const int count,
                       const __global k_storage *k, const __global v_storage *v, float *k_staged,
                       float *v_staged PAGES_PARAM)
{
    for (int n = 0; n < count; n++) {
        stage_key(k_staged + n * DIM_QK, K_PLACE(k, KEY_ROW(b, j + n, a.k_stride)), K_STEP);
        stage_value(v_staged + n * DIM_V, V_PLACE(v, KEY_ROW(b, j + n, a.v_stride)), V_STEP);
    }
}
#endif

INLINE float value_of(source v, const int n, const int d, const long v_row, const long v_column)
{
    return v[n * v_row + d * v_column];
}
#endif

/* From which operand on, and how many there are, where n keys come before. */
#define OPERANDS_BEFORE(n) ((n) / KEYS_TOGETHER)

#endif

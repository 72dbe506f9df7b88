/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of fragment.h by NVIDIA's instructions, in inline PTX, and the same in plain C for other devices and emulation:
 *
 *   sub_group_barrier()       a barrier of a sub-group; pair_barrier() of pair n of sub-groups, one of four: the second
 *                             waits, the first goes on. In C all wait. (A barrier whose number is in a register would
 *                             make a group have all sixteen.)
 *   element_round()           makes an element; pack_pair() makes a word of two, x in the low half
 *   LATER(), later_long()     hide an index, or 64 bits, from this place on: what follows is not computed before
 *   any_in_sub_group()        x in any lane of the sub-group, if all lanes branch alike; else x itself
 *   this_thread_again()       THIS_THREAD, read anew: after a long loop, through which it would take a register
 *   add_product_if()          sum + x y if the condition is not 0, else the sum
 *   approximate_reciprocal()  by the instruction that native_recip compiles to, accurate to 1 ulp
 *   within_or_nan()           x, limited to -most .. most; a NaN stays
 *   load_query_from(), ...    operands of a tile from where a lane begins (fragment_tile.h) */
#pragma once

#if HAS_PTX
static inline void sub_group_barrier(void)
{
    __asm volatile("bar.warp.sync 0xffffffff;" : : : "memory");
}

static inline void pair_barrier(const int n, const bool waits)
{
    if (waits)
        __asm volatile("{.reg .pred p, q, r, s; setp.eq.u32 p, %0, 0; setp.eq.u32 q, %0, 1; "
                       "setp.eq.u32 r, %0, 2; setp.eq.u32 s, %0, 3; @p bar.sync 1, 64; "
                       "@q bar.sync 2, 64; @r bar.sync 3, 64; @s bar.sync 4, 64;}"
                       :
                       : "r"(n)
                       : "memory");
    else
        __asm volatile("{.reg .pred p, q, r, s; setp.eq.u32 p, %0, 0; setp.eq.u32 q, %0, 1; "
                       "setp.eq.u32 r, %0, 2; setp.eq.u32 s, %0, 3; @p bar.arrive 1, 64; "
                       "@q bar.arrive 2, 64; @r bar.arrive 3, 64; @s bar.arrive 4, 64;}"
                       :
                       : "r"(n)
                       : "memory");
}

static inline ushort element_round(const float x)
{
    return (ushort)convert_pair(x, 0.0f);
}

static inline uint pack_pair(const float x, const float y)
{
    return convert_pair(x, y);
}

#define LATER(x) __asm volatile("" : "+r"(x))

INLINE void later_long(ulong *x)
{
    __asm volatile("" : "+l"(*x));
}

static inline bool any_in_sub_group(const bool x)
{
    uint any;

    __asm volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.any.pred p, p, 0xffffffff; "
                   "selp.u32 %0, 1, 0, p;}"
                   : "=r"(any)
                   : "r"((uint)x));
    return any;
}

INLINE uint this_thread_again(void)
{
    uint thread;

    __asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

/* A compiler would compute the sum, and choose. */
INLINE float add_product_if(const uint condition, const float x, const float y, const float sum)
{
    float z = sum;

    __asm("{.reg .pred kept; setp.ne.b32 kept, %3, 0; @kept fma.rn.f32 %0, %1, %2, %0;}"
          : "+f"(z)
          : "f"(x), "f"(y), "r"(condition));
    return z;
}

INLINE float approximate_reciprocal(const float x)
{
    float y;

    __asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

INLINE float within_or_nan(const float x, const float most)
{
    float y;

    __asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(most));
    __asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(y), "f"(-most));
    return y;
}

/* The rows and columns that a lane addresses: rows 0..15 of columns 0..7, then of columns 8..15. */
static inline int rows_start(const int stride, const int lane)
{
    return lane % 16 * stride + lane / 16 * 8;
}

/* The keys that a lane addresses: 0..7 of both halves of the columns, then 8..15. */
static inline int keys_start(const int stride, const int lane)
{
    return (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8;
}

static inline void load_query_from(uint *words, const __local ushort *from, const int stride,
                                   const int lane)
{
    load_matrices(words, from);
}

static inline void load_keys_from(uint *words, const __local ushort *from, const int stride,
                                  const int lane)
{
    load_matrices(words, from);
}

static inline void load_values_from(uint *words, const __local ushort *from, const int stride,
                                    const int lane)
{
    load_matrices_transposed(words, from);
}
#else
static inline void sub_group_barrier(void)
{
    LOCAL_BARRIER();
}

static inline void pair_barrier(const int n, const bool waits)
{
    LOCAL_BARRIER();
}

static inline ushort element_round(const float x)
{
#if DTYPE == DTYPE_F16 && !EMULATE && defined(cl_khr_fp16)
    return as_ushort((half)x); /* one instruction, which rounds to nearest even */
#else
    ushort2 rounded = 0;

    if (DTYPE != DTYPE_F16)
        return bf16_round(x);
    vstore_half_rte(x, 0, (half *)&rounded);
    return rounded.x;
#endif
}

static inline uint pack_pair(const float x, const float y)
{
    return element_round(x) | (uint)element_round(y) << 16;
}

#define LATER(x)

INLINE void later_long(ulong *x)
{
}

static inline bool any_in_sub_group(const bool x)
{
    return x;
}

INLINE uint this_thread_again(void)
{
    return THIS_THREAD;
}

INLINE float add_product_if(const uint condition, const float x, const float y, const float sum)
{
    return condition ? fma(x, y, sum) : sum;
}

INLINE float approximate_reciprocal(const float x)
{
    return 1.0f / x;
}

INLINE float within_or_nan(const float x, const float most)
{
    return x > most ? most : x < -most ? -most : x;
}

static inline int rows_start(const int stride, const int lane)
{
    return 0;
}

static inline int keys_start(const int stride, const int lane)
{
    return 0;
}

static inline void load_query_from(uint *words, const __local ushort *tile, const int stride,
                                   const int lane)
{
    const int run = QUERY_RUN ? QUERY_RUN : 1;

    UNROLL
    for (int w = 0; w < QUERY_WORDS; w += run) {
        const __local ushort *const from =
            tile + query_row(lane, 2 * w) * stride + query_depth(lane, 2 * w);
        if (QUERY_RUN)
            load_run(words + w, from, QUERY_RUN);
        else
            words[w] =
                *from |
                (uint)tile[query_row(lane, 2 * w + 1) * stride + query_depth(lane, 2 * w + 1)]
                    << 16;
    }
}

static inline void load_keys_from(uint *words, const __local ushort *tile, const int stride,
                                  const int lane)
{
    UNROLL
    for (int m = 0; m < OTHERS_AT_ONCE; m++)
        UNROLL
    for (int w = 0; w < OTHER_WORDS; w += KEY_RUN)
        load_run(words + m * OTHER_WORDS + w,
                 tile + (m * FRAGMENT_OTHERS + other_column(lane)) * stride +
                     other_depth(lane, 2 * w),
                 KEY_RUN);
}

static inline void load_values_from(uint *words, const __local ushort *tile, const int stride,
                                    const int lane)
{
    UNROLL
    for (int m = 0; m < OTHERS_AT_ONCE; m++)
        UNROLL
    for (int w = 0; w < OTHER_WORDS; w++) {
        const int dim = m * FRAGMENT_OTHERS + other_column(lane);
        words[m * OTHER_WORDS + w] = tile[other_depth(lane, 2 * w) * stride + dim] |
                                     (uint)tile[other_depth(lane, 2 * w + 1) * stride + dim] << 16;
    }
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's mma.sync.m16n8k16, and m16n8k32 of bytes, by inline PTX (sm_80 and newer).
 *
 * Layout: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" (A, B, C and D) and
 * "Warp-level matrix load instruction: ldmatrix". Queries are rows, A holds q or weights. */
#pragma once
#include "mma/fragment_options.h"

enum {
    FRAGMENT_LANES = 32,
    FRAGMENT_QUERIES = 16,
    FRAGMENT_OTHERS = 8,
    FRAGMENT_DEPTH = 16,
    FRAGMENT_SUMS = 4,
    QUERY_WORDS = 4,
    LANE_QUERIES = (HALF_ROWS ? 1 : 2),
    FIRST_SHARING_BIT = 1,
    SHARING_BITS_END = 4,
    REPLICAS = 1,
    KEY_RUN = 1,
    OTHERS_AT_ONCE = 2,
    SUMS_OF_QUERY = 2,
    OTHER_WORDS = 2,
    QUERY_RUN = 1,
    WEIGHTS_ARE_EXCHANGED = 0,
    HALVES_ALTERNATE = 0
};
#define HAS_COPIES 1
#define HAS_TILE_PRODUCTS (INSTRUCTION == 7) /* fragment_wgmma.h */
#define HAS_AMD_BUILTINS 0
#define SUB_GROUP_ATTRIBUTE
#define PACKED_VALUES 0
#define KEYS_OF_SUMS 2

static inline int lane_query(const int lane, const int n)
{
    return lane / 4 + 8 * n;
}
static inline int sum_other(const int lane, const int e)
{
    return lane % 4 * 2 + e % 2;
}
static inline int query_row(const int lane, const int e)
{
    return lane / 4 + e / 2 % 2 * 8;
}
static inline int query_depth(const int lane, const int e)
{
    return lane % 4 * 2 + e % 2 + e / 4 * 8;
}
static inline int other_column(const int lane)
{
    return lane / 4;
}
static inline int other_depth(const int lane, const int e)
{
    return lane % 4 * 2 + e % 2 + e / 2 * 8;
}

#if !EMULATE
#if DTYPE == DTYPE_F16
#define MMA_SYNC_TYPE "f16"
#else
#define MMA_SYNC_TYPE "bf16"
#endif

/* Volatile, with sums read and written at one place: unrolled loops could otherwise add to a stale
 * copy. */
static inline void multiply_add(float *sum, const uint *query, const uint *other, const int lane,
                                __local float *exchange)
{
    __asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." MMA_SYNC_TYPE "." MMA_SYNC_TYPE
                   ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                   : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                   : "r"(query[0]), "r"(query[1]), "r"(query[2]), "r"(query[3]), "r"(other[0]),
                     "r"(other[1]));
}

#if HAS_INT8
/* mma.sync.m16n8k32 has the same layout of words: "Matrix Fragments for mma.m16n8k32" of the same document. */
static inline void multiply_add_bytes(int *sum, const uint *query, const uint *other,
                                      const int lane, __local float *exchange)
{
    __asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, "
                   "%7}, {%8, %9}, {%0, %1, %2, %3};"
                   : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
                   : "r"(query[0]), "r"(query[1]), "r"(query[2]), "r"(query[3]), "r"(other[0]),
                     "r"(other[1]));
}
#endif

static inline uint word_xor(const uint x, const int bit, const int lane)
{
    uint y;

    __asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(y) : "r"(x), "r"(bit));
    return y;
}

/* Returns the x of lane number `lane`. */
static inline float value_of_lane(const float x, const int from)
{
    float y;

    __asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(y) : "f"(x), "r"(from));
    return y;
}

/* Rounds two floats to the halves of a word, to nearest even, with x in the low half. */
static inline uint convert_pair(const float x, const float y)
{
    uint word;

    __asm("cvt.rn." MMA_SYNC_TYPE "x2.f32 %0, %1, %2;" : "=r"(word) : "f"(y), "f"(x));
    return word;
}

/* The instruction that native_exp2 compiles to, accurate to 2 ulp, by its own name. */
static inline float approximate_exp2(const float x)
{
    float y;

    __asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static inline uint shared_address(const __local void *p)
{
    return (uint)(size_t)p;
}

/* Four matrices of 8 x 8; lane n gives the address of row n % 8 of matrix n / 8. */
static inline void load_matrices(uint *words, const __local ushort *row)
{
    __asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "r"(shared_address(row))
                   : "memory");
}

static inline void load_matrices_transposed(uint *words, const __local ushort *row)
{
    __asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "r"(shared_address(row))
                   : "memory");
}

/* Copies 16 bytes to local memory in the background, or zeros unless inside. */
static inline void copy_chunk(__local ushort *to, const __global void *from, const bool inside)
{
    __asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                   :
                   : "r"(shared_address(to)), "l"(from), "r"(inside ? 16 : 0)
                   : "memory");
}

/* Copies three floats in the background, each with an address of its own. */
static inline void copy_three(__local float *to, const __global float *from)
{
    __asm volatile(
        "cp.async.ca.shared.global [%0], [%1], 4; cp.async.ca.shared.global [%0 + 4], [%1 + 4], 4;"
        "cp.async.ca.shared.global [%0 + 8], [%1 + 8], 4;"
        :
        : "r"(shared_address(to)), "l"(from)
        : "memory");
}

/* Copies a piece of 4, 8 or 16 bytes in the background: `size` bytes are read, the others are 0. */
static inline void copy_piece(__local uchar *to, const __global uchar *from, const int piece,
                              const int size)
{
    if (piece == 16)
        __asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                       :
                       : "r"((uint)(size_t)to), "l"(from), "r"(size)
                       : "memory");
    else if (piece == 8)
        __asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
                       :
                       : "r"((uint)(size_t)to), "l"(from), "r"(size)
                       : "memory");
    else
        __asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                       :
                       : "r"((uint)(size_t)to), "l"(from), "r"(size)
                       : "memory");
}

static inline void async_copies_wait(void)
{
    __asm volatile("cp.async.wait_all;" : : : "memory");
}

/* Commits the copies that were begun since the last call as one set (a group of cp.async). COPIES_WAIT_BUT_SETS(n) waits for
 * all sets but the last n. */
static inline void copies_end_set(void)
{
    __asm volatile("cp.async.commit_group;" : : : "memory");
}
#define COPIES_WAIT_BUT_SETS(n) __asm volatile("cp.async.wait_group %0;" : : "n"(n) : "memory")

/* Chooses four of eight bytes, those of x and then those of y: each digit of the order selects
 * one. */
static inline uint permute_bytes(const uint x, const uint y, const uint order)
{
    uint z;

    __asm("prmt.b32 %0, %1, %2, %3;" : "=r"(z) : "r"(x), "r"(y), "r"(order));
    return z;
}

/* Computes x y + z of two elements. */
static inline uint fma_pair(const uint x, const uint y, const uint z)
{
    uint sum;

    __asm("fma.rn." MMA_SYNC_TYPE "x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(y), "r"(z));
    return sum;
}
#else
static inline void copy_chunk(__local ushort *to, const __global void *from, const bool inside)
{
    *(__local uint4 *)to = inside ? *(const __global uint4 *)from : (uint4)0;
}

static inline void copy_three(__local float *to, const __global float *from)
{
    to[0] = from[0];
    to[1] = from[1];
    to[2] = from[2];
}

static inline void copy_piece(__local uchar *to, const __global uchar *from, const int piece,
                              const int size)
{
    for (int n = 0; n < piece; n++)
        to[n] = n < size ? from[n] : (uchar)0;
}

static inline void async_copies_wait(void)
{
}
static inline void copies_end_set(void)
{
}
#define COPIES_WAIT_BUT_SETS(n)

static inline uint permute_bytes(const uint x, const uint y, const uint order)
{
    uint z = 0;

    for (int n = 0; n < 4; n++) {
        const uint from = order >> 4 * n & 7;
        z |= ((from < 4 ? x : y) >> from % 4 * 8 & 0xff) << 8 * n;
    }
    return z;
}

static inline ushort element_round(const float x);
static inline float element_value(const ushort x);
static inline uint fma_pair(const uint x, const uint y, const uint z)
{
    const float low =
        fma(element_value((ushort)x), element_value((ushort)y), element_value((ushort)z));
    const float high = fma(element_value((ushort)(x >> 16)), element_value((ushort)(y >> 16)),
                           element_value((ushort)(z >> 16)));

    return element_round(low) | (uint)element_round(high) << 16;
}
#endif

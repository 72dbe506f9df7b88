/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's mma.sync.m16n8k16, by inline PTX (sm_80 and newer).
 *
 * Layout: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" (A, B, C and D) and
 * "Warp-level matrix load instruction: ldmatrix". Queries are rows, A holds q or weights. */
#pragma once

#define FRAGMENT_LANES 32
#define FRAGMENT_QUERIES 16
#define FRAGMENT_OTHERS 8
#define FRAGMENT_DEPTH 16
#define FRAGMENT_SUMS 4
#define QUERY_WORDS 4
#define OTHER_WORDS 2
#define LANE_QUERIES (HALF_ROWS ? 1 : 2)
#define FIRST_SHARING_BIT 1
#define SHARING_BITS_END 4
#define REPLICAS 1
#define QUERY_RUN 1
#define KEY_RUN 1
#define OTHERS_AT_ONCE 2
#define PACKED_VALUES 0
#define KEYS_OF_SUMS 2
#define HAS_COPIES 1

#define SUM_QUERY(e) ((e) / 2)
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

/* Two neighbouring tiles of scores form a tile of weights in the same order. */
#define WEIGHT_SOURCE(slab, e) ((slab)*8 + (e))
#define VALUE_KEY(depth) (depth)

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

/* The barrier of a sub-group. */
#define SUB_GROUP_BARRIER() __asm volatile("bar.warp.sync 0xffffffff;" : : : "memory")

static inline bool any_in_sub_group(const bool x)
{
    uint any;

    __asm volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.any.pred p, p, 0xffffffff; "
                   "selp.u32 %0, 1, 0, p;}"
                   : "=r"(any)
                   : "r"((uint)x));
    return any;
}
#define ANY_LANE(x) any_in_sub_group(x)
/* The barrier of pair n of sub-groups, one of four: the second waits, the first goes on. (A barrier whose number is in
 * a register would make a group have all sixteen.) */
#define PAIR_BARRIER_BY(how)                                                                       \
    "{.reg .pred p, q, r, s; setp.eq.u32 p, %0, 0; setp.eq.u32 q, %0, 1; setp.eq.u32 r, %0, 2; "   \
    "setp.eq.u32 s, %0, 3; @p bar." how " 1, 64; @q bar." how " 2, 64; @r bar." how " 3, 64; "     \
    "@s bar." how " 4, 64;}"
static inline void pair_barrier(const int n, const bool waits)
{
    if (waits)
        __asm volatile(PAIR_BARRIER_BY("sync") : : "r"(n) : "memory");
    else
        __asm volatile(PAIR_BARRIER_BY("arrive") : : "r"(n) : "memory");
}
#define PAIR_BARRIER(n, waits) pair_barrier(n, waits)
#define LATER(x) __asm volatile("" : "+r"(x))

/* Rounds two floats to the halves of a word, to nearest even, with x in the low half. */
static inline uint convert_pair(const float x, const float y)
{
    uint word;

    __asm("cvt.rn." MMA_SYNC_TYPE "x2.f32 %0, %1, %2;" : "=r"(word) : "f"(y), "f"(x));
    return word;
}
#define HAS_PACK_PAIR 1

/* The instruction that native_exp2 compiles to, accurate to 2 ulp, by its own name. */
static inline float approximate_exp2(const float x)
{
    float y;

    __asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#define NATIVE_EXP2 approximate_exp2

/* The instruction that native_recip compiles to, accurate to 1 ulp; x is limited to -most .. most,
 * and a NaN stays. */
static inline float approximate_reciprocal(const float x)
{
    float y;

    __asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#define RECIPROCAL(x) approximate_reciprocal(x)

static inline float within_or_nan(const float x, const float most)
{
    float y;

    __asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(most));
    __asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(y), "f"(-most));
    return y;
}
#define WITHIN_OR_NAN(x, most) within_or_nan(x, most)

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
#define HAS_FRAGMENT_LOADS 1

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

/* Ends a set of copies: those begun since the last call. COPIES_WAIT_BUT_SETS(n) waits for all sets
 * but the last n. */
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
#define SUB_GROUP_BARRIER() LOCAL_BARRIER()
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

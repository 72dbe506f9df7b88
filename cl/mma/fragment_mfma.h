/* SPDX-License-Identifier: Apache-2.0 */
/* AMD's MFMA of CDNA 2 and 3 (gfx90a, gfx942), by compiler builtins: 32 x 32 x 8, or 16 x 16 x 16.
 *
 * Layout: "AMD Instinct MI200 Instruction Set Architecture" and AMD's matrix instruction calculator
 * (v_mfma_f32_32x32x8_f16, v_mfma_f32_16x16x16_f16 and their bf16_1k forms), with n the number of
 * rows: lane l has four neighbours 4 (l / n) + 0..3 of row (of A) or column (of B) l % n; element
 * e of C and D is at row 64 / n * 4 * (e / 4) + 4 (l / n) + e % 4, column l % n. Queries are
 * columns: A holds k or v, B holds q or weights. */
#pragma once

enum {
    FRAGMENT_QUERIES = INSTRUCTION == INSTRUCTION_MFMA_32 ? 32 : 16,
    FRAGMENT_DEPTH = INSTRUCTION == INSTRUCTION_MFMA_32 ? 8 : 16,
    FRAGMENT_SUMS = INSTRUCTION == INSTRUCTION_MFMA_32 ? 16 : 4,
    FRAGMENT_LANES = 64,
    FRAGMENT_OTHERS = FRAGMENT_QUERIES,
    QUERY_WORDS = 2,
    LANE_QUERIES = 1,
    FIRST_SHARING_BIT = FRAGMENT_QUERIES,
    SHARING_BITS_END = FRAGMENT_LANES,
    REPLICAS = 1,
    KEY_RUN = 2,
    OTHERS_AT_ONCE = 1,
    SUMS_OF_QUERY = FRAGMENT_SUMS,
    OTHER_WORDS = 2,
    QUERY_RUN = 2,
    WEIGHTS_ARE_EXCHANGED = 0,
    HALVES_ALTERNATE = 0
};
#define HAS_COPIES 0
#define HAS_TILE_PRODUCTS 0
#define HAS_AMD_BUILTINS !EMULATE
#define SUB_GROUP_ATTRIBUTE
#define PACKED_VALUES 1
#define KEYS_OF_SUMS 4

static inline int lane_query(const int lane, const int n)
{
    return lane % FRAGMENT_QUERIES;
}
static inline int sum_other(const int lane, const int e)
{
    return e / 4 * FRAGMENT_DEPTH + lane / FRAGMENT_QUERIES * 4 + e % 4;
}
static inline int query_row(const int lane, const int e)
{
    return lane % FRAGMENT_QUERIES;
}
static inline int query_depth(const int lane, const int e)
{
    return lane / FRAGMENT_QUERIES * 4 + e;
}
static inline int other_column(const int lane)
{
    return lane % FRAGMENT_OTHERS;
}
static inline int other_depth(const int lane, const int e)
{
    return lane / FRAGMENT_OTHERS * 4 + e;
}

#if !EMULATE
static inline void multiply_add(float *sum, const uint *query, const uint *other, const int lane,
                                __local float *exchange)
{
    const uint2 b = vload2(0, query), a = vload2(0, other);

#if INSTRUCTION == 3
    const float16 c = vload16(0, sum);
#if DTYPE == DTYPE_F16
    vstore16(__builtin_amdgcn_mfma_f32_32x32x8f16(as_half4(a), as_half4(b), c, 0, 0, 0), 0, sum);
#else
    vstore16(__builtin_amdgcn_mfma_f32_32x32x8bf16_1k(as_short4(a), as_short4(b), c, 0, 0, 0), 0,
             sum);
#endif
#else
    const float4 c = vload4(0, sum);
#if DTYPE == DTYPE_F16
    vstore4(__builtin_amdgcn_mfma_f32_16x16x16f16(as_half4(a), as_half4(b), c, 0, 0, 0), 0, sum);
#else
    vstore4(__builtin_amdgcn_mfma_f32_16x16x16bf16_1k(as_short4(a), as_short4(b), c, 0, 0, 0), 0,
            sum);
#endif
#endif
}

#if HAS_INT8
/* The products of bytes of CDNA 3, 32 x 32 x 16 and 16 x 16 x 32, have the same layout: a pair of bytes in each element's
 * place (v_mfma_i32_32x32x16_i8, v_mfma_i32_16x16x32_i8). */
static inline void multiply_add_bytes(int *sum, const uint *query, const uint *other,
                                      const int lane, __local float *exchange)
{
    const long b = as_long(vload2(0, query)), a = as_long(vload2(0, other));

#if INSTRUCTION == 3
    vstore16(__builtin_amdgcn_mfma_i32_32x32x16_i8(a, b, vload16(0, sum), 0, 0, 0), 0, sum);
#else
    vstore4(__builtin_amdgcn_mfma_i32_16x16x32_i8(a, b, vload4(0, sum), 0, 0, 0), 0, sum);
#endif
}
#endif

static inline uint word_xor(const uint x, const int bit, const int lane)
{
    return (uint)__builtin_amdgcn_ds_bpermute((lane ^ bit) * 4, (int)x);
}
#endif

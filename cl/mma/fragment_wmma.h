/* SPDX-License-Identifier: Apache-2.0 */
/* AMD's WMMA 16 x 16 x 16 of RDNA 3 (gfx11) in waves of 32, by compiler builtins.
 *
 * Layout: "RDNA3 Instruction Set Architecture" 7.9 and AMD's matrix instruction calculator
 * (v_wmma_f32_16x16x16_f16, wave32): lane l has row (of A) or column (of B) l % 16 with all 16 of
 * its elements, so both halves of the wave hold the same; element e of C and D is at row
 * 2 e + l / 16, column l % 16. Queries are columns: A holds k or v, B holds q or weights. */
#pragma once

enum {
    FRAGMENT_LANES = 32,
    FRAGMENT_QUERIES = 16,
    FRAGMENT_OTHERS = 16,
    FRAGMENT_DEPTH = 16,
    FRAGMENT_SUMS = 8,
    QUERY_WORDS = 8,
    LANE_QUERIES = 1,
    FIRST_SHARING_BIT = 16,
    SHARING_BITS_END = 32,
    REPLICAS = 2,
    KEY_RUN = 8,
    OTHERS_AT_ONCE = 1,
    SUMS_OF_QUERY = FRAGMENT_SUMS,
    OTHER_WORDS = 8,
    QUERY_RUN = 8,
    WEIGHTS_ARE_EXCHANGED = 1,
    HALVES_ALTERNATE = 0
};
#define HAS_COPIES 0
#define HAS_TILE_PRODUCTS 0
#define HAS_AMD_BUILTINS !EMULATE
#define SUB_GROUP_ATTRIBUTE
#define PACKED_VALUES 1
#define KEYS_OF_SUMS 1

static inline int lane_query(const int lane, const int n)
{
    return lane % 16;
}
static inline int sum_other(const int lane, const int e)
{
    return 2 * e + lane / 16;
}
static inline int query_row(const int lane, const int e)
{
    return lane % 16;
}
static inline int query_depth(const int lane, const int e)
{
    return e;
}
static inline int other_column(const int lane)
{
    return lane % 16;
}
static inline int other_depth(const int lane, const int e)
{
    return e;
}

#if !EMULATE
static inline void multiply_add(float *sum, const uint *query, const uint *other, const int lane,
                                __local float *exchange)
{
    const uint8 b = vload8(0, query), a = vload8(0, other);
    const float8 c = vload8(0, sum);

#if DTYPE == DTYPE_F16
    vstore8(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32(as_half16(a), as_half16(b), c), 0, sum);
#else
    vstore8(__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(as_short16(a), as_short16(b), c), 0, sum);
#endif
}

/* Only bit 16 is requested: it exchanges rows of 16 lanes. */
static inline uint word_xor(const uint x, const int bit, const int lane)
{
    return (uint)__builtin_amdgcn_permlanex16((int)x, (int)x, 0x76543210, (int)0xfedcba98, false,
                                              false);
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Intel's cl_intel_subgroup_matrix_multiply_accumulate: 8 x N x 16, where N is the size of a
 * sub-group, 8 (Arc A) or 16 (Xe2 and data centre GPUs).
 *
 * Layout: that extension's text. Component m of A is of row m: in sub-groups of 16 lane l has
 * element l of it, in sub-groups of 8 the pair 2 l, 2 l + 1. Component c of B is the pair of rows
 * 2 c, 2 c + 1 of column l; component m of the sums is row m, column l. Queries are rows. */
#pragma once

/* 1: weights pass to the second product through local memory, in rows. */
#ifdef WEIGHTS_IN_MEMORY
#define WEIGHTS_PASS_IN_ROWS WEIGHTS_IN_MEMORY
#else
#define WEIGHTS_PASS_IN_ROWS 0
#endif

enum {
    FRAGMENT_LANES = INSTRUCTION == INSTRUCTION_DPAS_8 ? 8 : 16,
    QUERY_WORDS = INSTRUCTION == INSTRUCTION_DPAS_8 ? 8 : 4,
    FRAGMENT_QUERIES = 8,
    FRAGMENT_OTHERS = FRAGMENT_LANES,
    FRAGMENT_DEPTH = 16,
    FRAGMENT_SUMS = 8,
    LANE_QUERIES = 8,
    FIRST_SHARING_BIT = 1,
    SHARING_BITS_END = FRAGMENT_LANES,
    REPLICAS = 1,
    KEY_RUN = 8,
    OTHERS_AT_ONCE = 1,
    SUMS_OF_QUERY = 1,
    OTHER_WORDS = 8,
    QUERY_RUN = INSTRUCTION == INSTRUCTION_DPAS_8 ? 1 : 0,
    WEIGHTS_ARE_EXCHANGED = 0,
    HALVES_ALTERNATE = INSTRUCTION == INSTRUCTION_DPAS_8 ? !WEIGHTS_PASS_IN_ROWS : 0
};
/* Loops of many instructions are written out: Intel's compiler does not unroll them, and keeps in memory what they index. */
#define LOOPS_ARE_TEXT 1
#define HAS_COPIES 0
#define HAS_TILE_PRODUCTS 0
#define HAS_AMD_BUILTINS 0
#define PACKED_VALUES 1
#define KEYS_OF_SUMS 1

static inline int lane_query(const int lane, const int n)
{
    return n;
}
static inline int sum_other(const int lane, const int e)
{
    return lane;
}
static inline int query_row(const int lane, const int e)
{
    return e * FRAGMENT_LANES / FRAGMENT_DEPTH;
}
static inline int query_depth(const int lane, const int e)
{
    return FRAGMENT_LANES == 8 ? 2 * lane + e % 2 : lane;
}
static inline int other_column(const int lane)
{
    return lane;
}
static inline int other_depth(const int lane, const int e)
{
    return e;
}

#if EMULATE
#define SUB_GROUP_ATTRIBUTE
#else
#define SUB_GROUP_ATTRIBUTE __attribute__((intel_reqd_sub_group_size(FRAGMENT_LANES)))

static inline void multiply_add(float *sum, const uint *query, const uint *other, const int lane,
                                __local float *exchange)
{
#if INSTRUCTION == 5
    const int8 a = as_int8(vload8(0, query));
#else
    const short8 a = as_short8(vload4(0, query));
#endif
    const int8 b = as_int8(vload8(0, other));
    const float8 c = vload8(0, sum);

#if DTYPE == DTYPE_F16
    vstore8(intel_sub_group_f16_f16_matrix_mad_k16(a, b, c), 0, sum);
#else
    vstore8(intel_sub_group_bf16_bf16_matrix_mad_k16(a, b, c), 0, sum);
#endif
}

#if HAS_INT8
/* The product of bytes, 8 x N x 32, has the same layout: a pair of bytes in each element's place. */
static inline void multiply_add_bytes(int *sum, const uint *query, const uint *other,
                                      const int lane, __local float *exchange)
{
#if INSTRUCTION == 5
    const int8 a = as_int8(vload8(0, query));
#else
    const short8 a = as_short8(vload4(0, query));
#endif

    vstore8(intel_sub_group_i8_i8_matrix_mad_k32(a, as_int8(vload8(0, other)), vload8(0, sum)), 0,
            sum);
}
#endif

static inline uint word_xor(const uint x, const int bit, const int lane)
{
    return intel_sub_group_shuffle_xor(x, (uint)bit);
}
#endif

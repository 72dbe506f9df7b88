/* SPDX-License-Identifier: Apache-2.0 */
/* Fragments: tiles of matrices spread over the lanes of a sub-group the way an instruction wants
 * them, and the few operations that attention needs of them, alike for every instruction:
 *
 *   load_query, load_keys, load_values   operands from tiles in local memory (fragment_tile.h)
 *   multiply_add                         sums += operand of queries * operand of keys or dims
 *   multiply_add_bytes                   the same of bytes, with sums that are integers (precision=int8)
 *   query_maximum, query_sum             over the lanes that share a query
 *   take_weights                         an operand of queries from the sums of a product
 *
 * A product has FRAGMENT_QUERIES queries, FRAGMENT_OTHERS keys or dims and FRAGMENT_DEPTH terms; a
 * lane holds FRAGMENT_SUMS of its sums, QUERY_WORDS and OTHER_WORDS of its operands, two 16-bit
 * elements to a word. Of a product of bytes, two are an element. The header of the instruction
 * defines which elements these are:
 *
 *   lane_query(lane, n)       the n-th of LANE_QUERIES queries of a lane's sums
 *   sum_query(e)              the number of sum e's query among them
 *   sum_other(lane, e)        the key or dim of sum e
 *   query_row, query_depth    (lane, e): query and term of element e of an operand of queries
 *   other_column, other_depth (lane), (lane, e): key or dim, and term, in the other operand
 *   FIRST_SHARING_BIT         and those up to SHARING_BITS_END: lanes that differ in these alone
 *                             share queries
 *   REPLICAS                  2: each half of the lanes holds the operands whole
 *   QUERY_RUN, KEY_RUN        words that are neighbours along the terms; 0: a word's elements are not
 *   OTHERS_AT_ONCE            tiles of keys or dims that are loaded together
 *   weight_source(slab, e)    the sum that becomes element e of weights, slab by slab
 *   value_key(depth)          the key, in a slab, of term depth of weights; depth itself with
 *                             WEIGHTS_IN_MEMORY, since weights then pass in rows
 *   KEYS_OF_SUMS              the number of successive sums with neighbouring keys or dims
 *   PACKED_VALUES             1: values in local memory have the order of lanes, else rows
 *
 * registers_for_groups() tells the assembler the number of registers that a work-item may have.
 * LEAVE_FIRST_ASSEMBLY() ends a kernel where the driver assembles a program that is assembled again (wgmma).
 * What else instructions have or lack is in mma/instruction.h.
 *
 * With EMULATE the lanes are consecutive work-items without lockstep. They exchange data through local
 * memory, `exchange`, and barriers: all items of the work-group call these operations together. The
 * layouts are the instruction's own; only the instruction differs. Without EMULATE `exchange` is null. A kernel that
 * multiplies bytes includes gpu/byte_products.h before. */
#pragma once
#include "common/kernel.h"
#include "families/fragment_sizes.h"
#include "gpu/local_barrier.h"
#include "mma/instruction.h"

/* Waits for this thread's own copies to local memory. */
static inline void copies_wait(void)
{
#if HAS_TILE_PRODUCTS
    tiles_stored();
#elif HAS_COPIES
    async_copies_wait();
#endif
}

enum { QUERY_ELEMENTS = 2 * QUERY_WORDS, OTHER_ELEMENTS = 2 * OTHER_WORDS };

/* ---- elements of 16 bits --------------------------------------------------------------------- */

/* The elements of operands in global memory: the problem's elements, or parts of f32 (f32_parts.h).
 * */
#if DTYPE == DTYPE_F32
typedef ushort element;
#else
typedef storage element;
#endif

static inline float element_value(const ushort x)
{
    const ushort2 pair = x; /* a vector: see common/storage.h */

    return DTYPE == DTYPE_F16 ? vload_half(0, (const half *)&pair) : bf16_load(x);
}

/* Words that are neighbours in memory, aligned to their size up to 16 bytes. */
static inline void load_run(uint *words, const __local ushort *from, const int run)
{
    if (run >= 4) {
        vstore4(((const __local uint4 *)from)[0], 0, words);
        if (run == 8)
            vstore4(((const __local uint4 *)from)[1], 1, words);
    } else if (run == 2) {
        vstore2(*(const __local uint2 *)from, 0, words);
    } else {
        *words = as_uint(*(const __local ushort2 *)from);
    }
}

#include "mma/lane_steps.h"

/* ---- between lanes --------------------------------------------------------------------------- */

/* Declares `exchange` of a kernel with so many sub-groups. */
#if EMULATE
#define DECLARE_EXCHANGE(sub_groups)                                                               \
    __local float exchanges[(sub_groups)*EXCHANGE_WORDS];                                          \
    __local float *const exchange = exchanges + THIS_THREAD / FRAGMENT_LANES * EXCHANGE_WORDS

/* Gathers the two matrices in local memory from the operands of all lanes; with replicas, from
 * those of each half of the lanes. */
static inline void multiply_add(float *sum, const uint *query, const uint *other, const int lane,
                                __local float *exchange)
{
    __local float *const queries =
        exchange + lane / (FRAGMENT_LANES / REPLICAS) * (EXCHANGE_WORDS / REPLICAS);
    __local float *const others = queries + FRAGMENT_QUERIES * FRAGMENT_DEPTH;

    for (int e = 0; e < QUERY_ELEMENTS; e++)
        queries[query_row(lane, e) * FRAGMENT_DEPTH + query_depth(lane, e)] =
            element_value((ushort)(query[e / 2] >> e % 2 * 16));
    for (int e = 0; e < OTHER_ELEMENTS; e++)
        others[other_column(lane) * FRAGMENT_DEPTH + other_depth(lane, e)] =
            element_value((ushort)(other[e / 2] >> e % 2 * 16));
    LOCAL_BARRIER(); /* the operands are complete */
    for (int e = 0; e < FRAGMENT_SUMS; e++) {
        const __local float *x = queries + lane_query(lane, sum_query(e)) * FRAGMENT_DEPTH;
        const __local float *y = others + sum_other(lane, e) * FRAGMENT_DEPTH;
        for (int d = 0; d < FRAGMENT_DEPTH; d++)
            sum[e] = fma(x[d], y[d], sum[e]);
    }
    LOCAL_BARRIER(); /* the operands may be overwritten */
}

#if HAS_INT8
/* An element is two bytes. */
static inline void multiply_add_bytes(int *sum, const uint *query, const uint *other,
                                      const int lane, __local float *exchange)
{
    __local float *const queries =
        exchange + lane / (FRAGMENT_LANES / REPLICAS) * (EXCHANGE_WORDS / REPLICAS);
    __local float *const others = queries + FRAGMENT_QUERIES * FRAGMENT_DEPTH;

    for (int e = 0; e < QUERY_ELEMENTS; e++)
        queries[query_row(lane, e) * FRAGMENT_DEPTH + query_depth(lane, e)] =
            as_float(query[e / 2] >> e % 2 * 16 & 0xffff);
    for (int e = 0; e < OTHER_ELEMENTS; e++)
        others[other_column(lane) * FRAGMENT_DEPTH + other_depth(lane, e)] =
            as_float(other[e / 2] >> e % 2 * 16 & 0xffff);
    LOCAL_BARRIER(); /* the operands are complete */
    for (int e = 0; e < FRAGMENT_SUMS; e++) {
        const __local float *x = queries + lane_query(lane, sum_query(e)) * FRAGMENT_DEPTH;
        const __local float *y = others + sum_other(lane, e) * FRAGMENT_DEPTH;
        for (int d = 0; d < FRAGMENT_DEPTH; d++)
            sum[e] = dot_words(as_int(x[d]), as_int(y[d]), sum[e]);
    }
    LOCAL_BARRIER(); /* the operands may be overwritten */
}
#endif

static inline void words_xor(uint *theirs, const uint *mine, const int count, const int bit,
                             const int lane, __local float *exchange)
{
    for (int n = 0; n < count; n++)
        exchange[lane * count + n] = as_float(mine[n]);
    LOCAL_BARRIER(); /* the words are complete */
    for (int n = 0; n < count; n++)
        theirs[n] = as_uint(exchange[(lane ^ bit) * count + n]);
    LOCAL_BARRIER(); /* the words may be overwritten */
}
#else
#define DECLARE_EXCHANGE(sub_groups) __local float *const exchange = 0

static inline void words_xor(uint *theirs, const uint *mine, const int count, const int bit,
                             const int lane, __local float *exchange)
{
    UNROLL
    for (int n = 0; n < count; n++)
        theirs[n] = word_xor(mine[n], bit, lane);
}
#endif

/* Returns the values of lane number lane ^ bit, in the order of this lane's own. */
static inline void queries_xor(float *theirs, const float *mine, const int bit, const int lane,
                               __local float *exchange)
{
    uint words[LANE_QUERIES], received[LANE_QUERIES];

    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        words[n] = as_uint(mine[n]);
    words_xor(received, words, LANE_QUERIES, bit, lane, exchange);
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        theirs[n] = as_float(received[n]);
}

/* Computes the maximum, or the sum, over all lanes that share a query, for each of the lane's
 * queries; all lanes combine in the same order. */
static inline void query_maximum(float *x, const int lane, __local float *exchange)
{
    UNROLL
    for (int bit = FIRST_SHARING_BIT; bit < SHARING_BITS_END; bit *= 2) {
        float y[LANE_QUERIES];
        queries_xor(y, x, bit, lane, exchange);
        UNROLL
        for (int n = 0; n < LANE_QUERIES; n++)
            x[n] = fmax(x[n], y[n]);
    }
}

static inline void query_sum(float *x, const int lane, __local float *exchange)
{
    UNROLL
    for (int bit = FIRST_SHARING_BIT; bit < SHARING_BITS_END; bit *= 2) {
        float y[LANE_QUERIES];
        queries_xor(y, x, bit, lane, exchange);
        UNROLL
        for (int n = 0; n < LANE_QUERIES; n++)
            x[n] += y[n];
    }
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The factor by which a strict weight's rounding error is scaled before it becomes the next part.
 * In f16 the error itself would often be subnormal and lose its bits; a weight of up to 2^15 leaves
 * up to 2^3. */
enum { SCALES_PARTS = DTYPE == DTYPE_F16 ? !HAS_TILE_PRODUCTS : 0 };
#define PART_SCALE (SCALES_PARTS ? 4096.0f : 1.0f)

/* Rounds two weights to elements, and leaves the rounding errors times PART_SCALE in the weights.
 * */
static inline uint take_pair(float *x, float *y)
{
    const uint word = pack_pair(*x, *y);

    *x = (*x - element_value((ushort)word)) * PART_SCALE;
    *y = (*y - element_value((ushort)(word >> 16))) * PART_SCALE;
    return word;
}

/* Makes the operand of queries from weights slab FRAGMENT_DEPTH keys .. + FRAGMENT_DEPTH. All sums
 * of these keys are rounded, and their rounding errors replace them (take_pair()) for the next part
 * of strict weights. */
static inline void take_weights(uint *words, float *sums, const int slab, const int lane,
                                __local float *exchange)
{
    const bool odd = lane >= FRAGMENT_LANES / 2;
    uint mine[FRAGMENT_SUMS / 2], theirs[FRAGMENT_SUMS / 2];

    UNROLL
    for (int w = 0; !WEIGHTS_ARE_EXCHANGED && w < QUERY_WORDS; w++)
        words[w] =
            take_pair(&sums[weight_source(slab, 2 * w)], &sums[weight_source(slab, 2 * w + 1)]);
    if (!WEIGHTS_ARE_EXCHANGED)
        return;
    UNROLL
    for (int n = 0; n < FRAGMENT_SUMS / 2; n++)
        mine[n] =
            take_pair(&sums[slab * FRAGMENT_SUMS + 2 * n], &sums[slab * FRAGMENT_SUMS + 2 * n + 1]);
    words_xor(theirs, mine, FRAGMENT_SUMS / 2, FRAGMENT_LANES / 2, lane, exchange);
    UNROLL
    for (int n = 0; n < FRAGMENT_SUMS / 2; n++) {
        const uint even_keys = odd ? theirs[n] : mine[n], odd_keys = odd ? mine[n] : theirs[n];
        words[2 * n] = (even_keys & 0xffffu) | odd_keys << 16;
        words[2 * n + 1] = even_keys >> 16 | (odd_keys & 0xffff0000u);
    }
}

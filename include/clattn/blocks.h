/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file blocks.h  Block lists for the patterns of sparse attention, made on the host.
 * @ingroup describing
 * Each function makes one list of a problem with block lists (clattn/problem.h): of all heads, or of one,
 * where each has its own. It lists a block if the pattern sees one of its pairs, columns in rising order, and
 * adds CLATTN_BLOCK_FULL where one of its rules, such as the window, sees all of them. Without a mask the queries of a listed
 * block see all of its keys, as in BigBird; a boolean mask of the same pattern makes it exact to the pair, and is looked at in
 * few blocks. Causality and windows of the problem hold besides; the functions do not look at them. They take
 * as long as the list has rows and entries; clattn_blocks_mask() reads the mask.
 *
 * How many entries there are is known after a first call without memory for them:
 *
 *     problem.block_q = problem.block_kv = 64;
 *     problem.max_blocks = 1;
 *     clattn_blocks_window(&problem, 256, 256, 64, 0, 0, NULL, NULL, &problem.max_blocks);
 *     (allocate rows + 1 offsets and problem.max_blocks entries)
 *     clattn_blocks_window(&problem, 256, 256, 64, 0, 0, offsets, entries, NULL);
 */
#ifndef CLATTN_BLOCKS_H
#define CLATTN_BLOCKS_H

#include <clattn/attention.h>
#include <clattn/export.h>
#include <clattn/problem.h>
#include <clattn/status.h>

CLATTN_BEGIN

/**
 * Windows with global tokens (Longformer), and random blocks besides (BigBird): query i sees the keys from
 * i - left to i + right, the first @p globals keys, and if it is one of the first @p globals queries, all.
 *
 * @param problem  With block_q; not null. Its diagonal is where a window's middle lies: key i + d.
 * @param left,right  Any from 0 on, or CLATTN_UNLIMITED.
 * @param globals  Tokens from the first on that all see and that see all; 0 for none.
 * @param random   Columns that each row lists besides, drawn by @p seed; two may be the same. 0 for none, and no more are
 *                 drawn than there are columns.
 * @param seed     Any value; the same seed draws the same columns.
 * @param offsets  ceil(seq_q / block_q) + 1 ints, all of them written; NULL if and only if entries is.
 * @param entries  max_blocks ints, of which those that are listed are written.
 * @param needed   NULL, or receives the number of entries of the whole list; 0 on other failures.
 * @retval CLATTN_SUCCESS           Made, or counted.
 * @retval CLATTN_INVALID_ARGUMENT  A null, a negative size, or one of offsets and entries alone.
 * @retval CLATTN_INVALID_PROBLEM   The problem fails clattn_problem_check() or has no block lists.
 * @retval CLATTN_BUFFER_TOO_SMALL  The list has more than max_blocks entries: only those are there.
 * @retval CLATTN_OUT_OF_MEMORY     No host memory for the columns that are drawn of a row.
 */
CLATTN_API clattn_status clattn_blocks_window(const clattn_problem *problem, int64_t left,
                                              int64_t right, size_t globals, size_t random,
                                              uint64_t seed, int32_t *offsets, int32_t *entries,
                                              size_t *needed);

/**
 * The strided pattern of Sparse Transformers: query i sees the last @p stride keys up to key i + d, its diagonal, and
 * before them each key whose distance from key i + d is a multiple of @p stride.
 *
 * @param problem  As for clattn_blocks_window(); its diagonal is d.
 * @param stride   At least 1.
 * @param offsets,entries,needed  As for clattn_blocks_window().
 * @return         As clattn_blocks_window().
 */
CLATTN_API clattn_status clattn_blocks_strided(const clattn_problem *problem, size_t stride,
                                               int32_t *offsets, int32_t *entries, size_t *needed);

/**
 * Documents in a packed row: query i and key j see each other if one document has both.
 *
 * @param problem  As for clattn_blocks_window(); its diagonal does not count.
 * @param starts   @p documents + 1 positions that do not decrease, document n from starts[n] to before
 *                 starts[n + 1] (cu_seqlens); NULL only if @p documents is 0. What lies in no document is
 *                 not listed.
 * @param documents  How many there are.
 * @param offsets,entries,needed  As for clattn_blocks_window().
 * @return         As clattn_blocks_window(); CLATTN_INVALID_ARGUMENT if starts decrease or are negative.
 */
CLATTN_API clattn_status clattn_blocks_documents(const clattn_problem *problem,
                                                 const int32_t *starts, size_t documents,
                                                 int32_t *offsets, int32_t *entries,
                                                 size_t *needed);

/**
 * A boolean mask in host memory: the blocks in which it lets some pair through, as full where it lets all.
 * A problem that keeps the mask then computes what it would without lists, bit for bit where the order of
 * its sums is the same, and neither reads the mask nor multiplies where that is of no use. The lists are
 * made once for as long as the mask does not change.
 *
 * @param problem  As for clattn_blocks_window(), with a mask of all keys (mask_keys 0).
 * @param mask     Element (0, 0, 0, 0) of the mask, in the problem's mask_layout.
 * @param batch,head  Whose mask is read: below the problem's.
 * @param offsets,entries,needed  As for clattn_blocks_window().
 * @return         As clattn_blocks_window(); CLATTN_INVALID_PROBLEM if there is no such mask.
 */
CLATTN_API clattn_status clattn_blocks_mask(const clattn_problem *problem,
                                            const unsigned char *mask, size_t batch, size_t head,
                                            int32_t *offsets, int32_t *entries, size_t *needed);

/**
 * A mask function (clattn/function.h), which the device evaluates for each pair: the blocks in which it leaves some pair
 * visible, as full where it leaves all. A problem that keeps the function then computes what it would without lists, bit
 * for bit where the order of its sums is the same, calls the function in few blocks and skips those that nothing sees. The
 * lists are made once, and hold until operands, parameters or lengths change.
 *
 * @param context  Of the device; not null.
 * @param problem  With a mask_function and block_q; not null. Where batches or heads share a list, it has what any of them
 *                 sees, and is full where all see all.
 * @param tensors  The operands of the functions, function_values and the lengths that the problem has; its other members
 *                 are not looked at. Not null.
 * @param offsets  Lists times ceil(seq_q / block_q) + 1 ints; NULL if and only if entries is.
 * @param entries  Lists times max_blocks ints, of which those that are listed are written.
 * @param needed   NULL, or receives the number of entries of the longest list; 0 on other failures.
 * @retval CLATTN_SUCCESS           Made, or counted.
 * @retval CLATTN_INVALID_ARGUMENT  A null, a problem without a mask function or without blocks, one of offsets and entries
 *                                  alone, or a struct_size of none of this library's versions.
 * @retval CLATTN_INVALID_PROBLEM   The problem fails clattn_problem_check().
 * @retval CLATTN_BUFFER_TOO_SMALL  A list has more than max_blocks entries: only those are there.
 * @retval CLATTN_BUILD_FAILED      The function does not compile.
 * @retval CLATTN_OUT_OF_MEMORY     No host or device memory.
 * @retval CLATTN_OPENCL_ERROR      An OpenCL call failed.
 */
CLATTN_API clattn_status clattn_function_blocks(clattn_context *context,
                                                const clattn_problem *problem,
                                                const clattn_host_forward_tensors *tensors,
                                                int32_t *offsets, int32_t *entries, size_t *needed);

CLATTN_END

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file dropout.h  Which weights dropout drops, and how to read that out.
 * @ingroup attention
 * An execution draws its random numbers from Philox 4x32-10 (J. Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", 2011), a function of a key of two and a counter of four 32-bit
 * words. For the weight of (b, h, i, j), with every number modulo 2^32:
 *
 *     key      dropout_seed, its low half first
 *     counter  (j / 4, i, b * heads + h, dropout_offset)
 *     dropped  where word j % 4 of the result is below dropout * 2^32, rounded to nearest even
 *
 * and what is kept is multiplied by 1 / (1 - dropout). So the mask depends on nothing but the
 * probability, seed, offset and (b, h, i, j): it is the same for every family, tunable and device,
 * forward and backward, for longer sequences (of which it is a part), and for other numbers of
 * batches. An execution that computes a part of an attention says where the part lies
 * (clattn_dropout_place) and drops what the whole does. Another offset, or another seed, is another mask. Masks, causality and
 * lengths do not change it: what they hide may be kept or dropped alike. A dropped weight is a weight of 0, which
 * does not silence a NaN in v.
 */
#ifndef CLATTN_DROPOUT_H
#define CLATTN_DROPOUT_H

#include <clattn/attention.h>
#include <clattn/context.h>
#include <clattn/problem.h>

CLATTN_BEGIN

/**
 * Computes rows of the mask on the host. Row n is that of query n % seq_q of head n / seq_q % heads
 * of batch n / seq_q / heads: all rows are the mask, packed (batch, heads, seq_q, seq_kv).
 *
 * @param problem    Its sizes and dropout count (0: nothing is dropped); not null.
 * @param seed       An execution's dropout_seed.
 * @param offset     An execution's dropout_offset.
 * @param first_row  At most the number of rows, batch * heads * seq_q.
 * @param num_rows   At most those that are left; 0 for none.
 * @param mask       Receives num_rows * seq_kv bytes, 1 where a weight is kept and 0 where it is
 *                   dropped; not null unless that is nothing. Untouched on failure.
 * @retval CLATTN_SUCCESS           Computed.
 * @retval CLATTN_INVALID_ARGUMENT  A null, a struct_size of none of this library's versions, or
 *                                  rows that do not exist.
 * @retval CLATTN_INVALID_PROBLEM   The problem fails clattn_problem_check().
 * @retval CLATTN_UNSUPPORTED       The problem is a projection, which has no weights.
 */
CLATTN_API clattn_status clattn_dropout_mask_host(const clattn_problem *problem, uint64_t seed,
                                                  uint32_t offset, size_t first_row,
                                                  size_t num_rows, unsigned char *mask);

/**
 * Enqueues the computation of the whole mask on the device. The first call on a context compiles a
 * program, and checks it like those of plans.
 *
 * @param context   Not null.
 * @param problem   As in clattn_dropout_mask_host().
 * @param seed      An execution's dropout_seed.
 * @param offset    An execution's dropout_offset.
 * @param queue     On the context's device and OpenCL context; in-order or out-of-order.
 * @param mask      Not null. Its buffer receives the mask, packed (batch, heads, seq_q, seq_kv)
 *                  bytes from byte mask->offset on; it may be NULL if the mask is empty. Borrowed:
 *                  the caller keeps it until the work has finished.
 * @param num_wait  Events to wait for before anything is written.
 * @param wait      @p num_wait events of the same OpenCL context; NULL if and only if it is 0.
 * @param done      NULL, or receives an event for the end of the work, which the caller releases;
 *                  NULL again on failure.
 * @retval CLATTN_SUCCESS           Enqueued, not finished.
 * @retval CLATTN_INVALID_ARGUMENT  A null, a struct_size of none of this library's versions, a
 *                                  queue, buffer or event of another context or device, a buffer
 *                                  that kernels may not write, an event that has failed.
 * @retval CLATTN_INVALID_PROBLEM   The problem fails clattn_problem_check().
 * @retval CLATTN_UNSUPPORTED       The problem is a projection, which has no weights.
 * @retval CLATTN_BUFFER_TOO_SMALL  The mask reaches past the end of its buffer.
 * @retval CLATTN_BUILD_FAILED      The program does not compile.
 * @retval CLATTN_NO_COMPILER       The device has no compiler, and the cache directory no program.
 * @retval CLATTN_MISCOMPILED       The program failed its self-check.
 * @retval CLATTN_OUT_OF_MEMORY     No host or device memory.
 * @retval CLATTN_OPENCL_ERROR      An OpenCL call failed.
 */
CLATTN_API clattn_status clattn_dropout_mask(clattn_context *context, const clattn_problem *problem,
                                             uint64_t seed, uint32_t offset, cl_command_queue queue,
                                             const clattn_buffer *mask, cl_uint num_wait,
                                             const cl_event *wait, cl_event *done);

CLATTN_END

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** @file merge.h  Executing a merge: attention over parts of the keys becomes that over all of them. @ingroup serving */
#ifndef CLATTN_MERGE_H
#define CLATTN_MERGE_H

#include <clattn/attention.h>

CLATTN_BEGIN

/** The tensors of a merge; shapes, dtype and strides are the plan's. */
typedef struct clattn_merge_tensors {
    size_t struct_size;      /**< sizeof(clattn_merge_tensors). */
    clattn_buffer parts;     /**< Read: o of the states, one after the other. */
    clattn_buffer parts_lse; /**< Read: packed (states, batch, heads, seq_q) floats. */
    clattn_buffer sinks;     /**< Read: heads floats; if sinks. */
    clattn_buffer o;         /**< Every element is overwritten; if accumulate, read before. */
    clattn_buffer lse;       /**< Packed (batch, heads, seq_q) floats; likewise. */
    clattn_buffer workspace; /**< As in clattn_forward_tensors. */
} clattn_merge_tensors;

/**
 * Enqueues a merge. The same inputs give the same bits on every run.
 *
 * @param plan      Of operation CLATTN_MERGE.
 * @param tensors   Read during the call only; o and lse must overlap nothing, parts, parts_lse and
 *                  sinks may overlap each other.
 * @param queue,num_wait,wait,done  As for clattn_attention_forward().
 * @return          As clattn_attention_forward().
 */
CLATTN_API clattn_status clattn_merge(const clattn_plan *plan, cl_command_queue queue,
                                      const clattn_merge_tensors *tensors, cl_uint num_wait,
                                      const cl_event *wait, cl_event *done);

/** The tensors of a merge in host memory. Elements of o between its strides keep their values. */
typedef struct clattn_host_merge_tensors {
    size_t struct_size;     /**< sizeof(clattn_host_merge_tensors). */
    const void *parts;      /**< Read: o of the states, one after the other. */
    const float *parts_lse; /**< Read: packed (states, batch, heads, seq_q). */
    const float *sinks;     /**< Read: heads of them; if sinks. */
    void *o;                /**< Every element is overwritten; if accumulate, read before. */
    float *lse;             /**< Packed (batch, heads, seq_q); likewise. */
} clattn_host_merge_tensors;

/** Plans, copies, computes and copies back; parameters and statuses as
 *  clattn_attention_forward_host(). */
CLATTN_API clattn_status clattn_merge_host(clattn_context *context, const clattn_problem *problem,
                                           const clattn_plan_options *options,
                                           const clattn_host_merge_tensors *tensors);

CLATTN_END

#endif

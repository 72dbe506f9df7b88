/* SPDX-License-Identifier: Apache-2.0 */
/** @file projection.h  Executing a projection: a tuned matrix product with heads in its addressing. @ingroup layers */
#ifndef CLATTN_PROJECTION_H
#define CLATTN_PROJECTION_H

#include <clattn/attention.h>

CLATTN_BEGIN

/** The tensors of a projection; shapes, dtype and strides are the plan's. */
typedef struct clattn_projection_tensors {
    size_t struct_size;      /**< sizeof(clattn_projection_tensors). */
    clattn_buffer x;         /**< Read. */
    clattn_buffer w;         /**< Read. */
    clattn_buffer bias;      /**< Read; NULL if the problem has none. */
    clattn_buffer y;         /**< Every element is overwritten, or added to if accumulate. */
    clattn_buffer workspace; /**< As in clattn_forward_tensors. */
} clattn_projection_tensors;

/**
 * Enqueues a projection. The same inputs give the same bits on every run.
 *
 * @param plan      Of operation CLATTN_PROJECTION.
 * @param tensors   Read during the call only; y must not overlap x, w or bias, which may overlap.
 * @param queue,num_wait,wait,done  As for clattn_attention_forward().
 * @return          As clattn_attention_forward().
 */
CLATTN_API clattn_status clattn_project(const clattn_plan *plan, cl_command_queue queue,
                                        const clattn_projection_tensors *tensors, cl_uint num_wait,
                                        const cl_event *wait, cl_event *done);

/** The tensors of a projection in host memory. Elements of y between its strides keep their values. */
typedef struct clattn_host_projection_tensors {
    size_t struct_size; /**< sizeof(clattn_host_projection_tensors). */
    const void *x;      /**< Read. */
    const void *w;      /**< Read. */
    const void *bias;   /**< Read; NULL if the problem has none. */
    void *y;            /**< Every element is overwritten, or added to if accumulate. */
} clattn_host_projection_tensors;

/** Plans, copies, computes and copies back; parameters and statuses as
 *  clattn_attention_forward_host(). */
CLATTN_API clattn_status clattn_project_host(clattn_context *context, const clattn_problem *problem,
                                             const clattn_plan_options *options,
                                             const clattn_host_projection_tensors *tensors);

CLATTN_END

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** @file double_backward.h  Executing a double backward: the gradients of attention's gradients. @ingroup attention */
#ifndef CLATTN_DOUBLE_BACKWARD_H
#define CLATTN_DOUBLE_BACKWARD_H

#include <clattn/attention.h>

CLATTN_BEGIN

/**
 * The tensors of a double backward; shapes, dtype and strides are the plan's. "Double backward" in
 * clattn/problem.h has the formula.
 */
typedef struct clattn_double_backward_tensors {
    size_t struct_size;       /**< sizeof(clattn_double_backward_tensors). */
    clattn_buffer q;          /**< Read. */
    clattn_buffer k;          /**< Read. */
    clattn_buffer v;          /**< Read. */
    clattn_buffer d_o;        /**< Read: the gradient with respect to o that backward was given. */
    clattn_buffer ggq;        /**< Read: the gradient with respect to dq; unless no_ggq. */
    clattn_buffer ggk;        /**< Read: that with respect to dk; unless no_ggk. */
    clattn_buffer ggv;        /**< Read: that with respect to dv; unless no_ggv. */
    clattn_buffer q_lengths;  /**< Read: batch int32_t; if q_lengths. */
    clattn_buffer kv_lengths; /**< Read: batch int32_t; if kv_lengths. */
    clattn_buffer gq;         /**< Every element is overwritten: the gradient with respect to q. */
    clattn_buffer gk;         /**< Likewise with respect to k. */
    clattn_buffer gv;         /**< Likewise with respect to v. */
    clattn_buffer gdo;        /**< Likewise with respect to d_o. */
    clattn_buffer workspace;  /**< As in clattn_forward_tensors. */
} clattn_double_backward_tensors;

/**
 * Enqueues a double backward. The same inputs give the same bits on every run.
 *
 * @param plan      Of operation CLATTN_DOUBLE_BACKWARD.
 * @param tensors   Read during the call only. gq, gk, gv and gdo must overlap nothing; what is read may
 *                  overlap. Buffers that the problem does not have must be NULL.
 * @param queue,num_wait,wait,done  As for clattn_attention_forward().
 * @return          As clattn_attention_forward().
 */
CLATTN_API clattn_status clattn_double_backward(const clattn_plan *plan, cl_command_queue queue,
                                                const clattn_double_backward_tensors *tensors,
                                                cl_uint num_wait, const cl_event *wait,
                                                cl_event *done);

/** The tensors of a double backward in host memory. Elements of results between their strides keep their
 *  values. */
typedef struct clattn_host_double_backward_tensors {
    size_t struct_size;        /**< sizeof(clattn_host_double_backward_tensors). */
    const void *q;             /**< Read. */
    const void *k;             /**< Read. */
    const void *v;             /**< Read. */
    const void *d_o;           /**< Read. */
    const void *ggq;           /**< Read; NULL if no_ggq. */
    const void *ggk;           /**< Read; NULL if no_ggk. */
    const void *ggv;           /**< Read; NULL if no_ggv. */
    const int32_t *q_lengths;  /**< Read: batch of them; if q_lengths. */
    const int32_t *kv_lengths; /**< Read: batch of them; if kv_lengths. */
    void *gq;                  /**< Every element is overwritten. */
    void *gk;                  /**< Every element is overwritten. */
    void *gv;                  /**< Every element is overwritten. */
    void *gdo;                 /**< Every element is overwritten. */
} clattn_host_double_backward_tensors;

/** Plans, copies, computes and copies back; parameters and statuses as
 *  clattn_attention_forward_host(). */
CLATTN_API clattn_status clattn_double_backward_host(
    clattn_context *context, const clattn_problem *problem, const clattn_plan_options *options,
    const clattn_host_double_backward_tensors *tensors);

CLATTN_END

#endif

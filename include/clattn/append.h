/* SPDX-License-Identifier: Apache-2.0 */
/** @file append.h  Executing an append: new keys and values to a cache, rotated and quantized on the way. @ingroup serving */
#ifndef CLATTN_APPEND_H
#define CLATTN_APPEND_H

#include <clattn/attention.h>

CLATTN_BEGIN

/** The tensors of an append; shapes, dtypes and strides are the plan's. What the problem has not is NULL. */
typedef struct clattn_append_tensors {
    size_t struct_size;       /**< sizeof(clattn_append_tensors). */
    clattn_buffer k;          /**< Read: the new keys. */
    clattn_buffer v;          /**< Read: the new values. */
    clattn_buffer k_cache;    /**< The tokens' rows are written; all else keeps its bits. */
    clattn_buffer v_cache;    /**< Likewise. */
    clattn_buffer q;          /**< Read, with CLATTN_QUERIES_ROTATED. */
    clattn_buffer q_out;      /**< Every element is overwritten; in place, read before. */
    clattn_buffer kv_lengths; /**< batch int32_t: tokens that are cached. Any values are safe. */
    clattn_buffer positions;  /**< (batch, tokens) int32_t. Any values are safe. */
    clattn_buffer slots;      /**< (batch, tokens) int32_t. Any values are safe. */
    clattn_buffer cos;        /**< (rotary_length, rotary_dim / 2) floats. */
    clattn_buffer sin;        /**< Likewise. */
    clattn_buffer workspace;  /**< As in clattn_forward_tensors. */
    clattn_buffer page_table; /**< (batch, ceil(capacity / page_size)) int32_t, with page_size and
                                    without slots. Any values are safe. */
    clattn_buffer k_scales;   /**< Read; floats, with k_scaled: of the rows of k_cache. */
    clattn_buffer v_scales;   /**< Likewise. */
} clattn_append_tensors;

/**
 * Enqueues an append.
 *
 * @param plan      Of operation CLATTN_APPEND.
 * @param tensors   Read during the call only. k_cache, v_cache and q_out must overlap nothing else.
 *                  k_cache and v_cache, and q_out in place, must be of buffers that kernels may read.
 * @param queue,num_wait,wait,done  As for clattn_attention_forward().
 * @return          As clattn_attention_forward().
 */
CLATTN_API clattn_status clattn_append(const clattn_plan *plan, cl_command_queue queue,
                                       const clattn_append_tensors *tensors, cl_uint num_wait,
                                       const cl_event *wait, cl_event *done);

/** The tensors of an append in host memory. What lies between elements keeps its value. */
typedef struct clattn_host_append_tensors {
    size_t struct_size;        /**< sizeof(clattn_host_append_tensors). */
    const void *k;             /**< Read. */
    const void *v;             /**< Read. */
    void *k_cache;             /**< The tokens' rows are written. */
    void *v_cache;             /**< Likewise. */
    const void *q;             /**< Read, with CLATTN_QUERIES_ROTATED. */
    void *q_out;               /**< Every element is overwritten; in place, read before. */
    const int32_t *kv_lengths; /**< batch. */
    const int32_t *positions;  /**< (batch, tokens). */
    const int32_t *slots;      /**< (batch, tokens). */
    const float *cos;          /**< (rotary_length, rotary_dim / 2). */
    const float *sin;          /**< Likewise. */
    const int32_t *page_table; /**< (batch, ceil(capacity / page_size)). */
    const float *k_scales;     /**< Read, with k_scaled. */
    const float *v_scales;     /**< Read, with v_scaled. */
} clattn_host_append_tensors;

/** Plans, copies, computes and copies back, whole caches included; parameters and statuses as
 *  clattn_attention_forward_host(). */
CLATTN_API clattn_status clattn_append_host(clattn_context *context, const clattn_problem *problem,
                                            const clattn_plan_options *options,
                                            const clattn_host_append_tensors *tensors);

CLATTN_END

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** @file indexer.h  Executing an indexer: the keys that each query attends to, chosen by scores. @ingroup serving */
#ifndef CLATTN_INDEXER_H
#define CLATTN_INDEXER_H

#include <clattn/attention.h>

CLATTN_BEGIN

/** The tensors of an indexer; shapes, dtypes and strides are the plan's. What the problem has not is NULL. */
typedef struct clattn_indexer_tensors {
    size_t struct_size;         /**< sizeof(clattn_indexer_tensors). */
    clattn_buffer q;            /**< Read: the queries of the index heads. */
    clattn_buffer k;            /**< Read: the keys, one head for all. */
    clattn_buffer w;            /**< Read: a float of each query and index head. */
    clattn_buffer q_lengths;    /**< batch int32_t; if q_lengths. Any values are safe. */
    clattn_buffer kv_lengths;   /**< batch int32_t; if kv_lengths. Any values are safe. */
    clattn_buffer page_table;   /**< (batch, ceil(seq_kv / page_size)) int32_t; with page_size. Any
                                     values are safe. */
    clattn_buffer q_starts;     /**< batch + 1 int32_t; with total_q. Any values are safe. */
    clattn_buffer kv_starts;    /**< batch + 1 int32_t; with total_kv. Any values are safe. */
    clattn_buffer topk_indices; /**< Packed (batch, 1, seq_q, topk) or (1, 1, total_q, topk)
                                     int32_t, written as "Indexer" in clattn/problem.h says. */
    clattn_buffer scores;       /**< Floats of the same shape: the scores of the chosen keys, -inf
                                     beside -1; if scores. */
    clattn_buffer workspace;    /**< As in clattn_forward_tensors. */
    clattn_buffer chosen; /**< With gradients in place of topk_indices, and of the same shape: read.
                                     Any values are safe. */
    clattn_buffer
        dscores;      /**< Read: floats of the same shape, the gradients of the entries' scores;
                                     if gradients. */
    clattn_buffer dq; /**< Written, as are dk and dw; if gradients. */
    clattn_buffer dk; /**< The gradient of k. */
    clattn_buffer dw; /**< The gradient of w, floats. */
} clattn_indexer_tensors;

/**
 * Enqueues an indexer. The same inputs give the same bits on every run.
 *
 * @param plan      Of operation CLATTN_INDEXER.
 * @param tensors   Read during the call only; what is written must overlap nothing.
 * @param queue,num_wait,wait,done  As for clattn_attention_forward().
 * @return          As clattn_attention_forward().
 */
CLATTN_API clattn_status clattn_indexer(const clattn_plan *plan, cl_command_queue queue,
                                        const clattn_indexer_tensors *tensors, cl_uint num_wait,
                                        const cl_event *wait, cl_event *done);

/** The tensors of an indexer in host memory. */
typedef struct clattn_host_indexer_tensors {
    size_t struct_size;        /**< sizeof(clattn_host_indexer_tensors). */
    const void *q;             /**< Read. */
    const void *k;             /**< Read. */
    const float *w;            /**< Read. */
    const int32_t *q_lengths;  /**< batch. */
    const int32_t *kv_lengths; /**< batch. */
    const int32_t *page_table; /**< (batch, ceil(seq_kv / page_size)). */
    const int32_t *q_starts;   /**< batch + 1. */
    const int32_t *kv_starts;  /**< batch + 1. */
    int32_t *topk_indices;     /**< Packed (batch, 1, seq_q, topk) or (1, 1, total_q, topk). */
    float *scores;             /**< Likewise. */
    const int32_t *chosen;     /**< Likewise; if gradients. */
    const float *dscores;      /**< Likewise. */
    void *dq;                  /**< Written; if gradients. */
    void *dk;                  /**< Likewise. */
    float *dw;                 /**< Likewise. */
} clattn_host_indexer_tensors;

/** Plans, copies, computes and copies back; parameters and statuses as
 *  clattn_attention_forward_host(). */
CLATTN_API clattn_status clattn_indexer_host(clattn_context *context, const clattn_problem *problem,
                                             const clattn_plan_options *options,
                                             const clattn_host_indexer_tensors *tensors);

CLATTN_END

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/** @file attention.h  Executing a plan: on device buffers, or on host memory in one call. @ingroup attention */
#ifndef CLATTN_ATTENTION_H
#define CLATTN_ATTENTION_H

#include <clattn/context.h>
#include <clattn/function.h>
#include <clattn/plan.h>
#include <clattn/problem.h>

CLATTN_BEGIN

/**
 * A tensor in device memory, which a buffer or a pointer tells; its shape, dtype and strides are the
 * plan's. Borrowed: the caller keeps the memory until the work has finished. Both are NULL where the
 * problem has no such tensor or it has no elements.
 *
 * A pointer is one that kernels of the plan's device may use: into shared virtual memory of the OpenCL
 * context (clSVMAlloc()), any of the host's where CL_DEVICE_SVM_CAPABILITIES has
 * CL_DEVICE_SVM_FINE_GRAIN_SYSTEM, or into unified shared memory (cl_intel_unified_shared_memory). It
 * may begin anywhere in an allocation, but allocations of shared memory, virtual or unified, begin at a
 * multiple of 128 bytes, as they do unless a smaller alignment is asked for. What OpenCL asks of its
 * users holds: coarse-grained memory is not mapped while kernels use it, and the host sees results when
 * the work has finished. That a pointer is one of these can't be checked; what can is its alignment, the
 * size that is given, and overlaps with other pointers and with buffers made by CL_MEM_USE_HOST_PTR.
 * Devices without any of it refuse pointers: CLATTN_UNSUPPORTED.
 *
 * It stands in other structs by value and does not grow: OpenCL knows memory by these two ways.
 */
typedef struct clattn_buffer {
    cl_mem buffer; /**< A buffer of the plan's OpenCL context; NULL with a pointer. */
    size_t offset; /**< Position of element (0, 0, 0, 0), in elements; 0 if there is no memory. */
    void *pointer; /**< In place of a buffer, aligned to an element, blocks of quantized values to 2
                        bytes; NULL with a buffer. Never written where the tensor is only read. */
    /** Size of the memory from @ref pointer on; 0 with a buffer, which knows its own. */
    size_t bytes;
} clattn_buffer;

/**
 * Where the queries, keys and heads of an execution lie in an attention that they are a part of, for
 * dropout, which counts places in the whole (clattn/dropout.h): parts that are computed apart, on
 * several devices or one after the other, drop what the whole would. All 0: they are the whole. The
 * weight of (b, h, i, j) counts as that of (batch + b, head + h, query + i, key + j), all modulo 2^32.
 * Functions of the caller's see the same places (clattn/function.h). Without either it changes nothing. What else depends on
 * places has options of its own: causality, windows and ALiBi the diagonal, which for a part is CLATTN_OFFSET with
 * diagonal_offset = d + query - key, d being that of the whole.
 *
 * It stands in other structs by value and does not grow: a weight has no other coordinates.
 */
typedef struct clattn_dropout_place {
    uint32_t query; /**< Place of the first query; in packed batches, of each sequence's first. */
    uint32_t
        key; /**< Place of the first key; with dropout a multiple of 4, since four keys share a counter. */
    uint32_t batch; /**< Place of the first batch. */
    uint32_t head;  /**< Place of the first query head. */
    uint32_t heads; /**< Query heads of the whole, at least head and the problem's heads; 0: the
                        problem's heads. */
} clattn_dropout_place;

/** The tensors of a forward execution. Fields of options that the problem lacks must be NULL. */
typedef struct clattn_forward_tensors {
    size_t struct_size;       /**< sizeof(clattn_forward_tensors). */
    clattn_buffer q;          /**< Read. */
    clattn_buffer k;          /**< Read. */
    clattn_buffer v;          /**< Read. */
    clattn_buffer o;          /**< Every element is overwritten (it may hold NaN); packed: every one
                                   that belongs to a sequence. */
    clattn_buffer bias;       /**< Read; elements of bias_dtype. */
    clattn_buffer mask;       /**< Read; bytes. */
    clattn_buffer slopes;     /**< Read; heads floats (ALiBi). */
    clattn_buffer sinks;      /**< Read; heads floats. */
    clattn_buffer q_lengths;  /**< Read; batch int32_t. */
    clattn_buffer kv_lengths; /**< Read; batch int32_t. */
    clattn_buffer lse;        /**< Written; (batch, heads, seq_q) floats. */
    clattn_buffer scores;     /**< Written; (batch, heads, seq_q, seq_kv) floats. */
    clattn_buffer workspace;  /**< At least the plan's workspace_bytes, offset in floats; contents
                                   are undefined before and after. NULL: allocated for this call.
                                   Two executions that may overlap in time need one each. To a plan
                                   that needs none one may be given all the same, so that plans can
                                   share it: checked like others, and left alone. */
    uint64_t dropout_seed;    /**< The key of dropout's random numbers; any value. */
    uint32_t dropout_offset;  /**< Which of the seed's 2^32 streams of random numbers, such as the
                                   number of the training step (clattn/dropout.h). */
    clattn_buffer page_table; /**< Read; (batch, ceil(seq_kv / page_size)) int32_t. */
    clattn_buffer
        block_offsets; /**< Read; int32_t, packed (batch, heads, rows of blocks + 1), batch and
                                      heads 1 where they share a list. */
    clattn_buffer block_entries; /**< Read; int32_t, packed (batch, heads, max_blocks), likewise. */
    clattn_buffer q_starts;      /**< Read; batch + 1 int32_t, with total_q. */
    clattn_buffer kv_starts;     /**< Read; batch + 1 int32_t, with total_kv. */
    /** Place of a part in a larger attention; else all 0. */
    clattn_dropout_place dropout_place;
    clattn_buffer
        function_0; /**< Read: operands of functions, in the order of their declarations, those of
                                     score_function first (clattn/function.h). */
    clattn_buffer function_1; /**< Read: the next operand of the functions. */
    clattn_buffer function_2; /**< Read: the next operand of the functions. */
    clattn_buffer function_3; /**< Read: the next operand of the functions. */
    clattn_buffer function_4; /**< Read: the next operand of the functions. */
    clattn_buffer function_5; /**< Read: the next operand of the functions. */
    /** Values of the functions' parameters; NULL: those that their sources give. */
    const clattn_function_values *function_values;
    /** 0, or a number that the caller changes when the contents of the mask function's operands or of the lengths have changed:
     *  a plan may keep what it found out about them (clattn/function.h). */
    uint64_t function_version;
    clattn_buffer
        key_sums; /**< Written; (batch, kv_heads, seq_kv) or (kv_heads, total_kv) floats. */
    /** Read; int32_t, (batch, 1 or kv_heads, seq_q, topk) or (1 or kv_heads, total_q, topk): keys
     *  that each query may see. Any value may stand there. */
    clattn_buffer topk_indices;
    /** With whole_q in the problem: the queries and keys in use in the whole, which its functions see; 0: whole_q and
     *  whole_kv. Else 0. */
    uint32_t whole_queries;
    uint32_t whole_keys;    /**< The keys in use. */
    clattn_buffer k_scales; /**< Read; floats (clattn_problem.k_scales_layout). */
    clattn_buffer v_scales; /**< Read; floats (clattn_problem.v_scales_layout). */
} clattn_forward_tensors;

/** The tensors of a backward execution. Fields of options that the problem lacks must be NULL. */
typedef struct clattn_backward_tensors {
    size_t struct_size;          /**< sizeof(clattn_backward_tensors). */
    clattn_buffer q;             /**< Read: what forward read. */
    clattn_buffer k;             /**< Read: what forward read. */
    clattn_buffer v;             /**< Read: what forward read. */
    clattn_buffer o;             /**< Read: what forward wrote. */
    clattn_buffer lse;           /**< Read: what forward wrote. */
    clattn_buffer d_o;           /**< Read: the gradient with respect to o. */
    clattn_buffer bias;          /**< Read: what forward read. */
    clattn_buffer mask;          /**< Read: what forward read. */
    clattn_buffer slopes;        /**< Read: what forward read. */
    clattn_buffer sinks;         /**< Read: what forward read. */
    clattn_buffer q_lengths;     /**< Read: what forward read. */
    clattn_buffer kv_lengths;    /**< Read: what forward read. */
    clattn_buffer dq;            /**< Every element is overwritten (it may hold NaN). */
    clattn_buffer dk;            /**< Every element is overwritten (it may hold NaN). */
    clattn_buffer dv;            /**< Every element is overwritten (it may hold NaN). */
    clattn_buffer dbias;         /**< Written, in the bias's dtype and layout; one element where the
                                     bias broadcasts. */
    clattn_buffer dslopes;       /**< Written; heads floats. */
    clattn_buffer dsinks;        /**< Written; heads floats. */
    clattn_buffer workspace;     /**< As in clattn_forward_tensors. */
    uint64_t dropout_seed;       /**< The same as in the forward execution. */
    uint32_t dropout_offset;     /**< The same as in the forward execution. */
    clattn_buffer block_offsets; /**< Read: what forward read. */
    clattn_buffer block_entries; /**< Read: what forward read. */
    clattn_buffer q_starts;      /**< Read: what forward read. */
    clattn_buffer kv_starts;     /**< Read: what forward read. */
    /** The same as in the forward execution. */
    clattn_dropout_place dropout_place;
    clattn_buffer
        function_0; /**< Read: operands of functions, in the order of their declarations, those of
                                     score_function first (clattn/function.h). */
    clattn_buffer function_1; /**< Read: the next operand of the functions. */
    clattn_buffer function_2; /**< Read: the next operand of the functions. */
    clattn_buffer function_3; /**< Read: the next operand of the functions. */
    clattn_buffer function_4; /**< Read: the next operand of the functions. */
    clattn_buffer function_5; /**< Read: the next operand of the functions. */
    /** Values of the functions' parameters; NULL: those that their sources give. */
    const clattn_function_values *function_values;
    clattn_buffer dlse; /**< Read: the gradient with respect to lse, as packed as lse. */
    /** 0, or a number that the caller changes when the contents of the mask function's operands or of the lengths have changed:
     *  a plan may keep what it found out about them (clattn/function.h). */
    uint64_t function_version;
    /** Written; the gradients of the score function's operands, floats (clattn_problem_function_gradient()). */
    clattn_buffer dfunction;
    clattn_buffer topk_indices; /**< Read: what forward read. */
    /** With whole_q in the problem: the queries and keys in use in the whole, which its functions see; 0: whole_q and
     *  whole_kv. Else 0. */
    uint32_t whole_queries;
    uint32_t whole_keys; /**< The keys in use. */
} clattn_backward_tensors;

/**
 * Enqueues a forward computation.
 *
 * Written tensors must not share an element with each other or with any tensor that is read; tensors
 * that are read may. What counts are elements, not the memory from the first to the last: dq, dk and
 * dv may lie in one packed (batch, seq, 3 * heads, dim) buffer, and o between the rows of q. Strides
 * that have so little in common that a search of some thousand steps cannot tell count as an overlap,
 * and the sentence in the log says so.
 *
 * Nothing is allocated, compiled or looked up, but for a NULL workspace where the plan needs one, and for what the plan keeps
 * of a mask function (clattn/function.h).
 *
 * @param plan      Not null; of operation CLATTN_FORWARD.
 * @param queue     On the plan's device and OpenCL context; in-order or out-of-order.
 * @param tensors   Read during the call only.
 * @param num_wait  Events to wait for before anything is read or written.
 * @param wait      @p num_wait events of the same OpenCL context; NULL if and only if it is 0.
 * @param done      NULL, or receives an event for the end of all the work, which the caller
 *                  releases; NULL again on failure.
 * @retval CLATTN_SUCCESS           Enqueued, not finished.
 * @retval CLATTN_INVALID_ARGUMENT  A null, a plan of another operation, an overlap, a tensor that the
 *                                  problem has not, a dropout_place that cannot be, an offset without
 *                                  a buffer, a queue or event of another context, an event that has
 *                                  failed, a struct_size of none of this library's versions. Nothing
 *                                  was enqueued.
 * @retval CLATTN_BUFFER_TOO_SMALL  A tensor reaches past the end of its buffer. Nothing was
 *                                  enqueued.
 * @retval CLATTN_OUT_OF_MEMORY     Host or device memory ran out; kernels already enqueued
 *                                  finish, o is undefined.
 * @retval CLATTN_OPENCL_ERROR      An OpenCL call failed; likewise.
 */
CLATTN_API clattn_status clattn_attention_forward(const clattn_plan *plan, cl_command_queue queue,
                                                  const clattn_forward_tensors *tensors,
                                                  cl_uint num_wait, const cl_event *wait,
                                                  cl_event *done);

/**
 * Enqueues the gradients of a forward computation. The same inputs give the same bits on every run.
 *
 * @param plan      Not null; of operation CLATTN_BACKWARD.
 * @param tensors   Read during the call only; overlaps as in clattn_attention_forward().
 * @param queue,num_wait,wait,done  As for clattn_attention_forward().
 * @return          As clattn_attention_forward().
 */
CLATTN_API clattn_status clattn_attention_backward(const clattn_plan *plan, cl_command_queue queue,
                                                   const clattn_backward_tensors *tensors,
                                                   cl_uint num_wait, const cl_event *wait,
                                                   cl_event *done);

/**
 * Looks for what is wrong in the integers of a forward execution that lie in device memory: in
 * kv_lengths and q_lengths a number below 0 or above what the problem says, in page_table an entry of
 * a page with keys in use that is no page of the pool, in q_starts and kv_starts a number outside of the
 * tensor, below the one before it, or beyond it by more than the longest sequence, in block lists an
 * offset that decreases or exceeds max_blocks and a column that is none. An execution takes all of these, as
 * clattn/problem.h says; to a developer they are mostly mistakes. It reads them back through the queue
 * and waits for all that the queue holds: for debugging, not for every step.
 *
 * @param plan      Not null; of operation CLATTN_FORWARD.
 * @param queue     On the plan's device and OpenCL context.
 * @param tensors   As for clattn_attention_forward(); of its buffers only those named above are looked
 *                  at.
 * @retval CLATTN_SUCCESS           Nothing is wrong, or there is nothing to look at.
 * @retval CLATTN_INVALID_ARGUMENT  Something is wrong: clattn_context_last_error() names the first mistake; or a null, a plan
 *                                  of another operation, a queue of another context or device, a struct_size of
 *                                  none of this library's versions, or a buffer that is not there.
 * @retval CLATTN_BUFFER_TOO_SMALL  One of them reaches past the end of its buffer.
 * @retval CLATTN_OUT_OF_MEMORY     No host memory.
 * @retval CLATTN_OPENCL_ERROR      An OpenCL call failed.
 */
CLATTN_API clattn_status clattn_check_tables(const clattn_plan *plan, cl_command_queue queue,
                                             const clattn_forward_tensors *tensors);

/** The tensors of a forward execution in host memory, as in clattn_forward_tensors. Pointers are to
 *  element (0, 0, 0, 0). Elements of o between its strides keep their values. */
typedef struct clattn_host_forward_tensors {
    size_t struct_size;           /**< sizeof(clattn_host_forward_tensors). */
    const void *q;                /**< Read. */
    const void *k;                /**< Read. */
    const void *v;                /**< Read. */
    void *o;                      /**< Every element is overwritten. */
    const void *bias;             /**< Read; elements of bias_dtype. */
    const unsigned char *mask;    /**< Read. */
    const float *slopes;          /**< Read; heads floats (ALiBi). */
    const float *sinks;           /**< Read; heads floats. */
    const int32_t *q_lengths;     /**< Read; one of each batch. */
    const int32_t *kv_lengths;    /**< Read; one of each batch. */
    float *lse;                   /**< Written; (batch, heads, seq_q). */
    float *scores;                /**< Written; (batch, heads, seq_q, seq_kv). */
    uint64_t dropout_seed;        /**< As in clattn_forward_tensors. */
    uint32_t dropout_offset;      /**< As in clattn_forward_tensors. */
    const int32_t *page_table;    /**< Read; (batch, ceil(seq_kv / page_size)). */
    const int32_t *block_offsets; /**< Read; as in clattn_forward_tensors. */
    const int32_t *block_entries; /**< Read; as in clattn_forward_tensors. */
    const int32_t *q_starts;      /**< Read; batch + 1, with total_q. */
    const int32_t *kv_starts;     /**< Read; batch + 1, with total_kv. */
    /** As in clattn_forward_tensors. */
    clattn_dropout_place dropout_place;
    const void
        *function_0; /**< Read: operands of functions, in the order of their declarations, those of
                                     score_function first (clattn/function.h). */
    const void *function_1; /**< Read: the next operand of the functions. */
    const void *function_2; /**< Read: the next operand of the functions. */
    const void *function_3; /**< Read: the next operand of the functions. */
    const void *function_4; /**< Read: the next operand of the functions. */
    const void *function_5; /**< Read: the next operand of the functions. */
    /** Values of the functions' parameters; NULL: those that their sources give. */
    const clattn_function_values *function_values;
    float *key_sums;             /**< Written; (batch, kv_heads, seq_kv) or (kv_heads, total_kv). */
    const int32_t *topk_indices; /**< Read; as in clattn_forward_tensors. */
    /** With whole_q in the problem: the queries and keys in use in the whole, which its functions see; 0: whole_q and
     *  whole_kv. Else 0. */
    uint32_t whole_queries;
    uint32_t whole_keys;   /**< The keys in use. */
    const float *k_scales; /**< Read; as in clattn_forward_tensors. */
    const float *v_scales; /**< Read; as in clattn_forward_tensors. */
} clattn_host_forward_tensors;

/** The tensors of a backward execution in host memory, as in clattn_backward_tensors. Elements of what is
 *  written that lie between its strides keep their values. */
typedef struct clattn_host_backward_tensors {
    size_t struct_size;           /**< sizeof(clattn_host_backward_tensors). */
    const void *q;                /**< Read: what forward read. */
    const void *k;                /**< Read: what forward read. */
    const void *v;                /**< Read: what forward read. */
    const void *o;                /**< Read: what forward wrote. */
    const float *lse;             /**< Read: what forward wrote. */
    const void *d_o;              /**< Read: the gradient with respect to o. */
    const void *bias;             /**< Read: what forward read. */
    const unsigned char *mask;    /**< Read: what forward read. */
    const float *slopes;          /**< Read: what forward read. */
    const float *sinks;           /**< Read: what forward read. */
    const int32_t *q_lengths;     /**< Read: what forward read. */
    const int32_t *kv_lengths;    /**< Read: what forward read. */
    void *dq;                     /**< Every element is overwritten. */
    void *dk;                     /**< Every element is overwritten. */
    void *dv;                     /**< Every element is overwritten. */
    void *dbias;                  /**< Written, in the bias's dtype and layout. */
    float *dslopes;               /**< Written; heads floats. */
    float *dsinks;                /**< Written; heads floats. */
    uint64_t dropout_seed;        /**< The same as in the forward execution. */
    uint32_t dropout_offset;      /**< The same as in the forward execution. */
    const int32_t *block_offsets; /**< Read: what forward read. */
    const int32_t *block_entries; /**< Read: what forward read. */
    const int32_t *q_starts;      /**< Read: what forward read. */
    const int32_t *kv_starts;     /**< Read: what forward read. */
    /** The same as in the forward execution. */
    clattn_dropout_place dropout_place;
    const void
        *function_0; /**< Read: operands of functions, in the order of their declarations, those of
                                     score_function first (clattn/function.h). */
    const void *function_1; /**< Read: the next operand of the functions. */
    const void *function_2; /**< Read: the next operand of the functions. */
    const void *function_3; /**< Read: the next operand of the functions. */
    const void *function_4; /**< Read: the next operand of the functions. */
    const void *function_5; /**< Read: the next operand of the functions. */
    /** Values of the functions' parameters; NULL: those that their sources give. */
    const clattn_function_values *function_values;
    const float *dlse; /**< Read: the gradient with respect to lse. */
    /** Written; the gradients of the score function's operands (clattn_problem_function_gradient()). */
    float *dfunction;
    const int32_t *topk_indices; /**< Read: what forward read. */
    /** With whole_q in the problem: the queries and keys in use in the whole, which its functions see; 0: whole_q and
     *  whole_kv. Else 0. */
    uint32_t whole_queries;
    uint32_t whole_keys; /**< The keys in use. */
} clattn_host_backward_tensors;

/**
 * Makes a plan, copies the tensors to the device, computes, copies the results back and returns
 * when they are there. For trying things out and for small programs; a second call with an equal
 * problem builds nothing.
 *
 * @param context,problem,tensors  Not null.
 * @param options                  NULL, or what is to be forced.
 * @retval CLATTN_SUCCESS           The results are in host memory.
 * @retval CLATTN_INVALID_ARGUMENT  A null where the problem has a tensor, a tensor that the
 *                                  problem has not, or results that overlap other tensors.
 *
 * Other statuses as clattn_plan_create() and clattn_attention_forward(); results are undefined
 * after a failure.
 */
CLATTN_API clattn_status clattn_attention_forward_host(clattn_context *context,
                                                       const clattn_problem *problem,
                                                       const clattn_plan_options *options,
                                                       const clattn_host_forward_tensors *tensors);

/** The same for gradients; statuses as clattn_attention_forward_host(). */
CLATTN_API clattn_status clattn_attention_backward_host(
    clattn_context *context, const clattn_problem *problem, const clattn_plan_options *options,
    const clattn_host_backward_tensors *tensors);

CLATTN_END

#endif

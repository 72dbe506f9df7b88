/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file multihead.h  Multi-head attention layers, forward and backward.
 * @ingroup layers
 * From x (batch, seq_q, model) and, in cross-attention, a context (batch, seq_kv, context_model):
 *
 *     q = split(x W_Q + b_Q)          (batch, heads, seq_q, dim_qk)
 *     k = split(context W_K + b_K)    (batch, kv_heads, seq_kv, dim_qk)
 *     v = split(context W_V + b_V)    (batch, kv_heads, seq_kv, dim_v)
 *     o = attention(q, k, v)          as clattn/problem.h says, with all of its options
 *     y = merge(o) W_O + b_O          (batch, seq_q, output)
 *
 * where column h * dim + d of a product belongs to head h, as in PyTorch's MultiheadAttention.
 * Heads are split and merged by strides: nothing is transposed in memory. q, k, v and o are stored
 * in the problem's dtype between the steps.
 *
 * Formula: A. Vaswani et al., "Attention Is All You Need" (2017), section 3.2.2; gradients by the
 * chain rule through clattn/problem.h's Backward and Projection.
 */
#ifndef CLATTN_MULTIHEAD_H
#define CLATTN_MULTIHEAD_H

#include <clattn/attention.h>
#include <clattn/problem.h>

CLATTN_BEGIN

/** What keys and values are made of. */
typedef enum clattn_source {
    CLATTN_SELF = 0,    /**< x. */
    CLATTN_CROSS = 1,   /**< One context for both. */
    CLATTN_SEPARATE = 2 /**< A context for keys and another tensor for values. */
} clattn_source;

/** How a weight matrix lies in memory, packed. */
typedef enum clattn_weight_order {
    CLATTN_OUT_IN = 0, /**< (columns of the product, rows of x): PyTorch's. */
    CLATTN_IN_OUT = 1  /**< (rows, columns) of x W as it is written above. */
} clattn_weight_order;

/** Which attention weights a forward execution hands out, as floats. */
typedef enum clattn_weights_out {
    CLATTN_WEIGHTS_NONE = 0,
    CLATTN_WEIGHTS_HEADS = 1, /**< The weights of each head, (batch, heads, seq_q, seq_kv). */
    CLATTN_WEIGHTS_MEAN = 2   /**< Their mean over the heads, (batch, seq_q, seq_kv). */
} clattn_weights_out;

/** Made by clattn_multihead_init() or clattn_multihead_parse(), then changed as needed. */
typedef struct clattn_multihead {
    size_t struct_size; /**< Set by clattn_multihead_init(). */
    /** Operation (CLATTN_FORWARD or CLATTN_BACKWARD), dtype, sizes, masks and all other options.
     *  Its layouts of q, k, v, o and their gradients must be zeros, lse, k_cache, v_cache and
     *  o_f32 0, scores none: the layer says how they lie and are stored. With CLATTN_SELF seq_kv
     *  is seq_q. */
    clattn_problem attention;
    clattn_source source;      /**< The inputs that keys and values are made of. */
    size_t model;              /**< Columns of x; at least 1. */
    size_t context_model;      /**< Columns of the context; model if CLATTN_SELF. */
    size_t values_model;       /**< Columns of the values; context_model unless CLATTN_SEPARATE. */
    size_t output;             /**< Columns of y; at least 1. */
    clattn_weight_order order; /**< Axis order of all weight matrices. */
    int packed;      /**< Not 0: W_Q, W_K and W_V are one matrix with the columns of q, k and v side
                          by side, likewise their biases; all three inputs have model columns. */
    int qkv_biases;  /**< Not 0: b_Q, b_K and b_V are given. */
    int output_bias; /**< Not 0: b_O is given. */
    int seq_first;   /**< Not 0: x, context, values and y are (seq, batch, columns). */
    int training;    /**< Not 0: a forward execution keeps in the reserve what backward needs. A
                          backward layer needs it not: with or without, it reads the reserve that a
                          forward execution with training has written. */
    clattn_weights_out weights; /**< Forward only; before dropout. */
    size_t reserved[16]; /**< Zeros: room for members of later versions, of which 0 means none. */
} clattn_multihead;

/**
 * Self-attention forward in f32 of one batch, one head, one query, with model and output 1, weights
 * (out, in), no biases.
 *
 * @param layer  Not null.
 */
CLATTN_API void clattn_multihead_init(clattn_multihead *layer);

/**
 * Checks a layer against every rule of this header, for any device.
 *
 * @param layer   Not null.
 * @param reason  NULL, or receives one sentence ("" on success), cut to @p reason_bytes.
 * @param reason_bytes  The size of @p reason.
 * @retval CLATTN_SUCCESS           Sound.
 * @retval CLATTN_INVALID_ARGUMENT  @p layer is null or a struct_size is of none of this library's
 *                                  versions.
 * @retval CLATTN_INVALID_PROBLEM   @p reason names the field and the limit.
 */
CLATTN_API clattn_status clattn_multihead_check(const clattn_multihead *layer, char *reason,
                                                size_t reason_bytes);

/**
 * The text form: "layer" before that of the attention, then the layer's words, in this order:
 *
 *     model=N                columns of x
 *     cross=N                CLATTN_CROSS with N columns of the context
 *     separate=N,M           CLATTN_SEPARATE with N columns of the context, M of the values
 *     output=N               where not model
 *     io                     weights (in, out); else (out, in)
 *     packed biases obias seqfirst training
 *     weights=heads|mean
 *
 * such as "layer fwd f32 b2 h12 q128 k128 d64 causal=tl model=768 packed biases obias training".
 *
 * @param layer     Not null; need not pass clattn_multihead_check().
 * @param text      NULL if @p text_bytes is 0; else receives the form, always terminated.
 * @param text_bytes  The size of @p text.
 * @param needed    NULL, or receives the bytes needed, the terminating 0 included.
 * @return          As clattn_problem_print().
 */
CLATTN_API clattn_status clattn_multihead_print(const clattn_multihead *layer, char *text,
                                                size_t text_bytes, size_t *needed);

/** Reads the text form, words in any order after "layer"; model= must be there. Parameters and
 *  statuses as clattn_problem_parse(), with clattn_multihead_check() in place of
 *  clattn_problem_check(). */
CLATTN_API clattn_status clattn_multihead_parse(const char *text, clattn_multihead *layer,
                                                char *reason, size_t reason_bytes);

/** Floating-point operations of the layer's products: projections and attention; backward those of
 *  all gradients. 0 for a layer that fails clattn_multihead_check(). */
CLATTN_API double clattn_multihead_flops(const clattn_multihead *layer);

/** An immutable answer to a layer on a context; safe to execute from several threads. */
typedef struct clattn_multihead_plan clattn_multihead_plan;

/** What a layer's plan will run. The texts belong to the plan and live as long as it. */
typedef struct clattn_multihead_info {
    size_t struct_size;     /**< Set by the caller to sizeof(clattn_multihead_info). */
    const char *layer;      /**< The layer's text form. */
    const char *steps;      /**< A line for each plan inside: "step: family (tunables): problem". */
    size_t num_steps;       /**< Lines of steps. */
    size_t workspace_bytes; /**< 0 if none is needed. */
    size_t reserve_bytes;   /**< 0 unless training or backward. Equal for the two directions of a
                                 layer. */
} clattn_multihead_info;

/**
 * Plans every step of a layer; what takes time happens here.
 *
 * @param context,layer  Not null.
 * @param flags          CLATTN_PLAN_... of clattn_plan_options, for every step; no
 *                       CLATTN_PLAN_MEASURE.
 * @param plan           Not null; receives the plan, NULL on failure. Released by
 *                       clattn_multihead_plan_release().
 * @retval CLATTN_SUCCESS           Made.
 * @retval CLATTN_INVALID_ARGUMENT  A null, a struct_size of none of this library's versions,
 *                                  unknown flags.
 * @retval CLATTN_INVALID_PROBLEM   As clattn_multihead_check().
 *
 * Other statuses as clattn_plan_create() of a step, which the sentence in the log names.
 */
CLATTN_API clattn_status clattn_multihead_plan_create(clattn_context *context,
                                                      const clattn_multihead *layer, unsigned flags,
                                                      clattn_multihead_plan **plan);

/**
 * What the layer's plan will run.
 *
 * @param plan,info  Not null.
 * @retval CLATTN_SUCCESS           Filled in.
 * @retval CLATTN_INVALID_ARGUMENT  A null, or a struct_size of none of this library's versions.
 */
CLATTN_API clattn_status clattn_multihead_plan_describe(const clattn_multihead_plan *plan,
                                                        clattn_multihead_info *info);

/** Releases a plan; work that was enqueued finishes. NULL is ignored. */
CLATTN_API void clattn_multihead_plan_release(clattn_multihead_plan *plan);

/** The parameters of a layer in device memory. It does not grow: further ones come at the end of the structs of
 *  tensors. */
typedef struct clattn_multihead_parameters {
    clattn_buffer w_q; /**< (model, heads * dim_qk) by order; all three if packed. */
    clattn_buffer w_k; /**< (context_model, kv_heads * dim_qk); NULL if packed. */
    clattn_buffer w_v; /**< (values_model, kv_heads * dim_v); NULL if packed. */
    clattn_buffer w_o; /**< (heads * dim_v, output). */
    clattn_buffer b_q; /**< (heads * dim_qk), in the layer's dtype like the other two; all three if
                            packed; NULL unless qkv_biases. */
    clattn_buffer b_k; /**< (kv_heads * dim_qk); NULL if packed, and unless qkv_biases. */
    clattn_buffer b_v; /**< (kv_heads * dim_v); NULL if packed, and unless qkv_biases. */
    clattn_buffer b_o; /**< (output); NULL unless output_bias. */
} clattn_multihead_parameters;

/** What both directions read beside the parameters. Fields of options that the layer lacks are
 *  NULL. It does not grow: operands of further options come at the end of the structs of tensors. */
typedef struct clattn_multihead_inputs {
    clattn_buffer x;             /**< (batch, seq_q, model), packed; see seq_first. */
    clattn_buffer context;       /**< (batch, seq_kv, context_model); NULL if CLATTN_SELF. */
    clattn_buffer values;        /**< (batch, seq_kv, values_model); NULL unless CLATTN_SEPARATE. */
    clattn_buffer bias;          /**< As in clattn_forward_tensors. */
    clattn_buffer mask;          /**< As in clattn_forward_tensors. */
    clattn_buffer slopes;        /**< As in clattn_forward_tensors. */
    clattn_buffer sinks;         /**< As in clattn_forward_tensors. */
    clattn_buffer q_lengths;     /**< As in clattn_forward_tensors. */
    clattn_buffer kv_lengths;    /**< As in clattn_forward_tensors. */
    uint64_t dropout_seed;       /**< As in clattn_forward_tensors. */
    uint32_t dropout_offset;     /**< As in clattn_forward_tensors. */
    clattn_buffer block_offsets; /**< As in clattn_forward_tensors. */
    clattn_buffer block_entries; /**< As in clattn_forward_tensors. */
} clattn_multihead_inputs;

/** The tensors of a layer's forward execution. */
typedef struct clattn_multihead_forward_tensors {
    size_t struct_size;                     /**< sizeof(clattn_multihead_forward_tensors). */
    clattn_multihead_inputs in;             /**< Read. */
    clattn_multihead_parameters parameters; /**< Read. */
    clattn_buffer y;          /**< Written; (batch, seq_q, output), packed; see seq_first. */
    clattn_buffer weights;    /**< Written; NULL unless weights are wanted. */
    clattn_buffer reserve;    /**< Written if training, at least reserve_bytes, offset in floats;
                                  else NULL. */
    clattn_buffer workspace;  /**< As in clattn_forward_tensors. */
    clattn_buffer function_0; /**< Read: operands of functions, as in clattn_forward_tensors. */
    clattn_buffer function_1; /**< Read: the next operand of the functions. */
    clattn_buffer function_2; /**< Read: the next operand of the functions. */
    clattn_buffer function_3; /**< Read: the next operand of the functions. */
    clattn_buffer function_4; /**< Read: the next operand of the functions. */
    clattn_buffer function_5; /**< Read: the next operand of the functions. */
    /** Values of the functions' parameters; NULL: those that their sources give. */
    const clattn_function_values *function_values;
    uint64_t function_version; /**< As in clattn_forward_tensors. */
} clattn_multihead_forward_tensors;

/** The tensors of a layer's backward execution. Gradients of inputs and parameters that are not
 *  wanted may be NULL, and what leads to no other is not computed. */
typedef struct clattn_multihead_backward_tensors {
    size_t struct_size;                     /**< sizeof(clattn_multihead_backward_tensors). */
    clattn_multihead_inputs in;             /**< Read: what forward read. */
    clattn_multihead_parameters parameters; /**< Read: what forward read. */
    clattn_buffer reserve;                  /**< Read: what forward wrote. */
    clattn_buffer dy;                       /**< Read; as y. */
    clattn_buffer dx;       /**< Written, as x. With CLATTN_SELF it holds the gradient
                                 through q, k and v. */
    clattn_buffer dcontext; /**< Written, as context. */
    clattn_buffer dvalues;  /**< Written, as values. */
    clattn_multihead_parameters gradients; /**< Written, as the parameters. */
    clattn_buffer
        dbias; /**< Written, as in clattn_backward_tensors: given if and only if the layer's
                                  attention has it. */
    clattn_buffer dslopes;    /**< Likewise. */
    clattn_buffer dsinks;     /**< Likewise. */
    clattn_buffer workspace;  /**< As in clattn_forward_tensors. */
    clattn_buffer function_0; /**< Read: operands of functions, as in clattn_forward_tensors. */
    clattn_buffer function_1; /**< Read: the next operand of the functions. */
    clattn_buffer function_2; /**< Read: the next operand of the functions. */
    clattn_buffer function_3; /**< Read: the next operand of the functions. */
    clattn_buffer function_4; /**< Read: the next operand of the functions. */
    clattn_buffer function_5; /**< Read: the next operand of the functions. */
    /** Values of the functions' parameters; NULL: those that their sources give. */
    const clattn_function_values *function_values;
    uint64_t function_version; /**< As in clattn_forward_tensors. */
    /** Written, as in clattn_backward_tensors: given if and only if the layer's attention has it. */
    clattn_buffer dfunction;
} clattn_multihead_backward_tensors;

/**
 * Enqueues a layer. Written tensors must not overlap each other or anything that is read. Several
 * layers and directions may share a workspace if they do not overlap in time.
 *
 * @param plan     Not null; of operation CLATTN_FORWARD.
 * @param queue    On the plan's device and OpenCL context; in-order or out-of-order.
 * @param tensors  Read during the call only.
 * @param num_wait,wait,done  As for clattn_attention_forward().
 * @return         As clattn_attention_forward().
 */
CLATTN_API clattn_status clattn_multihead_forward(const clattn_multihead_plan *plan,
                                                  cl_command_queue queue,
                                                  const clattn_multihead_forward_tensors *tensors,
                                                  cl_uint num_wait, const cl_event *wait,
                                                  cl_event *done);

/** Enqueues the gradients of a layer; the same inputs give the same bits on every run. Parameters
 *  and statuses as clattn_multihead_forward(), with a plan of operation CLATTN_BACKWARD. */
CLATTN_API clattn_status clattn_multihead_backward(const clattn_multihead_plan *plan,
                                                   cl_command_queue queue,
                                                   const clattn_multihead_backward_tensors *tensors,
                                                   cl_uint num_wait, const cl_event *wait,
                                                   cl_event *done);

CLATTN_END

#endif

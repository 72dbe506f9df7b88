/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file tensors.h  The tensors of a problem: what an execution takes, of which type, and how each lies in memory.
 * @ingroup describing
 * For callers that check their arrays before an execution, or make them, without repeating what
 * clattn/problem.h says of each option:
 *
 *     clattn_tensor tensor = {.struct_size = sizeof tensor};
 *     for (size_t n = 0; clattn_problem_tensor(&problem, n, &tensor) == CLATTN_SUCCESS && tensor.name; n++)
 *         (compare an array with tensor)
 */
#ifndef CLATTN_TENSORS_H
#define CLATTN_TENSORS_H

#include <clattn/export.h>
#include <clattn/problem.h>
#include <clattn/status.h>

CLATTN_BEGIN

/** One tensor of a problem. */
typedef struct clattn_tensor {
    size_t struct_size; /**< Set by the caller to sizeof(clattn_tensor). */
    const char *name;   /**< The member of the operation's struct of tensors, such as "d_o" of
                             clattn_backward_tensors; a static text. NULL: there is no tensor of this number. */
    /** Type of its elements: "f32", "f16", "bf16", "q8_0" or another format of blocks as in the text form, "i32" for
     *  int32_t, "u8" for bytes; a static text. */
    const char *type;
    int written;    /**< 0: read. 1: every element is overwritten. 2: read and written. */
    int broadcasts; /**< Not 0: a bias or a mask, whose strides are 0 where it broadcasts. */
    size_t size[5]; /**< Aligned at the right: (states, batch, heads, seq, dim), with 1 for states
                             but in merges; (batch, heads, seq_q) of lse, and so on as the members are
                             described; 1 before that. Dims of quantized tensors count values. */
    /** Strides along these dimensions, in elements; in values for quantized tensors. */
    size_t stride[5];
} clattn_tensor;

/**
 * Tensor @p number of those that a problem has. The workspace, which depends on the plan, is none of them.
 *
 * @param problem  Passes clattn_problem_check(); not null.
 * @param number   From 0 on; the order has no meaning.
 * @param tensor   Not null, its struct_size set; the rest is zeros on failure and behind the last tensor.
 * @retval CLATTN_SUCCESS           Filled in; name is NULL if @p number is not below the number of tensors.
 * @retval CLATTN_INVALID_ARGUMENT  A null, or a struct_size of none of this library's versions.
 * @retval CLATTN_INVALID_PROBLEM   As clattn_problem_check().
 */
CLATTN_API clattn_status clattn_problem_tensor(const clattn_problem *problem, size_t number,
                                               clattn_tensor *tensor);

CLATTN_END

#endif

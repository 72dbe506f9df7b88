/* SPDX-License-Identifier: Apache-2.0 */
/* The two by-value arguments that every kernel of a double backward starts with (cl/common/argument_types.h). */
#ifndef CLATTN_DOUBLE_BACKWARD_ARGUMENTS_H
#define CLATTN_DOUBLE_BACKWARD_ARGUMENTS_H

#include "common/operand_arguments.h"
#include "problem/double_backward_tensors.def"

struct double_backward_shape {
    CA_DOUBLE_BACKWARD_OPERANDS(OPERAND_STRIDES, )
    ca_long batch, heads, kv_heads, seq_q, seq_kv, diagonal, window_left, window_right;
    ca_int group; /* query heads of a kv head */
    ca_float scale;
};

struct double_backward_offsets {
    CA_DOUBLE_BACKWARD_OPERANDS(OPERAND_OFFSET, )
    ca_long workspace;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The two by-value arguments that every kernel of a double backward starts with (cl/common/argument_types.h). */
#ifndef CLATTN_DOUBLE_BACKWARD_ARGUMENTS_H
#define CLATTN_DOUBLE_BACKWARD_ARGUMENTS_H

#include "common/argument_types.h"
#include "problem/double_backward_tensors.def"

/* Fixed when the plan is made. Strides along the four axes of each tensor, in elements. */
struct double_backward_shape {
#define STRIDES_STRIDED(member) CA_LONG member##_stride[4];
#define STRIDES_PACKED(member)
#define OPERAND(ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2, s3)           \
    STRIDES_##LAYOUT(member)
    CA_DOUBLE_BACKWARD_OPERANDS(OPERAND)
#undef OPERAND
#undef STRIDES_STRIDED
#undef STRIDES_PACKED
    CA_LONG batch, heads, kv_heads, seq_q, seq_kv, diagonal, window_left, window_right;
    CA_INT group; /* query heads of a kv head */
    CA_FLOAT scale;
};

/* Given with each execution: the position of each tensor's first element, in elements. */
struct double_backward_offsets {
#define OPERAND(ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2, s3)           \
    CA_LONG member;
    CA_DOUBLE_BACKWARD_OPERANDS(OPERAND)
#undef OPERAND
    CA_LONG workspace;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The two by-value arguments that every kernel of a double backward starts with (cl/common/argument_types.h). */
#ifndef CLATTN_DOUBLE_BACKWARD_ARGUMENTS_H
#define CLATTN_DOUBLE_BACKWARD_ARGUMENTS_H

#include "common/argument_types.h"
#include "problem/double_backward_tensors.def"

/* Fixed when the plan is made. Strides along the four axes of each tensor, in elements. */
struct double_backward_shape {
#define STRIDES_STRIDED(member) ca_long member##_stride[4];
#define STRIDES_PACKED(member)
#define OPERAND(ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2, s3)           \
    STRIDES_##LAYOUT(member)
    CA_DOUBLE_BACKWARD_OPERANDS(OPERAND)
#undef OPERAND
#undef STRIDES_STRIDED
#undef STRIDES_PACKED
    ca_long batch, heads, kv_heads, seq_q, seq_kv, diagonal, window_left, window_right;
    ca_int group; /* query heads of a kv head */
    ca_float scale;
};

/* Given with each execution: the position of each tensor's first element, in elements. */
struct double_backward_offsets {
#define OPERAND(ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2, s3)           \
    ca_long member;
    CA_DOUBLE_BACKWARD_OPERANDS(OPERAND)
#undef OPERAND
    ca_long workspace;
};

#endif

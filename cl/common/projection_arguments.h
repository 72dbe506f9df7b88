/* SPDX-License-Identifier: Apache-2.0 */
/* The two by-value arguments that every kernel of projections starts with (cl/common/argument_types.h). */
#ifndef CLATTN_PROJECTION_ARGUMENTS_H
#define CLATTN_PROJECTION_ARGUMENTS_H

#include "common/argument_types.h"
#include "problem/projection_tensors.def"

/* Fixed when the plan is made. Strides along the four axes of each tensor, in elements. */
struct projection_shape {
#define STRIDES_STRIDED(member) ca_long member##_stride[4];
#define STRIDES_PACKED(member)
#define OPERAND(ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2, s3)           \
    STRIDES_##LAYOUT(member)
    CA_PROJECTION_OPERANDS(OPERAND)
#undef OPERAND
#undef STRIDES_STRIDED
#undef STRIDES_PACKED
    ca_long batch, rows, x_heads, x_dim, y_heads, y_dim;
};

/* Given with each execution: the position of each tensor's first element, in elements. */
struct projection_offsets {
#define OPERAND(ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2, s3)           \
    ca_long member;
    CA_PROJECTION_OPERANDS(OPERAND)
#undef OPERAND
    ca_long workspace;
};

#endif

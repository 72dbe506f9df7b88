/* SPDX-License-Identifier: Apache-2.0 */
/* The two by-value arguments that every kernel of merges starts with (cl/common/argument_types.h). */
#ifndef CLATTN_MERGE_ARGUMENTS_H
#define CLATTN_MERGE_ARGUMENTS_H

#include "common/argument_types.h"
#include "problem/merge_tensors.def"

/* Fixed when the plan is made. Strides along the four axes of each tensor, in elements. */
struct merge_shape {
#define STRIDES_STRIDED(member) ca_long member##_stride[4];
#define STRIDES_PACKED(member)
#define OPERAND(ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2, s3)           \
    STRIDES_##LAYOUT(member)
    CA_MERGE_OPERANDS(OPERAND)
#undef OPERAND
#undef STRIDES_STRIDED
#undef STRIDES_PACKED
    ca_long states, batch, heads, seq_q, dim;
};

/* Given with each execution: the position of each tensor's first element, in elements. */
struct merge_offsets {
#define OPERAND(ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2, s3)           \
    ca_long member;
    CA_MERGE_OPERANDS(OPERAND)
#undef OPERAND
};

#endif

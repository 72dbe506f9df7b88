/* SPDX-License-Identifier: Apache-2.0 */
/* The two by-value arguments that every kernel of appends starts with (cl/common/argument_types.h). */
#ifndef CLATTN_APPEND_ARGUMENTS_H
#define CLATTN_APPEND_ARGUMENTS_H

#include "common/argument_types.h"
#include "problem/append_tensors.def"

/* Fixed when the plan is made. Strides along the four axes of each tensor, in elements. */
struct append_shape {
#define STRIDES_STRIDED(member) ca_long member##_stride[4];
#define STRIDES_PACKED(member)
#define OPERAND(ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2, s3)           \
    STRIDES_##LAYOUT(member)
    CA_APPEND_OPERANDS(OPERAND)
#undef OPERAND
#undef STRIDES_STRIDED
#undef STRIDES_PACKED
    ca_long batch, heads, kv_heads, tokens;
    ca_long capacity; /* the rows of a batch's caches */
    ca_long dim_qk, dim_v;
    ca_long pages;                  /* the pages of the pool; valid with PAGE_SIZE */
    ca_long rotary_length;          /* the rows of the tables; valid with HAS_TABLES */
    ca_float power_high, power_low; /* their sum is rotary_base^(-2 / ROTARY_DIM) */
};

/* Given with each execution: the position of each tensor's first element, in elements. */
struct append_offsets {
#define OPERAND(ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2, s3)           \
    ca_long member;
    CA_APPEND_OPERANDS(OPERAND)
#undef OPERAND
};

#endif

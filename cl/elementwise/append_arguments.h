/* SPDX-License-Identifier: Apache-2.0 */
/* The two by-value arguments that every kernel of appends starts with (cl/common/argument_types.h). */
#ifndef CLATTN_APPEND_ARGUMENTS_H
#define CLATTN_APPEND_ARGUMENTS_H

#include "common/argument_types.h"
#include "problem/append_tensors.def"

/* Fixed when the plan is made. Strides along the four axes of each tensor, in elements. */
struct append_shape {
#define STRIDES_STRIDED(member) CA_LONG member##_stride[4];
#define STRIDES_PACKED(member)
#define OPERAND(ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2, s3)           \
    STRIDES_##LAYOUT(member)
    CA_APPEND_OPERANDS(OPERAND)
#undef OPERAND
#undef STRIDES_STRIDED
#undef STRIDES_PACKED
    CA_LONG batch, heads, kv_heads, tokens;
    CA_LONG capacity; /* the rows of a batch's caches */
    CA_LONG dim_qk, dim_v;
    CA_LONG pages;                  /* the pages of the pool; valid with PAGE_SIZE */
    CA_LONG rotary_length;          /* the rows of the tables; valid with HAS_TABLES */
    CA_FLOAT power_high, power_low; /* their sum is rotary_base^(-2 / ROTARY_DIM) */
};

/* Given with each execution: the position of each tensor's first element, in elements. */
struct append_offsets {
#define OPERAND(ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2, s3)           \
    CA_LONG member;
    CA_APPEND_OPERANDS(OPERAND)
#undef OPERAND
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The two by-value arguments that every kernel of an indexer starts with (cl/common/argument_types.h). */
#ifndef CLATTN_INDEXER_ARGUMENTS_H
#define CLATTN_INDEXER_ARGUMENTS_H

#include "common/argument_types.h"
#include "problem/indexer_tensors.def"

/* Fixed when the plan is made. Strides along the four axes of each tensor, in elements. */
struct indexer_shape {
#define STRIDES_STRIDED(member) ca_long member##_stride[4];
#define STRIDES_PACKED(member)
#define OPERAND(ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2, s3)           \
    STRIDES_##LAYOUT(member)
    CA_INDEXER_OPERANDS(OPERAND)
#undef OPERAND
#undef STRIDES_STRIDED
#undef STRIDES_PACKED
    ca_long batch, seq_q, seq_kv, total_q, total_kv;
    ca_long topk;     /* entries of a list */
    ca_long pages;    /* the pages of the pool; valid with PAGE_SIZE */
    ca_long diagonal; /* query i sees keys up to i + diagonal; valid with CAUSAL */
};

/* Given with each execution: the position of each tensor's first element, in elements. */
struct indexer_offsets {
#define OPERAND(ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2, s3)           \
    ca_long member;
    CA_INDEXER_OPERANDS(OPERAND)
#undef OPERAND
    ca_long workspace;
};

#endif

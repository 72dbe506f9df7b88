/* SPDX-License-Identifier: Apache-2.0 */
/* The two by-value arguments that every kernel of attention starts with (cl/common/argument_types.h). */
#ifndef CLATTN_ARGUMENTS_H
#define CLATTN_ARGUMENTS_H

#include "common/argument_types.h"
#include "problem/sizes.def"
#include "problem/tensors.def"

/* Fixed when the plan is made. Strides along (batch, heads, seq, dim) or (batch, heads, seq_q,
 * seq_kv), in elements. */
struct attention_shape {
#define STRIDES_STRIDED(member) CA_LONG member##_stride[4];
#define STRIDES_BROADCAST(member) CA_LONG member##_stride[4];
#define STRIDES_OF_BIAS(member)
#define STRIDES_PACKED(member)
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, LAYOUT, layout, text, type, has, bytes, s0, s1,  \
                s2, s3)                                                                            \
    STRIDES_##LAYOUT(member)
    CA_OPERANDS(OPERAND)
#undef OPERAND
#undef STRIDES_STRIDED
#undef STRIDES_BROADCAST
#undef STRIDES_OF_BIAS
#undef STRIDES_PACKED
    CA_LONG batch, heads, seq_q, seq_kv;
    CA_LONG kv_heads;
    CA_LONG pages; /* in the pool, with PAGE_SIZE */
    CA_LONG longest_q,
        longest_kv;       /* seq_q and seq_kv, which kernels of packed batches make a sequence's */
    CA_LONG group;        /* query heads per kv head */
    CA_LONG diagonal;     /* d: key i + d is "now" for query i (unless DIAGONAL_FOLLOWS_LENGTHS) */
    CA_LONG window_left;  /* with HAS_WINDOW_LEFT: j >= i + d - window_left */
    CA_LONG window_right; /* with HAS_WINDOW_RIGHT: j <= i + d + window_right; causal is 0 */
#define SIZE(ID, member, word, OF, difference) CA_LONG member;
    CA_SIZES(SIZE)
#undef SIZE
    CA_LONG
    max_blocks; /* with HAS_BLOCKS: entries in a list; which list is that of batch b and head h: */
    CA_LONG list_of_batch, list_of_head; /* b * list_of_batch + h * list_of_head */
    CA_FLOAT scale;
    CA_FLOAT softcap;   /* with HAS_SOFTCAP */
    CA_FLOAT keep;      /* with HAS_DROPOUT: 1 / (1 - dropout) */
    CA_UINT drop_below; /* ... random words below this drop the weight */
};

/* Given with each execution: the position of each tensor's first element, in elements. */
struct attention_offsets {
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, LAYOUT, layout, text, type, has, bytes, s0, s1,  \
                s2, s3)                                                                            \
    CA_LONG member;
    CA_OPERANDS(OPERAND)
#undef OPERAND
    CA_LONG workspace;
    CA_ULONG seed, stream; /* of dropout's random numbers; a stream has 32 bits */
    CA_ULONG dropout_i,
        dropout_j4; /* its first query, and first key / 4, in the whole attention, */
    CA_ULONG dropout_bh,
        dropout_heads; /* the first head of the first batch there, heads of a batch */
};

#endif

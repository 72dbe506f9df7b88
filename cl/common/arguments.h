/* SPDX-License-Identifier: Apache-2.0 */
/* The two by-value arguments that every kernel of attention starts with (cl/common/argument_types.h). */
#pragma once

#include "common/argument_types.h"
#include "problem/sizes.def"

/* A program's structs have only the operands that its problem has. The host writes these members before the source
 * (src/program/program_parameters.h), and packs arguments in the same order (src/execute/launch.h). Its own struct
 * begins behind the strides. */
#ifndef STRIDES_MEMBERS
#define STRIDES_MEMBERS
#endif

/* Fixed when the plan is made. Strides along (batch, heads, seq, dim) or (batch, heads, seq_q,
 * seq_kv), in elements. */
struct attention_shape {
    STRIDES_MEMBERS
    CA_LONG batch, heads, seq_q, seq_kv;
    CA_LONG kv_heads;
    CA_LONG pages; /* the pages of the pool; valid with PAGE_SIZE */
    /* seq_q and seq_kv; kernels of packed batches replace them by those of a sequence */
    CA_LONG longest_q, longest_kv;
    CA_LONG group;    /* query heads per kv head */
    CA_LONG diagonal; /* d: key i + d is on the diagonal at query i (unless it follows lengths) */
    CA_LONG window_left; /* the window is j >= i + d - window_left (HAS_WINDOW_LEFT) */
    CA_LONG
    window_right; /* the window is j <= i + d + window_right (HAS_WINDOW_RIGHT); 0 if causal */
#define SIZE(ID, member, word, OF, difference) CA_LONG member;
    CA_SIZES(SIZE)
#undef SIZE
    CA_LONG max_blocks; /* the most entries in a block list (HAS_BLOCKS) */
    /* batch b and head h have list number b * list_of_batch + h * list_of_head */
    CA_LONG list_of_batch, list_of_head;
    CA_FLOAT scale;
    CA_FLOAT softcap;   /* the cap of scores; valid with HAS_SOFTCAP */
    CA_FLOAT keep;      /* the dropout factor of kept weights: 1 / (1 - dropout) */
    CA_UINT drop_below; /* a weight is dropped if its random word is below this */
};

/* Given with each execution. A kernel's second argument has it behind the position of each operand's first
 * element, in elements: struct NAME_offsets of kernel NAME. */
struct attention_call {
    CA_ULONG seed, stream; /* these choose dropout's random numbers; a stream has 32 bits */
    /* in a sharded attention: the numbers of the call's first query, and of its first key / 4 */
    CA_UINT dropout_i, dropout_j4;
    /* in a sharded attention: the number of the call's first head, and the heads of a batch */
    CA_ULONG dropout_bh, dropout_heads;
    CA_INT function_ints[4]; /* the values of functions' parameters (clattn/function.h) */
    CA_FLOAT function_floats[4];
};

/* The structs of all kernels' offsets. */
#ifdef OFFSETS_STRUCTS
OFFSETS_STRUCTS
#endif

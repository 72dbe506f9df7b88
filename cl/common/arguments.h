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
    ca_long batch, heads, seq_q, seq_kv;
    ca_long kv_heads;
    ca_long pages; /* the pages of the pool; valid with PAGE_SIZE */
    /* seq_q and seq_kv; kernels of packed batches replace them by those of a sequence */
    ca_long longest_q, longest_kv;
    ca_long group;    /* query heads per kv head */
    ca_long diagonal; /* d: key i + d is on the diagonal at query i (unless it follows lengths) */
    ca_long window_left; /* the window is j >= i + d - window_left (HAS_WINDOW_LEFT) */
    ca_long
        window_right; /* the window is j <= i + d + window_right (HAS_WINDOW_RIGHT); 0 if causal */
#define SIZE(ID, member, word, OF, difference) ca_long member;
    CA_SIZES(SIZE)
#undef SIZE
    ca_long max_blocks; /* the most entries in a block list (HAS_BLOCKS) */
    /* batch b and head h have list number b * list_of_batch + h * list_of_head */
    ca_long list_of_batch, list_of_head;
    ca_float scale;
    ca_float softcap;   /* the cap of scores; valid with HAS_SOFTCAP */
    ca_float keep;      /* the dropout factor of kept weights: 1 / (1 - dropout) */
    ca_uint drop_below; /* a weight is dropped if its random word is below this */
};

/* Given with each execution. A kernel's second argument has it behind the position of each operand's first
 * element, in elements: struct NAME_offsets of kernel NAME. */
struct attention_call {
    ca_ulong seed, stream; /* these choose dropout's random numbers; a stream has 32 bits */
    /* in a sharded attention: the numbers of the call's first query and of its first key */
    ca_uint dropout_i, dropout_j;
    /* in a sharded attention: the number of the call's first head, and the heads of a batch */
    ca_ulong dropout_bh, dropout_heads;
    ca_int function_ints[4]; /* the values of functions' parameters (clattn/function.h) */
    ca_float function_floats[4];
    ca_int whole_queries, whole_keys; /* in use in the whole; valid with WHOLE_Q */
};

/* The structs of all kernels' offsets. */
#ifdef OFFSETS_STRUCTS
OFFSETS_STRUCTS
#endif

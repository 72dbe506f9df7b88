/* SPDX-License-Identifier: Apache-2.0 */
/* The two by-value arguments that every kernel of an indexer starts with (cl/common/argument_types.h). */
#ifndef CLATTN_INDEXER_ARGUMENTS_H
#define CLATTN_INDEXER_ARGUMENTS_H

#include "common/operand_arguments.h"
#include "problem/indexer_tensors.def"

struct indexer_shape {
    CA_INDEXER_OPERANDS(OPERAND_STRIDES, )
    ca_long batch, seq_q, seq_kv, total_q, total_kv;
    ca_long topk;     /* entries of a list */
    ca_long pages;    /* the pages of the pool; valid with PAGE_SIZE */
    ca_long diagonal; /* query i sees keys up to i + diagonal; valid with CAUSAL */
};

struct indexer_offsets {
    CA_INDEXER_OPERANDS(OPERAND_OFFSET, )
    ca_long workspace;
};

#endif

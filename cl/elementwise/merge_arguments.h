/* SPDX-License-Identifier: Apache-2.0 */
/* The two by-value arguments that every kernel of merges starts with (cl/common/argument_types.h). */
#ifndef CLATTN_MERGE_ARGUMENTS_H
#define CLATTN_MERGE_ARGUMENTS_H

#include "common/operand_arguments.h"
#include "problem/merge_tensors.def"

struct merge_shape {
    CA_MERGE_OPERANDS(OPERAND_STRIDES, )
    ca_long states, batch, heads, seq_q, dim;
};

struct merge_offsets {
    CA_MERGE_OPERANDS(OPERAND_OFFSET, )
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The two by-value arguments that every kernel of projections starts with (cl/common/argument_types.h). */
#ifndef CLATTN_PROJECTION_ARGUMENTS_H
#define CLATTN_PROJECTION_ARGUMENTS_H

#include "common/operand_arguments.h"
#include "problem/projection_tensors.def"

struct projection_shape {
    CA_PROJECTION_OPERANDS(OPERAND_STRIDES, )
    ca_long batch, rows, x_heads, x_dim, y_heads, y_dim;
};

struct projection_offsets {
    CA_PROJECTION_OPERANDS(OPERAND_OFFSET, )
    ca_long workspace;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The two by-value arguments that every kernel of appends starts with (cl/common/argument_types.h). */
#ifndef CLATTN_APPEND_ARGUMENTS_H
#define CLATTN_APPEND_ARGUMENTS_H

#include "common/operand_arguments.h"
#include "problem/append_tensors.def"

struct append_shape {
    CA_APPEND_OPERANDS(OPERAND_STRIDES, )
    ca_long batch, heads, kv_heads, tokens;
    ca_long capacity; /* the rows of a batch's caches */
    ca_long dim_qk, dim_v;
    ca_long pages;                  /* the pages of the pool; valid with PAGE_SIZE */
    ca_long rotary_length;          /* the rows of the tables; valid with HAS_TABLES */
    ca_float power_high, power_low; /* their sum is rotary_base^(-2 / ROTARY_DIM) */
};

struct append_offsets {
    CA_APPEND_OPERANDS(OPERAND_OFFSET, )
};

#endif

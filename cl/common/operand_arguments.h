/* SPDX-License-Identifier: Apache-2.0 */
/* Members of the two by-value arguments of operations besides attention, from a list of operands
 * (src/problem/append_tensors.def): CA_MERGE_OPERANDS(OPERAND_STRIDES, ). */
#pragma once

#include "common/argument_types.h"

/* Strides along the four axes of each tensor that has a layout, in elements; the first members of a shape, which is
 * fixed when the plan is made. */
#define OPERAND_STRIDES(of, ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2,   \
                        s3)                                                                        \
    OPERAND_STRIDES_##LAYOUT(member)
#define OPERAND_STRIDES_STRIDED(member) ca_long member##_stride[4];
#define OPERAND_STRIDES_BROADCAST(member) OPERAND_STRIDES_STRIDED(member)
#define OPERAND_STRIDES_PACKED(member)

/* The position of each tensor's first element, in elements, as each execution gives it. */
#define OPERAND_OFFSET(of, ID, member, LAYOUT, role, type, present, written, bytes, s0, s1, s2,    \
                       s3)                                                                         \
    ca_long member;

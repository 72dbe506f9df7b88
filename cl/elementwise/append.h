/* SPDX-License-Identifier: Apache-2.0 */
/* The struct that the arguments of an append's kernels travel in (src/program/program_parameters.h). */
#pragma once
#include "cpu/simd_storage.h"
#include "elementwise/append_arguments.h"

/* Each operand from its first element on, but the caches, whose elements have a format each. */
struct append_arguments {
    const struct append_shape *shape;
    const struct append_offsets *at;
    ARGUMENTS_MEMBERS
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The struct that the arguments of an append's kernels travel in (src/program/program_parameters.h). */
#pragma once
#include "cpu/simd_storage.h"
#include "elementwise/append_arguments.h"

/* The tensors of an append, each from its first element on, except the caches, whose elements
 * have formats of their own. */
struct append_arguments {
    const struct append_shape *shape;
    const struct append_offsets *at;
    ARGUMENTS_MEMBERS
};

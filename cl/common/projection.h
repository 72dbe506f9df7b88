/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels of projections share: the struct of arguments, steps, and what is stored.
 *
 * The host defines all of these (src/program/program_options.c), and no other macro of those that
 * common.h lists:
 *   DTYPE, BIAS_DTYPE             0 f32, 1 f16, 2 bf16
 *   HAS_BIAS HAS_ACCUMULATE       0 or 1
 *   UNIT_X_COLUMN UNIT_X_ROW      x lies contiguous along x_dim, or else along the rows; or neither
 *   X_HAS_PAIRS                   bf16: x lies along x_dim, and pairs of neighbours along the depth lie so throughout
 *   UNIT_W_COLUMN UNIT_W_ROW      w lies contiguous along y_dim, or else along x_dim; or neither
 *   UNIT_Y_COLUMN                 y lies contiguous along y_dim
 * and for the family every tunable of its .def file. Sizes come with the shape: one program serves
 * all.
 *
 * The host has merged the dims of struct projection_shape (cl/common/projection_arguments.h) where
 * strides allow it: batch is then 1 and part of rows, x_heads 1 and part of x_dim, y_heads 1 and
 * part of y_dim (ca_problem_normal()). A stride of 0 in x or w broadcasts. */
#pragma once
#include "common/kernel.h"
#include "common/projection_arguments.h"

/* The tensors that a kernel reads and writes, each from its first element on
 * (src/program/program_parameters.h). */
struct projection_arguments {
    const struct projection_shape *shape;
    const struct projection_offsets *at;
    ARGUMENTS_MEMBERS
};

#define X_COLUMN_STEP (UNIT_X_COLUMN ? 1 : args->shape->x_stride[3])
#define X_ROW_STEP (UNIT_X_ROW ? 1 : args->shape->x_stride[2])
#define W_COLUMN_STEP (UNIT_W_COLUMN ? 1 : args->shape->w_stride[3])
#define W_ROW_STEP (UNIT_W_ROW ? 1 : args->shape->w_stride[1])
#define Y_COLUMN_STEP (UNIT_Y_COLUMN ? 1 : args->shape->y_stride[3])

/* Stores y[n], column e of head g, from a complete sum: rounded once. */
#define BEFORE(y, n) (HAS_ACCUMULATE ? load1_of(DTYPE, y, n) : 0.0f)
#if HAS_BIAS
#define BIAS_OF(g, e) load1_of(BIAS_DTYPE, args->bias, (g)*args->shape->y_dim + (e))
#else
#define BIAS_OF(g, e) 0.0f
#endif
#define COMPLETE_Y(sum, y, n, g, e) ((sum) + BIAS_OF(g, e) + BEFORE(y, n))
#define STORE_Y(sum, y, n, g, e) store1_of(DTYPE, COMPLETE_Y(sum, y, n, g, e), y, n)

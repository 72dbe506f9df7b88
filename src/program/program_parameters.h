/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of kernel parameters that stand before a program's source. */
#ifndef CA_PROGRAM_PARAMETERS_H
#define CA_PROGRAM_PARAMETERS_H

#include "families/family.h"
#include "problem/problem.h"

/*
 * STRIDES_MEMBERS are the first members of struct attention_shape, and OFFSETS_STRUCTS the structs of all kernels'
 * offsets (cl/common/arguments.h); other operations have one struct of each for all their programs.
 *
 * A macro PARAMETERS_<kernel> for each of the family's kernels, and for function_values of a problem with functions:
 * the shape, the offsets, then the stage's operands that the problem has (NULL: no lists), in the order in which
 * src/execute/execute.c sets them. What the kernel does not write is const; what a problem lacks has no parameter. The names
 * are the members that the operation's list of operands has, such as src/problem/tensors.def; the workspace is the last.
 *
 * A macro ARGUMENTS_<kernel> for each: what the kernel sets its struct of arguments to (cl/common/common.h,
 * struct projection_arguments and others), with each operand from its first element on. An append's caches
 * are of bytes, so that the kernel itself adds their offsets. ARGUMENTS_MEMBERS declares the struct's pointers:
 * the workspace and all operands that the problem has, whichever kernel takes them. False if the text does
 * not fit, which the number of kernels rules out.
 */
enum { CA_PARAMETERS_TEXT = 16384 };
int ca_program_parameters(const struct ca_family *family, const struct ca_problem *p, char *text,
                          size_t text_bytes);

/* The kernel of all programs with functions (cl/score/function_values.h). */
extern const struct ca_stage ca_function_values_stage;

#endif

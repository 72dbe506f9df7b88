/* SPDX-License-Identifier: Apache-2.0 */
/* The two arguments that every kernel starts with: the shape, which a plan fixes, and the offsets of an
 * execution. Each operation has structs of its own. */
#ifndef CA_LAUNCH_H
#define CA_LAUNCH_H

#include "cl/common/arguments.h"
#include "problem/problem.h"
#include <clattn/attention.h>

/* The arguments of an execution, of any operation. */
struct ca_tensors {
    clattn_buffer at[CA_NUM_ARGUMENTS];
    cl_ulong seed;  /* dropout's seed */
    cl_uint stream; /* dropout's stream */
    clattn_dropout_place place;
    const clattn_function_values *function_values; /* NULL: those of the sources */
    uint64_t function_version;                     /* as in clattn_forward_tensors */
    uint32_t whole_queries, whole_keys;            /* as in clattn_forward_tensors */
};

/* Attention's begin with the strides and with the offsets of the tensors that a program has. */
union ca_shape {
    cl_long attention[4 * CA_WORKSPACE + sizeof(struct attention_shape) / sizeof(cl_long)];
#define OPERATION(ID, name, ...) struct name##_shape name;
    CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
};

/* The largest number of offsets of an execution: attention's, with the values of a call. */
enum { CA_MOST_OFFSETS = CA_NUM_ARGUMENTS + sizeof(struct attention_call) / sizeof(cl_long) };

/* Fill in the struct of a normal problem's operation, and return its size. program: the problem that the program
 * was made for, whose tensors have strides. taken: CA_BIT()s of the kernel's buffers, whose offsets attention has. */
size_t ca_shape_of(const clattn_problem *p, const clattn_problem *program, union ca_shape *shape);
size_t ca_offsets_of(const clattn_problem *p, uint64_t taken, const struct ca_tensors *tensors,
                     cl_long offsets[CA_MOST_OFFSETS]);

/* The largest size of a kernel's arguments, in a problem that has every operand. */
size_t ca_most_argument_bytes(void);

#endif

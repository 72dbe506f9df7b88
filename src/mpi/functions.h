/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the caller's in the parts of an attention. Operands are those of the whole; a part reads a range of one. */
#ifndef MPI_FUNCTIONS_H
#define MPI_FUNCTIONS_H

#include "mpi/internal.h"

/* Returns why the problem's functions cannot be distributed where so many ranks exchange heads; NULL if they can. */
const char *functions_refusal(const clattn_problem *whole, int members);

/* The part's range of operand n of the functions. */
clattn_buffer function_operand(const clattn_mpi_plan *plan, const struct part *part, size_t n,
                               clattn_buffer all);

#endif

/* What problem.c and problem_class.c ask each operation for, in functions of its own. */
#ifndef CA_OPERATIONS_H
#define CA_OPERATIONS_H

#include "problem/operations.def"

#include <clattn/problem.h>

/*
 * normal          as ca_problem_normal()
 * check           sizes and options; what holds for every operation has been checked
 * flops           of a problem that passed the check
 * representative  as ca_problem_representative(), of a normal problem
 */
#define OPERATION(ID, word, noun, call, laid, tensors, normal, check, flops, representative, ...)  \
    clattn_problem normal(const clattn_problem *p);                                                \
    clattn_status check(const clattn_problem *p, char *reason, size_t reason_bytes);               \
    double flops(const clattn_problem *p);                                                         \
    clattn_problem representative(const clattn_problem *p);
CA_OPERATIONS(OPERATION)
#undef OPERATION

#define OPERATION(ID, ...) +1
enum { CA_NUM_OPERATIONS = CA_OPERATIONS(OPERATION) };
#undef OPERATION

/* The problem's, for tables by operation; forward for a value that clattn_problem_check() refuses. */
static inline clattn_operation ca_operation(const clattn_problem *p)
{
    return (unsigned)p->operation < CA_NUM_OPERATIONS ? p->operation : CLATTN_FORWARD;
}

static inline int ca_is_attention(const clattn_problem *p)
{
    return p->operation <= CLATTN_BACKWARD;
}

/* Refuses what operations beside attention have in common that they have not: call is whose options
 * these are, such as "a projection". A bias and accumulate are for each to judge. */
clattn_status ca_refuse_options(const clattn_problem *p, const char *call, char *reason,
                                size_t reason_bytes);

#endif

/* Problems of operation CLATTN_PROJECTION: what problem.c asks for them. */
#ifndef CA_PROBLEM_PROJECTION_H
#define CA_PROBLEM_PROJECTION_H

#include "problem/tensors.h"

/* As ca_problem_normal(). Where strides go on evenly the batch becomes part of seq_q, kv_heads of
 * dim_qk and heads of dim_v: fewer, longer axes with the same elements in the same order. */
clattn_problem ca_projection_normal(const clattn_problem *p);

/* Sizes and options; what holds for every operation has been checked. */
clattn_status ca_projection_check(const clattn_problem *p, char *reason, size_t reason_bytes);

/* As ca_problem_representative(); p is normal. (src/problem/class_projection.c) */
clattn_problem ca_projection_representative(const clattn_problem *p);

double ca_projection_flops(const clattn_problem *p);

#endif

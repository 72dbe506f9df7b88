/* What backward needs of forward. */
#ifndef CLATTN_BENCH_CASE_FORWARD_H
#define CLATTN_BENCH_CASE_FORWARD_H

#include "case.h"
#include "target.h"

/* Puts the o and lse of a forward execution on the target into the case of a backward problem, after
 * comparing them with double precision; other cases stay as they are. For what computes them itself,
 * as other libraries do, and is to come to the same gradients. */
bool case_forward(struct attention_case *attention, const struct target *target,
                  struct message *why);

#endif

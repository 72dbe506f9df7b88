/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/judge/judge.h"

#include <math.h>

size_t judge_affordable(double budget, size_t all, double work, size_t fewest)
{
    const double affordable = fmax(budget / work, (double)fewest);

    return (double)all <= affordable ? all : (size_t)affordable;
}

size_t judge_spread(size_t n, size_t count, size_t all)
{
    return count == all ? n : (size_t)((double)n / (double)(count - 1) * (double)(all - 1));
}

bool judge_attention(const clattn_problem *p, const struct tensor_view *view,
                     enum precision precision, double budget, judge_visit *visit, void *user)
{
    return p->operation == CLATTN_BACKWARD
               ? judge_gradients(p, view, precision, budget, visit, user)
               : judge_rows(p, view, precision, budget, visit, user);
}

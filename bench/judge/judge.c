/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/judge/judge.h"
#include "bench/judge/function.h"

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

const char *judge_refusal(const clattn_problem *p)
{
    if (p->operation != CLATTN_FORWARD && p->operation != CLATTN_BACKWARD)
        return NULL;
    const clattn_function *functions[] = {p->score_function, p->mask_function};
    for (int n = 0; n < 2; n++) {
        const struct function_program *program = function_program_of(functions[n]);
        const char *mistake = program ? function_mistake(program) : NULL;
        if (mistake)
            return mistake;
    }
    return NULL;
}

bool judge_results(const clattn_problem *p, const struct tensor_view *view,
                   enum precision precision, double budget, judge_visit *visit, void *user)
{
    static judge_operation *const of[] = {[CLATTN_FORWARD] = judge_rows,
                                          [CLATTN_BACKWARD] = judge_gradients,
#define JUDGED(ID, name, ...) [CLATTN_##ID] = judge_##name,
                                          JUDGED_OPERATIONS(JUDGED)
#undef JUDGED
    };

    return of[p->operation](p, view, precision, budget, visit, user);
}

#include "case_forward.h"
#include "measure.h"

#include <stdlib.h>
#include <string.h>

/* The forward problem of a backward one. */
static clattn_problem forward_of(const clattn_problem *backward)
{
    const clattn_layout packed = {{0}};
    clattn_problem problem = *backward;

    problem.operation = CLATTN_FORWARD;
    problem.lse = 1;
    problem.d_o = problem.dq = problem.dk = problem.dv = packed;
    problem.dbias = problem.dslopes = problem.dsinks = 0;
    return problem;
}

static bool is_right(const struct attention_case *forward, const struct results *results,
                     struct message *why)
{
    struct worst worst = {.results = 0};

    return check_results(forward, results, PRECISION_SINGLE, &worst, why) &&
           (worst_ok(&worst) ||
            message_set(why, "a result of forward is off by %.3g where %.3g is allowed",
                        worst.error, worst.bound));
}

/* Takes what the block is to hold from then on. */
static void replace(struct block *block, void **data)
{
    free(block->data);
    block->data = *data;
    *data = NULL;
}

bool case_forward(struct attention_case *attention, const struct target *target,
                  struct message *why)
{
    struct attention_case forward = {.problem = forward_of(&attention->problem)};
    struct measurement m;
    struct results results;
    struct message reason;

    if (attention->problem.operation != CLATTN_BACKWARD || attention->in[INPUT_O].bytes == 0)
        return true;
    memcpy(forward.in, attention->in, INPUT_O * sizeof *forward.in);
    if (!measurement_open(&m, target, &forward, NULL, 1, &reason))
        return message_set(why, "no forward results for backward: %.400s", reason.text);
    bool ok = measurement_results(&m, &forward, &results, &reason);
    measurement_close(&m);
    ok = ok && is_right(&forward, &results, &reason);
    if (ok) {
        replace(&attention->in[INPUT_O], &results.out[OUTPUT_O]);
        replace(&attention->in[INPUT_LSE], &results.out[OUTPUT_LSE]);
    }
    results_release(&results);
    return ok || message_set(why, "no forward results for backward: %.400s", reason.text);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/timing/case_forward.h"
#include "bench/timing/measure.h"

#include <stdlib.h>
#include <string.h>

/* The forward problem of a backward one. */
static clattn_problem forward_problem(const clattn_problem *backward)
{
    const clattn_layout packed = {{0}};
    clattn_problem problem = *backward;

    problem.operation = CLATTN_FORWARD;
    problem.d_o = problem.dq = problem.dk = problem.dv = packed;
#define FLAG(ID, member, word, OF, ...) CA_IF_BACKWARD(OF, problem.member = 0;)
    CA_FLAGS(FLAG)
#undef FLAG
    return problem;
}

static struct job forward_job(const struct job *backward)
{
    struct job job = *backward;

    job.problem = forward_problem(&backward->problem);
    if (job.is_layer) {
        job.layer.attention = job.problem;
        job.layer.training = 1;
    } else {
        job.problem.lse = 1;
    }
    return job;
}

bool case_forward_right(const struct attention_case *forward, const struct results *results,
                        struct message *why)
{
    struct worst worst = {.results = 0};

    return check_results(forward, results, PRECISION_SINGLE, &worst, why) &&
           (worst.results == 0 || worst_ok(&worst) ||
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

static bool compute(const struct attention_case *forward, const struct target *target,
                    struct results *results, size_t *reserve_bytes, struct message *why)
{
    struct measurement m;

    *results = (struct results){{NULL}};
    if (!measurement_open(&m, target, forward, NULL, 1, why))
        return false;
    *reserve_bytes = m.engine.reserve_bytes;
    const bool ok = measurement_results(&m, forward, results, why);
    measurement_close(&m);
    return ok && case_forward_right(forward, results, why);
}

struct attention_case case_forward_of(const struct attention_case *backward)
{
    struct attention_case forward = {.job = forward_job(&backward->job)};

    for (int n = 0; n < INPUT_COUNT; n++)
        if (case_has_input(&forward.job, (enum input)n))
            forward.in[n] = backward->in[n];
    return forward;
}

void case_forward_take(struct attention_case *backward, struct results *forward)
{
    if (forward->out[OUTPUT_O] == NULL)
        return; /* without an element */
    replace(&backward->in[INPUT_O], &forward->out[OUTPUT_O]);
    replace(&backward->in[INPUT_LSE], &forward->out[OUTPUT_LSE]);
}

bool case_forward(struct attention_case *attention, const struct target *target,
                  struct message *why)
{
    const struct attention_case forward = case_forward_of(attention);
    struct results results;
    struct message reason;
    size_t reserve_bytes;

    if (attention->job.problem.operation != CLATTN_BACKWARD)
        return true;
    const bool ok = compute(&forward, target, &results, &reserve_bytes, &reason);
    if (ok && attention->job.is_layer) {
        replace(&attention->in[INPUT_RESERVE], &results.out[OUTPUT_RESERVE]);
        attention->in[INPUT_RESERVE].bytes = reserve_bytes;
    } else if (ok) {
        case_forward_take(attention, &results);
    }
    results_release(&results);
    return ok || message_set(why, "no forward results for backward: %.400s", reason.text);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/structs.h"
#include "context/context.h"
#include "create/choose.h"
#include "os/clock.h"
#include "problem/chosen_keys.h"
#include "problem/classes/problem_class.h"
#include "problem/problem.h"
#include "store/store.h"
#include "tune/tune_run.h"

#include <math.h>
#include <stdlib.h>

/* The time limit for all problems if none is given, and for each class whose stale entries are
 * measured anew. */
#define DEFAULT_SECONDS 60.0
#define RENEWAL_SECONDS 2.0

static clattn_status check(const clattn_context *ctx, const clattn_problem *problems, size_t count,
                           const clattn_tuning_options *o, struct ca_problem *made)
{
    const char *mistake = NULL;
    char reason[8 * CA_REASON_BYTES];

    if (!problems || count == 0)
        mistake = "there is no problem to tune";
    else if (!(o->seconds >= 0.0 && o->seconds < HUGE_VAL))
        mistake = "options->seconds must be finite and not negative";
    else if (o->strategy && ca_strategy_find(o->strategy) == CA_NUM_STRATEGIES)
        mistake = "options->strategy is not the name of a strategy";
    if (mistake)
        return ca_fail(&ctx->log, CLATTN_INVALID_ARGUMENT, "%s", mistake);
    for (size_t n = 0; n < count; n++) {
        struct ca_choices choices;
        clattn_status status = ca_problem_make(&problems[n], &made[n], reason, sizeof reason);
        if (status == CLATTN_SUCCESS)
            made[n] = ca_problem_chosen(&made[n]);
        if (status == CLATTN_SUCCESS)
            status = ca_choose(ctx, &made[n], NULL, &choices, reason, sizeof reason);
        if (status != CLATTN_SUCCESS)
            return ca_fail(&ctx->log, status, "problem %zu: %s", n, reason);
    }
    return CLATTN_SUCCESS;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* The way in which a class gets its results. */
enum state { KNOWN, RENEWAL, SEARCH };

/* A class with fresh entries is known; one with none but stale entries is to be renewed. */
static enum state state_of(const clattn_context *ctx, const struct ca_problem *problem)
{
    struct ca_choices choices;
    enum state state = SEARCH;

    ca_choose(ctx, problem, NULL, &choices, NULL, 0); /* was checked */
    for (size_t n = 0; n < choices.count; n++) {
        if (choices.list[n].origin == CA_EXACT)
            return KNOWN;
        if (choices.list[n].origin == CA_EXACT_STALE)
            state = RENEWAL;
    }
    return state;
}

/* The group that a problem joins: programs alike, results got in the same way. A new one at the
 * end if there is none. NULL if a problem of its class is in a group already. */
static struct ca_group *group_for(struct ca_group *groups, size_t *num_groups,
                                  const struct ca_problem *problem, int renewal)
{
    const clattn_problem mine = ca_problem_representative(&problem->normal);
    struct ca_group *found = NULL;

    for (size_t g = 0; g < *num_groups; g++) {
        int alike = groups[g].renewal == renewal && groups[g].count < CA_GROUP_MOST;
        for (size_t n = 0; n < groups[g].count; n++) {
            const clattn_problem other = ca_problem_representative(&groups[g].problems[n].normal);
            if (ca_class_distance(&mine, &other) == 0.0)
                return NULL;
            alike = alike && ca_classes_alike(&mine, &other);
        }
        if (alike)
            found = &groups[g];
    }
    if (!found) {
        found = &groups[(*num_groups)++];
        found->renewal = renewal;
    }
    return found;
}

/* Fills at most count groups; problems whose class is known, or that another one stands for, are
 * marked as known. Returns how many. */
static size_t make_groups(const struct ca_tuning *tuning, const struct ca_problem *problems,
                          struct ca_group *groups)
{
    size_t num_groups = 0;

    for (size_t n = 0; n < tuning->num_problems; n++) {
        const enum state state =
            tuning->options->again ? SEARCH : state_of(tuning->ctx, &problems[n]);
        struct ca_group *group =
            state == KNOWN ? NULL : group_for(groups, &num_groups, &problems[n], state == RENEWAL);
        tuning->results[n].known = !group;
        if (!group)
            continue;
        group->index[group->count] = n;
        group->problems[group->count++] = problems[n];
    }
    return num_groups;
}

/* A group's share of what is left. Compiling costs a group as much as measuring two problems. */
static void limit(const struct ca_tuning *tuning, struct ca_group *groups, size_t num_groups)
{
    const clattn_tuning_options *o = tuning->options;
    const double left = tuning->end - ca_stopwatch_now();
    double sum = 0.0;

    for (size_t g = 0; g < num_groups; g++)
        sum += 2.0 + (double)groups[g].count;
    const double share = (2.0 + (double)groups[0].count) / sum;
    if (isfinite(left))
        groups[0].max_seconds = fmax(left * share, 1e-3);
    if (o->evaluations)
        groups[0].max_evaluations =
            (size_t)fmax(1.0, ((double)o->evaluations - (double)tuning->evaluations) * share + 0.5);
    if (groups[0].renewal) {
        const double most = RENEWAL_SECONDS * (double)groups[0].count;
        groups[0].max_seconds = fmin(most, fmax(left, 1e-3));
    }
    groups[0].later_seconds = isfinite(left) ? fmax(left - groups[0].max_seconds, 0.0) : 0.0;
}

/* ---- the tuning ------------------------------------------------------------------------------ */

static int is_spent(const struct ca_tuning *tuning)
{
    const size_t most = tuning->options->evaluations;

    return tuning->ended || ca_stopwatch_now() >= tuning->end ||
           (most && tuning->evaluations >= most);
}

/* Tunes the groups; a group that cannot be tuned does not stop the others; its failure is returned.
 * */
static clattn_status tune_groups(struct ca_tuning *tuning, struct ca_group *groups, size_t count)
{
    clattn_status first = CLATTN_SUCCESS;

    for (size_t g = 0; g < count && !is_spent(tuning); g++) {
        limit(tuning, groups + g, count - g);
        const clattn_status status = ca_group_tune(tuning, &groups[g]);
        if (first == CLATTN_SUCCESS)
            first = status;
    }
    return first;
}

clattn_status ca_tune(clattn_context *ctx, const clattn_problem *problems, size_t count,
                      const clattn_tuning_options *options, const struct ca_tune_hooks *hooks,
                      struct ca_tune_result *results)
{
    static const clattn_tuning_options defaults = {.struct_size = sizeof defaults};

    if (!options)
        options = &defaults;
    struct ca_problem *made = calloc(count ? count : 1, sizeof *made);
    if (!made)
        return ca_fail(&ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for a tuning");
    clattn_status status = check(ctx, problems, count, options, made);
    if (status == CLATTN_SUCCESS)
        status = ca_context_need_device(ctx);
    if (status == CLATTN_SUCCESS && !ctx->device.compiler_available)
        status = ca_fail(&ctx->log, CLATTN_NO_COMPILER,
                         "device '%s' has no OpenCL C compiler, so nothing can be tuned",
                         ctx->device.name);
    if (status != CLATTN_SUCCESS) {
        free(made);
        return status;
    }
    const double seconds = options->seconds > 0.0 ? options->seconds
                           : options->evaluations ? INFINITY
                                                  : DEFAULT_SECONDS;
    const double begin = ca_stopwatch_now();
    struct ca_tuning tuning = {.ctx = ctx,
                               .options = options,
                               .hooks = hooks,
                               .results = results,
                               .num_problems = count,
                               .begin = begin,
                               .end = begin + seconds};
    struct ca_group *groups = calloc(count, sizeof *groups);
    if (groups)
        status = tune_groups(&tuning, groups, make_groups(&tuning, made, groups));
    else
        status = ca_fail(&ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for a tuning");
    free(groups);
    free(made);
    return status;
}

bool ca_tune_is_kept(const clattn_context *ctx)
{
    return ca_store_save(ctx->store);
}

clattn_status clattn_tune(clattn_context *context, const clattn_problem *problems, size_t count,
                          const clattn_tuning_options *options, size_t *tuned)
{
    static const struct ca_tune_hooks none = {0};
    clattn_tuning_options own;
    char why[CA_REASON_BYTES];

    if (tuned)
        *tuned = 0;
    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    if (options && !(options = CA_READ(clattn_tuning_options, "options", options, &own, why)))
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "%s", why);
    struct ca_tune_result *results = calloc(count ? count : 1, sizeof *results);
    if (!results)
        return ca_fail(&context->log, CLATTN_OUT_OF_MEMORY, "no host memory for a tuning");
    const clattn_status status = ca_tune(context, problems, count, options, &none, results);
    for (size_t n = 0; tuned && n < count; n++)
        *tuned += results[n].searched != 0;
    free(results);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "context/context.h"
#include "families/candidate.h"
#include "os/clock.h"
#include "problem/classes/problem_class.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "tune/tune_run.h"
#include "tune/tune_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- results --------------------------------------------------------------------------------- */

/* The entries that a class gets; the texts lie beside them. */
struct entries {
    struct ca_entry list[CA_TOP + CA_SESSION_SEEDS];
    struct ca_candidate_texts texts[CA_TOP + CA_SESSION_SEEDS];
    size_t count;
    char when[CA_WHEN_TEXT], policy[sizeof CA_POLICY];
};

/* With fewer readings the interval of a median says nothing. A candidate so slow that it got fewer
 * deserves no entry. */
enum { LEAST_SAMPLES = 3 };

/* samples: borrowed. */
static void add_entry(const struct ca_run *run, size_t config, struct ca_interval seconds,
                      double *samples, size_t num_samples, double error, struct entries *entries)
{
    struct ca_candidate_texts *texts = &entries->texts[entries->count];
    struct ca_candidate candidate;

    if (num_samples < LEAST_SAMPLES)
        return;
    ca_tune_candidate(run->space, config, &candidate);
    ca_candidate_texts(&candidate, texts);
    entries->list[entries->count++] = (struct ca_entry){.family = texts->family,
                                                        .tunables = texts->tunables,
                                                        .source = texts->source,
                                                        .declaration = texts->declaration,
                                                        .seconds = seconds.middle,
                                                        .low = fmin(seconds.low, seconds.middle),
                                                        .high = fmax(seconds.high, seconds.middle),
                                                        .samples = samples,
                                                        .num_samples = num_samples,
                                                        .error = error,
                                                        .when = entries->when,
                                                        .policy = entries->policy};
}

/* The store ranks by time. After a race that is the winner's time and the ratios to it, which were
 * taken in pairs; what only ties with the winner stays behind it. */
static void add_top(const struct ca_run *run, struct ca_session_result *result,
                    struct entries *entries)
{
    for (size_t n = 0; n < result->num_top; n++) {
        struct ca_finalist *finalist = &result->top[n];
        const struct ca_finalist *winner = &result->top[0];
        struct ca_interval seconds = finalist->seconds;
        if (result->raced)
            seconds.middle = winner->seconds.middle * finalist->ratio.middle / winner->ratio.middle;
        seconds.middle = fmax(seconds.middle, winner->seconds.middle * (1.0 + 1e-6 * (double)n));
        add_entry(run, finalist->config, seconds, finalist->times, finalist->num_times,
                  finalist->error, entries);
    }
}

/* Stored configurations that are no longer among the fastest get their time of now: the stored one
 * may have been too short. */
static void add_seeds(const struct ca_run *run, struct ca_seeds *seeds,
                      const struct ca_session_result *result, struct entries *entries)
{
    for (size_t n = 0; n < seeds->count; n++) {
        struct ca_reading *r = &seeds->readings[n];
        int is_top = 0;
        for (size_t t = 0; t < result->num_top; t++)
            is_top |= result->top[t].config == seeds->configs[n];
        if (is_top || r->outcome != CA_CORRECT || r->num_times == 0)
            continue;
        struct ca_interval seconds = ca_median(r->times, r->num_times);
        seconds.middle = fmax(seconds.middle, result->top[0].seconds.middle * (1.0 + 1e-5));
        add_entry(run, seeds->configs[n], seconds, r->times, r->num_times, r->error, entries);
    }
}

static clattn_status keep(const struct ca_run *run, size_t problem,
                          struct ca_session_result *result)
{
    struct entries entries = {.count = 0, .policy = CA_POLICY};
    char class[CA_CLASS_TEXT];

    ca_problem_class(&run->group->problems[problem].normal, class);
    ca_store_now(entries.when);
    add_top(run, result, &entries);
    add_seeds(run, &run->seeds[problem], result, &entries);
    return ca_store_put(run->tuning->ctx->store, class, entries.list, entries.count);
}

static clattn_status report(struct ca_run *run, struct ca_session_result *results,
                            const struct ca_candidate *incumbents)
{
    clattn_status status = CLATTN_SUCCESS;

    for (size_t n = 0; n < run->group->count; n++) {
        struct ca_tune_result *out = &run->tuning->results[run->group->index[n]];
        out->result = results[n];
        out->searched = results[n].num_top > 0;
        out->incumbent = incumbents[n];
        for (size_t t = 0; t < results[n].num_top; t++)
            ca_tune_candidate(run->space, results[n].top[t].config, &out->top[t]);
        if (out->searched && keep(run, n, &results[n]) != CLATTN_SUCCESS)
            status = CLATTN_OUT_OF_MEMORY;
    }
    if (!run->worked && run->failure != CLATTN_SUCCESS && !run->tuning->ended)
        return ca_fail(&run->tuning->ctx->log, run->failure,
                       "none of the configurations tried works on '%s'",
                       run->tuning->ctx->device.name);
    return status;
}

/* ---- the group ------------------------------------------------------------------------------- */

/* Readings that need not be repeated: of the families' comparison, and the measurer's. The caller
 * frees the array. NULL without memory. */
static struct ca_known *list_known(struct ca_run *run, const struct ca_comparison *c, size_t *count)
{
    const struct ca_measurer *m = &run->within;
    const struct ca_earlier *earlier = NULL;
    const size_t num_earlier = m->known ? m->known(m->user, &earlier) : 0;
    struct ca_known *all = malloc((num_earlier + CA_MAX_FAMILIES) * sizeof *all);

    *count = 0;
    if (!all)
        return NULL;
    for (size_t n = 0; n < num_earlier; n++) {
        const size_t config = ca_tune_config(run->space, earlier[n].candidate);
        if (config != CA_NO_CONFIG)
            all[(*count)++] = (struct ca_known){earlier[n].problem, config, *earlier[n].reading};
    }
    for (size_t n = 0; n < c->count; n++) {
        const size_t config = ca_tune_config(run->space, &c->candidates[n]);
        if (config == CA_NO_CONFIG || !c->is_new[n])
            continue;
        all[(*count)++] = (struct ca_known){c->problem, config, c->readings[n]};
        run->before--; /* the session counts what it is told as well */
    }
    return all;
}

/* Seconds left of the group's time; 0 for no limit. */
static double seconds_left(const struct ca_run *run)
{
    return run->group->max_seconds > 0.0
               ? fmax(run->begin + run->group->max_seconds - ca_stopwatch_now(), 1e-3)
               : 0.0;
}

/* Evaluations of the group's limit that the families' comparison has left; 0 for no limit. The
 * session counts from run->before on. */
static size_t most_evaluations(const struct ca_run *run, size_t most_seeds)
{
    const size_t most = run->group->max_evaluations;
    const size_t spent = run->before - run->evaluations_at_begin;

    return run->group->renewal ? most_seeds : most == 0 ? 0 : spent < most ? most - spent : 1;
}

static clattn_status search(struct ca_run *run, const struct ca_comparison *compared,
                            const struct ca_candidate *incumbents)
{
    const clattn_tuning_options *o = run->tuning->options;
    const struct ca_group *group = run->group;
    struct ca_session_problem problems[CA_GROUP_MOST];
    struct ca_session_result results[CA_GROUP_MOST];
    size_t most_seeds = 0;
    size_t num_known;

    memset(results, 0, sizeof results);
    for (size_t n = 0; n < group->count; n++) {
        struct ca_seeds *seeds = &run->seeds[n];
        ca_run_seeds(run, n, &incumbents[n], seeds);
        most_seeds += seeds->count;
        problems[n] = (struct ca_session_problem){seeds->configs, seeds->count, ca_run_allows};
    }
    struct ca_known *known = list_known(run, compared, &num_known);
    if (!known)
        return ca_fail(&run->tuning->ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for a tuning");
    const struct ca_session_options options = {
        .strategy = o->strategy ? ca_strategy_find(o->strategy) : CA_GUIDED,
        .seed = o->seed,
        .max_seconds = seconds_left(run),
        .max_evaluations = most_evaluations(run, most_seeds),
        .clock = ca_run_clock,
        .event = ca_run_event,
        .candidates = ca_run_candidates,
        .user = run,
        .known = known,
        .num_known = num_known,
    };
    const bool ran =
        ca_session_run(run->space, &run->measurer, problems, group->count, &options, results);
    free(known);
    if (!ran)
        return ca_fail(&run->tuning->ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for a tuning");
    return report(run, results, incumbents);
}

/* The families to search, as bits. Without any, nothing works, and the log says so. */
static ca_family_set choose_families(struct ca_run *run, struct ca_comparison *compared,
                                     struct ca_candidate *incumbents)
{
    ca_family_set families = run->group->renewal ? 0 : ca_run_compare(run, compared);

    for (size_t n = 0; n < run->group->count; n++) {
        families |= ca_run_incumbent(run, n, &incumbents[n]);
        families |= ca_run_known_families(run, n);
    }
    return families;
}

static clattn_status tune(struct ca_run *run)
{
    const struct ca_group *group = run->group;
    const clattn_context *ctx = run->tuning->ctx;
    struct ca_comparison *compared = calloc(1, sizeof *compared);
    struct ca_candidate incumbents[CA_GROUP_MOST];
    clattn_status status;

    if (!compared)
        return ca_fail(&ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for a tuning");
    const ca_family_set families = choose_families(run, compared, incumbents);
    if (run->tuning->ended) {
        status = CLATTN_SUCCESS; /* the search has not begun */
    } else if (!families) {
        status = ca_fail(&ctx->log, run->failure ? run->failure : CLATTN_UNSUPPORTED,
                         "no family works on '%s'", ctx->device.name);
    } else {
        run->space = ca_tune_space_create(families, group->problems, group->count, &ctx->device);
        run->seeds = calloc(group->count, sizeof *run->seeds);
        status = run->space && run->seeds ? search(run, compared, incumbents)
                                          : ca_fail(&ctx->log, CLATTN_OUT_OF_MEMORY,
                                                    "no host memory for a search space");
        ca_space_destroy(run->space);
        free(run->seeds);
    }
    free(compared);
    return status;
}

clattn_status ca_group_tune(struct ca_tuning *tuning, struct ca_group *group)
{
    const struct ca_tune_hooks *hooks = tuning->hooks;
    struct ca_run run = {.tuning = tuning,
                         .group = group,
                         .begin = ca_stopwatch_now(),
                         .before = tuning->evaluations,
                         .evaluations_at_begin = tuning->evaluations};
    clattn_status status =
        hooks->open ? hooks->open(hooks->user, group->problems, group->count, &run.within)
                    : ca_measurer_create(tuning->ctx, group->problems, group->count, &run.within);

    if (status != CLATTN_SUCCESS)
        return status;
    ca_run_decorate(&run);
    status = tune(&run);
    run.measurer.close(run.measurer.user);
    return status;
}

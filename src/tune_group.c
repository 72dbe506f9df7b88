#include "context.h"
#include "problem_class.h"
#include "store.h"
#include "store_entry.h"
#include "tune_run.h"
#include "tune_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- results ---------------------------------------------------------------------------------- */

static clattn_status keep(const struct ca_run *run, size_t problem,
                          const struct ca_session_result *result)
{
    struct ca_candidate_texts texts[CA_TOP];
    struct ca_entry entries[CA_TOP];
    char class[CA_CLASS_TEXT], when[CA_WHEN_TEXT], policy[] = CA_POLICY;
    struct ca_finalist top[CA_TOP];

    ca_problem_class(&run->group->problems[problem], class);
    ca_store_now(when);
    for (size_t n = 0; n < result->num_top; n++) {
        struct ca_candidate candidate;
        ca_tune_candidate(run->space, result->top[n].config, &candidate);
        ca_candidate_texts(&candidate, &texts[n]);
        top[n] = result->top[n];
        entries[n] = (struct ca_entry){.family = texts[n].family,
                                       .tunables = texts[n].tunables,
                                       .source = texts[n].source,
                                       .declaration = texts[n].declaration,
                                       .seconds = top[n].seconds.middle,
                                       .low = top[n].seconds.low,
                                       .high = top[n].seconds.high,
                                       .samples = top[n].times,
                                       .num_samples = top[n].num_times,
                                       .error = top[n].error,
                                       .when = when,
                                       .policy = policy};
    }
    return ca_store_put(run->tuning->ctx->store, class, entries, result->num_top);
}

static clattn_status report(struct ca_run *run, const struct ca_session_result *results,
                            const struct ca_candidate *incumbents, double seconds)
{
    clattn_status status = CLATTN_SUCCESS;

    for (size_t n = 0; n < run->group->count; n++) {
        struct ca_tune_result *out = &run->tuning->results[run->group->index[n]];
        out->result = results[n];
        out->searched = results[n].num_top > 0;
        out->incumbent = incumbents[n];
        out->total_seconds = seconds;
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

/* ---- the group -------------------------------------------------------------------------------- */

/* Readings that need not be made: of the families' comparison, and the hook's. The caller frees
 * the array. NULL without memory. */
static struct ca_known *list_known(struct ca_run *run, const struct ca_comparison *c, size_t *count)
{
    const struct ca_tune_hooks *hooks = run->tuning->hooks;
    const struct ca_known *earlier = NULL;
    const size_t num_earlier = hooks->known
                                   ? hooks->known(hooks->user, run->space, run->group->problems,
                                                  run->group->count, &earlier)
                                   : 0;
    struct ca_known *all = malloc((num_earlier + CA_MAX_FAMILIES) * sizeof *all);

    *count = 0;
    if (!all)
        return NULL;
    if (num_earlier)
        memcpy(all, earlier, num_earlier * sizeof *all);
    *count = num_earlier;
    for (size_t n = 0; c->count > 1 && n < c->count; n++) {
        const size_t config = ca_tune_config(run->space, &c->candidates[n]);
        if (config == CA_NO_CONFIG || c->readings[n].outcome == CA_NUM_OUTCOMES)
            continue;
        ca_run_tell_again(run, c->problem, &c->candidates[n], &c->readings[n]);
        all[(*count)++] = (struct ca_known){c->problem, config, c->readings[n]};
    }
    return all;
}

/* Of the group's time, 0 for no limit. */
static double seconds_left(const struct ca_run *run)
{
    return run->group->max_seconds > 0.0
               ? fmax(run->begin + run->group->max_seconds - ca_tune_clock(), 1e-3)
               : 0.0;
}

/* Of the group's evaluations what the families' comparison has left, 0 for no limit. */
static size_t most_evaluations(const struct ca_run *run, size_t most_seeds)
{
    const size_t most = run->group->max_evaluations;
    const size_t spent = run->tuning->evaluations - run->evaluations_at_begin;

    return run->group->renewal ? most_seeds : most == 0 ? 0 : spent < most ? most - spent : 1;
}

static clattn_status search(struct ca_run *run, const struct ca_comparison *compared,
                            const struct ca_candidate *incumbents)
{
    const clattn_tuning_options *o = run->tuning->options;
    const struct ca_group *group = run->group;
    const struct ca_bench bench = ca_run_bench(run);
    struct ca_session_problem problems[CA_GROUP_MOST];
    struct ca_session_result results[CA_GROUP_MOST];
    struct ca_seeds seeds[CA_GROUP_MOST] = {{{0}, 0}};
    size_t most_seeds = 0;
    size_t num_known;

    memset(results, 0, sizeof results);
    for (size_t n = 0; n < group->count; n++) {
        ca_run_seeds(run, n, &incumbents[n], &seeds[n]);
        most_seeds += seeds[n].count;
        problems[n] = (struct ca_session_problem){seeds[n].configs, seeds[n].count, ca_run_allows};
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
        .user = run,
        .known = known,
        .num_known = num_known,
    };
    const bool ran = ca_session_run(run->space, &bench, problems, group->count, &options, results);
    free(known);
    if (!ran)
        return ca_fail(&run->tuning->ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for a tuning");
    return report(run, results, incumbents, ca_tune_clock() - run->begin);
}

/* The families to search: bits. Without one nothing works, and the log says so. */
static unsigned choose_families(struct ca_run *run, struct ca_comparison *compared,
                                struct ca_candidate *incumbents)
{
    unsigned families = run->group->renewal ? 0 : ca_run_compare(run, compared);

    for (size_t n = 0; n < run->group->count; n++) {
        families |= ca_run_incumbent(run, n, &incumbents[n]);
        if (run->group->renewal)
            families |= ca_run_stale_families(run, n);
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
    const unsigned families = choose_families(run, compared, incumbents);
    if (run->tuning->ended) {
        status = CLATTN_SUCCESS; /* before there was anything to search */
    } else if (!families) {
        status = ca_fail(&ctx->log, run->failure ? run->failure : CLATTN_UNSUPPORTED,
                         "no family works on '%s'", ctx->device.name);
    } else {
        run->space = ca_tune_space_create(families, group->problems, group->count, &ctx->device);
        status = run->space ? search(run, compared, incumbents)
                            : ca_fail(&ctx->log, CLATTN_OUT_OF_MEMORY,
                                      "no host memory for a search space");
        ca_space_destroy(run->space);
    }
    free(compared);
    return status;
}

clattn_status ca_group_tune(struct ca_tuning *tuning, struct ca_group *group)
{
    const struct ca_tune_hooks *hooks = tuning->hooks;
    struct ca_run run = {.tuning = tuning,
                         .group = group,
                         .begin = ca_tune_clock(),
                         .before = tuning->evaluations,
                         .evaluations_at_begin = tuning->evaluations};
    clattn_status status =
        hooks->open ? hooks->open(hooks->user, group->problems, group->count, &run.measurer)
                    : ca_measurer_create(tuning->ctx, group->problems, group->count, &run.measurer);

    if (status != CLATTN_SUCCESS)
        return status;
    status = tune(&run);
    if (hooks->close)
        hooks->close(hooks->user, &run.measurer);
    else
        ca_measurer_destroy(&run.measurer);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "context/context.h"
#include "create/choose.h"
#include "families/candidate.h"
#include "families/registry.h"
#include "store/shipped.h"
#include "store/table_advice.h"
#include "tune/tune_run.h"
#include "tune/tune_space.h"

#include <math.h>
#include <string.h>

/* A family whose untuned candidate takes this many times longer than another's is not searched. */
#define HOPELESS 3.0

/* ---- families -------------------------------------------------------------------------------- */

static size_t smallest(const struct ca_group *group)
{
    size_t least = 0;

    for (size_t n = 1; n < group->count; n++)
        if (clattn_problem_flops(&group->problems[n].normal) <
            clattn_problem_flops(&group->problems[least].normal))
            least = n;
    return least;
}

/* The families that can compute the group's smallest problem, with their untuned candidates. */
static void list_families(const struct ca_run *run, struct ca_comparison *c)
{
    const clattn_device_info *dev = &run->tuning->ctx->device;
    const struct ca_family *family;

    c->problem = smallest(run->group);
    for (size_t f = 0; (family = ca_family_at(f)) != NULL && c->count < CA_MAX_FAMILIES; f++) {
        struct ca_candidate *candidate = &c->candidates[c->count];
        *candidate = (struct ca_candidate){.family = family};
        ca_family_suggest(family, &run->group->problems[c->problem], dev, candidate->values);
        c->count += !(run->tuning->hopeless & ca_family_bit(family)) &&
                    family->preference(&run->group->problems[c->problem], dev) >= 0 &&
                    ca_tune_fits(candidate, &run->group->problems[c->problem], dev);
    }
}

/* Takes over what an interrupted tuning measured and returns how many; the others' outcome becomes
 * CA_NUM_OUTCOMES. */
static size_t recall(const struct ca_run *run, struct ca_comparison *c)
{
    const struct ca_measurer *m = &run->within;
    const struct ca_earlier *known = NULL;
    const size_t count = m->known ? m->known(m->user, &known) : 0;
    size_t recalled = 0;

    for (size_t n = 0; n < c->count; n++) {
        c->readings[n].outcome = CA_NUM_OUTCOMES;
        for (size_t k = 0; k < count; k++)
            if (known[k].problem == c->problem &&
                ca_candidates_equal(known[k].candidate, &c->candidates[n]))
                c->readings[n] = *known[k].reading;
        recalled += c->readings[n].outcome != CA_NUM_OUTCOMES;
    }
    return recalled;
}

static void measure_family(struct ca_run *run, struct ca_comparison *c, size_t n, double best)
{
    struct ca_reading *r = &c->readings[n];

    memset(r, 0, sizeof *r);
    run->measurer.build(run->measurer.user, &c->candidates[n], r);
    if (r->outcome == CA_CORRECT)
        run->measurer.measure(run->measurer.user, c->problem, &c->candidates[n], best, r);
    c->is_new[n] = 1;
    run->before++;
    const struct ca_session_event event = {.phase = CA_PHASE_SEEDS,
                                           .problem = c->problem,
                                           .config = CA_NO_CONFIG,
                                           .reading = r,
                                           .seconds_left = run->group->max_seconds,
                                           .best = best};
    ca_run_tell(run, &event, &c->candidates[n]);
}

static double time_of(const struct ca_reading *r)
{
    return r->outcome == CA_CORRECT && r->num_times > 0 ? ca_median(r->times, r->num_times).middle
                                                        : INFINITY;
}

/* Announces the next builds, if several run at once: the families' candidates, then each problem's
 * first. */
static void announce(const struct ca_run *run, const struct ca_comparison *c)
{
    struct ca_candidate next[CA_MAX_FAMILIES + CA_GROUP_MOST];
    size_t count = c->count;

    memcpy(next, c->candidates, c->count * sizeof *next);
    for (size_t n = 0; n < run->group->count; n++) {
        struct ca_candidate incumbent;
        size_t same = 0;
        if (!ca_run_incumbent(run, n, &incumbent))
            continue;
        while (same < count && !ca_candidates_equal(&next[same], &incumbent))
            same++;
        next[same] = incumbent;
        count += same == count;
    }
    run->measurer.announce(run->measurer.user, next, count);
}

ca_family_set ca_run_compare(struct ca_run *run, struct ca_comparison *c)
{
    double best = INFINITY;
    ca_family_set worth = 0;

    list_families(run, c);
    if (c->count == 1)
        return ca_family_bit(c->candidates[0].family);
    const size_t num_known = recall(run, c);
    if (num_known == 0 && run->measurer.announce)
        announce(run, c);
    for (size_t n = 0; n < c->count && !run->tuning->ended; n++) {
        if (c->readings[n].outcome == CA_NUM_OUTCOMES)
            measure_family(run, c, n, isinf(best) ? 0.0 : best);
        else
            ca_run_note(run, c->problem, &c->candidates[n], &c->readings[n]);
        best = fmin(best, time_of(&c->readings[n]));
    }
    for (size_t n = 0; n < c->count; n++) {
        const ca_family_set bit = ca_family_bit(c->candidates[n].family);
        const double time = time_of(&c->readings[n]);
        if (isfinite(time) && time > HOPELESS * best)
            run->tuning->hopeless |= bit;
        else if (isfinite(time) || isinf(best))
            worth |= bit;
    }
    return worth;
}

/* ---- seeds ----------------------------------------------------------------------------------- */

static void add_seed(const struct ca_run *run, const struct ca_candidate *candidate, int is_stored,
                     struct ca_seeds *seeds)
{
    const size_t config = ca_tune_config(run->space, candidate);
    size_t n = 0;

    while (n < seeds->count && seeds->configs[n] != config)
        n++;
    if (config == CA_NO_CONFIG || n == CA_SESSION_SEEDS)
        return;
    seeds->configs[n] = config;
    seeds->is_stored[n] |= is_stored;
    seeds->count += n == seeds->count;
}

/* The choices that plans of a problem have. */
static clattn_status choose(const struct ca_run *run, size_t problem,
                            const clattn_plan_options *options, struct ca_choices *choices)
{
    return ca_choose(run->tuning->ctx, &run->group->problems[problem], options, choices, NULL, 0);
}

void ca_run_seeds(const struct ca_run *run, size_t problem, const struct ca_candidate *incumbent,
                  struct ca_seeds *seeds)
{
    enum { PORTFOLIO = 8 };
    const clattn_context *ctx = run->tuning->ctx;
    const struct ca_problem *p = &run->group->problems[problem];
    struct ca_candidate portfolio[PORTFOLIO];
    struct ca_choices choices;

    if (incumbent->family)
        add_seed(run, incumbent, 0, seeds);
    choose(run, problem, NULL, &choices);
    for (size_t n = 0; n < choices.count; n++) {
        const struct ca_choice *choice = &choices.list[n];
        const int is_stored = choice->origin == CA_EXACT || choice->origin == CA_EXACT_STALE;
        if (!run->group->renewal || choice->origin == CA_EXACT_STALE)
            add_seed(run, &choice->candidate, is_stored, seeds);
    }
    if (run->group->renewal)
        return;
    if (incumbent->family) { /* the incumbent may come from another class or the shipped table */
        struct ca_candidate suggested = {.family = incumbent->family};
        ca_family_suggest(suggested.family, p, &ctx->device, suggested.values);
        add_seed(run, &suggested, 0, seeds);
    }
    const size_t count =
        ca_table_portfolio(ca_shipped_table(ctx->shipped), p, &ctx->device, portfolio, PORTFOLIO);
    for (size_t n = 0; n < count; n++)
        add_seed(run, &portfolio[n], 0, seeds);
}

ca_family_set ca_run_incumbent(const struct ca_run *run, size_t problem,
                               struct ca_candidate *incumbent)
{
    const clattn_plan_options untuned = {.struct_size = sizeof untuned,
                                         .flags = CLATTN_PLAN_UNTUNED};
    struct ca_choices choices;

    memset(incumbent, 0, sizeof *incumbent);
    if (choose(run, problem, &untuned, &choices) != CLATTN_SUCCESS)
        return 0;
    *incumbent = choices.list[0].candidate;
    return ca_family_bit(incumbent->family);
}

ca_family_set ca_run_known_families(const struct ca_run *run, size_t problem)
{
    struct ca_choices choices;
    ca_family_set families = 0;

    choose(run, problem, NULL, &choices);
    for (size_t n = 0; n < choices.count; n++)
        if (choices.list[n].origin == CA_EXACT || choices.list[n].origin == CA_EXACT_STALE)
            families |= ca_family_bit(choices.list[n].candidate.family);
    return families;
}

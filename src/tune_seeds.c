#include "choose.h"
#include "context.h"
#include "shipped.h"
#include "tune_run.h"
#include "tune_space.h"

#include <math.h>
#include <string.h>

/* A family whose untuned candidate takes this many times longer than another's is not searched. */
#define HOPELESS 3.0

/* ---- families --------------------------------------------------------------------------------- */

static size_t smallest(const struct ca_group *group)
{
    size_t least = 0;

    for (size_t n = 1; n < group->count; n++)
        if (clattn_problem_flops(&group->problems[n]) <
            clattn_problem_flops(&group->problems[least]))
            least = n;
    return least;
}

/* The families that can compute some problem of the group, with their candidates. */
static void list_families(const struct ca_run *run, struct ca_comparison *c)
{
    const clattn_device_info *dev = &run->tuning->ctx->device;
    const struct ca_family *family;

    c->problem = smallest(run->group);
    for (size_t f = 0; (family = ca_family_at(f)) != NULL && c->count < CA_MAX_FAMILIES; f++) {
        struct ca_candidate *candidate = &c->candidates[c->count];
        *candidate = (struct ca_candidate){.family = family};
        ca_family_suggest(family, &run->group->problems[c->problem], dev, candidate->values);
        if (!(run->tuning->hopeless & 1u << f) &&
            ca_tune_fits(candidate, &run->group->problems[c->problem], dev))
            c->family[c->count++] = f;
    }
}

unsigned ca_run_compare(struct ca_run *run, struct ca_comparison *c)
{
    const struct ca_measurer *m = &run->measurer;
    double best = INFINITY;
    unsigned worth = 0;

    list_families(run, c);
    for (size_t n = 0; c->count > 1 && n < c->count; n++) {
        struct ca_reading *r = &c->readings[n];
        m->build(m->user, &c->candidates[n], r);
        if (r->outcome == CA_CORRECT)
            m->measure(m->user, c->problem, &c->candidates[n], 0.0, r);
        ca_run_note(run, c->problem, &c->candidates[n], r);
        run->before++;
        if (r->outcome == CA_CORRECT)
            best = fmin(best, ca_median(r->times, r->num_times).middle);
    }
    for (size_t n = 0; n < c->count; n++) {
        const struct ca_reading *r = &c->readings[n];
        const int slow = c->count > 1 && r->outcome == CA_CORRECT &&
                         ca_median(r->times, r->num_times).middle > HOPELESS * best;
        if (slow)
            run->tuning->hopeless |= 1u << c->family[n];
        else if (c->count == 1 || r->outcome == CA_CORRECT || isinf(best))
            worth |= 1u << c->family[n];
    }
    return worth;
}

/* ---- seeds ------------------------------------------------------------------------------------ */

static void add_seed(const struct ca_run *run, const struct ca_candidate *candidate,
                     struct ca_seeds *seeds)
{
    const size_t config = ca_tune_config(run->space, candidate);

    for (size_t n = 0; n < seeds->count; n++)
        if (seeds->configs[n] == config)
            return;
    if (config != CA_NO_CONFIG && seeds->count < CA_SESSION_SEEDS)
        seeds->configs[seeds->count++] = config;
}

void ca_run_seeds(const struct ca_run *run, size_t problem, const struct ca_candidate *incumbent,
                  struct ca_seeds *seeds)
{
    enum { PORTFOLIO = 8 };
    const clattn_context *ctx = run->tuning->ctx;
    const clattn_problem *p = &run->group->problems[problem];
    struct ca_candidate portfolio[PORTFOLIO];
    struct ca_choices choices;
    char reason[8 * CA_REASON_BYTES];

    if (incumbent->family)
        add_seed(run, incumbent, seeds);
    ca_choose(ctx, p, NULL, &choices, reason, sizeof reason);
    for (size_t n = 0; n < choices.count; n++)
        if (!run->group->renewal || choices.list[n].origin == CA_EXACT_STALE)
            add_seed(run, &choices.list[n].candidate, seeds);
    if (run->group->renewal)
        return;
    const size_t count = ca_shipped_portfolio(ctx->shipped, p, &ctx->device, portfolio, PORTFOLIO);
    for (size_t n = 0; n < count; n++)
        add_seed(run, &portfolio[n], seeds);
}

static unsigned family_bit(const struct ca_family *family)
{
    unsigned bit = 1;

    for (size_t f = 0; ca_family_at(f) != family; f++)
        bit <<= 1;
    return bit;
}

unsigned ca_run_incumbent(const struct ca_run *run, size_t problem, struct ca_candidate *incumbent)
{
    const clattn_plan_options untuned = {.struct_size = sizeof untuned,
                                         .flags = CLATTN_PLAN_UNTUNED};
    struct ca_choices choices;
    char reason[8 * CA_REASON_BYTES];

    memset(incumbent, 0, sizeof *incumbent);
    if (ca_choose(run->tuning->ctx, &run->group->problems[problem], &untuned, &choices, reason,
                  sizeof reason) != CLATTN_SUCCESS)
        return 0;
    *incumbent = choices.list[0].candidate;
    return family_bit(incumbent->family);
}

unsigned ca_run_stale_families(const struct ca_run *run, size_t problem)
{
    struct ca_choices choices;
    char reason[8 * CA_REASON_BYTES];
    unsigned families = 0;

    ca_choose(run->tuning->ctx, &run->group->problems[problem], NULL, &choices, reason,
              sizeof reason);
    for (size_t n = 0; n < choices.count; n++)
        if (choices.list[n].origin == CA_EXACT_STALE)
            families |= family_bit(choices.list[n].candidate.family);
    return families;
}

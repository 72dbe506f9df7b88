#include "bench/timing/contest.h"
#include "cli/interrupt.h"

#include <math.h>

#define WARM_UP_SECONDS 0.2
#define SAMPLE_SECONDS 0.05
#define STEADY 1.03 /* Three readings no further apart have settled. */

static bool takes_part(const struct contestant *contestant)
{
    return contestant->outcome->state == OUTCOME_MEASURED ||
           contestant->outcome->state == OUTCOME_LOOSE;
}

static bool sample(const struct contestant *contestant, double *seconds, double *host)
{
    struct message why;
    const bool ok =
        contestant->peer != NULL
            ? peer_sample(contestant->peer, SAMPLE_SECONDS, seconds, host, &why) == PEER_OK
            : measurement_sample(contestant->measurement, SAMPLE_SECONDS, seconds, host, &why);

    if (!ok)
        outcome_give_up(contestant->outcome, OUTCOME_FAILED, "%s", why.text);
    return ok;
}

static bool is_steady(const double last[3])
{
    return last[0] > 0.0 &&
           fmax(fmax(last[0], last[1]), last[2]) <= STEADY * fmin(fmin(last[0], last[1]), last[2]);
}

static void warm_up(const struct contestant *contestant)
{
    double busy = 0.0, last[3] = {0.0}, host;

    while (busy < WARM_UP_SECONDS && !is_steady(last) && !ca_interrupted()) {
        last[0] = last[1];
        last[1] = last[2];
        if (!sample(contestant, &last[2], &host))
            return;
        busy += fmax(last[2], SAMPLE_SECONDS);
    }
}

void contest_warm_up(const struct contest *contest)
{
    for (size_t n = 0; n < contest->count; n++)
        if (takes_part(&contest->contestant[n]))
            warm_up(&contest->contestant[n]);
}

static void find_wrong(struct outcome *outcome, const struct worst *worst)
{
    outcome_give_up(outcome, OUTCOME_WRONG, "a result is off by %.3g where %.3g is allowed",
                    worst->error, worst->bound);
}

static void check_ours(const struct contestant *contestant, const struct attention_case *attention)
{
    struct outcome *outcome = contestant->outcome;
    struct message why;

    if (!measurement_check(contestant->measurement, attention, &outcome->worst, &why))
        outcome_give_up(outcome, OUTCOME_FAILED, "%s", why.text);
    else if (!worst_ok(&outcome->worst))
        find_wrong(outcome, &outcome->worst);
}

/* Others may compute in half precision: that is said, but no error. */
static void check_peer(const struct contestant *contestant, const struct attention_case *attention)
{
    struct outcome *outcome = contestant->outcome;
    struct worst loose = {.results = 0};
    struct message why;

    bool ok =
        peer_check(contestant->peer, attention, PRECISION_PEER, &outcome->worst, &why) == PEER_OK;
    if (ok && worst_ok(&outcome->worst))
        return;
    ok = ok && peer_check(contestant->peer, attention, PRECISION_HALF, &loose, &why) == PEER_OK;
    if (!ok) {
        outcome_give_up(outcome, OUTCOME_FAILED, "%s", why.text);
    } else if (!worst_ok(&loose)) {
        find_wrong(outcome, &loose);
    } else {
        outcome->state = OUTCOME_LOOSE;
        message_set(&outcome->why, "right only within the bounds of half-precision arithmetic");
    }
}

void contest_check(const struct contest *contest, const struct attention_case *attention)
{
    for (size_t n = 0; n < contest->count; n++) {
        const struct contestant *contestant = &contest->contestant[n];
        if (takes_part(contestant) && contestant->peer != NULL)
            check_peer(contestant, attention);
        else if (takes_part(contestant))
            check_ours(contestant, attention);
    }
}

/* xorshift64, and all that a shuffle of a few needs. */
static size_t draw(uint64_t *state, size_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (size_t)(*state >> 32) % below;
}

static void shuffle(struct contest *contest, size_t order[static CONTEST_MOST])
{
    for (size_t n = 0; n < contest->count; n++) {
        const size_t place = draw(&contest->random, n + 1);
        order[n] = n;
        order[n] = order[place];
        order[place] = n;
    }
}

bool contest_round(struct contest *contest, struct message *why)
{
    double seconds[CONTEST_MOST], host[CONTEST_MOST];
    size_t order[CONTEST_MOST];

    shuffle(contest, order);
    for (size_t n = 0; n < contest->count; n++) {
        const size_t next = order[n];
        contest_beside *beside = next == 0 ? contest->beside : NULL;
        why->text[0] = '\0';
        if (ca_interrupted())
            return false;
        if (!takes_part(&contest->contestant[next]))
            continue;
        if ((beside != NULL && !beside(contest->user, why)) ||
            (sample(&contest->contestant[next], &seconds[next], &host[next]) && beside != NULL &&
             !beside(contest->user, why)))
            return false;
    }
    for (size_t n = 0; n < contest->count; n++) {
        struct outcome *outcome = contest->contestant[n].outcome;
        if (!takes_part(&contest->contestant[n]))
            continue;
        samples_add(&outcome->seconds, seconds[n]);
        if (host[n] >= 0.0)
            samples_add(&outcome->host, host[n]);
    }
    return true;
}

bool contest_goes_on(const struct contest *contest)
{
    for (size_t n = 0; n < contest->count; n++)
        if (takes_part(&contest->contestant[n]))
            return true;
    return false;
}

double contest_slowest(const struct contest *contest)
{
    double slowest = 0.0;

    for (size_t n = 0; n < contest->count; n++) {
        const struct contestant *contestant = &contest->contestant[n];
        if (takes_part(contestant))
            slowest = fmax(slowest, contestant->peer != NULL ? contestant->peer->seconds
                                                             : contestant->measurement->seconds);
    }
    return slowest;
}

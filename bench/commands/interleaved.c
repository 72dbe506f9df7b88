/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/interleaved.h"
#include "cli/interrupt.h"

#include <math.h>

#define WARM_UP_SECONDS 0.2
#define SAMPLE_SECONDS 0.05
#define STEADY 1.03 /* Three readings no further apart have settled. */

static bool takes_part(const struct competitor *competitor)
{
    return competitor->outcome->state == OUTCOME_MEASURED ||
           competitor->outcome->state == OUTCOME_LOOSE;
}

static bool sample(const struct competitor *competitor, double *seconds, double *host)
{
    struct message why;
    const bool ok =
        competitor->peer != NULL
            ? peer_sample(competitor->peer, SAMPLE_SECONDS, seconds, host, &why) == PEER_OK
            : measurement_sample(competitor->measurement, SAMPLE_SECONDS, seconds, host, &why);

    if (!ok)
        outcome_give_up(competitor->outcome, OUTCOME_FAILED, "%s", why.text);
    return ok;
}

static bool is_steady(const double last[3])
{
    return last[0] > 0.0 &&
           fmax(fmax(last[0], last[1]), last[2]) <= STEADY * fmin(fmin(last[0], last[1]), last[2]);
}

static void warm_up(const struct competitor *competitor)
{
    double busy = 0.0, last[3] = {0.0}, host;

    while (busy < WARM_UP_SECONDS && !is_steady(last) && !ca_interrupted()) {
        last[0] = last[1];
        last[1] = last[2];
        if (!sample(competitor, &last[2], &host))
            return;
        busy += fmax(last[2], SAMPLE_SECONDS);
    }
}

void interleaved_warm_up(const struct interleaved *interleaved)
{
    for (size_t n = 0; n < interleaved->count; n++)
        if (takes_part(&interleaved->competitor[n]))
            warm_up(&interleaved->competitor[n]);
}

static void check_ours(const struct competitor *competitor, const struct attention_case *attention)
{
    struct outcome *outcome = competitor->outcome;
    struct message why;

    if (!measurement_check(competitor->measurement, attention, &outcome->worst, &why))
        outcome_give_up(outcome, OUTCOME_FAILED, "%s", why.text);
    else if (!worst_ok(&outcome->worst))
        outcome_wrong(outcome, &outcome->worst);
}

/* Others may compute in half precision: that is said, but no error. */
static void check_peer(const struct competitor *competitor, const struct attention_case *attention)
{
    struct outcome *outcome = competitor->outcome;
    struct worst loose = {.results = 0};
    struct message why;

    bool ok =
        peer_check(competitor->peer, attention, PRECISION_PEER, &outcome->worst, &why) == PEER_OK;
    if (ok && worst_ok(&outcome->worst))
        return;
    ok = ok && peer_check(competitor->peer, attention, PRECISION_HALF, &loose, &why) == PEER_OK;
    if (!ok) {
        outcome_give_up(outcome, OUTCOME_FAILED, "%s", why.text);
    } else if (!worst_ok(&loose)) {
        outcome_wrong(outcome, &loose);
    } else {
        outcome->state = OUTCOME_LOOSE;
        message_set(&outcome->why, "right only within the bounds of half-precision arithmetic");
    }
}

void interleaved_check(const struct interleaved *interleaved,
                       const struct attention_case *attention)
{
    for (size_t n = 0; n < interleaved->count; n++) {
        const struct competitor *competitor = &interleaved->competitor[n];
        if (takes_part(competitor) && competitor->peer != NULL)
            check_peer(competitor, attention);
        else if (takes_part(competitor))
            check_ours(competitor, attention);
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

static void shuffle(struct interleaved *interleaved, size_t order[static INTERLEAVED_MOST])
{
    for (size_t n = 0; n < interleaved->count; n++) {
        const size_t place = draw(&interleaved->random, n + 1);
        order[n] = n;
        order[n] = order[place];
        order[place] = n;
    }
}

bool interleaved_round(struct interleaved *interleaved, struct message *why)
{
    double seconds[INTERLEAVED_MOST], host[INTERLEAVED_MOST];
    size_t order[INTERLEAVED_MOST];

    shuffle(interleaved, order);
    for (size_t n = 0; n < interleaved->count; n++) {
        const size_t next = order[n];
        interleaved_beside *beside = next == 0 ? interleaved->beside : NULL;
        why->text[0] = '\0';
        if (ca_interrupted())
            return false;
        if (!takes_part(&interleaved->competitor[next]))
            continue;
        if ((beside != NULL && !beside(interleaved->user, why)) ||
            (sample(&interleaved->competitor[next], &seconds[next], &host[next]) &&
             beside != NULL && !beside(interleaved->user, why)))
            return false;
    }
    for (size_t n = 0; n < interleaved->count; n++) {
        struct outcome *outcome = interleaved->competitor[n].outcome;
        if (!takes_part(&interleaved->competitor[n]))
            continue;
        samples_add(&outcome->seconds, seconds[n]);
        if (host[n] >= 0.0)
            samples_add(&outcome->host, host[n]);
    }
    return true;
}

bool interleaved_goes_on(const struct interleaved *interleaved)
{
    for (size_t n = 0; n < interleaved->count; n++)
        if (takes_part(&interleaved->competitor[n]))
            return true;
    return false;
}

double interleaved_slowest(const struct interleaved *interleaved)
{
    double slowest = 0.0;

    for (size_t n = 0; n < interleaved->count; n++) {
        const struct competitor *competitor = &interleaved->competitor[n];
        if (takes_part(competitor))
            slowest = fmax(slowest, competitor->peer != NULL ? competitor->peer->seconds
                                                             : competitor->measurement->seconds);
    }
    return slowest;
}

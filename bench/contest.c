#include "contest.h"

#define WARM_UP_SECONDS 0.2
#define SAMPLE_SECONDS 0.05

bool contest_warm_up(const struct contest *contest, struct message *why)
{
    for (size_t n = 0; n < contest->count; n++) {
        double busy = 0.0, seconds;
        while (busy < WARM_UP_SECONDS) {
            if (!measurement_sample(contest->contestant[n].measurement, SAMPLE_SECONDS, &seconds,
                                    why))
                return false;
            busy += seconds > SAMPLE_SECONDS ? seconds : SAMPLE_SECONDS;
        }
    }
    return true;
}

bool contest_check(const struct contest *contest, const struct attention_case *attention,
                   struct message *why)
{
    for (size_t n = 0; n < contest->count; n++)
        if (!measurement_check(contest->contestant[n].measurement, attention,
                               contest->contestant[n].worst, why))
            return false;
    return true;
}

/* xorshift64, and all that a shuffle of a few needs. */
static size_t draw(uint64_t *state, size_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (size_t)(*state >> 32) % below;
}

bool contest_round(struct contest *contest, struct message *why)
{
    size_t order[CONTEST_MOST];

    for (size_t n = 0; n < contest->count; n++) {
        const size_t place = draw(&contest->random, n + 1);
        order[n] = n;
        order[n] = order[place];
        order[place] = n;
    }
    for (size_t n = 0; n < contest->count; n++) {
        const struct contestant *next = &contest->contestant[order[n]];
        double seconds;
        if (!measurement_sample(next->measurement, SAMPLE_SECONDS, &seconds, why))
            return false;
        samples_add(next->seconds, seconds);
    }
    return true;
}

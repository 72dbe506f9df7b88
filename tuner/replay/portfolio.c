#include "tuner/replay/portfolio.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A slow-down beyond this is as bad as a failure. */
static const double WORST = 10.0;

bool ca_recordings_comparable(const struct ca_recording *a, const struct ca_recording *b)
{
    const struct ca_space *x = a->space, *y = b->space;

    if (strcmp(a->kernel_name, b->kernel_name) != 0 || x->num_parameters != y->num_parameters)
        return false;
    for (size_t p = 0; p < x->num_parameters; p++)
        if (strcmp(x->parameters[p].name, y->parameters[p].name) != 0)
            return false;
    return true;
}

/* The target's number of another space's configuration; CA_NO_CONFIG if it has none. */
static size_t translate(const struct ca_space *target, const struct ca_space *other, size_t config)
{
    uint16_t choices[CA_MAX_PARAMETERS];

    for (size_t p = 0; p < target->num_parameters; p++) {
        const struct ca_value *value = ca_space_value(other, config, p);
        const size_t choice = ca_parameter_find(&target->parameters[p], value->kind, value->text);
        if (choice == target->parameters[p].num_values)
            return CA_NO_CONFIG;
        choices[p] = (uint16_t)choice;
    }
    return ca_space_find(target, choices);
}

/* Fills losses, one per configuration of the target, with log(time / best time of the device). */
static void fill_losses(const struct ca_space *target, const struct ca_recording *other,
                        double *losses)
{
    double best = INFINITY;

    for (size_t config = 0; config < target->count; config++)
        losses[config] = log(WORST);
    for (size_t n = 0; n < other->num_attempts; n++)
        best = fmin(best, other->attempts[n].time);
    for (size_t n = 0; n < other->num_attempts; n++) {
        const size_t config = translate(target, other->space, other->attempts[n].config);
        if (config != CA_NO_CONFIG && other->attempts[n].time < INFINITY)
            losses[config] = fmin(log(other->attempts[n].time / best), log(WORST));
    }
}

static size_t choose_next(const struct ca_space *space, const double *losses, size_t num_devices,
                          const double *covered)
{
    size_t chosen = CA_NO_CONFIG;
    double least = INFINITY;

    for (size_t config = 0; config < space->count; config++) {
        double sum = 0.0, own = 0.0;
        for (size_t n = 0; n < num_devices; n++) {
            sum += fmin(losses[n * space->count + config], covered[n]);
            own += losses[n * space->count + config];
        }
        sum += 0.1 * own; /* among equals the one that is good everywhere */
        if (sum < least) {
            least = sum;
            chosen = config;
        }
    }
    return chosen;
}

size_t ca_portfolio_choose(const struct ca_recording *target,
                           const struct ca_recording *const *others, size_t num_others,
                           size_t *seeds, size_t max_seeds)
{
    const struct ca_space *space = target->space;
    double *losses = malloc((num_others * space->count + 1) * sizeof *losses);
    double *covered = malloc((num_others + 1) * sizeof *covered);
    size_t num_devices = 0, num_seeds = 0;

    for (size_t n = 0; losses && covered && n < num_others; n++) {
        if (!ca_recordings_comparable(target, others[n]))
            continue;
        fill_losses(space, others[n], losses + num_devices * space->count);
        covered[num_devices++] = log(WORST);
    }
    while (num_devices > 0 && num_seeds < max_seeds) {
        const size_t seed = choose_next(space, losses, num_devices, covered);
        if (seed == CA_NO_CONFIG)
            break;
        seeds[num_seeds++] = seed;
        for (size_t n = 0; n < num_devices; n++) {
            covered[n] = fmin(covered[n], losses[n * space->count + seed]);
            losses[n * space->count + seed] = INFINITY; /* not again */
        }
    }
    free(covered);
    free(losses);
    return num_seeds;
}

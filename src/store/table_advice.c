/* SPDX-License-Identifier: Apache-2.0 */
#include "store/table_advice.h"
#include "families/candidate.h"
#include "families/registry.h"
#include "problem/classes/problem_class.h"
#include "problem/problem.h"
#include "store/store_entry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The assumed slow-down of a candidate that was not among the best. */
#define UNCOVERED 4.0

/* A class of one device, seen from a problem on a device. */
struct neighbour {
    const struct ca_device_table *device;
    const struct ca_class *class;
    struct ca_problem representative; /* the class's representative problem */
    double distance;
    size_t number; /* in the table's order */
};

/* Lists all classes of all devices of a table, which the caller frees; NULL, and *count 0, without memory. */
static struct neighbour *list_neighbours(const struct ca_table *table,
                                         const clattn_problem *representative, size_t *count)
{
    size_t all = 0;

    *count = 0;
    for (size_t d = 0; d < table->num_devices; d++)
        all += table->devices[d].num_classes;
    struct neighbour *list = malloc((all ? all : 1) * sizeof *list);
    for (size_t d = 0; list && d < table->num_devices; d++) {
        const struct ca_device_table *device = &table->devices[d];
        for (size_t n = 0; n < device->num_classes; n++) {
            struct ca_problem other;
            if (!ca_class_read(device->classes[n].text, &other))
                continue;
            list[*count] =
                (struct neighbour){device, &device->classes[n], other,
                                   ca_class_distance(representative, &other.given), *count};
            (*count)++;
        }
    }
    return list;
}

/* The candidate of an entry, if it fits a problem on a device. */
static int fitting(const struct ca_entry *entry, const struct ca_problem *p,
                   const clattn_device_info *dev, struct ca_candidate *candidate)
{
    char reason[CA_REASON_BYTES];

    return ca_entry_candidate(entry, candidate) &&
           !ca_family_refusal(candidate->family, p, dev, candidate->values, reason, sizeof reason);
}

/* The candidate that an entry of a neighbour advises on this device, if it fits. */
static int advice(const struct ca_entry *entry, const struct neighbour *neighbour,
                  const struct ca_problem *p, const clattn_device_info *dev,
                  struct ca_candidate *candidate)
{
    if (!fitting(entry, p, dev, candidate))
        return 0;
    if (neighbour->distance > 0.0) {
        const struct ca_problem *there = &neighbour->representative;
        if (!ca_candidate_was_compared(candidate, there, p, dev))
            return 0;
        *candidate = ca_candidate_carried(candidate, there, p, dev);
    }
    return 1;
}

/* The index of a candidate in a list, or count. */
static size_t find(const struct ca_candidate *list, size_t count,
                   const struct ca_candidate *candidate)
{
    size_t n = 0;

    while (n < count && !ca_candidates_equal(&list[n], candidate))
        n++;
    return n;
}

/* ---- the nearest ----------------------------------------------------------------------------- */

static int by_distance(const void *a, const void *b)
{
    const struct neighbour *x = a, *y = b;

    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

clattn_status ca_table_nearest(const struct ca_table *table, const struct ca_problem *p,
                               const clattn_device_info *dev, struct ca_candidate *candidates,
                               size_t most, size_t *count)
{
    const clattn_problem representative = ca_problem_representative(&p->normal);
    size_t num_neighbours;
    struct neighbour *neighbours =
        table ? list_neighbours(table, &representative, &num_neighbours) : NULL;

    *count = 0;
    if (!neighbours)
        return CLATTN_OUT_OF_MEMORY;
    if (num_neighbours > 0)
        qsort(neighbours, num_neighbours, sizeof *neighbours, by_distance);
    for (size_t n = 0; n < num_neighbours && neighbours[n].distance <= CA_CLASS_NEAR; n++) {
        const struct ca_device_table *device = neighbours[n].device;
        const struct ca_class *class = neighbours[n].class;
        if (!ca_device_table_is(device, dev))
            continue;
        for (size_t e = 0; e < class->num_entries && *count < most; e++) {
            struct ca_candidate *candidate = &candidates[*count];
            *count += advice(&class->entries[e], &neighbours[n], p, dev, candidate) &&
                      !ca_candidate_ban(device, candidate, &representative) &&
                      find(candidates, *count, candidate) == *count;
        }
    }
    free(neighbours);
    return CLATTN_SUCCESS;
}

/* ---- the portfolio --------------------------------------------------------------------------- */

/* A candidate among the best of a neighbour. */
struct appearance {
    size_t candidate, neighbour;
    double slowdown; /* logarithm of its time over the neighbour's best */
};

struct cover {
    struct neighbour *neighbours;
    size_t num_neighbours;
    struct appearance *appearances;
    size_t num_appearances;
    struct ca_candidate *candidates; /* the candidates, each once */
    size_t num_candidates;
    double *uncovered; /* by neighbour: logarithm of the best seed's slow-down so far */
    double *gains;     /* by candidate: what adding it would gain */
};

/* Returns the weight of a neighbour: the same device counts more than one of its vendor, and that
 * more than others; 0 if its class says nothing about the problem. */
static double weight(const struct neighbour *neighbour, const clattn_device_info *dev)
{
    const struct ca_device_table *device = neighbour->device;
    const double kinship = ca_device_table_is(device, dev)            ? 8.0
                           : strcmp(device->vendor, dev->vendor) == 0 ? 2.0
                                                                      : 1.0;

    return kinship / (1.0 + neighbour->distance);
}

static int allocate(struct cover *c)
{
    size_t most = 1;

    for (size_t n = 0; n < c->num_neighbours; n++)
        most += c->neighbours[n].class->num_entries;
    c->appearances = calloc(most, sizeof *c->appearances);
    c->candidates = calloc(most, sizeof *c->candidates);
    c->gains = calloc(most, sizeof *c->gains);
    c->uncovered = calloc(c->num_neighbours + 1, sizeof *c->uncovered);
    return c->appearances && c->candidates && c->gains && c->uncovered;
}

static void collect(struct cover *c, const struct ca_problem *p, const clattn_device_info *dev)
{
    for (size_t n = 0; n < c->num_neighbours; n++) {
        const struct ca_class *class = c->neighbours[n].class;
        c->uncovered[n] = log(UNCOVERED);
        for (size_t e = 0; e < class->num_entries; e++) {
            struct ca_candidate candidate;
            if (!fitting(&class->entries[e], p, dev, &candidate))
                continue;
            const size_t at = find(c->candidates, c->num_candidates, &candidate);
            if (at == c->num_candidates)
                c->candidates[c->num_candidates++] = candidate;
            c->appearances[c->num_appearances++] = (struct appearance){
                at, n, log(class->entries[e].seconds / class->entries[0].seconds)};
        }
    }
}

/* The candidate that gains the most, or num_candidates if none gains. */
static size_t best_gain(struct cover *c, const clattn_device_info *dev)
{
    size_t best = c->num_candidates;

    memset(c->gains, 0, c->num_candidates * sizeof *c->gains);
    for (size_t n = 0; n < c->num_appearances; n++) {
        const struct appearance *a = &c->appearances[n];
        c->gains[a->candidate] += weight(&c->neighbours[a->neighbour], dev) *
                                  fmax(c->uncovered[a->neighbour] - a->slowdown, 0.0);
    }
    for (size_t n = 0; n < c->num_candidates; n++)
        if (c->gains[n] > (best == c->num_candidates ? 0.0 : c->gains[best]))
            best = n;
    return best;
}

size_t ca_table_portfolio(const struct ca_table *table, const struct ca_problem *p,
                          const clattn_device_info *dev, struct ca_candidate *seeds, size_t most)
{
    const clattn_problem representative = ca_problem_representative(&p->normal);
    struct cover c = {0};
    size_t count = 0, best;

    if (table)
        c.neighbours = list_neighbours(table, &representative, &c.num_neighbours);
    if (!c.neighbours || !allocate(&c))
        goto done;
    collect(&c, p, dev);
    while (count < most && (best = best_gain(&c, dev)) < c.num_candidates) {
        seeds[count++] = c.candidates[best];
        for (size_t n = 0; n < c.num_appearances; n++) {
            const struct appearance *a = &c.appearances[n];
            if (a->candidate == best)
                c.uncovered[a->neighbour] = fmin(c.uncovered[a->neighbour], a->slowdown);
        }
    }
done:
    free(c.uncovered);
    free(c.gains);
    free(c.candidates);
    free(c.appearances);
    free(c.neighbours);
    return count;
}

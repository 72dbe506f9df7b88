/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/tune_space.h"
#include "families/candidate.h"
#include "families/registry.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

int ca_tune_fits(const struct ca_candidate *candidate, const struct ca_problem *p,
                 const clattn_device_info *dev)
{
    char reason[CA_REASON_BYTES];

    return ca_family_refusal(candidate->family, p, dev, candidate->values, reason, sizeof reason) ==
           NULL;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static size_t find_parameter(const struct ca_space *space, const char *name)
{
    size_t n = 0;

    while (n < space->num_parameters && strcmp(space->parameters[n].name, name) != 0)
        n++;
    return n;
}

static const struct ca_tunable *find_tunable(const struct ca_family *family, const char *name)
{
    for (size_t n = 0; n < family->num_tunables; n++)
        if (strcmp(family->tunables[n].name, name) == 0)
            return &family->tunables[n];
    return NULL;
}

static int ascending(const void *left, const void *right)
{
    const size_t a = *(const size_t *)left, b = *(const size_t *)right;

    return (a > b) - (a < b);
}

/* Adds the values that the families give a tunable, ascending, each once. */
static bool add_values(struct ca_space *space, ca_family_set families, const char *name)
{
    size_t values[8 * CA_MAX_CANDIDATES];
    size_t count = 0;
    const struct ca_family *family;

    for (size_t f = 0; (family = ca_family_at(f)) != NULL; f++) {
        const struct ca_tunable *tunable = find_tunable(family, name);
        if (!(families & ca_family_bit(family)))
            continue;
        if (count + CA_MAX_CANDIDATES > sizeof values / sizeof *values)
            return false;
        if (!tunable)
            values[count++] = 0;
        for (size_t n = 0; tunable && n < tunable->num_candidates; n++)
            values[count++] = tunable->candidates[n];
    }
    qsort(values, count, sizeof *values, ascending);
    for (size_t n = 0; n < count; n++)
        if ((n == 0 || values[n] != values[n - 1]) &&
            !ca_space_add_number(space, (double)values[n]))
            return false;
    return true;
}

static bool add_parameters(struct ca_space *space, ca_family_set families)
{
    const struct ca_family *family;

    if (!ca_space_add_parameter(space, "family"))
        return false;
    for (size_t f = 0; (family = ca_family_at(f)) != NULL; f++)
        if (families & ca_family_bit(family) &&
            ca_parameter_find(&space->parameters[0], family->name) ==
                space->parameters[0].num_values &&
            !ca_space_add_text(space, family->name))
            return false;
    for (size_t f = 0; (family = ca_family_at(f)) != NULL; f++)
        for (size_t n = 0; families & ca_family_bit(family) && n < family->num_tunables; n++) {
            const char *name = family->tunables[n].name;
            if (find_parameter(space, name) == space->num_parameters &&
                (!ca_space_add_parameter(space, name) || !add_values(space, families, name)))
                return false;
        }
    return true;
}

/* ---- configurations -------------------------------------------------------------------------- */

/* A family's tunable for each parameter of the space; NULL where it has none of that name. */
struct family_parameters {
    const struct ca_tunable *tunables[CA_MAX_PARAMETERS];
    size_t name; /* the position of the family's name */
};

static struct family_parameters parameters_of(const struct ca_space *space,
                                              const struct ca_family *family)
{
    struct family_parameters found = {.name =
                                          ca_parameter_find(&space->parameters[0], family->name)};

    for (size_t n = 1; n < space->num_parameters; n++)
        found.tunables[n] = find_tunable(family, space->parameters[n].name);
    return found;
}

/* The positions of a candidate's values in the space. False if the space lacks its family or one of its values. */
static bool choices_of(const struct ca_space *space, const struct family_parameters *own,
                       const struct ca_candidate *candidate, uint16_t *choices)
{
    for (size_t n = 0; n < space->num_parameters; n++) {
        const struct ca_parameter *parameter = &space->parameters[n];
        const struct ca_tunable *t = own->tunables[n];
        const size_t at =
            n == 0 ? own->name
                   : ca_parameter_find_number(
                         parameter,
                         t ? (double)candidate->values[t - candidate->family->tunables] : 0.0);
        if (at == parameter->num_values)
            return false;
        choices[n] = (uint16_t)at;
    }
    return true;
}

/* The family of a configuration's name and UNIT. */
static const struct ca_family *family_of(const struct ca_space *space, size_t config)
{
    const char *name = ca_space_value(space, config, 0)->text;
    const size_t unit = find_parameter(space, "UNIT");
    const struct ca_family *family;

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++) {
        const struct ca_tunable *t = find_tunable(family, "UNIT");
        if (strcmp(family->name, name) == 0 &&
            (!t || (unit < space->num_parameters &&
                    ca_space_value(space, config, unit)->number == (double)t->value)))
            return family;
    }
    return NULL;
}

bool ca_tune_candidate(const struct ca_space *space, size_t config, struct ca_candidate *candidate)
{
    memset(candidate, 0, sizeof *candidate);
    if (config >= space->count)
        return false;
    candidate->family = family_of(space, config);
    if (!candidate->family)
        return false;
    for (size_t n = 0; n < candidate->family->num_tunables; n++) {
        const size_t parameter = find_parameter(space, candidate->family->tunables[n].name);
        if (parameter == space->num_parameters)
            return false;
        candidate->values[n] = (size_t)ca_space_value(space, config, parameter)->number;
    }
    return true;
}

size_t ca_tune_config(const struct ca_space *space, const struct ca_candidate *candidate)
{
    const struct family_parameters own = parameters_of(space, candidate->family);
    uint16_t choices[CA_MAX_PARAMETERS];

    return choices_of(space, &own, candidate, choices) ? ca_space_find(space, choices)
                                                       : CA_NO_CONFIG;
}

/* The next combination of a family's candidate values, the last changing fastest. False after the
 * last one. */
static bool step(const struct ca_family *family, size_t *positions, size_t *values)
{
    for (size_t n = family->num_tunables; n-- > 0;) {
        const struct ca_tunable *tunable = &family->tunables[n];
        positions[n] = (positions[n] + 1) % tunable->num_candidates;
        values[n] = tunable->candidates[positions[n]];
        if (positions[n] != 0)
            return true;
    }
    return false;
}

/* Allows the candidates of a family that fit one of some problems, all of which it supports. */
static bool allow_family(struct ca_space *space, const struct ca_family *family,
                         const struct ca_problem *const *problems, size_t count,
                         const clattn_device_info *dev)
{
    size_t positions[CA_MAX_TUNABLES] = {0};
    const struct family_parameters own = parameters_of(space, family);
    struct ca_candidate candidate = {.family = family};
    uint16_t choices[CA_MAX_PARAMETERS];
    char reason[CA_REASON_BYTES];

    for (size_t n = 0; n < family->num_tunables; n++)
        candidate.values[n] = family->tunables[n].candidates[0];
    do {
        int fits = 0;
        for (size_t n = 0; n < count && !fits; n++)
            fits = !ca_family_refusal_of_values(family, problems[n], dev, candidate.values, reason,
                                                sizeof reason);
        if (fits &&
            (!choices_of(space, &own, &candidate, choices) || !ca_space_allow(space, choices)))
            return false;
    } while (step(family, positions, candidate.values));
    return true;
}

/* The problems that a family can compute with some values; how many. */
static size_t list_supported(const struct ca_family *family, const struct ca_problem *problems,
                             size_t count, const clattn_device_info *dev,
                             const struct ca_problem **supported)
{
    size_t found = 0;

    for (size_t n = 0; n < count; n++)
        if (problems[n].normal.operation == family->operation &&
            !ca_family_unsupported(family, &problems[n], dev))
            supported[found++] = &problems[n];
    return found;
}

struct ca_space *ca_tune_space_create(ca_family_set families, const struct ca_problem *problems,
                                      size_t count, const clattn_device_info *dev)
{
    const struct ca_problem **supported = calloc(count ? count : 1, sizeof *supported);
    struct ca_space *space = ca_space_create();
    const struct ca_family *family;
    bool made = supported && space && add_parameters(space, families);

    for (size_t f = 0; made && (family = ca_family_at(f)) != NULL; f++) {
        const size_t found = families & ca_family_bit(family)
                                 ? list_supported(family, problems, count, dev, supported)
                                 : 0;
        if (found > 0)
            made = allow_family(space, family, supported, found, dev);
    }
    free(supported);
    if (made)
        return space;
    ca_space_destroy(space);
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "search/space.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

struct ca_space *ca_space_create(void)
{
    return calloc(1, sizeof(struct ca_space));
}

void ca_space_destroy(struct ca_space *space)
{
    if (!space)
        return;
    for (size_t p = 0; p < space->num_parameters; p++) {
        struct ca_parameter *parameter = &space->parameters[p];
        for (size_t v = 0; v < parameter->num_values; v++)
            free(parameter->values[v].text);
        free(parameter->values);
        free(parameter->name);
    }
    free(space->choices);
    free(space->slots);
    free(space);
}

bool ca_space_add_parameter(struct ca_space *space, const char *name)
{
    if (space->num_parameters == CA_MAX_PARAMETERS)
        return false;
    char *copy = ca_text_copy(name);
    if (!copy)
        return false;
    space->parameters[space->num_parameters++] = (struct ca_parameter){.name = copy};
    return true;
}

/* Takes the text over. */
static bool add_value(struct ca_space *space, char *text, double number)
{
    struct ca_parameter *parameter = &space->parameters[space->num_parameters - 1];
    const size_t count = parameter->num_values;
    struct ca_value *values =
        count < CA_MAX_VALUES ? realloc(parameter->values, (count + 1) * sizeof *values) : NULL;

    if (!values) {
        free(text);
        return false;
    }
    parameter->values = values;
    values[parameter->num_values++] = (struct ca_value){text, number};
    return true;
}

bool ca_space_add_number(struct ca_space *space, double number)
{
    return space->num_parameters > 0 && add_value(space, NULL, number);
}

bool ca_space_add_text(struct ca_space *space, const char *text)
{
    char *copy = space->num_parameters > 0 ? ca_text_copy(text) : NULL;

    return copy &&
           add_value(space, copy, (double)space->parameters[space->num_parameters - 1].num_values);
}

size_t ca_parameter_find(const struct ca_parameter *parameter, const char *text)
{
    size_t v = 0;

    while (v < parameter->num_values &&
           (!parameter->values[v].text || strcmp(parameter->values[v].text, text) != 0))
        v++;
    return v;
}

size_t ca_parameter_find_number(const struct ca_parameter *parameter, double number)
{
    size_t v = 0;

    while (v < parameter->num_values &&
           (parameter->values[v].text || parameter->values[v].number != number))
        v++;
    return v;
}

const uint16_t *ca_space_choices(const struct ca_space *space, size_t config)
{
    return space->choices + config * space->num_parameters;
}

const struct ca_value *ca_space_value(const struct ca_space *space, size_t config, size_t parameter)
{
    return &space->parameters[parameter].values[ca_space_choices(space, config)[parameter]];
}

/* The slot of the hash table that holds the choices, or the free one where they belong. */
static size_t *find_slot(const struct ca_space *space, const uint16_t *choices)
{
    const size_t bytes = space->num_parameters * sizeof *choices;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t p = 0; p < space->num_parameters; p++) {
        hash = (hash ^ choices[p]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    for (size_t n = (size_t)hash;; n++) {
        size_t *slot = &space->slots[n & (space->num_slots - 1)];
        if (*slot == CA_NO_CONFIG || memcmp(ca_space_choices(space, *slot), choices, bytes) == 0)
            return slot;
    }
}

size_t ca_space_find(const struct ca_space *space, const uint16_t *choices)
{
    return space->num_slots ? *find_slot(space, choices) : CA_NO_CONFIG;
}

static bool grow(struct ca_space *space)
{
    const size_t capacity = space->capacity ? 2 * space->capacity : 256;
    const size_t width = space->num_parameters ? space->num_parameters : 1;
    uint16_t *choices = realloc(space->choices, capacity * width * sizeof *choices);

    if (!choices)
        return false;
    space->choices = choices;
    size_t *slots = malloc(2 * capacity * sizeof *slots);
    if (!slots)
        return false;
    free(space->slots);
    space->slots = slots;
    space->num_slots = 2 * capacity;
    space->capacity = capacity;
    for (size_t n = 0; n < space->num_slots; n++)
        slots[n] = CA_NO_CONFIG;
    for (size_t config = 0; config < space->count; config++)
        *find_slot(space, ca_space_choices(space, config)) = config;
    return true;
}

bool ca_space_allow(struct ca_space *space, const uint16_t *choices)
{
    if (space->count == space->capacity && !grow(space))
        return false;
    size_t *slot = find_slot(space, choices);
    if (*slot != CA_NO_CONFIG)
        return false;
    for (size_t p = 0; p < space->num_parameters; p++)
        space->choices[space->count * space->num_parameters + p] = choices[p];
    *slot = space->count++;
    return true;
}

size_t ca_space_max_neighbours(const struct ca_space *space)
{
    size_t most = 0;

    for (size_t p = 0; p < space->num_parameters; p++)
        most += space->parameters[p].num_values;
    return most;
}

size_t ca_space_neighbours(const struct ca_space *space, size_t config, size_t *neighbours)
{
    uint16_t choices[CA_MAX_PARAMETERS];
    size_t count = 0;

    memcpy(choices, ca_space_choices(space, config), space->num_parameters * sizeof *choices);
    for (size_t p = 0; p < space->num_parameters; p++) {
        const uint16_t own = choices[p];
        for (size_t v = 0; v < space->parameters[p].num_values; v++) {
            choices[p] = (uint16_t)v;
            const size_t neighbour = v == own ? CA_NO_CONFIG : ca_space_find(space, choices);
            if (neighbour != CA_NO_CONFIG)
                neighbours[count++] = neighbour;
        }
        choices[p] = own;
    }
    return count;
}

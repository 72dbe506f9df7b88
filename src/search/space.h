/* SPDX-License-Identifier: Apache-2.0 */
/* A search space: named parameters with candidate values, and the configurations that are allowed.
 *
 * A configuration is known by its number, 0 to count - 1, in the order in which it was allowed. Its
 * choices are, per parameter, the position of its value among the parameter's candidates. */
#ifndef CA_SPACE_H
#define CA_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CA_MAX_PARAMETERS = 64, CA_MAX_VALUES = 4096 };
#define CA_NO_CONFIG SIZE_MAX

struct ca_value {
    char *text;    /* NULL: a number */
    double number; /* finite; of a text its position among the candidates */
};

struct ca_parameter {
    char *name;
    struct ca_value *values;
    size_t num_values;
};

struct ca_space {
    struct ca_parameter parameters[CA_MAX_PARAMETERS];
    size_t num_parameters;
    size_t count;      /* allowed configurations */
    uint16_t *choices; /* count x num_parameters */
    size_t capacity;   /* how many configurations fit in the memory at choices */
    size_t *slots;     /* hash table of configurations, CA_NO_CONFIG where free */
    size_t num_slots;  /* a power of two, or 0 */
};

/* An empty space; NULL without memory. Parameters and values are added before configurations. */
struct ca_space *ca_space_create(void);
void ca_space_destroy(struct ca_space *space);

/* Each copies what it is given. False without memory or room. */
bool ca_space_add_parameter(struct ca_space *space, const char *name);
bool ca_space_add_number(struct ca_space *space, double number);
bool ca_space_add_text(struct ca_space *space, const char *text);

/* Position of a candidate, or num_values if there is none. */
size_t ca_parameter_find(const struct ca_parameter *parameter, const char *text);
size_t ca_parameter_find_number(const struct ca_parameter *parameter, double number);

/* Allows one configuration more. False without memory, or if it was there already. */
bool ca_space_allow(struct ca_space *space, const uint16_t *choices);

const uint16_t *ca_space_choices(const struct ca_space *space, size_t config);
const struct ca_value *ca_space_value(const struct ca_space *space, size_t config,
                                      size_t parameter);

/* CA_NO_CONFIG if choices are not an allowed configuration. */
size_t ca_space_find(const struct ca_space *space, const uint16_t *choices);

/* Upper bound on the neighbours of any configuration. */
size_t ca_space_max_neighbours(const struct ca_space *space);

/* Stores the allowed configurations that differ from config in exactly one parameter, ordered by
 * parameter and value; there is room for ca_space_max_neighbours(). Returns how many. */
size_t ca_space_neighbours(const struct ca_space *space, size_t config, size_t *neighbours);

#endif

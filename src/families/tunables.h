/* SPDX-License-Identifier: Apache-2.0 */
/* Tunables: compile-time parameters of a family, declared once in src/families/NAME/. */
#ifndef CA_TUNABLES_H
#define CA_TUNABLES_H

#include <clattn/status.h>
#include <stddef.h>
#include <stdint.h>

enum { CA_MAX_TUNABLES = 24, CA_MAX_CANDIDATES = 16, CA_TUNABLES_TEXT = 512 };

struct ca_tunable {
    const char *name;
    size_t value; /* the default */
    const char *meaning;
    size_t candidates[CA_MAX_CANDIDATES];
    size_t num_candidates;
    const char *const *words; /* the names of the values in texts; NULL if texts show numbers */
};

/* Words of the tunable UNIT (families/units.h). */
extern const char *const ca_unit_words[];

/* Fills values with the defaults. */
void ca_tunables_default(const struct ca_tunable *tunables, size_t count, size_t *values);

/* Changes values by "NAME=value ...". False, with the reason, if a name is unknown or given twice or a value is
 * not a candidate. */
int ca_tunables_parse(const struct ca_tunable *tunables, size_t count, const char *text,
                      size_t *values, char *reason, size_t reason_bytes);

/* False, with the reason, if one of the values is not among its candidates. */
int ca_tunables_check(const struct ca_tunable *tunables, size_t count, const size_t *values,
                      char *reason, size_t reason_bytes);

/* Prints "NAME=value ...". */
void ca_tunables_print(const struct ca_tunable *tunables, size_t count, const size_t *values,
                       char *text, size_t text_bytes);

#endif

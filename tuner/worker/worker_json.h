/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates and readings as JSON: between clattn-tune and its worker, and in the journal. What is
 * read is checked: a worker may have died while it wrote, or run wild. */
#ifndef CA_WORKER_JSON_H
#define CA_WORKER_JSON_H

#include "internal.h"

#include <jansson.h>
#include <stdbool.h>

/* The caller's to release; NULL without memory. */
json_t *ca_candidate_json(const struct ca_candidate *candidate);
json_t *ca_reading_json(const struct ca_reading *reading);

/* A word for each outcome. */
const char *ca_outcome_name(enum ca_outcome outcome);

/* Null for what is not finite, as JSON has no word for it. */
json_t *ca_seconds_json(double seconds);

/* A text of any bytes: those that are not UTF-8 become '?'. */
json_t *ca_text_json(const char *text);

/* Returns false if it is not one: a family and values that exist, a reading that can be. */
bool ca_candidate_from_json(const json_t *object, struct ca_candidate *candidate);
bool ca_reading_from_json(const json_t *object, struct ca_reading *reading);

#endif

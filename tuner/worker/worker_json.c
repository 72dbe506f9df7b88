/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner/worker/worker_json.h"
#include "cli/message.h"
#include "internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *ca_seconds_json(double seconds)
{
    return isfinite(seconds) ? json_real(seconds) : json_null();
}

json_t *ca_text_json(const char *text)
{
    json_t *string = json_string(text);

    return string ? string : message_json(text);
}

json_t *ca_candidate_json(const struct ca_candidate *candidate)
{
    json_t *values = json_array();

    for (size_t n = 0; n < candidate->family->num_tunables; n++)
        json_array_append_new(values, json_integer((json_int_t)candidate->values[n]));
    return json_pack("{s:s, s:o}", "family", candidate->family->full_name, "values", values);
}

bool ca_candidate_from_json(const json_t *object, struct ca_candidate *candidate)
{
    const char *name = json_string_value(json_object_get(object, "family"));
    const json_t *values = json_object_get(object, "values");
    const struct ca_family *family = name ? ca_family_find(name) : NULL;
    char reason[CA_REASON_BYTES];

    *candidate = (struct ca_candidate){.family = family};
    if (!family || !json_is_array(values) || json_array_size(values) != family->num_tunables)
        return false;
    for (size_t n = 0; n < family->num_tunables; n++) {
        const json_int_t value = json_integer_value(json_array_get(values, n));
        if (value < 0)
            return false;
        candidate->values[n] = (size_t)value;
    }
    return ca_tunables_check(family->tunables, family->num_tunables, candidate->values, reason,
                             sizeof reason);
}

const char *ca_outcome_name(enum ca_outcome outcome)
{
    static const char *const names[CA_NUM_OUTCOMES] = {
        [CA_CORRECT] = "correct",        [CA_COMPILE_FAILED] = "compile",
        [CA_RUNTIME_FAILED] = "runtime", [CA_CONSTRAINT_FAILED] = "constraints",
        [CA_TIMED_OUT] = "timeout",      [CA_WRONG] = "correctness",
        [CA_CRASHED] = "crash",
    };

    return names[outcome];
}

json_t *ca_reading_json(const struct ca_reading *reading)
{
    json_t *times = json_array();
    char binary[20];

    for (size_t n = 0; n < reading->num_times; n++)
        json_array_append_new(times, ca_seconds_json(reading->times[n]));
    snprintf(binary, sizeof binary, "%" PRIx64, reading->binary);
    return json_pack("{s:s, s:o, s:o, s:s, s:o, s:o}", "outcome", ca_outcome_name(reading->outcome),
                     "times", times, "error", ca_seconds_json(reading->error), "binary", binary,
                     "compile", ca_seconds_json(reading->compile_seconds), "reason",
                     ca_text_json(reading->reason));
}

static bool find_outcome(const char *name, enum ca_outcome *outcome)
{
    for (int n = 0; n < CA_NUM_OUTCOMES; n++) {
        *outcome = (enum ca_outcome)n;
        if (strcmp(name, ca_outcome_name(*outcome)) == 0)
            return true;
    }
    return false;
}

static bool read_times(struct ca_json_reader *r, const struct ca_json *times,
                       struct ca_reading *reading)
{
    reading->num_times = ca_json_size(times);
    if (!ca_json_is(times, CA_JSON_ARRAY) || reading->num_times > CA_READING_TIMES)
        return false;
    for (size_t n = 0; n < reading->num_times; n++) {
        reading->times[n] = ca_json_number(r, ca_json_at(times, n), "times");
        if (!(reading->times[n] > 0.0))
            return false;
    }
    return true;
}

bool ca_reading_from_json(const json_t *object, struct ca_reading *reading)
{
    static const struct ca_json_field fields[] = {
        {"error", CA_JSON_SECONDS, offsetof(struct ca_reading, error), 0},
        {"compile", CA_JSON_SECONDS, offsetof(struct ca_reading, compile_seconds), 0},
        {"reason", CA_JSON_NAME, offsetof(struct ca_reading, reason), sizeof reading->reason},
    };
    struct words {
        char outcome[32], binary[20];
    } words;
    static const struct ca_json_field word_fields[] = {
        {"outcome", CA_JSON_NAME, offsetof(struct words, outcome), sizeof words.outcome},
        {"binary", CA_JSON_NAME, offsetof(struct words, binary), sizeof words.binary},
    };
    struct ca_json_reader r = {.status = CLATTN_SUCCESS};
    struct ca_json *read = message_read(object);
    char *end;

    memset(reading, 0, sizeof *reading);
    ca_json_fields(&r, read, fields, sizeof fields / sizeof *fields, reading);
    ca_json_fields(&r, read, word_fields, sizeof word_fields / sizeof *word_fields, &words);
    const bool whole = r.status == CLATTN_SUCCESS &&
                       find_outcome(words.outcome, &reading->outcome) &&
                       read_times(&r, ca_json_get(read, "times"), reading);
    ca_json_free(read);
    if (!whole)
        return false;
    errno = 0;
    reading->binary = strtoull(words.binary, &end, 16);
    return errno == 0 && end != words.binary && *end == '\0';
}

#include "tuner/worker/worker_json.h"
#include "cli/message.h"
#include "internal.h"
#include "tuner/recording/recording.h"

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
    return json_pack("{s:s, s:o}", "family", candidate->family->name, "values", values);
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

/* T4's words, which have none for a crash of its own. */
static const char *outcome_name(enum ca_outcome outcome)
{
    return outcome == CA_CRASHED ? "crash" : ca_outcome_invalidity(outcome);
}

json_t *ca_reading_json(const struct ca_reading *reading)
{
    json_t *times = json_array();
    char binary[20];

    for (size_t n = 0; n < reading->num_times; n++)
        json_array_append_new(times, ca_seconds_json(reading->times[n]));
    snprintf(binary, sizeof binary, "%" PRIx64, reading->binary);
    return json_pack(
        "{s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "outcome", outcome_name(reading->outcome),
        "times", times, "error", ca_seconds_json(reading->error), "binary", binary, "compile",
        ca_seconds_json(reading->compile_seconds), "check", ca_seconds_json(reading->check_seconds),
        "measure", ca_seconds_json(reading->measure_seconds), "reason",
        ca_text_json(reading->reason));
}

static bool read_outcome(const json_t *object, enum ca_outcome *outcome)
{
    const char *name = json_string_value(json_object_get(object, "outcome"));

    for (int n = 0; name && n < CA_NUM_OUTCOMES; n++) {
        *outcome = (enum ca_outcome)n;
        if (strcmp(name, outcome_name(*outcome)) == 0)
            return true;
    }
    return false;
}

/* Not below 0; null is INFINITY. */
static bool read_seconds(const json_t *object, const char *key, double *seconds)
{
    const json_t *value = json_object_get(object, key);

    *seconds = json_is_null(value) ? INFINITY : json_number_value(value);
    return (json_is_null(value) || json_is_number(value)) && *seconds >= 0.0;
}

static bool read_times(const json_t *object, struct ca_reading *reading)
{
    const json_t *times = json_object_get(object, "times");

    reading->num_times = json_array_size(times);
    if (!json_is_array(times) || reading->num_times > CA_READING_TIMES)
        return false;
    for (size_t n = 0; n < reading->num_times; n++) {
        reading->times[n] = json_number_value(json_array_get(times, n));
        if (!(reading->times[n] > 0.0))
            return false;
    }
    return true;
}

bool ca_reading_from_json(const json_t *object, struct ca_reading *reading)
{
    const char *binary = json_string_value(json_object_get(object, "binary"));
    const char *reason = json_string_value(json_object_get(object, "reason"));
    char *end;

    memset(reading, 0, sizeof *reading);
    if (!binary || !reason || !read_outcome(object, &reading->outcome) ||
        !read_times(object, reading) || !read_seconds(object, "error", &reading->error) ||
        !read_seconds(object, "compile", &reading->compile_seconds) ||
        !read_seconds(object, "check", &reading->check_seconds) ||
        !read_seconds(object, "measure", &reading->measure_seconds))
        return false;
    errno = 0;
    reading->binary = strtoull(binary, &end, 16);
    snprintf(reading->reason, sizeof reading->reason, "%s", reason);
    return errno == 0 && end != binary && *end == '\0';
}

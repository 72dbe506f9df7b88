#include "tuner/recording/tune_record.h"
#include "internal.h"
#include "tuner/recording/recording.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ca_space *tune_copy_parameters(const struct ca_space *space)
{
    struct ca_space *copy = ca_space_create();
    bool good = copy != NULL;

    for (size_t p = 0; good && p < space->num_parameters; p++) {
        const struct ca_parameter *parameter = &space->parameters[p];
        good = ca_space_add_parameter(copy, parameter->name);
        for (size_t v = 0; good && v < parameter->num_values; v++) {
            const struct ca_value *value = &parameter->values[v];
            good = value->kind == CA_TEXT      ? ca_space_add_text(copy, value->text)
                   : value->kind == CA_BOOLEAN ? ca_space_add_boolean(copy, value->number != 0.0)
                                               : ca_space_add_number(copy, value->number);
        }
    }
    if (good)
        return copy;
    ca_space_destroy(copy);
    return NULL;
}

/* The position of a candidate's value of parameter p; num_values if it has none. The first
 * parameter is the family, the others are tunables, 0 where the family has none of that name. */
static size_t find_choice(const struct ca_space *space, size_t p,
                          const struct ca_candidate *candidate)
{
    const struct ca_family *family = candidate->family;
    const struct ca_parameter *parameter = &space->parameters[p];
    double value = 0.0;
    size_t choice = 0;

    if (p == 0)
        return ca_parameter_find(parameter, CA_TEXT, family->name);
    for (size_t n = 0; n < family->num_tunables; n++)
        if (strcmp(family->tunables[n].name, parameter->name) == 0)
            value = (double)candidate->values[n];
    while (choice < parameter->num_values && parameter->values[choice].number != value)
        choice++;
    return choice;
}

/* The configuration that a candidate is in a recording's space, added if it is new. */
static size_t find_config(struct ca_space *space, const struct ca_candidate *candidate)
{
    uint16_t choices[CA_MAX_PARAMETERS];

    for (size_t p = 0; p < space->num_parameters; p++) {
        const size_t choice = find_choice(space, p, candidate);
        if (choice == space->parameters[p].num_values)
            return CA_NO_CONFIG;
        choices[p] = (uint16_t)choice;
    }
    ca_space_allow(space, choices);
    return ca_space_find(space, choices);
}

static bool add_attempt(struct ca_recording *recording, const struct ca_journal_entry *entry)
{
    const struct ca_reading *reading = &entry->reading;
    const size_t config = find_config(recording->space, &entry->candidate);
    const double known =
        reading->compile_seconds + reading->check_seconds + reading->measure_seconds;
    double runtimes[CA_READING_TIMES];
    struct ca_attempt attempt = {
        .config = config,
        .outcome = reading->outcome,
        .time = INFINITY,
        .runtimes = runtimes,
        .num_runtimes = reading->num_times,
        .compile_time = 1e3 * reading->compile_seconds,
        .verification_time = 1e3 * reading->check_seconds,
        .benchmark_time = 1e3 * reading->measure_seconds,
        .framework_time = 1e3 * fmax(entry->seconds - known, 0.0),
    };

    if (config == CA_NO_CONFIG) /* of a family that was compared, and not searched */
        return true;
    for (size_t n = 0; n < reading->num_times; n++) {
        runtimes[n] = 1e3 * reading->times[n];
        if (reading->outcome == CA_CORRECT)
            attempt.time = fmin(attempt.time, runtimes[n]);
    }
    snprintf(attempt.timestamp, sizeof attempt.timestamp, "%s", entry->when);
    return ca_recording_add(recording, &attempt);
}

/* Hashes of the sources of all families in the space, as one text. */
static void print_sources(const struct ca_space *space, char *text, size_t text_bytes)
{
    size_t length = 0;

    const struct ca_family *family;

    for (size_t n = 0; (family = ca_family_at(n)) != NULL && length < text_bytes; n++) {
        char source[CA_HASH_TEXT];
        if (ca_parameter_find(&space->parameters[0], CA_TEXT, family->name) ==
            space->parameters[0].num_values)
            continue;
        ca_family_source_hash(family, source);
        length += (size_t)snprintf(text + length, text_bytes - length, "%s%s=%s", length ? " " : "",
                                   family->name, source);
    }
}

static bool add_facts(struct ca_recording *recording, const struct tune_report *report,
                      const struct tune_problem *problem)
{
    const clattn_device_info *device = report->device;
    char sources[256] = "";

    print_sources(recording->space, sources, sizeof sources);
    return ca_recording_add_fact(recording, "platform", device->platform_name) &&
           ca_recording_add_fact(recording, "platform_version", device->platform_version) &&
           ca_recording_add_fact(recording, "driver_version", device->driver_version) &&
           ca_recording_add_fact(recording, "source_hash", sources) &&
           ca_recording_add_fact(recording, "problem_class", problem->problem_class) &&
           ca_recording_add_fact(recording, "policy", CA_POLICY) &&
           ca_recording_add_fact(recording, "strategy",
                                 ca_strategy_name(report->options->strategy)) &&
           ca_recording_add_fact(recording, "clattn", CA_TUNE_VERSION);
}

static bool write_file(const struct ca_recording *recording, const char *path, bool t4,
                       struct message *why)
{
    FILE *file = fopen(path, "w");

    if (!file)
        return message_set(why, "%s cannot be written: %s", path, strerror(errno));
    const bool good =
        t4 ? ca_recording_write_t4(recording, file, why) : ca_recording_write(recording, file, why);
    if (fclose(file) != 0 && good)
        return message_set(why, "%s cannot be written: %s", path, strerror(errno));
    return good;
}

static bool record_problem(const struct tune_report *report, const struct tune_problem *problem,
                           const char *path, bool t4, struct message *why)
{
    char size[sizeof problem->problem_class + 2];

    snprintf(size, sizeof size, "\"%s\"", problem->problem_class); /* has no quotes */
    struct ca_recording *recording =
        ca_recording_create(report->device->name, "clattn_attention", size);
    bool good = recording != NULL;
    if (good) {
        ca_space_destroy(recording->space);
        recording->space = tune_copy_parameters(problem->space);
        good = recording->space && add_facts(recording, report, problem);
    }
    for (size_t n = 0; good && n < ca_journal_count(report->journal); n++) {
        const struct ca_journal_entry *entry = ca_journal_at(report->journal, n);
        if (strcmp(entry->problem_class, problem->problem_class) == 0)
            good = add_attempt(recording, entry);
    }
    if (good)
        good = write_file(recording, path, t4, why);
    else
        message_set(why, "there is no memory for a recording");
    ca_recording_destroy(recording);
    return good;
}

/* "path-N" before the ending of its last part, "path" if N is 0. The caller frees it. */
static char *number_path(const char *path, size_t number)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    const size_t bytes = strlen(path) + 24, stem = dot ? (size_t)(dot - path) : strlen(path);
    char *text = malloc(bytes);

    if (text && number == 0)
        snprintf(text, bytes, "%s", path);
    else if (text)
        snprintf(text, bytes, "%.*s-%zu%s", (int)stem, path, number, path + stem);
    return text;
}

bool tune_record(const struct tune_report *report, const char *path, bool t4, struct message *why)
{
    size_t searched = 0, number = 0;

    for (size_t n = 0; n < report->num_problems; n++)
        searched += report->problems[n].space && report->problems[n].state == TUNE_TUNED;
    for (size_t n = 0; n < report->num_problems; n++) {
        const struct tune_problem *problem = &report->problems[n];
        if (!problem->space || problem->state != TUNE_TUNED)
            continue;
        char *name = number_path(path, searched > 1 ? ++number : 0);
        if (!name)
            return message_set(why, "there is no memory for a recording");
        const bool good = record_problem(report, problem, name, t4, why);
        free(name);
        if (!good)
            return false;
    }
    return true;
}

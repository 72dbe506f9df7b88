#include "tuner/recording/recording.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Closes what the steps of writing have in common: an object is made, printed and released. */
static bool print(json_t *object, FILE *file)
{
    const bool done = object && json_dumpf(object, file, JSON_ENCODE_ANY) == 0;

    json_decref(object);
    return done;
}

static json_t *value_json(const struct ca_value *value)
{
    switch (value->kind) {
    case CA_BOOLEAN:
        return json_boolean(value->number != 0.0);
    case CA_TEXT:
        return json_string(value->text);
    default:
        if (value->number == floor(value->number) && fabs(value->number) < 1e15)
            return json_integer((json_int_t)value->number);
        return json_real(value->number);
    }
}

static json_t *configuration_json(const struct ca_space *space, size_t config)
{
    json_t *object = json_object();

    for (size_t p = 0; p < space->num_parameters; p++)
        json_object_set_new(object, space->parameters[p].name,
                            value_json(ca_space_value(space, config, p)));
    return object;
}

static json_t *runtimes_json(const struct ca_attempt *attempt)
{
    json_t *array = json_array();

    for (size_t n = 0; n < attempt->num_runtimes; n++)
        json_array_append_new(array, json_real(attempt->runtimes[n]));
    return array;
}

/* The values of the configuration, joined by commas. */
static json_t *key_json(const struct ca_space *space, size_t config)
{
    json_t *key = json_string("");

    for (size_t p = 0; key && p < space->num_parameters; p++) {
        json_t *longer = json_sprintf("%s%s%s", json_string_value(key), p ? "," : "",
                                      ca_space_value(space, config, p)->text);
        json_decref(key);
        key = longer;
    }
    return key;
}

static json_t *entry_json(const struct ca_space *space, const struct ca_attempt *attempt)
{
    json_t *entry = configuration_json(space, attempt->config);
    const char *error = ca_outcome_error(attempt->outcome);

    if (error) { /* both places: the dashboard wants a time in every entry */
        json_object_set_new(entry, "time", json_string(error));
        json_object_set_new(entry, "__error__", json_string(error));
        json_object_set_new(entry, "invalidity",
                            json_string(ca_outcome_invalidity(attempt->outcome)));
    } else {
        json_object_set_new(entry, "time", json_real(attempt->time));
    }
    json_object_set_new(entry, "times", runtimes_json(attempt));
    json_object_set_new(entry, "compile_time", json_real(attempt->compile_time));
    json_object_set_new(entry, "verification_time", json_real(attempt->verification_time));
    json_object_set_new(entry, "benchmark_time", json_real(attempt->benchmark_time));
    json_object_set_new(entry, "strategy_time", json_real(attempt->strategy_time));
    json_object_set_new(entry, "framework_time", json_real(attempt->framework_time));
    json_object_set_new(entry, "timestamp", json_string(attempt->timestamp));
    return entry;
}

/* Everything before the entries; the cache stays open. */
static bool write_head(const struct ca_recording *recording, FILE *file)
{
    const struct ca_space *space = recording->space;
    bool good = fputs("{\n\"device_name\": ", file) >= 0 &&
                print(json_string(recording->device_name), file) &&
                fputs(",\n\"kernel_name\": ", file) >= 0 &&
                print(json_string(recording->kernel_name), file) &&
                fprintf(file, ",\n\"problem_size\": %s", recording->problem_size) > 0;

    for (size_t n = 0; good && n < recording->num_facts; n++)
        good = fputs(",\n", file) >= 0 && print(json_string(recording->facts[n].key), file) &&
               fputs(": ", file) >= 0 && print(json_string(recording->facts[n].text), file);
    good = good && fputs(",\n\"tune_params_keys\": [", file) >= 0;
    for (size_t p = 0; good && p < space->num_parameters; p++)
        good =
            fputs(p ? ", " : "", file) >= 0 && print(json_string(space->parameters[p].name), file);
    good = good && fputs("],\n\"tune_params\": {", file) >= 0;
    for (size_t p = 0; good && p < space->num_parameters; p++) {
        json_t *values = json_array();
        for (size_t v = 0; v < space->parameters[p].num_values; v++)
            json_array_append_new(values, value_json(&space->parameters[p].values[v]));
        good = fputs(p ? ",\n" : "\n", file) >= 0 &&
               print(json_string(space->parameters[p].name), file) && fputs(": ", file) >= 0 &&
               print(values, file);
    }
    return good && fputs("\n},\n\"objective\": \"time\",\n\"cache\": {", file) >= 0;
}

static bool write_entry(const struct ca_recording *recording, size_t attempt, bool first,
                        FILE *file)
{
    const struct ca_attempt *made = &recording->attempts[attempt];

    return fputs(first ? "\n" : ",\n", file) >= 0 &&
           print(key_json(recording->space, made->config), file) && fputs(": ", file) >= 0 &&
           print(entry_json(recording->space, made), file);
}

static bool finish(bool good, FILE *file, struct message *why)
{
    if (good && fflush(file) == 0)
        return true;
    return message_set(why, "cannot write the recording: %s",
                       errno ? strerror(errno) : "no memory");
}

bool ca_recording_write(const struct ca_recording *recording, FILE *file, struct message *why)
{
    size_t first = 0;

    while (first < recording->num_attempts && recording->attempts[first].outcome != CA_CORRECT)
        first++;
    if (first == recording->num_attempts)
        return message_set(why, "nothing to write: no attempt succeeded");
    errno = 0;
    bool good = write_head(recording, file) && write_entry(recording, first, true, file);
    for (size_t n = 0; good && n < recording->num_attempts; n++)
        if (n != first)
            good = write_entry(recording, n, false, file);
    return finish(good && fputs("}\n}", file) >= 0, file, why);
}

static json_t *result_json(const struct ca_space *space, const struct ca_attempt *attempt)
{
    const bool correct = attempt->outcome == CA_CORRECT;
    json_t *measurements = json_array();

    if (correct)
        json_array_append_new(measurements, json_pack("{s:s, s:f, s:s}", "name", "time", "value",
                                                      attempt->time, "unit", "ms"));
    return json_pack(
        "{s:s, s:o, s:{s:f, s:f, s:f, s:f, s:f, s:f, s:o}, s:s, s:i, s:o, s:[s]}", "timestamp",
        attempt->timestamp, "configuration", configuration_json(space, attempt->config), "times",
        "compilation_time", attempt->compile_time, /* the schema's name ... */
        "compilation", attempt->compile_time,      /* ... and every writer's */
        "benchmark", attempt->benchmark_time, "framework", attempt->framework_time,
        "search_algorithm", attempt->strategy_time, "validation", attempt->verification_time,
        "runtimes", runtimes_json(attempt), "invalidity", ca_outcome_invalidity(attempt->outcome),
        "correctness", correct ? 1 : 0, "measurements", measurements, "objectives", "time");
}

bool ca_recording_write_t4(const struct ca_recording *recording, FILE *file, struct message *why)
{
    json_t *metadata = json_pack("{s:s, s:s, s:s}", "timeunit", "milliseconds", "device_name",
                                 recording->device_name, "kernel_name", recording->kernel_name);

    errno = 0;
    for (size_t n = 0; n < recording->num_facts; n++)
        json_object_set_new(metadata, recording->facts[n].key,
                            json_string(recording->facts[n].text));
    bool good = fputs("{\"schema_version\": \"1.0.0\", \"metadata\": ", file) >= 0 &&
                print(metadata, file) && fputs(",\n\"results\": [", file) >= 0;
    for (size_t n = 0; good && n < recording->num_attempts; n++)
        good = fputs(n ? ",\n" : "\n", file) >= 0 &&
               print(result_json(recording->space, &recording->attempts[n]), file);
    return finish(good && fputs("\n]}\n", file) >= 0, file, why);
}

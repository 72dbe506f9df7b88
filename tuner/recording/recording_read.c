#include "internal.h"
#include "tuner/recording/recording.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* A packed file of a few kilobytes may claim to be endless. */
static const size_t MAX_BYTES = (size_t)512 << 20;

/* The whole file, unpacked if it is packed; one byte more is allocated. */
static char *load(const char *path, size_t *bytes, struct message *why)
{
    gzFile file = gzopen(path, "rb");
    size_t capacity = (size_t)1 << 20;
    const char *reason = "";
    char *text = NULL;
    int got, error = Z_OK;

    *bytes = 0;
    if (!file) {
        message_set(why, "%.300s: cannot open it: %s", path, strerror(errno));
        return NULL;
    }
    do {
        char *grown = capacity <= MAX_BYTES ? realloc(text, capacity + 1) : NULL;
        if (!grown) {
            message_set(why, "%.300s: it is too large", path);
            goto failed;
        }
        text = grown;
        got = gzread(file, text + *bytes, (unsigned)(capacity - *bytes));
        reason = gzerror(file, &error); /* of each: zlib 1.3.2 forgets it with the next */
        if (got < 0)
            break;
        *bytes += (size_t)got;
        if (*bytes == capacity)
            capacity *= 2;
    } while (got > 0 && error == Z_OK);
    if (got < 0 || error != Z_OK) { /* Z_BUF_ERROR: the packed data ends too early */
        message_set(why, "%.300s: cannot read it: %s", path,
                    error == Z_ERRNO ? strerror(errno) : reason);
        goto failed;
    }
    gzclose_r(file);
    return text;
failed:
    gzclose_r(file);
    free(text);
    return NULL;
}

/* Kernel Tuner appends an entry, a comma and a line break at a time and closes the file when it is
 * done. Parses the text as if it were closed. */
static json_t *parse_open(struct ca_json_reader *r, const char *text, size_t bytes)
{
    json_error_t error = {.text = ""};
    char *closed = NULL;

    while (bytes > 0 && strchr(" \t\r\n", text[bytes - 1]))
        bytes--;
    if (bytes > 0 && (text[bytes - 1] == ',' || text[bytes - 1] == '{')) {
        bytes -= text[bytes - 1] == ',';
        closed = malloc(bytes + 2);
        if (!closed) {
            ca_json_no_memory(r);
            return NULL;
        }
        memcpy(closed, text, bytes);
        memcpy(closed + bytes, "}}", 2);
        text = closed;
        bytes += 2;
    }
    json_t *root = json_loadb(text, bytes, 0, &error);
    if (!root)
        ca_json_unparsed(r, &error);
    free(closed);
    return root;
}

/* Kind and text of a candidate value; false if it is none. */
static bool describe(const json_t *value, enum ca_value_kind *kind, char *text, size_t text_bytes)
{
    if (json_is_boolean(value)) {
        *kind = CA_BOOLEAN;
        return snprintf(text, text_bytes, "%s", json_is_true(value) ? "True" : "False") > 0;
    }
    if (json_is_number(value)) {
        *kind = CA_NUMBER;
        ca_number_print(json_number_value(value), text, text_bytes);
        return isfinite(json_number_value(value));
    }
    *kind = CA_TEXT;
    return json_is_string(value) &&
           (size_t)snprintf(text, text_bytes, "%s", json_string_value(value)) < text_bytes;
}

enum { VALUE_BYTES = 256 };

static bool read_values(struct ca_space *space, const json_t *values)
{
    const struct ca_parameter *parameter = &space->parameters[space->num_parameters - 1];
    char text[VALUE_BYTES];
    enum ca_value_kind kind;

    for (size_t n = 0; n < json_array_size(values); n++) {
        const json_t *value = json_array_get(values, n);
        if (!describe(value, &kind, text, sizeof text) ||
            ca_parameter_find(parameter, kind, text) < parameter->num_values)
            return false;
        const bool added = kind == CA_NUMBER ? ca_space_add_number(space, json_number_value(value))
                           : kind == CA_BOOLEAN ? ca_space_add_boolean(space, json_is_true(value))
                                                : ca_space_add_text(space, text);
        if (!added)
            return false;
    }
    return true;
}

/* Whether an entry has this key beside its parameters. */
static bool is_reserved(const char *key)
{
    static const char *const keys[] = {
        "time",          "times",          "compile_time", "verification_time", "benchmark_time",
        "strategy_time", "framework_time", "timestamp",    "__error__",         "invalidity"};
    size_t n = 0;

    while (n < sizeof keys / sizeof *keys && strcmp(keys[n], key) != 0)
        n++;
    return n < sizeof keys / sizeof *keys;
}

static bool read_parameters(struct ca_json_reader *r, const json_t *root, struct ca_space *space)
{
    const json_t *keys = json_object_get(root, "tune_params_keys");
    const json_t *lists = json_object_get(root, "tune_params");

    if (json_array_size(keys) == 0 || !json_is_object(lists))
        return ca_json_say(r, "it has no tune_params_keys or no tune_params");
    for (size_t p = 0; p < json_array_size(keys); p++) {
        const char *key = json_string_value(json_array_get(keys, p));
        if (!key)
            return ca_json_say(r, "a name in tune_params_keys is not a text");
        if (is_reserved(key))
            return ca_json_say(r, "no parameter can be named %s", key);
        for (size_t other = 0; other < p; other++)
            if (strcmp(space->parameters[other].name, key) == 0)
                return ca_json_say(r, "the parameter %.100s is there twice", key);
        if (!ca_space_add_parameter(space, key))
            return ca_json_say(r, "it has more than %d parameters", CA_MAX_PARAMETERS);
        if (json_array_size(json_object_get(lists, key)) == 0 ||
            !read_values(space, json_object_get(lists, key)))
            return ca_json_say(r,
                               "the values of %.100s are not a list of at most %d "
                               "different numbers, booleans and texts",
                               key, CA_MAX_VALUES);
    }
    return true;
}

/* Returns NULL, or what is wrong with the entry's choices. */
static const char *read_choices(const struct ca_space *space, const json_t *entry,
                                uint16_t *choices)
{
    char text[VALUE_BYTES];
    enum ca_value_kind kind;

    for (size_t p = 0; p < space->num_parameters; p++) {
        const struct ca_parameter *parameter = &space->parameters[p];
        const json_t *value = json_object_get(entry, parameter->name);
        if (!value)
            return "lacks a parameter";
        if (!describe(value, &kind, text, sizeof text))
            return "has a parameter of another kind";
        const size_t choice = ca_parameter_find(parameter, kind, text);
        if (choice == parameter->num_values)
            return "has a value that is not in tune_params";
        choices[p] = (uint16_t)choice;
    }
    return NULL;
}

/* Since 1.3 Kernel Tuner keeps the error beside the time, before it in place of the time; our own
 * files say more. */
static bool read_outcome(const json_t *entry, enum ca_outcome *outcome)
{
    const char *own = json_string_value(json_object_get(entry, "invalidity"));
    const char *error = json_string_value(json_object_get(entry, "__error__"));

    if (!error)
        error = json_string_value(json_object_get(entry, "time"));
    *outcome = CA_CORRECT;
    if (!error)
        return true;
    for (int n = CA_CORRECT + 1; n < CA_NUM_OUTCOMES; n++) {
        *outcome = (enum ca_outcome)n;
        if (own ? strcmp(own, ca_outcome_invalidity(*outcome)) == 0
                : strcmp(error, ca_outcome_error(*outcome)) == 0)
            return true;
    }
    return false;
}

static double read_time(const json_t *entry, const char *key)
{
    const double value = json_number_value(json_object_get(entry, key)); /* 0 if not a number */

    return isfinite(value) ? value : 0.0;
}

/* Returns NULL, or what is wrong with the entry. */
static const char *read_entry(struct ca_recording *recording, const json_t *entry)
{
    const json_t *times = json_object_get(entry, "times");
    const char *stamp = json_string_value(json_object_get(entry, "timestamp"));
    uint16_t choices[CA_MAX_PARAMETERS];
    struct ca_attempt attempt = {.config = recording->space->count, .time = INFINITY};
    const char *wrong = read_choices(recording->space, entry, choices);

    if (wrong)
        return wrong;
    if (ca_space_find(recording->space, choices) != CA_NO_CONFIG)
        return "is a configuration that was there before";
    if (!read_outcome(entry, &attempt.outcome))
        return "has an unknown error in place of a time";
    if (attempt.outcome == CA_CORRECT) {
        attempt.time = read_time(entry, "time");
        if (!(attempt.time > 0.0))
            return "has neither a time above 0 nor an error";
    }
    attempt.compile_time = read_time(entry, "compile_time");
    attempt.verification_time = read_time(entry, "verification_time");
    attempt.benchmark_time = read_time(entry, "benchmark_time");
    attempt.strategy_time = read_time(entry, "strategy_time");
    attempt.framework_time = read_time(entry, "framework_time");
    snprintf(attempt.timestamp, sizeof attempt.timestamp, "%s", stamp ? stamp : "");
    attempt.num_runtimes = json_array_size(times);
    attempt.runtimes = malloc((attempt.num_runtimes + 1) * sizeof *attempt.runtimes);
    for (size_t n = 0; attempt.runtimes && n < attempt.num_runtimes; n++)
        attempt.runtimes[n] = json_number_value(json_array_get(times, n));
    if (!attempt.runtimes || !ca_space_allow(recording->space, choices) ||
        !ca_recording_add(recording, &attempt))
        wrong = "does not fit into memory";
    free(attempt.runtimes);
    return wrong;
}

static bool read_facts(struct ca_recording *recording, json_t *root)
{
    static const char *const own[] = {"device_name", "kernel_name", "problem_size", "objective"};
    const char *key;
    json_t *value;

    json_object_foreach(root, key, value)
    {
        size_t n = 0;
        while (n < sizeof own / sizeof *own && strcmp(own[n], key) != 0)
            n++;
        if (n == sizeof own / sizeof *own && json_is_string(value) &&
            !ca_recording_add_fact(recording, key, json_string_value(value)))
            return false;
    }
    return true;
}

static struct ca_recording *create(const json_t *root)
{
    const char *device = json_string_value(json_object_get(root, "device_name"));
    const char *kernel = json_string_value(json_object_get(root, "kernel_name"));
    const json_t *size = json_object_get(root, "problem_size");
    char *size_text = size ? json_dumps(size, JSON_ENCODE_ANY) : NULL;
    struct ca_recording *recording = ca_recording_create(device ? device : "", kernel ? kernel : "",
                                                         size_text ? size_text : "null");

    free(size_text);
    return recording;
}

static bool read_cache(struct ca_json_reader *r, json_t *cache, struct ca_recording *recording)
{
    const char *key;
    json_t *entry;

    json_object_foreach(cache, key, entry)
    {
        const char *wrong = read_entry(recording, entry);
        if (wrong)
            return ca_json_say(r, "the entry %.200s %s", key, wrong);
    }
    return true;
}

struct ca_recording *ca_recording_parse(const char *name, const char *text, size_t bytes,
                                        struct message *why)
{
    struct ca_json_reader r = {.reason = why->text,
                               .reason_bytes = sizeof why->text,
                               .file = name,
                               .clean = ca_make_printable};
    json_t *root = parse_open(&r, text, bytes), *cache = json_object_get(root, "cache");
    struct ca_recording *recording = NULL;

    if (root && !json_is_object(cache))
        ca_json_say(&r, "it is not a Kernel Tuner cache file, for it has no cache");
    if (r.status == CLATTN_SUCCESS) {
        recording = create(root);
        if (!recording || !read_facts(recording, root))
            ca_json_say(&r, "it does not fit into memory");
        else if (read_parameters(&r, root, recording->space))
            read_cache(&r, cache, recording);
    }
    json_decref(root);
    if (r.status == CLATTN_SUCCESS)
        return recording;
    ca_recording_destroy(recording);
    return NULL;
}

struct ca_recording *ca_recording_read(const char *path, struct message *why)
{
    size_t bytes;
    char *text = load(path, &bytes, why);
    struct ca_recording *recording = text ? ca_recording_parse(path, text, bytes, why) : NULL;

    free(text);
    return recording;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/place.h"
#include "bench/records/results.h"
#include "internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACE_OF(member) offsetof(clattn_device_info, member)
#define NAME(key, member)                                                                          \
    {                                                                                              \
        key, CA_JSON_NAME, PLACE_OF(member), sizeof(((clattn_device_info *)0)->member)             \
    }
#define FACT(kind, member)                                                                         \
    {                                                                                              \
#member, CA_JSON_##kind, PLACE_OF(member), 0                                               \
    }

static const struct ca_json_field device_fields[] = {
    NAME("name", name),
    NAME("vendor", vendor),
    NAME("driver", driver_version),
    NAME("version", device_version),
    NAME("platform", platform_name),
    NAME("platform_version", platform_version),
    FACT(UNSIGNED, opencl_version),
    FACT(UNSIGNED, opencl_c_version),
    FACT(UNSIGNED, compute_units),
    FACT(UNSIGNED, address_bits),
    FACT(UNSIGNED, vector_width_float),
    FACT(SIZE, max_work_group_size),
    FACT(BYTES, local_memory_bytes),
    FACT(BYTES, global_memory_bytes),
    FACT(BYTES, max_allocation_bytes),
    FACT(FLAG, local_memory_dedicated),
    FACT(FLAG, compiler_available),
    FACT(FLAG, fp16),
    FACT(FLAG, fp64),
};

static bool get_device(const struct ca_json_place *device, bool failed, clattn_device_info *info)
{
    static const char *const types[] = {"cpu", "gpu", "accelerator", "other", NULL};
    static const cl_device_type bits[] = {CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU,
                                          CL_DEVICE_TYPE_ACCELERATOR, 0};
    const struct ca_json_place name = ca_place_child(device, "name");
    size_t type = 0;

    if (!ca_place_object(device) ||
        !ca_place_fields(device, device_fields, sizeof device_fields / sizeof *device_fields,
                         info) ||
        !ca_place_word(device, "type", types, &type))
        return false;
    info->type = bits[type];
    return info->name[0] != '\0' || failed || ca_place_refuse(&name, "is empty");
}

/* What a complaint about a file is said by. */
static struct ca_json_reader reader_of(const char *file, struct message *why)
{
    return (struct ca_json_reader){.reason = why->text,
                                   .reason_bytes = sizeof why->text,
                                   .file = file,
                                   .clean = ca_make_printable};
}

bool results_device_read(const json_t *object, clattn_device_info *info, struct message *why)
{
    struct ca_json_reader reader = reader_of("", why);
    const struct ca_json_place device = {.value = object, .reader = &reader};

    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
    return get_device(&device, false, info);
}

static bool get_load(const struct ca_json_place *in, double load[3])
{
    const struct ca_json_place place = ca_place_child(in, "load");

    if (json_is_null(place.value))
        return true;
    if (!ca_place_array(&place, 3, 3))
        return false;
    for (size_t n = 0; n < 3; n++) {
        const struct ca_json_place average = ca_place_element(&place, n);
        if (!ca_place_number_here(&average, 0.0, &load[n]))
            return false;
    }
    return true;
}

static bool get_peaks(const struct ca_json_place *in, struct peak_samples *peaks)
{
    const struct ca_json_place place = ca_place_child(in, "peaks");

    if (!ca_place_object(&place))
        return false;
    for (enum peak_kind kind = 0; kind < NUM_PEAK_KINDS; kind++) {
        const struct peak_keys *keys = &peak_keys[kind];
        if (kind == PEAK_BF16 && json_object_get(place.value, keys->gflops) == NULL)
            continue; /* files of version 0.1.0's first months have no bf16 */
        if (!place_samples(&place, keys->gflops, CA_PLACE_POSITIVE, 1.0, &peaks->fma[kind]) ||
            !ca_place_text_or_null(&place, keys->form, peaks->form[kind], sizeof peaks->form[kind]))
            return false;
    }
    return place_samples(&place, "read_gbytes", CA_PLACE_POSITIVE, 1.0, &peaks->read) &&
           place_samples(&place, "copy_gbytes", CA_PLACE_POSITIVE, 1.0, &peaks->copy) &&
           ca_place_flag(&place, "exceeded", &peaks->exceeded);
}

static bool get_peers(const struct ca_json_place *in, struct device_run *run)
{
    const struct ca_json_place list = ca_place_child(in, "peers");

    if (!ca_place_array(&list, 0, RESULTS_MOST_PEERS))
        return false;
    for (size_t n = 0; n < json_array_size(list.value); n++) {
        const struct ca_json_place place = ca_place_element(&list, n);
        struct peer_note *peer = &run->peer[run->num_peers++];
        if (!ca_place_object(&place) ||
            !ca_place_text(&place, "name", peer->name, sizeof peer->name) ||
            !ca_place_text_or_null(&place, "version", peer->version, sizeof peer->version) ||
            !ca_place_text_or_null(&place, "method", peer->method, sizeof peer->method) ||
            !ca_place_text_or_null(&place, "missing", peer->missing.text,
                                   sizeof peer->missing.text))
            return false;
    }
    return true;
}

/* Null, and missing before clattn had them, where nothing is known. */
static bool get_parts(const struct ca_json_place *in, struct cold_start_parts *parts)
{
    const struct ca_json_place place = ca_place_child(in, "parts");

    if (place.value == NULL || json_is_null(place.value))
        return true;
    if (!ca_place_object(&place))
        return false;
    for (size_t n = 0; n < COLD_START_PARTS; n++) {
        if (!ca_place_number(&place, cold_start_part_keys[n], 0.0, &parts->seconds[n]))
            return false;
        parts->seconds[n] *= 1e-3;
    }
    return true;
}

static bool get_cold_start(const struct ca_json_place *in, struct outcome *outcome)
{
    const struct ca_json_place place = ca_place_child(in, "first_milliseconds");

    if (!ca_place_object(&place) ||
        !ca_place_number_or_null(&place, "source", 0.0, NAN, &outcome->cold_start_source) ||
        !ca_place_number_or_null(&place, "cache", 0.0, NAN, &outcome->cold_start_cache) ||
        !get_parts(&place, &outcome->cold_start_parts))
        return false;
    outcome->cold_start_source *= 1e-3;
    outcome->cold_start_cache *= 1e-3;
    return true;
}

static bool get_error(const struct ca_json_place *in, struct worst *worst)
{
    const struct ca_json_place place = ca_place_child(in, "error");

    if (json_is_null(place.value))
        return true;
    return ca_place_object(&place) &&
           ca_place_number_or_null(&place, "worst", 0.0, NAN, &worst->error) &&
           ca_place_number_or_null(&place, "bound", 0.0, NAN, &worst->bound) &&
           ca_place_number_or_null(&place, "ratio", 0.0, INFINITY, &worst->ratio) &&
           ca_place_count(&place, "results", 1, INT64_MAX, &worst->results);
}

/* A time belongs to results that were found to be right, and only to these. */
static bool check_state(const struct ca_json_place *place, const struct outcome *o)
{
    const struct ca_json_place times = ca_place_child(place, "milliseconds"),
                               error = ca_place_child(place, "error"),
                               why = ca_place_child(place, "why");
    const bool timed = o->state == OUTCOME_MEASURED || o->state == OUTCOME_LOOSE;

    if (timed != (o->seconds.count > 0))
        return ca_place_refuse(
            &times, timed ? "is null, but the state is '%s'" : "is not null, but the state is '%s'",
            outcome_state_name(o->state));
    if (timed && o->worst.results == 0)
        return ca_place_refuse(&error, "is null, but the state is '%s'",
                               outcome_state_name(o->state));
    if (o->state == OUTCOME_MEASURED && !worst_ok(&o->worst))
        return ca_place_refuse(&error, "is out of its bound, but the state is 'measured'");
    return timed || o->why.text[0] != '\0' ||
           ca_place_refuse(&why, "is empty, but the state is '%s'", outcome_state_name(o->state));
}

static bool get_outcome(const struct ca_json_place *place, struct outcome *o)
{
    static const char *const states[] = {"measured", "loose",  "unsupported",
                                         "wrong",    "failed", NULL};
    const struct ca_json_place times = ca_place_child(place, "milliseconds");
    double unused;
    size_t state = 0;

    if (!ca_place_object(place) ||
        !ca_place_text(place, "implementation", o->implementation, sizeof o->implementation) ||
        !ca_place_word(place, "state", states, &state) ||
        !ca_place_text_or_null(place, "why", o->why.text, sizeof o->why.text) ||
        !ca_place_copy(place, "configuration", true, &o->configuration) ||
        !place_samples(place, "milliseconds", CA_PLACE_POSITIVE, 1e-3, &o->seconds) ||
        !place_samples(place, "host_microseconds", 0.0, 1e-6, &o->host) ||
        !get_cold_start(place, o) || !ca_place_number_or_null(place, "gflops", 0.0, 0.0, &unused) ||
        !ca_place_number_or_null(place, "gbytes", 0.0, 0.0, &unused) ||
        !place_interval(place, "ratio", &o->ratio) || !get_error(place, &o->worst) ||
        !distributed_read(place, &o->distributed) || !outcome_state_find(states[state], &o->state))
        return false;
    return check_state(place, o) &&
           (o->seconds.count == 0 ||
            place_derived(&times, "minimum", samples_minimum(&o->seconds) * 1e3));
}

static bool get_outcomes(const struct ca_json_place *in, struct record *record)
{
    const struct ca_json_place list = ca_place_child(in, "implementations");

    if (!ca_place_array(&list, 1, RECORD_MOST_OUTCOMES))
        return false;
    for (size_t n = 0; n < json_array_size(list.value); n++) {
        const struct ca_json_place place = ca_place_element(&list, n),
                                   name = ca_place_child(&place, "implementation");
        struct outcome *outcome = &record->outcome[n];
        record->count++;
        if (!get_outcome(&place, outcome))
            return false;
        if (n == 0 && strcmp(outcome->implementation, "clattn") != 0)
            return ca_place_refuse(&name, "is '%s', but the first must be 'clattn'",
                                   outcome->implementation);
        for (size_t m = 0; m < n; m++)
            if (strcmp(outcome->implementation, record->outcome[m].implementation) == 0)
                return ca_place_refuse(&name, "is '%s' a second time", outcome->implementation);
    }
    return true;
}

/* Older files have none. */
static bool get_overhead(const struct ca_json_place *place, struct samples *overhead)
{
    static const char key[] = "overhead_microseconds";
    double microseconds = -1.0;

    if (json_object_get(place->value, key) != NULL &&
        !ca_place_number_or_null(place, key, 0.0, -1.0, &microseconds))
        return false;
    if (microseconds >= 0.0)
        samples_add(overhead, microseconds * 1e-6);
    return true;
}

static bool get_record(const struct ca_json_place *place, struct record *record)
{
    const char *const roofs[NUM_ROOFS + 1] = {roof_key(ROOF_FMA), roof_key(ROOF_READ),
                                              roof_key(ROOF_FMA_BF16)};
    static const char *const against[] = {"reference", "file", NULL};
    static const char *const origins[] = {"tuned",    "stale",  "nearest", "shipped", "untuned",
                                          "override", "forced", "steps",   "unknown", NULL};
    size_t roof = 0, judge = 0, unused;

    record->against = against[0];
    if (!ca_place_object(place) ||
        !ca_place_text(place, "name", record->name, sizeof record->name) ||
        !ca_place_copy(place, "problem", false, &record->problem) ||
        !ca_place_number(place, "flops", 0.0, &record->flops) ||
        !ca_place_number(place, "bytes", 0.0, &record->bytes) ||
        !ca_place_word(place, "roof", roofs, &roof) ||
        !ca_place_count(place, "copies", 1, 1000000, &record->copies) ||
        !ca_place_count(place, "workspace_bytes", 0, INT64_MAX, &record->workspace_bytes) ||
        !get_overhead(place, &record->overhead) ||
        !ca_place_word(place, "origin", origins, &unused) ||
        !ca_place_copy(place, "reason", true, &record->reason) ||
        !place_samples(place, "roof_share", CA_PLACE_POSITIVE, 1.0, &record->share) ||
        !ca_place_word(place, "against", against, &judge))
        return false;
    record->roof = (enum roof)roof;
    record->against = against[judge];
    return get_outcomes(place, record);
}

/* Null without MPI, and missing in files from before clattn had it. */
static bool get_ranks(const struct ca_json_place *in, struct device_run *run)
{
    const struct ca_json_place place = ca_place_child(in, "mpi");
    const struct ca_json_place list = ca_place_child(&place, "devices");

    if (place.value == NULL || json_is_null(place.value))
        return true;
    if (!ca_place_object(&place) || !ca_place_text(&place, "library", run->mpi, sizeof run->mpi) ||
        !ca_place_array(&list, 1, 1000000))
        return false;
    run->rank_devices = calloc(json_array_size(list.value), sizeof *run->rank_devices);
    if (run->rank_devices == NULL)
        return ca_place_refuse(&list, "has no room in memory");
    for (size_t n = 0; n < json_array_size(list.value); n++) {
        const struct ca_json_place name = ca_place_element(&list, n);
        struct rank_device *device = &run->rank_devices[run->ranks++];
        if (!json_is_string(name.value))
            return ca_place_refuse(&name, "is not a text");
        snprintf(device->name, sizeof device->name, "%s", json_string_value(name.value));
        ca_make_printable(device->name);
    }
    return true;
}

static bool get_records(const struct ca_json_place *in, struct device_run *run)
{
    const struct ca_json_place list = ca_place_child(in, "results");

    if (!ca_place_array(&list, 0, 100000))
        return false;
    const size_t count = json_array_size(list.value);
    run->records = calloc(count + 1, sizeof *run->records);
    if (run->records == NULL)
        return ca_json_say(in->reader, "no memory for %zu results", count);
    for (size_t n = 0; n < count; n++) {
        const struct ca_json_place place = ca_place_element(&list, n);
        if (!get_record(&place, &run->records[run->count++]))
            return false;
    }
    return true;
}

static bool get_device_run(const struct ca_json_place *place, struct device_run *run)
{
    const struct ca_json_place device = ca_place_child(place, "device");
    double unused;

    return ca_place_object(place) && ca_place_count(place, "index", 0, 1000000, &run->index) &&
           ca_place_text_or_null(place, "failed", run->failed.text, sizeof run->failed.text) &&
           get_device(&device, run->failed.text[0] != '\0', &run->info) &&
           ca_place_flag(place, "interrupted", &run->interrupted) && get_load(place, run->load) &&
           ca_place_number_or_null(place, "noise", 0.0, 0.0, &unused) &&
           get_peaks(place, &run->peaks) && get_peers(place, run) && get_ranks(place, run) &&
           get_records(place, run);
}

static bool get_devices(const struct ca_json_place *in, struct run_results *results)
{
    const struct ca_json_place list = ca_place_child(in, "devices");

    if (!ca_place_array(&list, 0, 1000))
        return false;
    for (size_t n = 0; n < json_array_size(list.value); n++) {
        const struct ca_json_place place = ca_place_element(&list, n);
        struct device_run *run = results_add(results);
        if (run == NULL)
            return ca_json_say(in->reader, "no memory for %zu devices", n + 1);
        if (!get_device_run(&place, run))
            return false;
    }
    return true;
}

static bool check_schema(const struct ca_json_place *root)
{
    const struct ca_json_place schema = ca_place_child(root, "schema");
    const char *name = json_string_value(schema.value);

    if (name == NULL)
        return ca_place_refuse(&schema, "is not a text");
    if (strcmp(name, "clattn-bench-run-1") == 0)
        return ca_place_refuse(
            &schema, "is '%s', which is too old: measure again with this clattn-bench", name);
    return strcmp(name, RESULTS_SCHEMA) == 0 ||
           ca_place_refuse(&schema, "is '%.40s', but '%s' is expected", name, RESULTS_SCHEMA);
}

/* "2026-11-21T09:30:00Z" */
static bool get_date(const struct ca_json_place *root, struct run_results *results)
{
    static const char form[] = "0000-00-00T00:00:00Z";
    const struct ca_json_place place = ca_place_child(root, "date");

    if (!ca_place_text(root, "date", results->date, sizeof results->date))
        return false;
    bool ok = strlen(results->date) == strlen(form);
    for (size_t n = 0; ok && form[n] != '\0'; n++)
        ok = form[n] == '0' ? results->date[n] >= '0' && results->date[n] <= '9'
                            : results->date[n] == form[n];
    return ok || ca_place_refuse(&place, "is '%s', not like 2026-11-21T09:30:00Z", results->date);
}

static bool get_document(const struct ca_json_place *root, struct run_results *results)
{
    static const struct ca_json_field host_fields[] = {
        {"processor", CA_JSON_NAME, offsetof(struct run_results, processor),
         sizeof results->processor},
        {"system", CA_JSON_NAME, offsetof(struct run_results, system), sizeof results->system},
        {"processors", CA_JSON_UNSIGNED, offsetof(struct run_results, processors), 0},
    };
    const struct ca_json_place host = ca_place_child(root, "host");

    return ca_place_object(root) && check_schema(root) && get_date(root, results) &&
           ca_place_text(root, "clattn", results->clattn, sizeof results->clattn) &&
           ca_place_object(&host) &&
           ca_place_fields(&host, host_fields, sizeof host_fields / sizeof *host_fields, results) &&
           get_devices(root, results);
}

bool results_from_json(const char *path, const json_t *document, struct run_results *results,
                       struct message *why)
{
    struct ca_json_reader reader = reader_of(path, why);
    const struct ca_json_place root = {.value = document, .reader = &reader};

    memset(results, 0, sizeof *results);
    snprintf(results->path, sizeof results->path, "%s", path);
    if (get_document(&root, results))
        return true;
    results_free(results);
    return false;
}

bool results_read(const char *path, struct run_results *results, struct message *why)
{
    struct ca_json_reader reader = reader_of(path, why);
    json_error_t error = {.text = ""};

    memset(results, 0, sizeof *results);
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        return message_set(why, "%.300s: cannot be read: %s", path, strerror(errno));
    json_t *document = json_loadf(stream, JSON_REJECT_DUPLICATES, &error);
    const bool unreadable = ferror(stream) != 0;
    const int reason = errno;
    fclose(stream);
    if (unreadable) {
        json_decref(document);
        return message_set(why, "%.300s: cannot be read: %s", path, strerror(reason));
    }
    if (document == NULL) {
        ca_json_unparsed(&reader, &error);
        return false;
    }
    const bool ok = results_from_json(path, document, results, why);
    json_decref(document);
    return ok;
}

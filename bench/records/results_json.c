/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON form of results. Each function describes a struct, which is written and read alike. */
#include "bench/records/archive.h"
#include "bench/records/results.h"
#include "os/clock.h"
#include "os/host.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- devices --------------------------------------------------------------------------------- */

#define FACT(kind, key, member)                                                                    \
    {                                                                                              \
        key, CA_JSON_##kind, offsetof(clattn_device_info, member),                                 \
            sizeof(((clattn_device_info *)0)->member)                                              \
    }

static const struct ca_json_field facts[] = {
    FACT(NAME, "name", name),
    FACT(NAME, "vendor", vendor),
    FACT(NAME, "driver", driver_version),
    FACT(NAME, "version", device_version),
    FACT(NAME, "platform", platform_name),
    FACT(NAME, "platform_version", platform_version),
    FACT(UNSIGNED, "opencl_version", opencl_version),
    FACT(UNSIGNED, "opencl_c_version", opencl_c_version),
    FACT(UNSIGNED, "compute_units", compute_units),
    FACT(UNSIGNED, "address_bits", address_bits),
    FACT(UNSIGNED, "vector_width_float", vector_width_float),
    FACT(SIZE, "max_work_group_size", max_work_group_size),
    FACT(BYTES, "local_memory_bytes", local_memory_bytes),
    FACT(BYTES, "global_memory_bytes", global_memory_bytes),
    FACT(BYTES, "max_allocation_bytes", max_allocation_bytes),
    FACT(FLAG, "local_memory_dedicated", local_memory_dedicated),
    FACT(FLAG, "compiler_available", compiler_available),
    FACT(FLAG, "fp16", fp16),
    FACT(FLAG, "fp64", fp64),
};

static bool describe_info(struct archive *a, void *what)
{
    static const char *const words[] = {"cpu", "gpu", "accelerator", "other", NULL};
    static const cl_device_type types[] = {CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU,
                                           CL_DEVICE_TYPE_ACCELERATOR, 0};
    clattn_device_info *info = what;
    size_t type = 0;

    while (strcmp(words[type], target_type_name(info->type)) != 0)
        type++;
    if (!archive_word(a, "type", words, &type) ||
        !archive_fields(a, facts, sizeof facts / sizeof *facts, info))
        return false;
    info->type = types[type];
    return true;
}

json_t *results_device(const clattn_device_info *info)
{
    clattn_device_info copy = *info;

    return archive_json(describe_info, &copy);
}

static bool check_name(const struct ca_json_place *device, const clattn_device_info *info)
{
    const struct ca_json_place name = ca_place_child(device, "name");

    return info->name[0] != '\0' || ca_place_refuse(&name, "is empty");
}

struct ca_json_reader results_reader(const char *file, struct message *why)
{
    return (struct ca_json_reader){.reason = why->text,
                                   .reason_bytes = sizeof why->text,
                                   .file = file,
                                   .clean = ca_make_printable};
}

bool results_device_read(const json_t *object, clattn_device_info *info, struct message *why)
{
    struct ca_json_reader reader = results_reader("", why);
    struct ca_json *read = message_read(object);
    const struct ca_json_place device = {.value = read, .reader = &reader};
    struct archive a = {.from = &device};

    *info = (clattn_device_info){.struct_size = sizeof *info};
    const bool ok =
        ca_place_object(&device) && describe_info(&a, info) && check_name(&device, info);
    ca_json_free(read);
    return ok;
}

/* ---- implementations ------------------------------------------------------------------------- */

static bool describe_parts(struct archive *a, void *what)
{
    struct cold_start_parts *parts = what;
    bool ok = true;

    for (size_t n = 0; ok && n < COLD_START_PARTS; n++)
        ok = archive_number(a, cold_start_part_keys[n], 1e-3, &parts->seconds[n]);
    return ok;
}

json_t *results_compiling(const struct cold_start_parts *parts)
{
    struct cold_start_parts copy = *parts;

    return archive_json(describe_parts, &copy);
}

static bool describe_cold_start(struct archive *a, void *what)
{
    struct outcome *o = what;
    double compiling = 0.0;

    for (size_t n = 0; n < COLD_START_PARTS; n++)
        compiling += o->cold_start_parts.seconds[n];
    return archive_number_or_null(a, "source", 1e-3, NAN, &o->cold_start_source) &&
           archive_number_or_null(a, "cache", 1e-3, NAN, &o->cold_start_cache) &&
           (archive_lacks(a, "parts") ||
            archive_object_or_null(a, "parts", compiling > 0.0, describe_parts,
                                   &o->cold_start_parts));
}

static bool describe_error(struct archive *a, void *what)
{
    struct worst *worst = what;

    return archive_number_or_null(a, "worst", 1.0, NAN, &worst->error) &&
           archive_number_or_null(a, "bound", 1.0, NAN, &worst->bound) &&
           archive_number_or_null(a, "ratio", 1.0, INFINITY, &worst->ratio) &&
           archive_size(a, "results", 1, INT64_MAX, &worst->results);
}

json_t *results_error(const struct worst *worst, const char *against)
{
    struct worst copy = *worst;
    json_t *error = archive_json(describe_error, &copy);

    json_object_set_new(error, "against", json_string(against));
    return error;
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

/* clattn is the first, and each is there once. */
static bool check_implementation(const struct ca_json_place *place, const struct record *record,
                                 size_t n)
{
    const struct ca_json_place name = ca_place_child(place, "implementation");
    const char *text = record->outcome[n].implementation;

    if (n == 0 && strcmp(text, "clattn") != 0)
        return ca_place_refuse(&name, "is '%s', but the first must be 'clattn'", text);
    for (size_t m = 0; m < n; m++)
        if (strcmp(text, record->outcome[m].implementation) == 0)
            return ca_place_refuse(&name, "is '%s' a second time", text);
    return true;
}

static bool describe_outcome(struct archive *a, void *owner, size_t n)
{
    struct record *record = owner;
    struct outcome *o = &record->outcome[n];
    const double seconds = outcome_timed(o) ? samples_median(&o->seconds) : NAN;
    size_t state = o->state;

    if (!archive_chars(a, "implementation", o->implementation, sizeof o->implementation) ||
        !archive_word(a, "state", outcome_state_words, &state) ||
        !archive_chars_or_null(a, "why", o->why.text, sizeof o->why.text) ||
        !archive_text_or_null(a, "configuration", &o->configuration) ||
        !archive_times(a, "milliseconds", 1e-3, &o->seconds) ||
        !archive_samples(a, "host_microseconds", 0.0, 1e-6, &o->host) ||
        !archive_object(a, "first_milliseconds", describe_cold_start, o) ||
        !archive_derived(a, "gflops", record_flops(record, o) / seconds * 1e-9) ||
        !archive_derived(a, "gbytes", record_bytes(record, o) / seconds * 1e-9) ||
        !archive_interval(a, "ratio", &o->ratio) ||
        !archive_object_or_null(a, "error", o->worst.results > 0, describe_error, &o->worst) ||
        !distributed_describe(a, "mpi", &o->distributed))
        return false;
    o->state = (enum outcome_state)state;
    return a->from == NULL || (check_state(a->from, o) && check_implementation(a->from, record, n));
}

/* ---- problems -------------------------------------------------------------------------------- */

/* It follows from the reason. */
static bool describe_origin(struct archive *a, const char *reason)
{
    size_t unused;

    return a->from == NULL
               ? archive_put(a, "origin", json_string(record_origin(reason != NULL ? reason : "")))
               : ca_place_word(a->from, "origin", record_origin_words, &unused);
}

static bool describe_record(struct archive *a, void *owner, size_t n)
{
    static const char *const sources[] = {"reference", "file", NULL};
    struct device_run *run = owner;
    struct record *r = &run->records[n];
    size_t roof = r->roof, from_file = r->from_file;

    if (!archive_chars(a, "name", r->name, sizeof r->name) ||
        !archive_text(a, "problem", &r->problem) || !archive_counted(a, "flops", &r->flops) ||
        !archive_counted(a, "bytes", &r->bytes) || !archive_word(a, "roof", roof_keys, &roof) ||
        !archive_size(a, "copies", 1, 1000000, &r->copies) ||
        !archive_size(a, "workspace_bytes", 0, INT64_MAX, &r->workspace_bytes))
        return false;
    if (archive_lacks(a, "overhead_microseconds"))
        r->overhead = NAN;
    else if (!archive_number_or_null(a, "overhead_microseconds", 1e-6, NAN, &r->overhead))
        return false;
    if (!describe_origin(a, r->reason) || !archive_text_or_null(a, "reason", &r->reason) ||
        !archive_samples(a, "roof_share", CA_PLACE_POSITIVE, 1.0, &r->share) ||
        !archive_word(a, "against", sources, &from_file))
        return false;
    r->roof = (enum roof)roof;
    r->from_file = from_file != 0;
    return archive_list(a, "implementations", 1, RECORD_MOST_OUTCOMES, &r->count, NULL,
                        describe_outcome, r);
}

static bool room_for_records(void *owner, size_t count)
{
    struct device_run *run = owner;

    run->records = calloc(count + 1, sizeof *run->records);
    return run->records != NULL;
}

/* ---- runs of devices ------------------------------------------------------------------------- */

/* The three load averages of Linux; null elsewhere. */
static bool describe_load(struct archive *a, double load[3])
{
    const bool known = isfinite(load[0]) && isfinite(load[1]) && isfinite(load[2]);

    if (a->from == NULL && !known)
        return archive_put(a, "load", json_null());
    return (a->from != NULL && ca_json_is(ca_json_get(a->from->value, "load"), CA_JSON_NULL)) ||
           archive_numbers(a, "load", 1.0, load, sizeof *load, 3);
}

static bool describe_peak(struct archive *a, const char *gflops, const char *form,
                          struct peak_samples *peaks, enum peak_kind kind)
{
    return archive_samples(a, gflops, CA_PLACE_POSITIVE, 1.0, &peaks->fma[kind]) &&
           archive_chars_or_null(a, form, peaks->form[kind], sizeof peaks->form[kind]);
}

static bool describe_peaks(struct archive *a, void *what)
{
    struct peak_samples *peaks = what;

    return describe_peak(a, "fma_gflops", "fma_form", peaks, PEAK_F32) &&
           describe_peak(a, "fma_half_gflops", "fma_half_form", peaks, PEAK_F16) &&
           (archive_lacks(a, "fma_bf16_gflops") ||
            describe_peak(a, "fma_bf16_gflops", "fma_bf16_form", peaks, PEAK_BF16)) &&
           archive_samples(a, "read_gbytes", CA_PLACE_POSITIVE, 1.0, &peaks->read) &&
           archive_samples(a, "copy_gbytes", CA_PLACE_POSITIVE, 1.0, &peaks->copy) &&
           archive_flag(a, "exceeded", &peaks->exceeded);
}

static bool describe_peer(struct archive *a, void *owner, size_t n)
{
    struct device_run *run = owner;
    struct peer_note *peer = &run->peer[n];

    return archive_chars(a, "name", peer->name, sizeof peer->name) &&
           archive_chars_or_null(a, "version", peer->version, sizeof peer->version) &&
           archive_chars_or_null(a, "method", peer->method, sizeof peer->method) &&
           archive_chars_or_null(a, "missing", peer->missing.text, sizeof peer->missing.text);
}

static json_t *rank_devices_json(const struct device_run *run)
{
    json_t *list = json_array();

    for (size_t n = 0; n < run->ranks; n++)
        json_array_append_new(list, message_json(run->rank_devices[n].name));
    return list;
}

static bool describe_ranks(struct archive *a, void *what)
{
    struct device_run *run = what;

    if (!archive_chars(a, "library", run->mpi, sizeof run->mpi))
        return false;
    if (a->from == NULL)
        return archive_put(a, "devices", rank_devices_json(run));
    const struct ca_json_place list = ca_place_child(a->from, "devices");
    if (!ca_place_array(&list, 1, DISTRIBUTED_MOST_RANKS))
        return false;
    run->rank_devices = calloc(ca_json_size(list.value), sizeof *run->rank_devices);
    if (run->rank_devices == NULL)
        return ca_place_refuse(&list, "has no room in memory");
    for (size_t n = 0; n < ca_json_size(list.value); n++) {
        const struct ca_json_place name = ca_place_element(&list, n);
        struct rank_device *device = &run->rank_devices[run->ranks++];
        if (!ca_json_is(name.value, CA_JSON_STRING))
            return ca_place_refuse(&name, "is not a text");
        snprintf(device->name, sizeof device->name, "%s", ca_json_text(name.value));
        ca_make_printable(device->name);
    }
    return true;
}

static bool describe_run(struct archive *a, void *owner, size_t n)
{
    struct run_results *results = owner;
    struct device_run *run = &results->devices[n];

    if (!archive_size(a, "index", 0, 1000000, &run->index) ||
        !archive_object(a, "device", describe_info, &run->info) ||
        !archive_chars_or_null(a, "failed", run->failed.text, sizeof run->failed.text) ||
        !archive_flag(a, "interrupted", &run->interrupted) || !describe_load(a, run->load) ||
        !archive_derived(a, "noise", device_run_noise(run)) ||
        !archive_object(a, "peaks", describe_peaks, &run->peaks) ||
        !archive_list(a, "peers", 0, RESULTS_MOST_PEERS, &run->num_peers, NULL, describe_peer,
                      run) ||
        !(archive_lacks(a, "mpi") ||
          archive_object_or_null(a, "mpi", run->ranks > 0, describe_ranks, run)) ||
        !archive_list(a, "results", 0, 100000, &run->count, room_for_records, describe_record, run))
        return false;
    if (a->from == NULL || run->failed.text[0] != '\0')
        return true;
    const struct ca_json_place device = ca_place_child(a->from, "device");
    return check_name(&device, &run->info);
}

static bool room_for_devices(void *owner, size_t count)
{
    struct run_results *results = owner;

    while (results->count < count)
        if (results_add(results) == NULL)
            return false;
    return true;
}

/* ---- documents ------------------------------------------------------------------------------- */

static bool describe_schema(struct archive *a)
{
    if (a->from == NULL)
        return archive_put(a, "schema", json_string(RESULTS_SCHEMA));
    const struct ca_json_place schema = ca_place_child(a->from, "schema");
    const char *name = ca_json_text(schema.value);
    if (name == NULL)
        return ca_place_refuse(&schema, "is not a text");
    if (strcmp(name, "clattn-bench-run-1") == 0)
        return ca_place_refuse(
            &schema, "is '%s', which is too old: measure again with this clattn-bench", name);
    return strcmp(name, RESULTS_SCHEMA) == 0 ||
           ca_place_refuse(&schema, "is '%.40s', but '%s' is expected", name, RESULTS_SCHEMA);
}

/* "2026-11-21T09:30:00Z" */
static bool describe_date(struct archive *a, char *date, size_t bytes)
{
    static const char form[] = "0000-00-00T00:00:00Z";

    if (!archive_chars(a, "date", date, bytes))
        return false;
    bool ok = strlen(date) == strlen(form);
    for (size_t n = 0; ok && form[n] != '\0'; n++)
        ok = form[n] == '0' ? date[n] >= '0' && date[n] <= '9' : date[n] == form[n];
    if (ok || a->from == NULL)
        return true;
    const struct ca_json_place place = ca_place_child(a->from, "date");
    return ca_place_refuse(&place, "is '%s', not like 2026-11-21T09:30:00Z", date);
}

static bool describe_host(struct archive *a, void *what)
{
    struct run_results *results = what;
    size_t processors = results->processors;

    if (!archive_chars(a, "processor", results->processor, sizeof results->processor) ||
        !archive_size(a, "processors", 0, 1000000000, &processors) ||
        !archive_chars(a, "system", results->system, sizeof results->system))
        return false;
    results->processors = (unsigned)processors;
    return true;
}

static bool describe_document(struct archive *a, void *what)
{
    struct run_results *results = what;

    return describe_schema(a) && describe_date(a, results->date, sizeof results->date) &&
           archive_chars(a, "clattn", results->clattn, sizeof results->clattn) &&
           archive_object(a, "host", describe_host, results) &&
           archive_list(a, "devices", 0, 1000, &results->count, room_for_devices, describe_run,
                        results);
}

bool results_parse(const char *path, const char *text, size_t bytes, struct run_results *results,
                   struct message *why)
{
    struct ca_json_reader reader = results_reader(path, why);
    struct ca_json_error error;
    struct ca_json *document = ca_json_read(text, bytes, &error);
    const struct ca_json_place root = {.value = document, .reader = &reader};
    struct archive a = {.from = &root};

    memset(results, 0, sizeof *results);
    if (document == NULL) {
        ca_json_unparsed(&reader, &error);
        return false;
    }
    snprintf(results->path, sizeof results->path, "%s", path);
    const bool ok = ca_place_object(&root) && describe_document(&a, results);
    if (!ok)
        results_free(results);
    ca_json_free(document);
    return ok;
}

bool results_write(const char *path, const struct run_results *results, struct message *why)
{
    struct run_results same = *results; /* a copy that is not const; writing does not change it */

    return results_dump(path, archive_json(describe_document, &same), why);
}

json_t *results_new(const char *schema, const struct target *target)
{
    struct archive a = {
        .to = json_pack("{s:s, s:s}", "schema", schema, "clattn", clattn_version_string())};
    char date[32];
    double load[3];

    ca_host_load(load);
    ca_utc_print(time(NULL), CA_UTC_ISO, date, sizeof date);
    archive_put(&a, "date", json_string(date));
    archive_put(&a, "device", results_device(target->info));
    describe_load(&a, load);
    return a.to;
}

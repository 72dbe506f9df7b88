/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/place.h"
#include "bench/records/results.h"
#include "internal.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/host.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Samples vary in their third digit. */
#define FORMAT (JSON_INDENT(1) | JSON_REAL_PRECISION(9))

/* null for "", which says that there is none. */
static json_t *text_or_null(const char *raw)
{
    return raw != NULL && raw[0] != '\0' ? message_json(raw) : json_null();
}

json_t *results_device(const clattn_device_info *info)
{
    return json_pack(
        "{s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, "
        "s:I, s:b, s:b, s:b, s:b}",
        "name", message_json(info->name), "vendor", message_json(info->vendor), "type",
        target_type_name(info->type), "driver", message_json(info->driver_version), "version",
        message_json(info->device_version), "platform", message_json(info->platform_name),
        "platform_version", message_json(info->platform_version), "opencl_version",
        (int)info->opencl_version, "opencl_c_version", (int)info->opencl_c_version, "compute_units",
        (int)info->compute_units, "address_bits", (int)info->address_bits, "vector_width_float",
        (int)info->vector_width_float, "max_work_group_size", (json_int_t)info->max_work_group_size,
        "local_memory_bytes", (json_int_t)info->local_memory_bytes, "global_memory_bytes",
        (json_int_t)info->global_memory_bytes, "max_allocation_bytes",
        (json_int_t)info->max_allocation_bytes, "local_memory_dedicated",
        info->local_memory_dedicated != 0, "compiler_available", info->compiler_available != 0,
        "fp16", info->fp16 != 0, "fp64", info->fp64 != 0);
}

/* Takes both; NULL if either is. */
static json_t *append(json_t *array, json_t *item)
{
    if (json_array_append_new(array, item) == 0)
        return array;
    json_decref(array);
    return NULL;
}

/* null where JSON has no such number. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Something counted, without losing a digit. */
static json_t *count_of(double value)
{
    const bool exact = fabs(value) < 0x1p53 && value == floor(value);

    return exact ? json_integer((json_int_t)value) : number(value);
}

static json_t *numbers(const struct samples *samples, double unit)
{
    json_t *array = json_array();

    for (size_t n = 0; n < samples->count; n++)
        array = append(array, number(samples->value[n] * unit));
    return array;
}

json_t *results_milliseconds(const struct samples *seconds)
{
    return json_pack("{s:o, s:o, s:o}", "median", number(samples_median(seconds) * 1e3), "minimum",
                     number(samples_minimum(seconds) * 1e3), "samples", numbers(seconds, 1e3));
}

static json_t *make_error(const struct worst *worst)
{
    return json_pack("{s:o, s:o, s:o, s:I}", "worst", number(worst->error), "bound",
                     number(worst->bound), "ratio", number(worst->ratio), "results",
                     (json_int_t)worst->results);
}

json_t *results_error(const struct worst *worst, const char *against)
{
    json_t *error = make_error(worst);

    json_object_set_new(error, "against", json_string(against));
    return error;
}

/* The three load averages of Linux; null elsewhere. */
static json_t *make_load(const double load[3])
{
    const bool known = isfinite(load[0]) && isfinite(load[1]) && isfinite(load[2]);

    return known ? json_pack("[f, f, f]", load[0], load[1], load[2]) : json_null();
}

json_t *results_new(const char *schema, const struct target *target)
{
    char date[32];
    double load[3];

    ca_host_load(load);
    ca_utc_print(time(NULL), CA_UTC_ISO, date, sizeof date);
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "schema", schema, "date", date, "clattn",
                     clattn_version_string(), "device", results_device(target->info), "load",
                     make_load(load));
}

static bool dump(FILE *stream, const json_t *object)
{
    return json_dumpf(object, stream, FORMAT) == 0 && putc('\n', stream) != EOF &&
           fflush(stream) == 0;
}

/* A file that is there stays whole until the new one is. */
static bool replace(const char *path, const json_t *object)
{
    char *text = json_dumps(object, FORMAT);

    if (text == NULL)
        errno = ENOMEM;
    const bool ok =
        text != NULL && ca_disk_write(path, text, strlen(text), "\n", 1,
                                      CA_DISK_SHARED | CA_DISK_DURABLE | CA_DISK_NO_FOLDER);
    const int reason = errno;
    free(text);
    errno = reason;
    return ok;
}

/* Pipes, terminals and links are written through: to replace them is not what was meant. */
static bool write_through(const char *path, const json_t *object)
{
    FILE *stream = fopen(path, "w");
    const bool ok = stream != NULL && dump(stream, object);

    return (stream == NULL || fclose(stream) == 0) && ok;
}

bool results_dump(const char *path, json_t *object, struct message *why)
{
    struct ca_file_facts facts;
    bool ok;

    if (object == NULL)
        return message_set(why, "%.300s: no memory for the results", path);
    if (strcmp(path, "-") == 0)
        ok = dump(stdout, object);
    else if (ca_file_find(CA_NO_FILE, path, &facts) && facts.kind != CA_FILE_REGULAR)
        ok = write_through(path, object);
    else
        ok = replace(path, object);
    if (!ok)
        message_set(why, "%.300s: the results cannot be written: %s", path, strerror(errno));
    json_decref(object);
    return ok;
}

static json_t *make_times(const struct outcome *o)
{
    return outcome_timed(o) ? results_milliseconds(&o->seconds) : json_null();
}

static json_t *make_host(const struct outcome *o)
{
    if (!outcome_timed(o) || o->host.count == 0)
        return json_null();
    return json_pack("{s:o, s:o}", "median", number(samples_median(&o->host) * 1e6), "samples",
                     numbers(&o->host, 1e6));
}

/* Work done in the median time, in units of 10^9 a second. */
static json_t *make_rate(const struct outcome *o, double work)
{
    return outcome_timed(o) ? number(work / samples_median(&o->seconds) * 1e-9) : json_null();
}

static json_t *make_parts(const struct cold_start_parts *parts)
{
    double sum = 0.0;

    for (size_t n = 0; n < COLD_START_PARTS; n++)
        sum += parts->seconds[n];
    if (sum == 0.0)
        return json_null();
    json_t *object = json_object();
    for (size_t n = 0; n < COLD_START_PARTS; n++)
        json_object_set_new(object, cold_start_part_keys[n], number(parts->seconds[n] * 1e3));
    return object;
}

static json_t *make_outcome(const struct record *r, const struct outcome *o)
{
    const bool compared = outcome_timed(o) && o->ratio.middle > 0.0 && isfinite(o->ratio.high);

    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o}, s:o, s:o, s:o, s:o, s:o}",
                     "implementation", message_json(o->implementation), "state",
                     outcome_state_name(o->state), "why", text_or_null(o->why.text),
                     "configuration", text_or_null(o->configuration), "milliseconds", make_times(o),
                     "host_microseconds", make_host(o), "first_milliseconds", "source",
                     number(o->cold_start_source * 1e3), "cache", number(o->cold_start_cache * 1e3),
                     "parts", make_parts(&o->cold_start_parts), "gflops",
                     make_rate(o, record_flops(r, o)), "gbytes", make_rate(o, record_bytes(r, o)),
                     "ratio", compared ? place_interval_json(&o->ratio) : json_null(), "error",
                     o->worst.results > 0 ? make_error(&o->worst) : json_null(), "mpi",
                     o->distributed != NULL ? distributed_json(o->distributed) : json_null());
}

/* Of a peak or a share; null where nothing was measured. */
static json_t *make_samples(const struct samples *samples)
{
    if (samples->count == 0)
        return json_null();
    return json_pack("{s:o, s:o}", "median", number(samples_median(samples)), "samples",
                     numbers(samples, 1.0));
}

static json_t *make_record(const struct record *r)
{
    json_t *outcomes = json_array();

    for (size_t n = 0; n < r->count; n++)
        outcomes = append(outcomes, make_outcome(r, &r->outcome[n]));
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:s, s:I, s:I, s:o, s:s, s:o, s:o, s:s, s:o}", "name",
        message_json(r->name), "problem", message_json(r->problem), "flops", count_of(r->flops),
        "bytes", count_of(r->bytes), "roof", roof_key(r->roof), "copies", (json_int_t)r->copies,
        "workspace_bytes", (json_int_t)r->workspace_bytes, "overhead_microseconds",
        r->overhead.count > 0 ? number(samples_median(&r->overhead) * 1e6) : json_null(), "origin",
        record_origin(r->reason != NULL ? r->reason : ""), "reason", text_or_null(r->reason),
        "roof_share", make_samples(&r->share), "against", r->against, "implementations", outcomes);
}

static json_t *make_peaks(const struct peak_samples *p)
{
    json_t *peaks = json_object();

    for (enum peak_kind kind = 0; kind < NUM_PEAK_KINDS; kind++) {
        json_object_set_new(peaks, peak_keys[kind].gflops, make_samples(&p->fma[kind]));
        json_object_set_new(peaks, peak_keys[kind].form, text_or_null(p->form[kind]));
    }
    json_object_set_new(peaks, "read_gbytes", make_samples(&p->read));
    json_object_set_new(peaks, "copy_gbytes", make_samples(&p->copy));
    json_object_set_new(peaks, "exceeded", json_boolean(p->exceeded));
    return peaks;
}

static json_t *make_peers(const struct device_run *run)
{
    json_t *peers = json_array();

    for (size_t n = 0; n < run->num_peers; n++) {
        const struct peer_note *peer = &run->peer[n];
        peers = append(peers, json_pack("{s:o, s:o, s:o, s:o}", "name", message_json(peer->name),
                                        "version", text_or_null(peer->version), "method",
                                        text_or_null(peer->method), "missing",
                                        text_or_null(peer->missing.text)));
    }
    return peers;
}

/* The ranks of a run by MPI. */
static json_t *make_ranks(const struct device_run *run)
{
    json_t *devices = json_array();

    for (size_t n = 0; n < run->ranks; n++)
        devices = append(devices, message_json(run->rank_devices[n].name));
    return json_pack("{s:o, s:o}", "library", message_json(run->mpi), "devices", devices);
}

static json_t *make_device_run(const struct device_run *run)
{
    json_t *records = json_array();

    for (size_t n = 0; n < run->count; n++)
        records = append(records, make_record(&run->records[n]));
    return json_pack("{s:I, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "index",
                     (json_int_t)run->index, "device", results_device(&run->info), "failed",
                     text_or_null(run->failed.text), "interrupted", run->interrupted, "load",
                     make_load(run->load), "noise", number(device_run_noise(run)), "peaks",
                     make_peaks(&run->peaks), "peers", make_peers(run), "mpi",
                     run->ranks > 0 ? make_ranks(run) : json_null(), "results", records);
}

bool results_write(const char *path, const struct run_results *results, struct message *why)
{
    json_t *devices = json_array();

    for (size_t n = 0; n < results->count; n++)
        devices = append(devices, make_device_run(&results->devices[n]));
    return results_dump(path,
                        json_pack("{s:s, s:s, s:s, s:{s:o, s:i, s:o}, s:o}", "schema",
                                  RESULTS_SCHEMA, "date", results->date, "clattn", results->clattn,
                                  "host", "processor", message_json(results->processor),
                                  "processors", (int)results->processors, "system",
                                  message_json(results->system), "devices", devices),
                        why);
}

#include "results.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

json_t *results_device(const clattn_device_info *info)
{
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, "
        "s:I, s:b, s:b, s:b, s:b}",
        "name", info->name, "vendor", info->vendor, "type", target_type_name(info->type), "driver",
        info->driver_version, "version", info->device_version, "platform", info->platform_name,
        "platform_version", info->platform_version, "opencl_version", (int)info->opencl_version,
        "opencl_c_version", (int)info->opencl_c_version, "compute_units", (int)info->compute_units,
        "address_bits", (int)info->address_bits, "vector_width_float",
        (int)info->vector_width_float, "max_work_group_size", (json_int_t)info->max_work_group_size,
        "local_memory_bytes", (json_int_t)info->local_memory_bytes, "global_memory_bytes",
        (json_int_t)info->global_memory_bytes, "max_allocation_bytes",
        (json_int_t)info->max_allocation_bytes, "local_memory_dedicated",
        info->local_memory_dedicated != 0, "compiler_available", info->compiler_available != 0,
        "fp16", info->fp16 != 0, "fp64", info->fp64 != 0);
}

/* null where JSON has no such number. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *numbers(const struct samples *samples, double unit)
{
    json_t *array = json_array();

    for (size_t n = 0; n < samples->count; n++)
        json_array_append_new(array, number(samples->value[n] * unit));
    return array;
}

json_t *results_milliseconds(const struct samples *seconds)
{
    return json_pack("{s:o, s:o, s:o}", "median", number(samples_median(seconds) * 1e3), "minimum",
                     number(samples_minimum(seconds) * 1e3), "samples", numbers(seconds, 1e3));
}

json_t *results_ratio(const struct ca_interval *ratio)
{
    return json_pack("{s:o, s:o, s:o}", "median", number(ratio->middle), "low", number(ratio->low),
                     "high", number(ratio->high));
}

json_t *results_error(const struct worst *worst, const char *against)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:I}", "against", against, "worst", number(worst->error),
                     "bound", number(worst->bound), "ratio", number(worst->ratio), "results",
                     (json_int_t)worst->results);
}

/* The three load averages of Linux; null elsewhere. */
static json_t *make_load(void)
{
    FILE *stream = fopen("/proc/loadavg", "r");
    double load[3];

    if (stream == NULL)
        return json_null();
    const int count = fscanf(stream, "%lf %lf %lf", &load[0], &load[1], &load[2]);
    fclose(stream);
    return count == 3 ? json_pack("[f, f, f]", load[0], load[1], load[2]) : json_null();
}

json_t *results_new(const char *schema, const struct target *target)
{
    const time_t now = time(NULL);
    char date[32];

    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "schema", schema, "date", date, "clattn",
                     clattn_version_string(), "device", results_device(target->info), "load",
                     make_load());
}

bool results_dump(const char *path, json_t *object, struct message *why)
{
    int failed = object == NULL;

    if (!failed && strcmp(path, "-") == 0)
        failed = json_dumpf(object, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0 ||
                 putchar('\n') == EOF;
    else if (!failed)
        failed = json_dump_file(object, path, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0;
    json_decref(object);
    return !failed || message_set(why, "%s: the results cannot be written", path);
}

/* What the untuned choice came to; null if it was not asked for. */
static json_t *make_untuned(const struct record *r)
{
    if (r->untuned == NULL)
        return json_null();
    const bool measured = r->untuned_seconds.count > 0;
    return json_pack("{s:s, s:o, s:o}", "configuration", r->untuned, "milliseconds",
                     measured ? results_milliseconds(&r->untuned_seconds) : json_null(), "error",
                     measured ? results_error(&r->untuned_worst, r->against) : json_null());
}

static json_t *make_record(const struct record *r)
{
    const double seconds = samples_median(&r->seconds);

    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "name",
        r->name, "problem", r->problem, "configuration", r->configuration, "family", r->family,
        "tunables", r->tunables, "origin", record_origin(r->reason), "reason", r->reason,
        "workspace_bytes", (json_int_t)r->workspace_bytes, "flops", number(r->flops),
        "milliseconds", results_milliseconds(&r->seconds), "gflops",
        number(seconds > 0.0 ? r->flops / seconds * 1e-9 : 0.0), "peak_share",
        number(samples_median(&r->share)), "gain",
        r->untuned_seconds.count > 0 ? results_ratio(&r->gain) : json_null(), "untuned",
        make_untuned(r), "error", results_error(&r->worst, r->against), "ok", record_ok(r));
}

static json_t *make_peak(const struct samples *samples)
{
    return json_pack("{s:o, s:o}", "median", number(samples_median(samples)), "samples",
                     numbers(samples, 1.0));
}

static json_t *make_peaks(const struct peak_samples *peaks)
{
    return json_pack("{s:o, s:{s:s, s:i, s:i}, s:o, s:o}", "fma_gflops", make_peak(&peaks->fma),
                     "fma_form", "operation", peaks->form.operation, "lanes",
                     (int)peaks->form.lanes, "chains", (int)peaks->form.chains, "read_gbytes",
                     make_peak(&peaks->read), "copy_gbytes", make_peak(&peaks->copy));
}

bool results_write(const char *path, const struct target *target, const struct peak_samples *peaks,
                   const struct record *records, size_t count, struct message *why)
{
    json_t *run = results_new("clattn-bench-run-1", target);
    json_t *results = json_array();

    for (size_t n = 0; n < count; n++)
        json_array_append_new(results, make_record(&records[n]));
    json_object_set_new(run, "peaks", make_peaks(peaks));
    json_object_set_new(run, "results", results);
    return results_dump(path, run, why);
}

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

static json_t *make_record(const struct record *r)
{
    const double seconds = samples_median(&r->seconds);

    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:{s:o, s:o, s:o}, s:o, s:o, s:{s:s, s:o, s:o, s:o, "
        "s:I}, s:b}",
        "name", r->name, "problem", r->problem, "family", r->family, "tunables", r->tunables,
        "reason", r->reason, "workspace_bytes", (json_int_t)r->workspace_bytes, "flops",
        number(r->flops), "milliseconds", "median", number(seconds * 1e3), "minimum",
        number(samples_minimum(&r->seconds) * 1e3), "samples", numbers(&r->seconds, 1e3), "gflops",
        number(seconds > 0.0 ? r->flops / seconds * 1e-9 : 0.0), "peak_share",
        number(samples_median(&r->share)), "error", "against", r->against, "worst",
        number(r->worst.error), "bound", number(r->worst.bound), "ratio", number(r->worst.ratio),
        "results", (json_int_t)r->worst.results, "ok", worst_ok(&r->worst));
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
    const time_t now = time(NULL);
    json_t *results = json_array();
    char date[32];

    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    for (size_t n = 0; n < count; n++)
        json_array_append_new(results, make_record(&records[n]));
    json_t *run =
        json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "schema", "clattn-bench-run-1", "date",
                  date, "clattn", clattn_version_string(), "device", results_device(target->info),
                  "load", make_load(), "peaks", make_peaks(peaks), "results", results);
    int failed = run == NULL;
    if (!failed && strcmp(path, "-") == 0)
        failed = json_dumpf(run, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0 ||
                 putchar('\n') == EOF;
    else if (!failed)
        failed = json_dump_file(run, path, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0;
    json_decref(run);
    return !failed || message_set(why, "%s: the results cannot be written", path);
}

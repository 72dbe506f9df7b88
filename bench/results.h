/* A run as JSON; results/README.md describes it. */
#ifndef CLATTN_BENCH_RESULTS_H
#define CLATTN_BENCH_RESULTS_H

#include "record.h"

struct json_t;

/* The facts of a device as a new object. */
struct json_t *results_device(const clattn_device_info *info);

/* The median, the minimum and all samples, in milliseconds. */
struct json_t *results_milliseconds(const struct samples *seconds);

/* The middle and both ends of a ratio's 95 % interval. */
struct json_t *results_ratio(const struct ca_interval *ratio);

struct json_t *results_error(const struct worst *worst, const char *against);

/* An object with what every file begins with: schema, date, version, device, load. */
struct json_t *results_new(const char *schema, const struct target *target);

/* Writes an object, which it takes, to the file, or to standard output for "-". */
bool results_dump(const char *path, struct json_t *object, struct message *why);

/* Writes the run to the file, or to standard output for "-". */
bool results_write(const char *path, const struct target *target, const struct peak_samples *peaks,
                   const struct record *records, size_t count, struct message *why);

#endif

/* A run as JSON; results/README.md describes it. */
#ifndef CLATTN_BENCH_RESULTS_H
#define CLATTN_BENCH_RESULTS_H

#include "record.h"

struct json_t;

/* The facts of a device as a new object. */
struct json_t *results_device(const clattn_device_info *info);

/* Writes the run to the file, or to standard output for "-". */
bool results_write(const char *path, const struct target *target, const struct peak_samples *peaks,
                   const struct record *records, size_t count, struct message *why);

#endif

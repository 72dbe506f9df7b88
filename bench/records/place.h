/* SPDX-License-Identifier: Apache-2.0 */
/* What results have of their own in JSON: samples, and figures that follow from others. */
#ifndef CLATTN_BENCH_PLACE_H
#define CLATTN_BENCH_PLACE_H

#include "bench/records/samples.h"
#include "internal.h"

/* An object with the middle and both ends of a 95 % interval; null leaves it as it is. */
bool place_interval(const struct ca_json_place *in, const char *key, struct ca_interval *interval);

/* A figure that follows from others in the file, which are what counts. */
bool place_derived(const struct ca_json_place *in, const char *key, double want);

/* An object with samples, each at least `least`, and their median, all of them in `unit`; null
 * where nothing was measured. */
bool place_samples(const struct ca_json_place *in, const char *key, double least, double unit,
                   struct samples *samples);

/* The middle and both ends of an interval; null for what is not finite. */
json_t *place_interval_json(const struct ca_interval *interval);

#endif

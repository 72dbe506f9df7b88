/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration that a device which is not at hand would run, and the reason. */
#ifndef CLATTN_BENCH_PREVIEW_H
#define CLATTN_BENCH_PREVIEW_H

#include "cli/job.h"
#include "cli/message.h"

#include <clattn/plan.h>

/* Prints the choice for each problem of the job (a layer has several) on the profile's device, as
 * JSON to `json` if that is not NULL ("-": standard output). A layer takes no family. */
bool preview(const char *profile, const struct job *job, const clattn_plan_options *options,
             const char *json, struct message *why);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* 07: tuning. The fastest tile sizes differ from device to device and from problem to problem.
 * clattn measures them once, keeps what it found in a file, and uses it from then on: from the
 * command line with clattn-tune, or as here, when a plan is made. */
#include "example.h"
#include <string.h>

/* Prints what the store knows, the fastest first. */
static int print_entry(const clattn_tuning_entry *entry, void *user_data)
{
    (void)user_data;
    if (entry->quarantine)
        printf("  never again: %s %s (%s)\n", entry->family, entry->tunables, entry->quarantine);
    else
        printf("  %8.3f ms  %s %s\n", entry->seconds * 1e3, entry->family, entry->tunables);
    return 0;
}

static clattn_status describe(clattn_context *context, const clattn_problem *problem,
                              const clattn_plan_options *options, const char *title)
{
    clattn_plan_info info = {.struct_size = sizeof info};
    clattn_plan *plan;

    clattn_status status = clattn_plan_create(context, problem, options, &plan);
    if (status != CLATTN_SUCCESS)
        return status;
    status = clattn_plan_describe(plan, &info);
    printf("%s: %s %s\n  (%s)\n", title, info.family, info.tunables, info.reason);
    clattn_plan_release(plan);
    return status;
}

int main(void)
{
    /* "" keeps results in memory only; NULL would use ~/.cache/clattn, which all processes share. */
    const clattn_context_options memory_only = {
        .struct_size = sizeof memory_only, .log = print_message, .cache_directory = ""};
    const clattn_plan_options measure = {
        .struct_size = sizeof measure, .flags = CLATTN_PLAN_MEASURE, .measure_seconds = 2.0};
    const clattn_plan_options known = {.struct_size = sizeof known,
                                       .flags = CLATTN_PLAN_KNOWN_ONLY};
    const clattn_plan_options forced = {.struct_size = sizeof forced, .family = "unfused"};
    clattn_context *context;
    clattn_problem problem, other;
    char class[256];

    if (clattn_problem_parse("fwd f32 h4 q200 d32", &problem, NULL, 0) != CLATTN_SUCCESS ||
        clattn_problem_parse("fwd f32 h4 q190 d32", &other, NULL, 0) != CLATTN_SUCCESS ||
        clattn_context_create_default(NULL, &memory_only, &context) != CLATTN_SUCCESS)
        return 1;

    /* Results hold for a class of problems: sizes are rounded to powers of two. */
    clattn_status status = clattn_problem_class(&problem, class, sizeof class, NULL);
    printf("class: %s\n", class);
    if (describe(context, &other, &known, "known only") != CLATTN_NOT_TUNED)
        return 1; /* nothing is known yet */

    if (status == CLATTN_SUCCESS)
        status = describe(context, &problem, NULL, "untuned");
    if (status == CLATTN_SUCCESS)
        status = describe(context, &problem, &measure, "measured");
    if (status == CLATTN_SUCCESS)
        status = describe(context, &other, &known, "its neighbour, from what is known");
    if (status == CLATTN_SUCCESS)
        status = clattn_tuning_list(context, NULL, print_entry, NULL);

    /* Whoever knows better says so, for one plan; CLATTN_OVERRIDE does for all of a process. */
    if (status == CLATTN_SUCCESS)
        status = describe(context, &problem, &forced, "forced");
    clattn_context_release(context);
    printf("%s\n", clattn_status_string(status));
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/preview.h"
#include "bench/profiles/profile.h"
#include "bench/records/results.h"
#include "bench/timing/target.h"
#include "cli/terminal/table.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A context without a device; where what is found goes. */
struct scene {
    clattn_context *context;
    struct message log; /* The library's last error. */
    json_t *steps;      /* NULL: lines are printed. */
};

static void on_log(clattn_log_level level, const char *text, void *user_data)
{
    struct scene *scene = user_data;

    if (level == CLATTN_LOG_ERROR)
        message_set(&scene->log, "%s", text);
}

/* A line of what is known of a problem: its name, and what printf() makes. */
static void print_field(const char *name, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    const int begin = snprintf(text, sizeof text, "%-8s  ", name);

    va_start(arguments, format);
    vsnprintf(text + begin, sizeof text - (size_t)begin, format, arguments);
    va_end(arguments);
    ca_print_line(stdout, text, 2);
}

/* ---- families -------------------------------------------------------------------------------- */

/* Returns whether a name of the list is the family of a plan, whose unit its tunables say. */
static bool is_chosen(const char *name, const clattn_plan_info *info)
{
    const size_t length = strlen(info->family);

    if (strncmp(name, info->family, length) != 0)
        return false;
    return name[length] == '\0' ||
           (name[length] == ' ' &&
            strncmp(name + length + 1, info->tunables, strlen(name + length + 1)) == 0);
}

/* Every family but the chosen one: why not it. */
static void print_others(const struct scene *scene, const clattn_problem *problem,
                         const clattn_plan_info *chosen)
{
    const char *name;

    for (size_t n = 0; (name = clattn_family_name(problem->operation, n)) != NULL; n++) {
        const clattn_plan_options forced = {.struct_size = sizeof forced, .family = name};
        if (is_chosen(name, chosen))
            continue;
        if (clattn_plan_supports(scene->context, problem, &forced) == CLATTN_SUCCESS)
            print_field("not", "%s: it could, but suits this kind of device less", name);
        else
            print_field("not", "%s", clattn_context_last_error(scene->context));
    }
}

static json_t *list_others(const struct scene *scene, const clattn_problem *problem)
{
    json_t *families = json_array();
    const char *name;

    for (size_t n = 0; (name = clattn_family_name(problem->operation, n)) != NULL; n++) {
        const clattn_plan_options forced = {.struct_size = sizeof forced, .family = name};
        const bool refused =
            clattn_plan_supports(scene->context, problem, &forced) != CLATTN_SUCCESS;
        json_t *reason =
            refused ? json_string(clattn_context_last_error(scene->context)) : json_null();
        json_array_append_new(families, json_pack("{s:s, s:o}", "family", name, "refused", reason));
    }
    return families;
}

/* ---- problems -------------------------------------------------------------------------------- */

static void print_problem(const struct scene *scene, const clattn_problem *problem,
                          const clattn_plan_info *info)
{
    putchar('\n');
    ca_print_line(stdout, info->problem, 0);
    print_field("family", "%s", info->family);
    print_field("tunables", "%s", info->tunables);
    print_field("why", "%s", info->reason);
    print_field("needs",
                "work-groups of %zu, local %zu bytes, private %zu bytes a work-item, "
                "workspace %zu bytes",
                info->work_group_size, info->local_bytes, info->private_bytes,
                info->workspace_bytes);
    print_others(scene, problem, info);
}

static void add_problem(struct scene *scene, const clattn_problem *problem,
                        const clattn_plan_info *info)
{
    json_array_append_new(
        scene->steps,
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "problem", info->problem,
                  "family", info->family, "tunables", info->tunables, "reason", info->reason,
                  "work_group_size", (json_int_t)info->work_group_size, "local_bytes",
                  (json_int_t)info->local_bytes, "private_bytes", (json_int_t)info->private_bytes,
                  "workspace_bytes", (json_int_t)info->workspace_bytes, "families",
                  list_others(scene, problem)));
}

static bool show_problem(struct scene *scene, const clattn_problem *problem,
                         const clattn_plan_options *options, struct message *why)
{
    clattn_plan_info info = {.struct_size = sizeof info};
    clattn_plan *plan;
    const clattn_status status = clattn_plan_create(scene->context, problem, options, &plan);

    if (status != CLATTN_SUCCESS)
        return message_set(why, "%s: %s", clattn_status_string(status), scene->log.text);
    clattn_plan_describe(plan, &info);
    if (scene->steps != NULL)
        add_problem(scene, problem, &info);
    else
        print_problem(scene, problem, &info);
    clattn_plan_release(plan);
    return true;
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* The steps' problems are what follows the last ": " of their lines. */
static bool show_steps(struct scene *scene, const char *lines, const clattn_plan_options *options,
                       struct message *why)
{
    char text[1024];
    clattn_problem problem;

    for (; *lines != '\0'; lines += strcspn(lines, "\n") + 1) {
        snprintf(text, sizeof text, "%.*s", (int)strcspn(lines, "\n"), lines);
        char *at = text;
        for (char *next; (next = strstr(at, ": ")) != NULL;)
            at = next + 2;
        if (clattn_problem_parse(at, &problem, why->text, sizeof why->text) != CLATTN_SUCCESS ||
            !show_problem(scene, &problem, options, why))
            return false;
    }
    return true;
}

static bool show_layer(struct scene *scene, const struct job *job,
                       const clattn_plan_options *options, struct message *why)
{
    clattn_multihead_info info = {.struct_size = sizeof info};
    clattn_multihead_plan *plan;

    if (options->family != NULL)
        return message_set(why, "a layer is several problems and takes no --family");
    const clattn_status status =
        clattn_multihead_plan_create(scene->context, &job->layer, options->flags, &plan);
    if (status != CLATTN_SUCCESS)
        return message_set(why, "%s: %s", clattn_status_string(status), scene->log.text);
    clattn_multihead_plan_describe(plan, &info);
    if (scene->steps == NULL) {
        putchar('\n');
        ca_print_line(stdout, info.layer, 0);
        print_field("needs", "workspace %zu bytes, reserve %zu bytes", info.workspace_bytes,
                    info.reserve_bytes);
    }
    const bool ok = show_steps(scene, info.steps, options, why);
    clattn_multihead_plan_release(plan);
    return ok;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void print_device(const char *profile, const clattn_device_info *d)
{
    ca_print_wrapped(stdout, 2, "%s: %s by %s (%s), %u compute units", profile, d->name, d->vendor,
                     target_type_name(d->type), d->compute_units);
    ca_print_paragraph(
        stdout, 2,
        "OpenCL %u.%u, %u-bit addresses, work-groups up to %zu, local memory %llu KiB, f16 %s, "
        "f64 %s",
        d->opencl_version / 10, d->opencl_version % 10, d->address_bits, d->max_work_group_size,
        (unsigned long long)d->local_memory_bytes / 1024, d->fp16 ? "yes" : "storage only",
        d->fp64 ? "yes" : "no");
}

static bool write_json(const char *profile, struct scene *scene, const char *path,
                       struct message *why)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:o, s:O}", "schema", "clattn-bench-preview-1", "profile", profile, "device",
        results_device(clattn_context_device(scene->context)), "problems", scene->steps);

    return results_dump(path, object, why);
}

bool preview(const char *profile, const struct job *job, const clattn_plan_options *options,
             const char *json, struct message *why)
{
    clattn_device_info info;
    struct scene scene = {.steps = json != NULL ? json_array() : NULL};
    const clattn_context_options made = {
        .struct_size = sizeof made, .log = on_log, .log_user_data = &scene, .profile = &info};
    bool ok = profile_read(profile, &info, why);

    if (ok) {
        const clattn_status status = clattn_context_create(NULL, NULL, &made, &scene.context);
        ok = status == CLATTN_SUCCESS ||
             message_set(why, "%s: %s", clattn_status_string(status), scene.log.text);
    }
    if (ok && json == NULL)
        print_device(profile, &info);
    if (ok)
        ok = job->is_layer ? show_layer(&scene, job, options, why)
                           : show_problem(&scene, &job->problem, options, why);
    if (ok && json != NULL)
        ok = write_json(profile, &scene, json, why);
    json_decref(scene.steps);
    clattn_context_release(scene.context);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-tune worker: the process that builds and measures, and may die of it. Started by
 * worker_client.c alone; not for people. */
#include "tuner/worker/worker_command.h"
#include "cli/exit_status.h"
#include "cli/worker_process.h"
#include "internal.h"
#include "tuner/worker/worker_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct service {
    const char *device;
    clattn_context *context;
    struct ca_measurer measurer;
    size_t num_problems;  /* problems of the open measurer; 0: none is open */
    char complaint[1024]; /* the library's last error */
};

static void keep_complaint(clattn_log_level level, const char *message, void *user)
{
    struct service *service = user;

    if (level == CLATTN_LOG_ERROR)
        snprintf(service->complaint, sizeof service->complaint, "%s", message);
}

static clattn_status read_problems(const json_t *lines, struct ca_problem **problems)
{
    const size_t count = json_array_size(lines);
    clattn_status status = count ? CLATTN_SUCCESS : CLATTN_INVALID_ARGUMENT;

    *problems = calloc(count + 1, sizeof **problems);
    if (!*problems)
        return CLATTN_OUT_OF_MEMORY;
    for (size_t n = 0; status == CLATTN_SUCCESS && n < count; n++) {
        const char *line = json_string_value(json_array_get(lines, n));
        clattn_problem p;
        status = clattn_problem_parse(line ? line : "", &p, NULL, 0);
        if (status == CLATTN_SUCCESS)
            (*problems)[n] = ca_problem_own(&p);
    }
    return status;
}

static clattn_status open_problems(struct service *service, const json_t *lines)
{
    const clattn_context_options options = {
        .struct_size = sizeof options, .log = keep_complaint, .log_user_data = service};
    struct ca_problem *problems;
    clattn_status status = read_problems(lines, &problems);

    if (service->num_problems > 0)
        service->measurer.close(service->measurer.user);
    service->num_problems = 0;
    if (status == CLATTN_SUCCESS && !service->context)
        status = clattn_context_create_default(service->device, &options, &service->context);
    if (status == CLATTN_SUCCESS)
        status = ca_measurer_create(service->context, problems, json_array_size(lines),
                                    &service->measurer);
    if (status == CLATTN_SUCCESS)
        service->num_problems = json_array_size(lines);
    free(problems);
    return status;
}

static json_t *open_answer(struct service *service, const json_t *request)
{
    service->complaint[0] = '\0';
    const clattn_status status = open_problems(service, json_object_get(request, "problems"));
    return json_pack("{s:i, s:o}", "status", (int)status, "reason",
                     ca_text_json(service->complaint));
}

static json_t *build_answer(struct service *service, const json_t *request)
{
    struct ca_candidate candidate;
    struct ca_reading reading;

    if (!ca_candidate_from_json(json_object_get(request, "candidate"), &candidate))
        return NULL;
    service->measurer.build(service->measurer.user, &candidate, &reading);
    return json_pack("{s:o}", "reading", ca_reading_json(&reading));
}

static bool read_problem(const struct service *service, const json_t *request, size_t *problem)
{
    const json_int_t number = json_integer_value(json_object_get(request, "problem"));

    *problem = (size_t)number;
    return number >= 0 && *problem < service->num_problems;
}

static json_t *measure_answer(struct service *service, const json_t *request)
{
    const double best = json_number_value(json_object_get(request, "best"));
    struct ca_candidate candidate;
    struct ca_reading reading = {.outcome = CA_CORRECT};
    size_t problem;

    if (!read_problem(service, request, &problem) ||
        !ca_candidate_from_json(json_object_get(request, "candidate"), &candidate))
        return NULL;
    service->measurer.measure(service->measurer.user, problem, &candidate, best, &reading);
    return json_pack("{s:o}", "reading", ca_reading_json(&reading));
}

static json_t *round_answer(struct service *service, const json_t *request)
{
    const json_t *list = json_object_get(request, "candidates");
    const size_t count = json_array_size(list);
    struct ca_candidate *candidates = calloc(count + 1, sizeof *candidates);
    double *seconds = calloc(count + 1, sizeof *seconds);
    size_t problem, good = 0;
    json_t *times = NULL;

    while (candidates && good < count &&
           ca_candidate_from_json(json_array_get(list, good), &candidates[good]))
        good++;
    if (seconds && good == count && read_problem(service, request, &problem)) {
        times = json_array();
        service->measurer.round(service->measurer.user, problem, candidates, count, seconds);
        for (size_t n = 0; n < count; n++)
            json_array_append_new(times, ca_seconds_json(seconds[n]));
    }
    free(seconds);
    free(candidates);
    return times ? json_pack("{s:o}", "seconds", times) : NULL;
}

static const struct {
    const char *name;
    json_t *(*answer)(struct service *service, const json_t *request);
} requests[] = {{"open", open_answer},
                {"build", build_answer},
                {"measure", measure_answer},
                {"round", round_answer}};

/* Takes the request over. NULL if it makes no sense. */
static json_t *answer(struct service *service, json_t *request)
{
    const char *name = json_string_value(json_object_get(request, "do"));
    json_t *answer = NULL;

    for (size_t n = 0; name && n < sizeof requests / sizeof *requests; n++)
        if (strcmp(name, requests[n].name) == 0 && (n == 0 || service->num_problems > 0))
            answer = requests[n].answer(service, request);
    json_decref(request);
    return answer;
}

static void serve(struct service *service, FILE *from, FILE *to)
{
    bool good = true;

    while (good) {
        json_t *object = answer(service, json_loadf(from, JSON_DISABLE_EOF_CHECK, NULL));
        good = object && json_dumpf(object, to, JSON_COMPACT | JSON_REAL_PRECISION(17)) == 0 &&
               fputc('\n', to) != EOF && fflush(to) == 0;
        json_decref(object);
    }
}

int worker_command(int argc, char **argv)
{
    struct service service = {.device = argc > 2 ? argv[2] : NULL};

    /* Not to outlive the tuner: it ends with it, or when its requests do. */
    if (argc != 3 || !ca_parent_lives(strtol(argv[1], NULL, 10)))
        return EXIT_USAGE;
    FILE *from = ca_parent_stream(CA_WORKER_REQUESTS, "r");
    FILE *to = ca_parent_stream(CA_WORKER_ANSWERS, "w");
    if (!from || !to)
        return EXIT_FAILURE;
    serve(&service, from, to);
    if (service.num_problems > 0)
        service.measurer.close(service.measurer.user);
    clattn_context_release(service.context);
    fclose(to);
    fclose(from);
    return EXIT_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner/worker/worker_builders.h"
#include "internal.h"
#include "os/environment.h"
#include "tuner/worker/worker_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Builders beside the worker where their number is not given. Each compiler needs memory, and the search chooses worse if it
 * must choose many configurations at a time. */
enum { MOST_AUTOMATIC = 4 };

/* A build that takes longer than this part of the timeout is left to the worker. */
#define TIMEOUT_SHARE 0.5

/* Compilations shorter than LEAST_SECONDS do not count: the program was in a cache, or is small. After ENOUGH others the
 * builders are judged: they help if the worker takes less than USEFUL of their time for the same programs. */
#define LEAST_SECONDS 0.1
#define USEFUL 0.25
enum { ENOUGH = 4 };

struct upcoming {
    struct ca_candidate candidate;
    bool begun, judged; /* given to a process; compared by ca_builders_judge() */
    double seconds; /* seconds that its first compilation took; 0 if it failed, or has not begun */
};

struct builder {
    struct ca_process process;
    bool open; /* the process has opened the problems */
    struct upcoming *job;
};

struct ca_builders {
    struct ca_worker_options options;
    struct builder builders[CA_BUILDERS];
    json_t *open_request;
    struct upcoming *list;
    size_t count;
    size_t num_judged;
    double ahead, again; /* seconds that judged candidates took the builders, and then the worker */
    bool useless;
};

bool ca_worker_start(struct ca_process *process, const struct ca_worker_options *options,
                     struct message *why)
{
    char parent[24];
    const char *const argv[] = {options->program, "worker", parent, options->device, NULL};

    snprintf(parent, sizeof parent, "%ld", ca_process_number());
    return ca_process_start(process, argv, NULL, why);
}

json_t *ca_worker_request(const char *what, const struct ca_candidate *candidate)
{
    return json_pack("{s:s, s:o}", "do", what, "candidate", ca_candidate_json(candidate));
}

int ca_builders_automatic(void)
{
    const unsigned cores = ca_processors();

    return cores < 2 ? 0 : cores < MOST_AUTOMATIC ? (int)cores : MOST_AUTOMATIC;
}

struct ca_builders *ca_builders_create(const struct ca_worker_options *options)
{
    struct ca_builders *builders = calloc(1, sizeof *builders);

    if (builders)
        builders->options = *options;
    return builders;
}

static void end_all(struct ca_builders *builders)
{
    for (int n = 0; n < builders->options.builders; n++)
        ca_process_end(&builders->builders[n].process);
}

void ca_builders_destroy(struct ca_builders *builders)
{
    if (!builders)
        return;
    end_all(builders);
    json_decref(builders->open_request);
    free(builders->list);
    free(builders);
}

void ca_builders_open(struct ca_builders *builders, json_t *request)
{
    json_decref(builders->open_request);
    builders->open_request = request;
    builders->count = 0;
    for (int n = 0; n < builders->options.builders; n++)
        builders->builders[n].open = false;
}

static struct upcoming *find(struct ca_builders *builders, const struct ca_candidate *candidate)
{
    for (size_t n = 0; n < builders->count; n++)
        if (ca_candidates_equal(&builders->list[n].candidate, candidate))
            return &builders->list[n];
    return NULL;
}

void ca_builders_announce(struct ca_builders *builders, const struct ca_candidate *candidates,
                          size_t count)
{
    struct upcoming *list = calloc(count + 1, sizeof *list);

    for (size_t n = 0; list && n < count; n++) {
        list[n].candidate = candidates[n];
        list[n].seconds = ca_builders_seconds(builders, &candidates[n]);
    }
    free(builders->list);
    builders->list = list;
    builders->count = list ? count : 0;
}

static void give_up(struct ca_builders *builders)
{
    builders->useless = true;
    end_all(builders);
}

/* ---- processes ------------------------------------------------------------------------------- */

/* NULL unless it answered until then. */
static json_t *take_answer(struct ca_builders *builders, struct builder *builder, double end)
{
    struct message how;
    json_t *answer;

    ca_process_answer(&builder->process, end - ca_stopwatch_now(), builders->options.patience,
                      builders->options.user, &answer, &how);
    return answer;
}

/* Gives the first `count` processes the problems that they do not have yet, all at once. False if
 * one cannot get them: there is no use in trying again and again. */
static bool open_problems(struct ca_builders *builders, int count)
{
    const double end = ca_stopwatch_now() + builders->options.timeout;
    bool good = builders->open_request != NULL, asked[CA_BUILDERS] = {false};
    struct message why;

    for (int n = 0; good && n < count; n++) {
        struct builder *builder = &builders->builders[n];
        if (builder->process.child.number == 0) {
            builder->open = false;
            good = ca_worker_start(&builder->process, &builders->options, &why);
        }
        asked[n] = good && !builder->open;
        if (asked[n])
            good = ca_process_request(&builder->process, json_incref(builders->open_request));
    }
    for (int n = 0; good && n < count; n++) {
        struct builder *builder = &builders->builders[n];
        if (!asked[n])
            continue;
        json_t *answer = take_answer(builders, builder, end);
        builder->open = answer && json_integer_value(json_object_get(answer, "status")) == 0;
        good = builder->open;
        json_decref(answer);
    }
    return good;
}

/* A process whose candidate failed may be spoilt, and is replaced. */
static void finish(struct ca_builders *builders, struct builder *builder, double end)
{
    json_t *answer = take_answer(builders, builder, end);
    struct ca_reading reading;

    if (answer && ca_reading_from_json(json_object_get(answer, "reading"), &reading) &&
        reading.outcome == CA_CORRECT)
        builder->job->seconds = fmax(builder->job->seconds, reading.compile_seconds);
    else
        ca_process_end(&builder->process);
    json_decref(answer);
}

void ca_builders_run(struct ca_builders *builders, const struct ca_candidate *candidate)
{
    struct upcoming *job = find(builders, candidate);
    int count = 0;

    if (builders->useless || !job || job->begun)
        return;
    for (; job < builders->list + builders->count && count < builders->options.builders; job++)
        if (!job->begun)
            builders->builders[count++].job = job;
    if (count < 2) /* the worker takes no longer */
        return;
    if (!open_problems(builders, count)) {
        give_up(builders);
        return;
    }
    for (int n = 0; n < count; n++) {
        struct builder *builder = &builders->builders[n];
        builder->job->begun = true;
        ca_process_request(&builder->process, ca_worker_request("build", &builder->job->candidate));
    }
    const double deadline = ca_stopwatch_now() + TIMEOUT_SHARE * builders->options.timeout;
    for (int n = 0; n < count; n++)
        finish(builders, &builders->builders[n], deadline);
}

void ca_builders_judge(struct ca_builders *builders, const struct ca_candidate *candidate,
                       const struct ca_reading *reading)
{
    struct upcoming *job = find(builders, candidate);

    if (!job || job->judged || job->seconds < LEAST_SECONDS || reading->outcome != CA_CORRECT)
        return;
    builders->ahead += job->seconds;
    builders->again += reading->compile_seconds;
    job->judged = true; /* once is enough */
    builders->num_judged++;
    if (builders->num_judged >= ENOUGH && builders->again > USEFUL * builders->ahead)
        give_up(builders);
}

double ca_builders_seconds(struct ca_builders *builders, const struct ca_candidate *candidate)
{
    const struct upcoming *job = find(builders, candidate);

    return job ? job->seconds : 0.0;
}

bool ca_builders_are_used(const struct ca_builders *builders)
{
    return !builders->useless;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/peer_main.h"
#include "bench/timing/timing.h"
#include "internal.h"
#include "os/process.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 3, ANSWERS = 4, MOST_COPIES = 64, MOST_SAMPLES = 1024, MOST_TRIES = 5 };

#define LONG_TRY 0.1 /* Seconds: longer ones are little disturbed. */

struct peer {
    const struct peer_library *const *libraries; /* NULL after the last. */
    const struct peer_library *library;          /* Of the open problem. */
    void *self;
    bool greeted, open;
    struct problem_data data; /* While open. */
    size_t copies, turn;      /* The set of tensors that is next. */
};

static json_t *refusal(const struct message *why, bool unsupported)
{
    json_t *answer = json_pack("{s:b, s:s}", "ok", 0, "why", why->text);

    if (answer == NULL) /* A part of it is not UTF-8. */
        answer = json_pack("{s:b, s:s}", "ok", 0, "why", "it cannot say why");
    if (unsupported)
        json_object_set_new(answer, "unsupported", json_true());
    return answer;
}

static json_t *misuse(const char *text)
{
    struct message why;

    message_set(&why, "%s", text);
    return refusal(&why, false);
}

static void close_problem(struct peer *peer)
{
    if (peer->open) {
        peer->library->close(peer->self);
        problem_data_free(&peer->data);
    }
    peer->open = false;
}

bool peer_main_time(bool (*compute)(void *self, size_t set, struct message *why), void *self,
                    double *seconds, struct message *why)
{
    if (!compute(self, 0, why))
        return false;
    const double begin = ca_stopwatch_now();
    for (int n = 0; n == 0 || (n < MOST_TRIES && ca_stopwatch_now() - begin < LONG_TRY); n++) {
        const double start = ca_stopwatch_now();
        if (!compute(self, 0, why))
            return false;
        const double taken = ca_stopwatch_now() - start;
        *seconds = n == 0 || taken < *seconds ? taken : *seconds;
    }
    return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* NULL if none computes it. */
static const struct peer_library *find_library(const struct peer *peer, clattn_operation operation)
{
    const struct peer_library *const *library = peer->libraries;

    while (*library != NULL && ((*library)->operations >> operation & 1u) == 0)
        library++;
    return *library;
}

static json_t *list_operations(const struct peer *peer)
{
    static const char *const names[] = {
        [CLATTN_FORWARD] = "fwd", [CLATTN_BACKWARD] = "bwd", [CLATTN_PROJECTION] = "proj"};
    json_t *list = json_array();

    for (int n = CLATTN_FORWARD; n <= CLATTN_PROJECTION; n++)
        if (find_library(peer, (clattn_operation)n) != NULL)
            json_array_append_new(list, json_string(names[n]));
    return list;
}

static json_t *list_options(const struct peer *peer)
{
    const char *const *words = peer->libraries[0]->options;
    json_t *list = json_array();

    for (; words != NULL && *words != NULL; words++)
        json_array_append_new(list, json_string(*words));
    return list;
}

static json_t *hello(struct peer *peer, const json_t *request)
{
    const char *device = json_string_value(json_object_get(request, "device"));
    const json_int_t threads = json_integer_value(json_object_get(request, "threads"));
    const struct peer_library *library = peer->libraries[0];
    struct peer_greeting greeting = {"", ""};
    struct message why = {""};

    if (device == NULL || threads < 1 || threads > 65536)
        return misuse("hello needs a device and the number of threads");
    if (peer->greeted)
        return misuse("hello has been said");
    if (!library->hello(peer->self, device, (unsigned)threads, &greeting, &why))
        return refusal(&why, false);
    peer->greeted = true;
    return json_pack("{s:b, s:s, s:s, s:s, s:s, s:o, s:o}", "ok", 1, "name", library->name,
                     "version", greeting.version, "on", library->on, "method", greeting.method,
                     "operations", list_operations(peer), "options", list_options(peer));
}

static enum peer_status open_library(struct peer *peer, double *first_seconds,
                                     char configuration[256], struct message *why)
{
    const struct peer_library *library = peer->library;
    enum peer_status status = library->open(peer->self, &peer->data, peer->copies, why);
    const double start = ca_stopwatch_now();

    if (status == PEER_DONE)
        status = library->build(peer->self, why);
    if (status == PEER_DONE && !library->compute(peer->self, 0, why))
        status = PEER_FAILED;
    *first_seconds = ca_stopwatch_now() - start;
    if (status == PEER_DONE && !library->settle(peer->self, configuration, why))
        status = PEER_FAILED;
    return status;
}

static json_t *open_problem(struct peer *peer, const json_t *request)
{
    const char *problem = json_string_value(json_object_get(request, "problem"));
    const char *path = json_string_value(json_object_get(request, "data"));
    const json_int_t copies = json_integer_value(json_object_get(request, "copies"));
    char configuration[256] = "";
    struct message why = {""};
    double first_seconds;

    close_problem(peer);
    if (!peer->greeted)
        return misuse("hello comes before open");
    if (problem == NULL || path == NULL || copies < 1 || copies > MOST_COPIES)
        return misuse("open needs a problem, its data and 1 to 64 copies");
    if (!problem_data_read(&peer->data, problem, path, &why))
        return refusal(&why, false);
    peer->library = find_library(peer, peer->data.problem.operation);
    if (peer->library == NULL) {
        problem_data_free(&peer->data);
        message_set(&why, "it does not compute this operation");
        return refusal(&why, true);
    }
    peer->open = true;
    peer->copies = (size_t)copies;
    peer->turn = 0;
    const enum peer_status status = open_library(peer, &first_seconds, configuration, &why);
    if (status == PEER_DONE)
        return json_pack("{s:b, s:f, s:s}", "ok", 1, "first_seconds", first_seconds,
                         "configuration", configuration);
    close_problem(peer);
    return refusal(&why, status == PEER_UNSUPPORTED);
}

/* By the host's clock, the sets of tensors in turn. */
static bool sample_host(struct peer *peer, double busy, struct peer_sample *sample,
                        struct message *why)
{
    const double start = ca_stopwatch_now();
    double times[MOST_SAMPLES], last = start;
    size_t count = 0;

    while (count == 0 || (count < MOST_SAMPLES && last - start < busy)) {
        if (!peer->library->compute(peer->self, peer->turn, why))
            return false;
        peer->turn = (peer->turn + 1) % peer->copies;
        const double now = ca_stopwatch_now();
        times[count++] = now - last;
        last = now;
    }
    sample->seconds = ca_sort(times, count);
    sample->executions = count;
    sample->host_seconds = -1.0;
    return true;
}

static json_t *take_sample(struct peer *peer, const json_t *request)
{
    const json_t *busy_json = json_object_get(request, "busy");
    const double busy = json_number_value(busy_json);
    struct message why = {""};
    struct peer_sample sample;

    if (!json_is_number(busy_json) || !(busy >= 0.0 && busy <= 1e4))
        return misuse("sample needs busy, a number of seconds");
    if (!peer->open)
        return misuse("no problem is open");
    const bool ok = peer->library->sample != NULL
                        ? peer->library->sample(peer->self, busy, &sample, &why)
                        : sample_host(peer, busy, &sample, &why);
    if (!ok)
        return refusal(&why, false);
    return json_pack("{s:b, s:f, s:I, s:o}", "ok", 1, "seconds", sample.seconds, "executions",
                     (json_int_t)sample.executions, "host_seconds",
                     sample.host_seconds >= 0.0 ? json_real(sample.host_seconds) : json_null());
}

static bool write_whole(const char *path, const void *bytes, size_t count, struct message *why)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL)
        return message_set(why, "%s cannot be written", path);
    const bool written = fwrite(bytes, 1, count, file) == count;
    if (fclose(file) == 0 && written)
        return true;
    return message_set(why, "%s cannot be written to its end", path);
}

static json_t *write_result(struct peer *peer, const json_t *request)
{
    const char *path = json_string_value(json_object_get(request, "path"));
    const struct peer_library *library = peer->library;
    struct message why = {""};

    if (path == NULL)
        return misuse("result needs a path");
    if (!peer->open)
        return misuse("no problem is open");
    void *results = malloc(peer->data.result_bytes);
    bool ok = results != NULL || message_set(&why, "no memory for the result");
    ok = ok && library->poison(peer->self, &why) && library->compute(peer->self, 0, &why) &&
         library->read_output(peer->self, results, &why) &&
         write_whole(path, results, peer->data.result_bytes, &why);
    free(results);
    return ok ? json_pack("{s:b}", "ok", 1) : refusal(&why, false);
}

static json_t *close_request(struct peer *peer, const json_t *request)
{
    (void)request;
    close_problem(peer);
    return json_pack("{s:b}", "ok", 1);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static json_t *answer_to(struct peer *peer, const char *line)
{
    static const struct {
        const char *name;
        json_t *(*answer)(struct peer *peer, const json_t *request);
    } requests[] = {
        {"hello", hello},         {"open", open_problem},   {"sample", take_sample},
        {"result", write_result}, {"close", close_request},
    };
    json_t *request = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    const char *wanted = json_string_value(json_object_get(request, "do"));
    json_t *answer = NULL;

    for (size_t n = 0; wanted != NULL && n < sizeof requests / sizeof *requests; n++)
        if (strcmp(wanted, requests[n].name) == 0)
            answer = requests[n].answer(peer, request);
    json_decref(request);
    return answer != NULL ? answer : misuse("this is no request");
}

static bool send(FILE *answers, json_t *answer)
{
    const bool ok = json_dumpf(answer, answers, JSON_COMPACT) == 0 && fputc('\n', answers) != EOF &&
                    fflush(answers) == 0;

    json_decref(answer);
    return ok;
}

int peer_main(const struct peer_library *const *libraries, void *self)
{
    struct peer peer = {.libraries = libraries, .self = self};
    FILE *requests = ca_parent_stream(REQUESTS, "r"), *answers = ca_parent_stream(ANSWERS, "w");
    char *line = NULL;
    size_t capacity = 0;
    bool ok = true;

    if (requests == NULL || answers == NULL) {
        fprintf(stderr,
                "%s is run by clattn-bench, which talks to it in file descriptors 3 and 4\n",
                libraries[0]->name);
        return EXIT_FAILURE;
    }
    while (ok && ca_text_read_line(requests, &line, &capacity))
        ok = send(answers, answer_to(&peer, line));
    close_problem(&peer);
    free(line);
    fclose(requests);
    fclose(answers);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

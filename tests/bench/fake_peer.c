/* SPDX-License-Identifier: Apache-2.0 */
/* A peer (bench/peers/README.md) that computes attention as the judge does, in double precision, and
 * misbehaves on request. Its argument, or the environment variable FAKE_PEER, is WHAT@REQUEST, such
 * as "crash@open"; `habits`, `lines` and what asks misbehaves() know the words. */
#define _POSIX_C_SOURCE 200809L /* fdopen, getline, nanosleep */
#include "bench/judge/judge.h"
#include "bench/judge/values.h"
#include "bench/peers/peer_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char bad_what[32], bad_where[32];

static bool misbehaves(const char *what, const char *where)
{
    return strcmp(bad_what, what) == 0 && strcmp(bad_where, where) == 0;
}

/* ---- attention -------------------------------------------------------------------------------- */

struct fake {
    const struct peer_work *work;
    struct tensor_shape o;
};

static bool greet(void *self, const char *device, unsigned threads, struct peer_greeting *greeting,
                  struct message *why)
{
    (void)self;
    (void)device;
    (void)threads;
    (void)why;
    strcpy(greeting->version, "1.0 \u03b1");
    strcpy(greeting->method, "loops in double precision");
    return true;
}

static enum peer_status open_problem(void *self, struct peer_work *work, struct message *why)
{
    struct fake *fake = self;

    (void)why;
    fake->work = work;
    return PEER_DONE;
}

/* Returns where elements of a packed tensor lie, whose sizes of 1 broadcast. */
static clattn_layout layout_of(const struct safetensor *tensor)
{
    clattn_layout layout = {.stride = {0}};
    size_t stride = 1;

    for (int n = 3; tensor != NULL && n >= 0; n--) {
        layout.stride[n] = tensor->shape[n] > 1 ? stride : 0;
        stride *= tensor->shape[n];
    }
    return layout;
}

/* The problem whose tensors lie as peers get them. */
static clattn_problem packed(const struct problem_data *data)
{
    clattn_problem p = data->problem;

    p.q = p.k = p.v = p.o = (clattn_layout){.stride = {0}};
    p.bias_layout = layout_of(data->in[INPUT_BIAS]);
    p.mask_layout = layout_of(data->in[INPUT_MASK]);
    return p;
}

static const void *at(const struct problem_data *data, enum input input)
{
    return data->in[input] != NULL ? data->in[input]->data : NULL;
}

/* The result is the judge's value, rounded if it is of half precision. */
static void take(void *self, int id, const size_t place[4], const struct bounded *want,
                 size_t count)
{
    const struct fake *fake = self;
    const struct tensor_shape *o = &fake->o;
    const size_t first = tensor_index(o, place[0], place[1], place[2], place[3]);

    for (size_t n = 0; id == TENSOR_O && n < count; n++) {
        cl_half half;
        value_set(CLATTN_F16, &half, 0, want[n].value);
        value_set(o->dtype, fake->work->set[0].out[0], first + n,
                  misbehaves("half", "result") ? value_get(CLATTN_F16, &half, 0) : want[n].value);
    }
}

/* Once, when results are asked for: how long it takes does not matter. */
static bool get_results(void *self, struct message *why)
{
    struct fake *fake = self;
    const struct problem_data *data = &fake->work->data;
    const clattn_problem p = packed(data);
    const struct tensor_view view = {.at = {[TENSOR_Q] = at(data, INPUT_Q),
                                            [TENSOR_K] = at(data, INPUT_K),
                                            [TENSOR_V] = at(data, INPUT_V),
                                            [TENSOR_BIAS] = at(data, INPUT_BIAS),
                                            [TENSOR_MASK] = at(data, INPUT_MASK),
                                            [TENSOR_SLOPES] = at(data, INPUT_SLOPES),
                                            [TENSOR_SINKS] = at(data, INPUT_SINKS),
                                            [TENSOR_Q_LENGTHS] = at(data, INPUT_Q_LENGTHS),
                                            [TENSOR_KV_LENGTHS] = at(data, INPUT_KV_LENGTHS)}};
    void *o = fake->work->set[0].out[0];

    fake->o = tensor_shape_of(&p, TENSOR_O);
    if (!judge_results(&p, &view, PRECISION_SINGLE, (double)INFINITY, take, fake))
        return message_set(why, "it has no memory");
    if (misbehaves("wrong", "result"))
        value_set(p.dtype, o, 0, value_get(p.dtype, o, 0) + 1.0);
    if (misbehaves("nan", "result"))
        value_set(p.dtype, o, 0, (double)NAN);
    if (misbehaves("zeros", "result"))
        memset(o, 0, data->result_bytes);
    return true;
}

static bool compute(void *self, size_t copy, struct message *why)
{
    (void)self;
    (void)copy;
    (void)why;
    return true;
}

/* A millisecond for each computation: what it took does not matter here. */
static bool take_sample(void *self, double busy, struct peer_sample *sample, struct message *why)
{
    const struct timespec nap = {0, 2000000};

    (void)self;
    (void)busy;
    (void)why;
    nanosleep(&nap, NULL);
    *sample = (struct peer_sample){.seconds = 0.001, .executions = 2, .host_seconds = -1.0};
    return true;
}

/* ---- misbehaving ------------------------------------------------------------------------------ */

/* Changes to the values in an answer, but for `ok`. */
static const struct {
    const char *what;
    bool texts, numbers;
    const char *instead;
} habits[] = {
    {"types", true, true, "[]"},
    {"negative", false, true, "-1"},
    {"zero", false, true, "0"},
    {"hour", false, true, "3600.0"},
    {"control", true, false, "\"\\u001b[31mred\""},
};

static void spoil(json_t *answer, const char *request)
{
    const char *key;
    json_t *value;
    void *next;

    for (size_t n = 0; n < sizeof habits / sizeof *habits; n++)
        if (misbehaves(habits[n].what, request))
            json_object_foreach_safe(answer, next, key, value)
            {
                if ((habits[n].texts && json_is_string(value)) ||
                    (habits[n].numbers && json_is_number(value)))
                    json_object_set_new(answer, key,
                                        json_loads(habits[n].instead, JSON_DECODE_ANY, NULL));
            }
}

/* Damages the file with the result. */
static void spoil_result(const char *path, size_t bytes)
{
    const bool is_short = misbehaves("short", "result"), is_long = misbehaves("long", "result");

    if ((is_short || is_long) && truncate(path, (off_t)(bytes + is_long - is_short)) != 0)
        exit(EXIT_FAILURE);
    if (misbehaves("none", "result"))
        unlink(path);
}

/* Returns whether it answered in words of its own, or does not return at all. */
static bool run_amok(const char *request, FILE *answers)
{
    static const struct {
        const char *what, *line;
    } lines[] = {
        {"garbage", "{]\n"},
        {"nan", "{\"ok\": true, \"seconds\": NaN, \"executions\": 1, \"host_seconds\": null}\n"},
        {"neither", "{\"ok\": 1}\n"},
        {"list", "[]\n"},
        {"missing", "{\"ok\": false, \"why\": \"no module named fake\"}\n"},
        {"knowing", "{\"ok\": false, \"why\": \"no numpy: pip install numpy fake\"}\n"},
        {"unsupported", "{\"ok\": false, \"why\": \"no \\u001b[1mwindows\", "
                        "\"unsupported\": true}\n"},
        {"name",
         "{\"ok\": true, \"name\": \"clattn untuned\", \"version\": \"\", \"method\": \"\", "
         "\"on\": \"device\"}\n"},
    };
    const struct timespec ever = {3600, 0};

    if (misbehaves("crash", request))
        abort();
    if (misbehaves("exit", request)) {
        fputs("something else\nthe library is \x1b[31mupset\n", stderr);
        exit(3);
    }
    if (misbehaves("loader", request)) {
        fputs("libfake.so.1: cannot open shared object file\n", stderr);
        exit(127);
    }
    if (misbehaves("hang", request))
        nanosleep(&ever, NULL);
    for (size_t n = 0; n < sizeof lines / sizeof *lines; n++)
        if (misbehaves(lines[n].what, request) && strcmp(request, "result") != 0) {
            fputs(lines[n].line, answers);
            return true;
        }
    return false;
}

static json_t *answer_to(struct peer_session *session, const char *line, const json_t *request)
{
    const char *what = json_string_value(json_object_get(request, "do"));
    json_t *answer = peer_session_answer(session, line);

    if (strcmp(what, "hello") == 0 && (!json_is_string(json_object_get(request, "device_type")) ||
                                       !json_is_string(json_object_get(request, "device_name"))))
        exit(EXIT_FAILURE);
    if (strcmp(what, "result") == 0)
        spoil_result(json_string_value(json_object_get(request, "path")),
                     session->work.data.result_bytes);
    spoil(answer, what);
    return answer;
}

static void converse(struct peer_session *session, FILE *requests, FILE *answers)
{
    char *line = NULL;
    size_t capacity = 0;

    while (getline(&line, &capacity, requests) > 0) {
        json_t *request = json_loads(line, 0, NULL);
        if (!run_amok(json_string_value(json_object_get(request, "do")), answers)) {
            json_t *answer = answer_to(session, line, request);
            json_dumpf(answer, answers, JSON_COMPACT);
            fputc('\n', answers);
            json_decref(answer);
        }
        fflush(answers);
        json_decref(request);
    }
    free(line);
}

int main(int argc, char **argv)
{
    struct peer_library library = {
        .name = "Fake",
        .hello = greet,
        .operations = 1u << JOB_FORWARD,
        .takes = ~0u,
        .open = open_problem,
        .compute = compute,
        .sample = take_sample,
        .get_results = get_results,
    };
    const struct peer_library *const libraries[] = {&library, NULL};
    struct fake fake = {.work = NULL};
    struct peer_session session = {.libraries = libraries, .self = &fake};
    const char *habit = argc > 1 ? argv[1] : getenv("FAKE_PEER");
    FILE *requests = fdopen(3, "r"), *answers = fdopen(4, "w");

    if (requests == NULL || answers == NULL ||
        (habit != NULL && sscanf(habit, "%31[^@]@%31s", bad_what, bad_where) != 2))
        return EXIT_FAILURE;
    library.on = misbehaves("host", "hello") ? "cpu" : "device";
    converse(&session, requests, answers);
    peer_session_close(&session);
    return EXIT_SUCCESS;
}

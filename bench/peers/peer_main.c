/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/peer_main.h"
#include "bench/timing/timing.h"
#include "internal.h"
#include "os/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 3, ANSWERS = 4, MOST_COPIES = 64, MOST_SAMPLES = 1024, MOST_TRIES = 5 };

#define LONG_TRY 0.1 /* Seconds: longer ones are little disturbed. */

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

/* ---- hello ----------------------------------------------------------------------------------- */

/* Returns NULL if none computes it. */
static const struct peer_library *find_library(const struct peer_session *session,
                                               enum job_kind kind)
{
    const struct peer_library *const *library = session->libraries;

    while (*library != NULL && ((*library)->operations >> kind & 1u) == 0)
        library++;
    return *library;
}

static json_t *list_operations(const struct peer_session *session)
{
    json_t *list = json_array();

    for (int kind = 0; kind < JOB_KINDS; kind++)
        if (find_library(session, (enum job_kind)kind) != NULL)
            json_array_append_new(list, json_string(job_kind_name((enum job_kind)kind)));
    return list;
}

static json_t *list_options(const struct peer_library *library)
{
    const char *const *words = library->options;
    json_t *list = json_array();

    for (; words != NULL && *words != NULL; words++)
        json_array_append_new(list, json_string(*words));
    return list;
}

static json_t *hello(struct peer_session *session, const json_t *request)
{
    const char *device = json_string_value(json_object_get(request, "device"));
    const json_int_t threads = json_integer_value(json_object_get(request, "threads"));
    const struct peer_library *library = session->libraries[0];
    struct peer_greeting greeting = {"", ""};
    struct message why = {""};

    if (device == NULL || threads < 1 || threads > 65536)
        return misuse("hello needs a device and the number of threads");
    if (session->greeted)
        return misuse("hello has been said");
    if (!library->hello(session->self, device, (unsigned)threads, &greeting, &why))
        return refusal(&why, false);
    session->greeted = true;
    return json_pack("{s:b, s:s, s:s, s:s, s:s, s:o, s:o}", "ok", 1, "name", library->name,
                     "version", greeting.version, "on", library->on, "method", greeting.method,
                     "operations", list_operations(session), "options", list_options(library));
}

/* ---- open and close -------------------------------------------------------------------------- */

void peer_session_close(struct peer_session *session)
{
    struct peer_work *work = &session->work;

    if (session->open && session->library->close != NULL)
        session->library->close(session->self);
    for (size_t n = 0; n < work->sets; n++)
        host_set_free(&work->set[n]);
    free(work->set);
    problem_data_free(&work->data);
    memset(work, 0, sizeof *work);
    session->open = false;
}

/* The least time of a computation on the first copy: once to wake threads and compile, then up to
 * five times, fewer where one takes long. */
static bool time_way(const struct peer_session *session, double *seconds, struct message *why)
{
    const struct peer_library *library = session->library;

    if (!library->compute(session->self, 0, why))
        return false;
    const double begin = ca_stopwatch_now();
    for (int n = 0; n == 0 || (n < MOST_TRIES && ca_stopwatch_now() - begin < LONG_TRY); n++) {
        const double start = ca_stopwatch_now();
        if (!library->compute(session->self, 0, why))
            return false;
        const double taken = ca_stopwatch_now() - start;
        *seconds = n == 0 || taken < *seconds ? taken : *seconds;
    }
    return true;
}

static bool choose_fastest(const struct peer_session *session, struct message *why)
{
    double seconds, best = 0.0;
    size_t chosen = 0;

    if (session->work.ways == 1)
        return true;
    for (size_t way = 0; way < session->work.ways; way++) {
        session->library->choose(session->self, way);
        if (!time_way(session, &seconds, why))
            return false;
        if (way == 0 || seconds < best) {
            best = seconds;
            chosen = way;
        }
    }
    session->library->choose(session->self, chosen);
    return true;
}

static enum peer_status open_library(struct peer_session *session, double *first_seconds,
                                     char configuration[256], struct message *why)
{
    const struct peer_library *library = session->library;
    void *self = session->self;
    enum peer_status status = library->open(self, &session->work, why);
    const double start = ca_stopwatch_now();

    if (status == PEER_DONE && library->build != NULL)
        status = library->build(self, why);
    if (status == PEER_DONE && session->work.ways > 1)
        library->choose(self, 0);
    if (status == PEER_DONE && !library->compute(self, 0, why))
        status = PEER_FAILED;
    *first_seconds = ca_stopwatch_now() - start;
    if (status == PEER_DONE && !choose_fastest(session, why))
        status = PEER_FAILED;
    if (status == PEER_DONE && library->describe != NULL)
        library->describe(self, configuration);
    return status;
}

/* Returns NULL if the library takes all that the problem has. */
static const char *refuse(const struct peer_library *library, const struct problem_data *data)
{
    const clattn_problem *p = &data->problem;
    const bool attends = p->operation != CLATTN_PROJECTION;
    const struct {
        unsigned takes;
        bool has;
        const char *lacks;
    } options[] = {
        {PEER_TAKES_NOTHING, problem_data_is_empty(data),
         "it has nothing to compute without batches, queries or keys"},
        {PEER_TAKES_SOFTCAP, attends && p->softcap > 0.0f, "it takes no softcap"},
        {PEER_TAKES_SINKS, attends && p->sinks, "it takes no sinks"},
        {PEER_TAKES_ADDENDS, attends && (p->bias || p->mask || p->alibi),
         "it takes no bias, mask or ALiBi"},
        {PEER_TAKES_LENGTHS, attends && (p->q_lengths || p->kv_lengths), "it takes no lengths"},
    };

    for (size_t n = 0; n < sizeof options / sizeof *options; n++)
        if (options[n].has && (library->takes & options[n].takes) == 0)
            return options[n].lacks;
    return NULL;
}

static enum peer_status open_work(struct peer_session *session, const char *problem,
                                  const char *path, size_t copies, struct message *why)
{
    struct peer_work *work = &session->work;

    if (!problem_data_read(&work->data, problem, path, why))
        return PEER_FAILED;
    session->library = find_library(session, job_kind(&work->data.job));
    const char *refused = session->library == NULL ? "it does not compute this operation"
                                                   : refuse(session->library, &work->data);
    if (refused != NULL) {
        message_set(why, "%s", refused);
        return PEER_UNSUPPORTED;
    }
    const size_t sets = session->library->copies ? 1 : copies;
    work->set = calloc(sets, sizeof *work->set);
    work->copies = copies;
    work->ways = 1;
    session->turn = 0;
    if (work->set == NULL) {
        message_set(why, "no memory for %zu sets of tensors", sets);
        return PEER_FAILED;
    }
    while (work->sets < sets)
        if (!host_set_make(&work->set[work->sets++], &work->data, why))
            return PEER_FAILED;
    session->open = true;
    return PEER_DONE;
}

static json_t *open_problem(struct peer_session *session, const json_t *request)
{
    const char *problem = json_string_value(json_object_get(request, "problem"));
    const char *path = json_string_value(json_object_get(request, "data"));
    const json_int_t copies = json_integer_value(json_object_get(request, "copies"));
    char configuration[256] = "";
    struct message why = {""};
    double first_seconds;

    peer_session_close(session);
    if (!session->greeted)
        return misuse("hello comes before open");
    if (problem == NULL || path == NULL || copies < 1 || copies > MOST_COPIES)
        return misuse("open needs a problem, its data and 1 to 64 copies");
    enum peer_status status = open_work(session, problem, path, (size_t)copies, &why);
    if (status == PEER_DONE)
        status = open_library(session, &first_seconds, configuration, &why);
    if (status == PEER_DONE)
        return json_pack("{s:b, s:f, s:s}", "ok", 1, "first_seconds", first_seconds,
                         "configuration", configuration);
    peer_session_close(session);
    return refusal(&why, status == PEER_UNSUPPORTED);
}

static json_t *close_request(struct peer_session *session, const json_t *request)
{
    (void)request;
    peer_session_close(session);
    return json_pack("{s:b}", "ok", 1);
}

/* ---- sample and result ----------------------------------------------------------------------- */

/* Takes a sample by the host's clock, with the copies in turn. */
static bool sample_host(struct peer_session *session, double busy, struct peer_sample *sample,
                        struct message *why)
{
    const double start = ca_stopwatch_now();
    double times[MOST_SAMPLES], last = start;
    size_t count = 0;

    while (count == 0 || (count < MOST_SAMPLES && last - start < busy)) {
        if (!session->library->compute(session->self, session->turn, why))
            return false;
        session->turn = (session->turn + 1) % session->work.copies;
        const double now = ca_stopwatch_now();
        times[count++] = now - last;
        last = now;
    }
    sample->seconds = ca_sort(times, count);
    sample->executions = count;
    sample->host_seconds = -1.0;
    return true;
}

static json_t *take_sample(struct peer_session *session, const json_t *request)
{
    const json_t *busy_json = json_object_get(request, "busy");
    const double busy = json_number_value(busy_json);
    struct message why = {""};
    struct peer_sample sample;

    if (!json_is_number(busy_json) || !(busy >= 0.0 && busy <= 1e4))
        return misuse("sample needs busy, a number of seconds");
    if (!session->open)
        return misuse("no problem is open");
    const bool ok = session->library->sample != NULL
                        ? session->library->sample(session->self, busy, &sample, &why)
                        : sample_host(session, busy, &sample, &why);
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

static bool compute_results(struct peer_session *session, void *results, struct message *why)
{
    const struct peer_library *library = session->library;
    const struct peer_work *work = &session->work;

    host_set_poison(&work->set[0], &work->data);
    if ((library->put_results != NULL && !library->put_results(session->self, why)) ||
        !library->compute(session->self, 0, why) ||
        (library->get_results != NULL && !library->get_results(session->self, why)))
        return false;
    host_set_read(&work->set[0], &work->data, results);
    return true;
}

static json_t *write_result(struct peer_session *session, const json_t *request)
{
    const char *path = json_string_value(json_object_get(request, "path"));
    const size_t bytes = session->work.data.result_bytes;
    struct message why = {""};

    if (path == NULL)
        return misuse("result needs a path");
    if (!session->open)
        return misuse("no problem is open");
    void *results = malloc(bytes + 1);
    const bool ok = (results != NULL || message_set(&why, "no memory for the result")) &&
                    compute_results(session, results, &why) &&
                    write_whole(path, results, bytes, &why);
    free(results);
    return ok ? json_pack("{s:b}", "ok", 1) : refusal(&why, false);
}

/* ---- the loop -------------------------------------------------------------------------------- */

json_t *peer_session_answer(struct peer_session *session, const char *line)
{
    static const struct {
        const char *name;
        json_t *(*answer)(struct peer_session *session, const json_t *request);
    } requests[] = {
        {"hello", hello},         {"open", open_problem},   {"sample", take_sample},
        {"result", write_result}, {"close", close_request},
    };
    json_t *request = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    const char *wanted = json_string_value(json_object_get(request, "do"));
    json_t *answer = NULL;

    for (size_t n = 0; wanted != NULL && n < sizeof requests / sizeof *requests; n++)
        if (strcmp(wanted, requests[n].name) == 0)
            answer = requests[n].answer(session, request);
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
    struct peer_session session = {.libraries = libraries, .self = self};
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
        ok = send(answers, peer_session_answer(&session, line));
    peer_session_close(&session);
    free(line);
    fclose(requests);
    fclose(answers);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

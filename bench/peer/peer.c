/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peer/peer.h"
#include "bench/peer/peer_data.h"
#include "bench/peer/peer_options.h"
#include "bench/timing/target.h"
#include "internal.h"
#include "os/environment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELLO_SECONDS 60.0
#define OPEN_SECONDS 120.0
#define WORK_SECONDS 30.0    /* Besides so many times what it should take: */
#define WORK_TIMES 10.0      /* the machine may be busy with something else. */
#define BYTES_PER_SECOND 1e8 /* The lowest rate expected of a peer that reads and copies tensors. */

/* ---- failing --------------------------------------------------------------------------------- */

static const char *subject(const struct peer *peer)
{
    return peer->name[0] != '\0' ? peer->name : peer->kind->name;
}

/* Ends a peer that cannot be trusted any more. */
static enum peer_answer fail(struct peer *peer, struct message *why, const char *how)
{
    message_set(why, "%s %s", subject(peer), how);
    peer_end(peer);
    return PEER_FAILED;
}

static enum peer_answer miss(const struct peer_kind *kind, struct message *why, const char *reason)
{
    /* A peer may know better what it lacks. */
    const bool told = kind->install[0] == '\0' || strstr(reason, " install ") != NULL;

    message_set(why, "%s is missing: %.300s%s%s", kind->name, reason, told ? "" : "; ",
                told ? "" : kind->install);
    return PEER_MISSING;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* A number from `least` on. JSON has neither NaN nor infinities. */
static bool take_number(const json_t *answer, const char *key, double least, double *value,
                        struct message *how)
{
    const json_t *number = json_object_get(answer, key);

    if (!json_is_number(number))
        return message_set(how, "answered without a number '%s'", key);
    *value = json_number_value(number);
    if (*value < least)
        return message_set(how, "answered %g as '%s'", *value, key);
    return true;
}

/* A text for people, cut to fit. */
static bool take_text(const json_t *answer, const char *key, char *text, size_t bytes,
                      struct message *how)
{
    const char *given = json_string_value(json_object_get(answer, key));

    if (given == NULL)
        return message_set(how, "answered without a text '%s'", key);
    for (const char *c = given; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return message_set(how, "answered with control characters in '%s'", key);
    snprintf(text, bytes, "%s", given);
    ca_make_printable(text); /* the cut may go through a character */
    return true;
}

/* The answer for a refusal: unless the peer says unsupported, PEER_FAILED, without ending the
 * peer. */
static enum peer_answer refusal(struct peer *peer, const json_t *answer, struct message *why)
{
    const char *given = json_string_value(json_object_get(answer, "why"));

    if (!json_is_false(json_object_get(answer, "ok")))
        return fail(peer, why, "answered neither yes nor no");
    given = given != NULL && *given != '\0' ? given : "it does not say why";
    if (!json_is_true(json_object_get(answer, "unsupported"))) {
        message_set(why, "%.300s", given);
        return PEER_FAILED;
    }
    message_set(why, "%s: %.300s", subject(peer), given);
    return PEER_UNSUPPORTED;
}

/* Asks, and takes a refusal apart. The answer is the caller's to release if it is PEER_OK. */
static enum peer_answer ask(struct peer *peer, json_t *request, double seconds, json_t **answer,
                            struct message *why)
{
    struct message how;

    *answer = NULL;
    if (request == NULL)
        return fail(peer, why, "was asked nothing: no memory");
    if (!peer_runs(peer)) {
        json_decref(request);
        return fail(peer, why, "does not run");
    }
    seconds *= peer->kind->patience > 0.0 ? peer->kind->patience : 1.0;
    if (peer_process_ask(&peer->process, request, seconds, answer, &how) != CA_ANSWERED)
        return fail(peer, why, how.text);
    if (json_is_true(json_object_get(*answer, "ok")))
        return PEER_OK;
    const enum peer_answer refused = refusal(peer, *answer, why);
    json_decref(*answer);
    *answer = NULL;
    return refused;
}

/* Asks a process that has said hello. A refusal counts as a failure, unless it says that the problem is unsupported. */
static enum peer_answer ask_work(struct peer *peer, json_t *request, double seconds,
                                 json_t **answer, struct message *why)
{
    const enum peer_answer asked = ask(peer, request, seconds, answer, why);
    struct message how;

    if (asked != PEER_FAILED || !peer_runs(peer))
        return asked;
    message_set(&how, "failed: %s", why->text);
    return fail(peer, why, how.text);
}

/* ---- starting and ending --------------------------------------------------------------------- */

/* Returns whether the environment has the NAME of "NAME=VALUE". */
static bool is_set(const char *variable)
{
    char name[64];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(variable, "="), variable);
    return ca_environment_value(name) != NULL;
}

static enum peer_answer start_program(struct peer *peer, struct message *why)
{
    const char *python = ca_environment_value("CLATTN_PYTHON");
    const char *argv[4] = {NULL}, *variables[PEER_MOST_VARIABLES + 1] = {NULL};
    char path[4096];
    struct message how;
    size_t count = 0, set = 0;

    if (!peer_kind_program(peer->kind, path, sizeof path)) {
        message_set(&how, "there is no program %s", peer->kind->program);
        return miss(peer->kind, why, how.text);
    }
    for (size_t n = 0; n < PEER_MOST_VARIABLES && peer->kind->variable[n] != NULL; n++)
        if (!is_set(peer->kind->variable[n]))
            variables[set++] = peer->kind->variable[n];
    const size_t length = strlen(path);
    if (length > 3 && strcmp(path + length - 3, ".py") == 0)
        argv[count++] = python != NULL && *python != '\0' ? python : ca_python_program();
    argv[count++] = path;
    argv[count] = peer->kind->argument;
    if (peer_process_start(&peer->process, argv, variables, &how))
        return PEER_OK;
    char reason[sizeof how.text + 4];
    snprintf(reason, sizeof reason, "it %s", how.text);
    return miss(peer->kind, why, reason);
}

static json_t *hello_request(const char *device, const clattn_device_info *info, unsigned threads)
{
    char name[sizeof info->name];

    snprintf(name, sizeof name, "%s", info->name);
    ca_make_printable(name);
    return json_pack("{s:s, s:s, s:s, s:s, s:I}", "do", "hello", "device",
                     device != NULL ? device : "", "device_type", target_type_name(info->type),
                     "device_name", name, "threads", (json_int_t)threads);
}

/* The operations that a peer computes: forward alone if it names none. */
static unsigned take_operations(const json_t *answer)
{
    const json_t *list = json_object_get(answer, "operations");
    unsigned operations = list == NULL ? 1u << JOB_FORWARD : 0;

    for (size_t n = 0; n < json_array_size(list); n++)
        for (int kind = 0; kind < JOB_KINDS; kind++) {
            const char *name = json_string_value(json_array_get(list, n));
            if (name != NULL && strcmp(name, job_kind_name((enum job_kind)kind)) == 0)
                operations |= 1u << kind;
        }
    return operations;
}

static bool take_hello(struct peer *peer, const json_t *answer, struct message *how)
{
    char name[sizeof peer->name];

    if (!take_text(answer, "name", name, sizeof name, how) ||
        !take_text(answer, "version", peer->version, sizeof peer->version, how) ||
        !take_text(answer, "method", peer->method, sizeof peer->method, how))
        return false;
    if (name[0] == '\0' || strncmp(name, "clattn", 6) == 0) /* names of implementations of ours */
        return message_set(how, "says that its name is '%s'", name);
    memcpy(peer->name, name, sizeof name);
    peer->operations = take_operations(answer);
    peer->options = peer_options_read(json_object_get(answer, "options"));
    return true;
}

static enum peer_answer say_hello(struct peer *peer, json_t *request, bool beside_cpu,
                                  struct message *why)
{
    json_t *answer;
    struct message how;
    enum peer_answer said = ask(peer, request, HELLO_SECONDS, &answer, why);

    /* A refusal, or 127: the loader found a library missing, env an interpreter. */
    if (said == PEER_FAILED &&
        (peer_runs(peer) || strstr(why->text, "exited with status 127") != NULL)) {
        how = *why;
        said = miss(peer->kind, why, how.text);
    }
    if (said != PEER_OK)
        return said;
    const char *on = json_string_value(json_object_get(answer, "on"));
    if (!take_hello(peer, answer, &how)) {
        said = fail(peer, why, how.text);
    } else if (on == NULL || (strcmp(on, "device") != 0 && strcmp(on, "cpu") != 0)) {
        said = fail(peer, why, "does not say on what it computes");
    } else if (strcmp(on, "cpu") == 0 && !beside_cpu) {
        message_set(why, "%s: it computes on the host's processor", subject(peer));
        said = PEER_UNSUPPORTED;
    }
    json_decref(answer);
    return said;
}

enum peer_answer peer_start(struct peer *peer, const struct peer_kind *kind, const char *device,
                            const clattn_device_info *info, unsigned threads, struct message *why)
{
    const bool beside_cpu = (info->type & CL_DEVICE_TYPE_CPU) != 0;

    *peer = (struct peer){.kind = kind};
    enum peer_answer started = start_program(peer, why);
    if (started != PEER_OK)
        return started;
    started = say_hello(peer, hello_request(device, info, threads), beside_cpu, why);
    if (started != PEER_OK)
        peer_end(peer);
    return started;
}

bool peer_runs(const struct peer *peer)
{
    return peer->process.worker.child.number > 0;
}

void peer_end(struct peer *peer)
{
    peer_process_end(&peer->process);
    peer->open = false;
}

/* ---- work ------------------------------------------------------------------------------------ */

static json_t *open_request(const struct job *job, const char *path, size_t copies)
{
    char *text = job_text(job);
    json_t *request = text == NULL ? NULL
                                   : json_pack("{s:s, s:s, s:o, s:s, s:I}", "do", "open", "problem",
                                               text, "fields", peer_data_fields(job), "data", path,
                                               "copies", (json_int_t)copies);

    free(text);
    return request;
}

static enum peer_answer send_case(struct peer *peer, const struct attention_case *attention,
                                  size_t copies, json_t **answer, struct message *why)
{
    const double bytes = peer_data_bytes(&attention->job);
    const double seconds = OPEN_SECONDS + (double)(copies + 1) * bytes / BYTES_PER_SECOND;
    enum peer_answer sent;
    char path[PEER_DATA_PATH];
    struct message how;

    *answer = NULL;
    if (!peer_data_file(path, bytes, &how))
        return fail(peer, why, how.text);
    if (peer_data_write(path, attention, &how))
        sent = ask_work(peer, open_request(&attention->job, path, copies), seconds, answer, why);
    else
        sent = fail(peer, why, how.text);
    remove(path);
    return sent;
}

/* Whether others have only the hash of the source. */
static bool is_of_the_caller(const clattn_function *function)
{
    return function != NULL && strchr(clattn_function_name(function), ':') != NULL;
}

/* Returns NULL if the peer can be asked to compute it. */
static const char *refuse_job(const struct peer *peer, const struct job *job)
{
    static const char *const lacks[JOB_KINDS] = {
        [JOB_FORWARD] = "it computes no attention",
        [JOB_BACKWARD] = "it computes no gradients",
        [JOB_PROJECTION] = "it computes no projections",
        [JOB_MERGE] = "it merges no states",
        [JOB_APPEND] = "it appends to no cache",
        [JOB_DOUBLE_BACKWARD] = "it computes no gradients of gradients",
        [JOB_INDEXER] = "it has no indexer",
        [JOB_LAYER_FORWARD] = "it computes no layers",
        [JOB_LAYER_BACKWARD] = "it computes no layers' gradients",
    };
    const clattn_problem *p = &job->problem;

    if (p->scores != CLATTN_SCORES_NONE)
        return "scores are not asked of other libraries";
    if (p->dbias || p->dslopes || p->dsinks || p->dfunction)
        return "gradients of bias, slopes, sinks and functions are not asked of other libraries";
    if (is_of_the_caller(p->score_function) || is_of_the_caller(p->mask_function))
        return "other libraries are asked for functions of the library alone";
    if (p->key_sums)
        return "sums of weights are not asked of other libraries";
    if (p->dlse)
        return "other libraries are given no gradient of lse";
    if (ca_problem_accumulates(p))
        return "what adds to its output is not asked of other libraries";
    if (p->dropout > 0.0f)
        return "other libraries drop other weights";
    if ((peer->operations >> job_kind(job) & 1u) == 0)
        return lacks[job_kind(job)];
    return peer_options_refuse(peer->options, p);
}

enum peer_answer peer_open(struct peer *peer, const struct attention_case *attention, size_t copies,
                           struct message *why)
{
    const char *refused = refuse_job(peer, &attention->job);
    json_t *answer;
    struct message how;

    if (refused != NULL) {
        message_set(why, "%s: %s", subject(peer), refused);
        return PEER_UNSUPPORTED;
    }
    peer_close(peer);
    if (!peer_runs(peer))
        return fail(peer, why, "does not run");
    enum peer_answer opened = send_case(peer, attention, copies, &answer, why);
    if (opened != PEER_OK)
        return opened;
    if (!take_number(answer, "first_seconds", 0.0, &peer->first_seconds, &how) ||
        !take_text(answer, "configuration", peer->configuration, sizeof peer->configuration, &how))
        opened = fail(peer, why, how.text);
    json_decref(answer);
    peer->open = opened == PEER_OK;
    peer->seconds = peer->first_seconds;
    return opened;
}

/* A peer whose figures cannot be true is not believed: no execution takes longer than all did. */
static bool take_sample(const json_t *answer, double elapsed, double *seconds, double *host,
                        struct message *how)
{
    const json_t *host_json = json_object_get(answer, "host_seconds");
    double executions;

    *host = -1.0;
    if (!take_number(answer, "seconds", 0.0, seconds, how) ||
        !take_number(answer, "executions", 1.0, &executions, how))
        return false;
    if (*seconds <= 0.0 || *seconds > 2.0 * elapsed)
        return message_set(how, "says that one execution took %g s, in a sample of %g s", *seconds,
                           elapsed);
    return json_is_null(host_json) || take_number(answer, "host_seconds", 0.0, host, how);
}

enum peer_answer peer_sample(struct peer *peer, double busy, double *seconds, double *host,
                             struct message *why)
{
    const double limit = WORK_SECONDS + WORK_TIMES * (busy + peer->seconds);
    const double start = ca_stopwatch_now();
    json_t *answer;
    struct message how;

    const enum peer_answer asked =
        ask_work(peer, json_pack("{s:s, s:f}", "do", "sample", "busy", busy), limit, &answer, why);
    if (asked != PEER_OK)
        return asked;
    const bool taken = take_sample(answer, ca_stopwatch_now() - start, seconds, host, &how);
    json_decref(answer);
    if (!taken)
        return fail(peer, why, how.text);
    peer->seconds = *seconds;
    return PEER_OK;
}

/* Fetches the peer's results in the problem's layouts, which the caller releases; none unless
 * PEER_OK. */
static enum peer_answer fetch(struct peer *peer, const struct job *job, struct results *results,
                              struct message *why)
{
    const double bytes = (double)peer_data_result_bytes(job);
    const double seconds = WORK_SECONDS + WORK_TIMES * peer->seconds + bytes / BYTES_PER_SECOND;
    char path[PEER_DATA_PATH];
    struct message how;
    json_t *answer;

    *results = (struct results){{NULL}};
    if (!peer_data_file(path, bytes, &how))
        return fail(peer, why, how.text);
    enum peer_answer asked = ask_work(peer, json_pack("{s:s, s:s}", "do", "result", "path", path),
                                      seconds, &answer, why);
    json_decref(answer);
    if (asked == PEER_OK && !peer_data_read(path, job, results, &how))
        asked = fail(peer, why, how.text);
    remove(path);
    return asked;
}

enum peer_answer peer_check(struct peer *peer, const struct attention_case *attention,
                            enum precision precision, struct worst *worst, struct message *why)
{
    struct results results;
    struct message how;
    const enum peer_answer asked = fetch(peer, &attention->job, &results, why);

    if (asked != PEER_OK)
        return asked;
    const bool checked = check_results(attention, &results, precision, worst, &how);
    results_release(&results);
    if (checked)
        return PEER_OK;
    message_set(why, "%s was not checked: %s", subject(peer), how.text);
    peer_end(peer);
    return PEER_FAILED;
}

void peer_close(struct peer *peer)
{
    json_t *answer;
    struct message why;

    if (peer->open && peer_runs(peer)) {
        ask_work(peer, json_pack("{s:s}", "do", "close"), WORK_SECONDS, &answer, &why);
        json_decref(answer);
    }
    peer->open = false;
}

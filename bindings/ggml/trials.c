/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime() */
#include "trials.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ggml's attention is computed so many queries at a time in a trial, which ends as soon as it has
 * taken longer than clattn's: it may take twenty times as long. */
#define QUERIES_OF_A_PART 64
/* Each way is tried so often, but once where clattn takes so long. */
#define TURNS 3
#define LONG_MS 20.0

static double milliseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* ---- opening --------------------------------------------------------------------------------- */

static double least_multiply_adds(const struct host *host)
{
    const char *text = getenv("CLATTN_GGML_LEAST");
    char *end = NULL;

    if (text == NULL || text[0] == '\0')
        return (double)NAN;
    const double least = strtod(text, &end);
    if (*end == '\0' && least >= 0.0)
        return least;
    host_log(host, GGML_LOG_LEVEL_WARN,
             "CLATTN_GGML_LEAST is '%s', which is no number of multiply-adds: it is measured what "
             "is worth it",
             text);
    return (double)NAN;
}

/* The shortest of some commands that fill a few bytes; 0 where they fail. */
static double launch_time(const struct attention *a)
{
    enum { COMMANDS = 16 };
    const float zero = 0.0f;
    double shortest = (double)INFINITY;
    cl_int error = CL_SUCCESS;
    cl_mem memory = clCreateBuffer(clattn_context_opencl(a->context), CL_MEM_READ_WRITE,
                                   sizeof zero, NULL, &error);

    for (int n = 0; n < COMMANDS && error == CL_SUCCESS; n++) {
        const double before = milliseconds();
        error = clEnqueueFillBuffer(a->queue, memory, &zero, sizeof zero, 0, sizeof zero, 0, NULL,
                                    NULL);
        if (error == CL_SUCCESS)
            error = clFinish(a->queue);
        shortest = fmin(shortest, milliseconds() - before);
    }
    if (memory != NULL)
        clReleaseMemObject(memory);
    return error == CL_SUCCESS ? shortest : 0.0;
}

void trials_open(struct trials *trials, const struct attention *attention)
{
    *trials = (struct trials){.least = least_multiply_adds(attention->device->host)};
    if (isnan(trials->least))
        trials->launch_ms = launch_time(attention);
}

/* ---- what is known --------------------------------------------------------------------------- */

static struct record *record_of(struct trials *trials, const struct operation *o, int threads)
{
    const struct shape *s = &o->shape;
    const struct kind kind = {.batch = s->batch,
                              .heads = s->heads,
                              .kv_heads = s->kv_heads,
                              .dim_qk = s->dim_qk,
                              .dim_v = s->dim_v,
                              .k_cache = s->k_cache,
                              .v_cache = s->v_cache,
                              .mask = s->mask,
                              .generation = s->kv_lengths,
                              .threads = (size_t)threads};
    const size_t known = trials->count < MOST_KINDS ? trials->count : MOST_KINDS;

    for (size_t n = 0; n < known; n++)
        if (memcmp(&trials->record[n].kind, &kind, sizeof kind) == 0)
            return &trials->record[n];
    struct record *record = &trials->record[trials->count++ % MOST_KINDS];
    *record = (struct record){.kind = kind, .won = (double)INFINITY};
    return record;
}

/* ---- a trial --------------------------------------------------------------------------------- */

/* ggml's result of some of the queries. */
static bool compute_part(struct rest *rest, const struct ggml_tensor *node, int64_t first,
                         int64_t queries)
{
    struct ggml_tensor part = *node, q = *node->src[0], mask;

    q.data = (char *)q.data + (size_t)first * q.nb[1];
    q.ne[1] = queries;
    part.src[0] = &q;
    part.data = (char *)part.data + (size_t)first * part.nb[2];
    part.ne[2] = queries;
    if (node->src[3] != NULL) {
        mask = *node->src[3];
        mask.data = (char *)mask.data + (size_t)first * mask.nb[1];
        mask.ne[1] = queries;
        part.src[3] = &mask;
    }
    return rest_compute_node(rest, &part) == GGML_STATUS_SUCCESS;
}

/* The time that ggml takes, INFINITY where it fails or takes longer than the limit. */
static double time_ggml(struct rest *rest, const struct ggml_tensor *node, double limit_ms)
{
    const int64_t all = node->src[0]->ne[1];
    const double before = milliseconds();
    double time = 0.0;

    for (int64_t first = 0; first < all; first += QUERIES_OF_A_PART) {
        const int64_t left = all - first;
        if (!compute_part(rest, node, first, left < QUERIES_OF_A_PART ? left : QUERIES_OF_A_PART))
            return (double)INFINITY;
        time = milliseconds() - before;
        if (time > limit_ms)
            return (double)INFINITY;
    }
    return time;
}

/* The time that clattn takes, NAN where it fails. */
static double time_clattn(struct attention *attention, const struct operation *o)
{
    const double before = milliseconds();

    return attention_compute(attention, o) ? milliseconds() - before : (double)NAN;
}

/* Both ways in turns. False where clattn fails. The node's result is clattn's at the end. */
static bool race(struct attention *attention, struct rest *rest, const struct ggml_tensor *node,
                 const struct operation *o, double *clattn, double *ggml)
{
    *ggml = (double)INFINITY;
    time_clattn(attention, o); /* compiles, and fills caches */
    *clattn = time_clattn(attention, o);
    for (int turn = 0; turn < TURNS && (turn == 0 || *clattn < LONG_MS); turn++) {
        *ggml = fmin(*ggml, time_ggml(rest, node, *clattn));
        const double time = time_clattn(attention, o);
        if (isnan(time))
            return false;
        *clattn = fmin(*clattn, time);
    }
    return true;
}

static enum trial_end run_trial(const struct trials *trials, struct attention *attention,
                                struct rest *rest, const struct ggml_tensor *node,
                                const struct operation *o, struct record *record)
{
    const double size = operation_multiply_adds(o);
    double clattn = trials->launch_ms;
    double ggml = time_ggml(rest, node, clattn);

    /* What ends before a kernel could have begun is worth no compilation. */
    const bool raced = !(ggml < clattn);
    if (raced && !race(attention, rest, node, o, &clattn, &ggml))
        return TRIAL_FAILED;
    host_log(attention->device->host, GGML_LOG_LEVEL_DEBUG,
             "trial: %zu heads over %zu, dim %zu, %zu queries, %zu keys: clattn %s %.3f ms, ggml "
             "%s %.3f ms",
             o->shape.heads, o->shape.kv_heads, o->shape.dim_qk, o->shape.seq_q, o->keys,
             raced ? "in" : "over", clattn, isinf(ggml) ? "over" : "in",
             isinf(ggml) ? clattn : ggml);
    if (ggml < clattn)
        record->lost = fmax(record->lost, size);
    else
        record->won = fmin(record->won, size);
    return TRIAL_COMPUTED;
}

enum trial_end trials_compute(struct trials *trials, struct attention *attention, struct rest *rest,
                              const struct ggml_tensor *node)
{
    struct operation o;

    if (operation_read(attention->device->host, node, &o) != NULL)
        return TRIAL_FAILED;
    const double size = operation_multiply_adds(&o);
    if (!isnan(trials->least)) {
        if (size < trials->least)
            return TRIAL_LEFT;
        return attention_compute(attention, &o) ? TRIAL_COMPUTED : TRIAL_FAILED;
    }
    struct record *record = record_of(trials, &o, rest->threads);
    if (size < 2.0 * record->lost)
        return TRIAL_LEFT;
    if (2.0 * size < record->won)
        return run_trial(trials, attention, rest, node, &o, record);
    return attention_compute(attention, &o) ? TRIAL_COMPUTED : TRIAL_FAILED;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-peer-clblast: products on an OpenCL device by CLBlast. */
#include "bench/peers/clblast/clblast.h"
#include "bench/judge/values.h"
#include "bench/peers/products.h"
#include "bench/timing/timing.h"
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>

bool clblast_hello(void *self, const char *device, unsigned threads, struct peer_greeting *greeting,
                   struct message *why)
{
    struct clblast *c = self;

    (void)threads; /* The driver's affair. */
    snprintf(greeting->version, sizeof greeting->version, "%s", CLATTN_PEER_VERSION);
    snprintf(greeting->method, sizeof greeting->method,
             "GemmStridedBatched or Gemv, a softmax kernel, the same again; projections: Gemm");
    return target_open(&c->target, device, why);
}

/* ---- tensors --------------------------------------------------------------------------------- */

cl_mem clblast_buffer(const struct clblast *c, size_t bytes, const void *data, struct message *why)
{
    cl_int err;
    cl_mem buffer = clCreateBuffer(clattn_context_opencl(c->target.context), CL_MEM_READ_WRITE,
                                   bytes, NULL, &err);

    if (err == CL_SUCCESS && data != NULL)
        err = clEnqueueWriteBuffer(c->target.queue, buffer, CL_TRUE, 0, bytes, data, 0, NULL, NULL);
    if (err == CL_SUCCESS)
        return buffer;
    message_set(why, "a buffer of %zu bytes failed with %d", bytes, err);
    if (buffer != NULL)
        clReleaseMemObject(buffer);
    return NULL;
}

/* NULL if it computes on this device. */
static const char *refuse(const struct clblast *c, clattn_dtype dtype)
{
    if (dtype == CLATTN_BF16)
        return "it has no bf16";
    return dtype == CLATTN_F16 && !c->target.info->fp16
               ? "it needs cl_khr_fp16 for f16, which this device has not"
               : NULL;
}

enum peer_status clblast_open(struct clblast *c, const struct problem_data *data, size_t copies,
                              bool (*make_set)(const struct clblast *c, struct clblast_set *set,
                                               struct message *why),
                              struct message *why)
{
    const char *refused = refuse(c, ca_problem_own_dtype(&data->problem));
    bool ok = true;

    c->data = data;
    if (refused != NULL) {
        message_set(why, "%s", refused);
        return PEER_UNSUPPORTED;
    }
    c->sets = calloc(copies, sizeof *c->sets);
    if (c->sets == NULL)
        ok = message_set(why, "no memory for %zu sets of tensors", copies);
    for (c->copies = 0; ok && c->copies < copies; c->copies++)
        ok = make_set(c, &c->sets[c->copies], why);
    return ok ? PEER_DONE : PEER_FAILED;
}

static void release(cl_mem buffer)
{
    if (buffer != NULL)
        clReleaseMemObject(buffer);
}

void clblast_close(void *self)
{
    struct clblast *c = self;

    clFinish(c->target.queue);
    for (size_t n = 0; c->sets != NULL && n < c->copies; n++) {
        release(c->sets[n].q);
        release(c->sets[n].k);
        release(c->sets[n].v);
        release(c->sets[n].o);
    }
    free(c->sets);
    release(c->bias);
    release(c->scores);
    softmax_program_close(&c->softmax);
    steps_free(&c->steps);
    const struct target target = c->target;
    *c = (struct clblast){.target = target};
}

/* ---- computing ------------------------------------------------------------------------------- */

static bool finish(struct clblast *c, struct message *why)
{
    const cl_int err = clFinish(c->target.queue);

    return err == CL_SUCCESS || message_set(why, "clFinish failed with %d", err);
}

bool clblast_compute(void *self, size_t set, struct message *why)
{
    struct clblast *c = self;

    return c->enqueue(c, &c->sets[set], NULL, why) && finish(c, why);
}

static bool enqueue_next(void *work, cl_event *end, struct message *why)
{
    struct clblast *c = work;
    const double start = ca_stopwatch_now();
    const bool ok = c->enqueue(c, &c->sets[c->turn], end, why);

    c->turn = (c->turn + 1) % c->copies;
    c->enqueueing += ca_stopwatch_now() - start;
    return ok;
}

static bool sample_so_many(struct clblast *c, double wanted, struct peer_sample *sample,
                           struct message *why)
{
    sample->executions = wanted < 1.0 ? 1 : wanted > TIMING_MOST ? TIMING_MOST : (size_t)wanted;
    c->enqueueing = 0.0;
    if (!timing_median(&c->target, enqueue_next, c, sample->executions, &sample->seconds, why))
        return false;
    c->last = sample->seconds;
    sample->host_seconds = c->enqueueing / (double)(sample->executions + 1); /* One goes before. */
    return true;
}

/* The first sample of a problem says how many executions fill the time. */
bool clblast_sample(void *self, double busy, struct peer_sample *sample, struct message *why)
{
    struct clblast *c = self;

    if (c->last == 0.0 && (!sample_so_many(c, 1.0, sample, why) || busy < 2.0 * c->last))
        return c->last > 0.0;
    return sample_so_many(c, busy / c->last, sample, why);
}

/* ---- results --------------------------------------------------------------------------------- */

bool clblast_poison(void *self, struct message *why)
{
    const struct clblast *c = self;
    const unsigned char nan = 0xff; /* All bits set: NaN in each format. */
    const cl_int err = clEnqueueFillBuffer(c->target.queue, c->sets[0].o, &nan, 1, 0,
                                           c->data->o_bytes, 0, NULL, NULL);

    return err == CL_SUCCESS || message_set(why, "clEnqueueFillBuffer failed with %d", err);
}

bool clblast_read(void *self, void *results, struct message *why)
{
    const struct clblast *c = self;
    const bool projection = c->data->problem.operation == CLATTN_PROJECTION;
    void *packed = projection ? malloc(c->data->o_bytes) : results;

    if (packed == NULL)
        return message_set(why, "no memory for the result");
    const cl_int err = clEnqueueReadBuffer(c->target.queue, c->sets[0].o, CL_TRUE, 0,
                                           c->data->o_bytes, packed, 0, NULL, NULL);
    if (projection) {
        if (err == CL_SUCCESS)
            product_scatter(&c->data->problem, packed, results);
        free(packed);
    }
    return err == CL_SUCCESS || message_set(why, "clEnqueueReadBuffer failed with %d", err);
}

int main(void)
{
    const struct peer_library *const libraries[] = {&clblast_attention, &clblast_projection, NULL};
    struct clblast clblast = {.turn = 0};
    const int status = peer_main(libraries, &clblast);

    if (clblast.target.context != NULL)
        target_close(&clblast.target);
    return status;
}

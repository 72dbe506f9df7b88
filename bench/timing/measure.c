/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/timing/measure.h"
#include "bench/verify/compare.h"
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Leaves *buffer NULL for no bytes. The data may be NULL. */
static bool make_buffer(const struct measurement *m, size_t bytes, void *data,
                        clattn_buffer *buffer, struct message *why)
{
    const cl_mem_flags flags = CL_MEM_READ_WRITE | (data != NULL ? CL_MEM_COPY_HOST_PTR : 0);
    cl_int err;

    if (bytes == 0)
        return true;
    buffer->buffer =
        clCreateBuffer(clattn_context_opencl(m->engine.target->context), flags, bytes, data, &err);
    return err == CL_SUCCESS ||
           message_set(why, "clCreateBuffer of %zu bytes failed with %d", bytes, err);
}

static bool make_sets(struct measurement *m, size_t copies, struct message *why)
{
    m->sets = calloc(copies, sizeof *m->sets);
    if (m->sets == NULL)
        return message_set(why, "no memory for a measurement");
    m->copies = copies;
    return true;
}

/* A reserve that forward has not filled is as large, and holds anything. */
static size_t input_bytes(const struct measurement *m, const struct attention_case *attention,
                          int input)
{
    const bool reserve = input == INPUT_RESERVE && case_has_input(&attention->job, INPUT_RESERVE);

    return reserve ? m->engine.reserve_bytes : attention->in[input].bytes;
}

static size_t output_bytes(const struct measurement *m, const struct attention_case *attention,
                           int output)
{
    const struct view view = case_output_view(&attention->job, (enum output)output);

    if (output == OUTPUT_RESERVE && case_has_output(&attention->job, OUTPUT_RESERVE))
        return m->engine.reserve_bytes;
    return view_extent_bytes(&view);
}

/* Another reference to each. */
static bool share_buffers(clattn_buffer *buffers, const clattn_buffer *others, size_t count,
                          struct message *why)
{
    for (size_t n = 0; n < count; n++) {
        const cl_int err =
            others[n].buffer != NULL ? clRetainMemObject(others[n].buffer) : CL_SUCCESS;
        if (err != CL_SUCCESS)
            return message_set(why, "clRetainMemObject failed with %d", err);
        buffers[n] = others[n];
    }
    return true;
}

/* Whether all sets share an input. With a mask function they share the operands of functions, as a model's layers do. */
static bool is_shared(const struct attention_case *attention, int input)
{
    return attention->job.problem.mask_function != NULL && input >= INPUT_FUNCTION_0 &&
           input <= INPUT_FUNCTION_5;
}

static bool make_buffers(struct measurement *m, struct tensor_set *set,
                         const struct attention_case *attention, struct message *why)
{
    for (int n = 0; n < INPUT_COUNT; n++) {
        const bool ok = set != m->sets && is_shared(attention, n)
                            ? share_buffers(&set->in[n], &m->sets[0].in[n], 1, why)
                            : make_buffer(m, input_bytes(m, attention, n), attention->in[n].data,
                                          &set->in[n], why);
        if (!ok)
            return false;
    }
    for (int n = 0; n < OUTPUT_COUNT; n++)
        if (!make_buffer(m, output_bytes(m, attention, n), NULL, &set->out[n], why))
            return false;
    return true;
}

/* One for all sets: the queue is in-order. */
static bool make_workspace(struct measurement *m, struct message *why)
{
    if (!make_buffer(m, m->engine.workspace_bytes, NULL, &m->sets[0].workspace, why))
        return false;
    for (size_t n = 1; n < m->copies; n++)
        m->sets[n].workspace = m->sets[0].workspace;
    return true;
}

/* Executes once on the next set of tensors. */
static bool execute(struct measurement *m, cl_event *done, struct message *why)
{
    return engine_run(&m->engine, &m->sets[m->next++ % m->copies], done, why);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static bool finish(struct measurement *m, struct message *why)
{
    const cl_int err = clFinish(m->engine.target->queue);

    return err == CL_SUCCESS || message_set(why, "clFinish failed with %d", err);
}

static bool execute_first(struct measurement *m, struct message *why)
{
    const double begin = ca_stopwatch_now();
    const bool ok = execute(m, NULL, why) && finish(m, why);

    m->first_seconds = ca_stopwatch_now() - begin;
    return ok;
}

static bool make_plan(struct measurement *m, const struct target *target,
                      const struct attention_case *attention, const clattn_plan_options *options,
                      struct message *why)
{
    memset(m, 0, sizeof *m);
    const double begin = ca_stopwatch_now();
    const bool ok = engine_open(&m->engine, target, &attention->job, options, why);
    m->plan_seconds = ca_stopwatch_now() - begin;
    return ok;
}

/* Opens a measurement on tensors of its own, or on those of another one. */
static bool open(struct measurement *m, const struct target *target,
                 const struct attention_case *attention, const clattn_plan_options *options,
                 size_t copies, const struct tensor_set *others, struct message *why)
{
    bool ok = make_plan(m, target, attention, options, why) && make_sets(m, copies, why);

    for (size_t n = 0; ok && n < copies; n++)
        ok = others == NULL ? make_buffers(m, &m->sets[n], attention, why)
                            : share_buffers(m->sets[n].in, others[n].in, INPUT_COUNT, why) &&
                                  share_buffers(m->sets[n].out, others[n].out, OUTPUT_COUNT, why);
    if (ok && make_workspace(m, why) && execute_first(m, why))
        return true;
    measurement_close(m);
    return false;
}

bool measurement_open(struct measurement *m, const struct target *target,
                      const struct attention_case *attention, const clattn_plan_options *options,
                      size_t copies, struct message *why)
{
    return open(m, target, attention, options, copies, NULL, why);
}

bool measurement_open_beside(struct measurement *m, const struct measurement *other,
                             const struct attention_case *attention,
                             const clattn_plan_options *options, struct message *why)
{
    return open(m, other->engine.target, attention, options, other->copies, other->sets, why);
}

static void release(const clattn_buffer *buffers, size_t count)
{
    for (size_t n = 0; n < count; n++)
        if (buffers[n].buffer != NULL)
            clReleaseMemObject(buffers[n].buffer);
}

void measurement_close(struct measurement *m)
{
    for (size_t n = 0; n < m->copies; n++) {
        release(m->sets[n].in, INPUT_COUNT);
        release(m->sets[n].out, OUTPUT_COUNT);
    }
    if (m->copies > 0)
        release(&m->sets[0].workspace, 1);
    free(m->sets);
    engine_close(&m->engine);
    memset(m, 0, sizeof *m);
}

/* ---- results --------------------------------------------------------------------------------- */

static bool read_back(const struct measurement *m, const clattn_buffer *from, size_t bytes,
                      void **to, struct message *why)
{
    *to = NULL;
    if (bytes == 0)
        return true;
    *to = case_allocate(bytes, 1, why);
    if (*to == NULL)
        return false;
    const cl_int err = clEnqueueReadBuffer(m->engine.target->queue, from->buffer, CL_TRUE, 0, bytes,
                                           *to, 0, NULL, NULL);
    return err == CL_SUCCESS || message_set(why, "clEnqueueReadBuffer failed with %d", err);
}

/* NaN, unless it is added to. */
static bool poison(const struct measurement *m, const clattn_buffer *output, size_t bytes,
                   bool accumulate, struct message *why)
{
    const unsigned char byte = accumulate ? CASE_HELD : 0xff; /* four of them are NaN, or two */

    if (bytes == 0)
        return true;
    const cl_int err = clEnqueueFillBuffer(m->engine.target->queue, output->buffer, &byte,
                                           sizeof byte, 0, bytes, 0, NULL, NULL);
    return err == CL_SUCCESS || message_set(why, "clEnqueueFillBuffer failed with %d", err);
}

bool measurement_results(struct measurement *m, const struct attention_case *attention,
                         struct results *results, struct message *why)
{
    const struct tensor_set *set = &m->sets[m->next % m->copies];
    bool ok = true;

    *results = (struct results){{NULL}};
    for (int n = 0; ok && n < OUTPUT_COUNT; n++)
        ok = poison(m, &set->out[n], output_bytes(m, attention, n), case_holds(&attention->job),
                    why);
    ok = ok && execute(m, NULL, why);
    for (int n = 0; ok && n < OUTPUT_COUNT; n++)
        ok = read_back(m, &set->out[n], output_bytes(m, attention, n), &results->out[n], why);
    if (!ok)
        results_release(results);
    return ok;
}

bool measurement_compare(const struct attention_case *attention, const struct results *results,
                         struct worst *worst, struct message *why)
{
    const struct tolerance by_dtype = {-1.0, -1.0};

    if (attention->o.data == NULL)
        return check_results(attention, results, PRECISION_SINGLE, worst, why);
    compare_case(worst, attention, results->out[OUTPUT_O], results->out[OUTPUT_SCORES], by_dtype);
    return true;
}

bool measurement_check(struct measurement *m, const struct attention_case *attention,
                       struct worst *worst, struct message *why)
{
    struct results results;

    if (!measurement_results(m, attention, &results, why))
        return false;
    const bool ok = measurement_compare(attention, &results, worst, why);
    results_release(&results);
    return ok;
}

/* ---- times ----------------------------------------------------------------------------------- */

static bool enqueue(void *work, cl_event *end, struct message *why)
{
    struct measurement *m = work;
    const double begin = ca_stopwatch_now();
    const bool ok = execute(m, end, why);

    m->host[m->enqueued++] = ca_stopwatch_now() - begin;
    return ok;
}

bool measurement_sample(struct measurement *m, double busy, double *seconds, double *host,
                        struct message *why)
{
    size_t executions = 1; /* The first sample of all only finds out how long one takes. */

    if (m->seconds > 0.0)
        executions =
            busy / m->seconds < TIMING_MOST ? (size_t)(busy / m->seconds) + 1 : TIMING_MOST;
    m->enqueued = 0;
    if (!timing_median(m->engine.target, enqueue, m, executions, seconds, why))
        return false;
    m->seconds = *seconds;
    *host = ca_median(m->host, m->enqueued).middle;
    return true;
}

/* ---- the way to the driver ------------------------------------------------------------------- */

enum { FEWEST_TURNS = 5, MOST_TURNS = 100 };

#define OVERHEAD_SECONDS 0.3 /* device time of all turns' kernels together */

/* Each call finds the queue empty: an event that holds a queue back makes PoCL's device `basic`
 * wait for itself. */
static bool take_turns(struct measurement *m, size_t turns, double *seconds, struct message *why)
{
    const struct engine *engine = &m->engine;
    double ours[MOST_TURNS], bare[MOST_TURNS];

    for (size_t n = 0; n < turns; n++) {
        double begin = ca_stopwatch_now();
        if (!engine_run(engine, &m->sets[0], NULL, why))
            return false;
        ours[n] = ca_stopwatch_now() - begin;
        if (!finish(m, why))
            return false;
        begin = ca_stopwatch_now();
        const cl_int err = ca_enqueue_bare(engine->plan, engine->target->queue);
        if (err != CL_SUCCESS)
            return message_set(why, "clEnqueueNDRangeKernel failed with %d", err);
        bare[n] = ca_stopwatch_now() - begin;
        if (!finish(m, why))
            return false;
    }
    const double more = ca_median(ours, turns).middle - ca_median(bare, turns).middle;
    *seconds = more > 0.0 ? more : 0.0;
    return true;
}

bool measurement_overhead(struct measurement *m, double *seconds, struct message *why)
{
    const double affordable = OVERHEAD_SECONDS / (2.0 * m->seconds);
    const size_t turns = affordable < FEWEST_TURNS ? FEWEST_TURNS
                         : affordable < MOST_TURNS ? (size_t)affordable
                                                   : MOST_TURNS;

    return take_turns(m, turns, seconds, why);
}

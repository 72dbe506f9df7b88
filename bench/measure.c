#include "measure.h"
#include "compare.h"
#include "statistics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fail(const struct measurement *m, const char *what, clattn_status status,
                 struct message *why)
{
    return message_set(why, "%s: %s: %s", what, clattn_status_string(status), m->target->log.text);
}

/* Leaves *buffer NULL for no bytes. The data may be NULL. */
static bool make_buffer(const struct measurement *m, size_t bytes, void *data,
                        clattn_buffer *buffer, struct message *why)
{
    const cl_mem_flags flags = CL_MEM_READ_WRITE | (data != NULL ? CL_MEM_COPY_HOST_PTR : 0);
    cl_int err;

    if (bytes == 0)
        return true;
    buffer->buffer =
        clCreateBuffer(clattn_context_opencl(m->target->context), flags, bytes, data, &err);
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

static size_t output_bytes(const clattn_problem *problem, int output)
{
    const struct view view = case_output_view(problem, (enum output)output);

    return view.extent * view.element;
}

static bool make_buffers(struct measurement *m, struct tensor_set *set,
                         const struct attention_case *attention, struct message *why)
{
    for (int n = 0; n < INPUT_COUNT; n++)
        if (!make_buffer(m, attention->in[n].bytes, attention->in[n].data, &set->in[n], why))
            return false;
    for (int n = 0; n < OUTPUT_COUNT; n++)
        if (!make_buffer(m, output_bytes(&attention->problem, n), NULL, &set->out[n], why))
            return false;
    return true;
}

/* One for all sets: the queue is in-order. */
static bool make_workspace(struct measurement *m, struct message *why)
{
    if (!make_buffer(m, m->info.workspace_bytes, NULL, &m->sets[0].workspace, why))
        return false;
    for (size_t n = 1; n < m->copies; n++)
        m->sets[n].workspace = m->sets[0].workspace;
    return true;
}

/* ---- operations ------------------------------------------------------------------------------ */

static clattn_status run_forward(const struct measurement *m, const struct tensor_set *set,
                                 cl_event *done)
{
    const clattn_forward tensors = {
        .struct_size = sizeof tensors,
        .q = set->in[INPUT_Q],
        .k = set->in[INPUT_K],
        .v = set->in[INPUT_V],
        .o = set->out[OUTPUT_O],
        .bias = set->in[INPUT_BIAS],
        .mask = set->in[INPUT_MASK],
        .slopes = set->in[INPUT_SLOPES],
        .sinks = set->in[INPUT_SINKS],
        .q_lengths = set->in[INPUT_Q_LENGTHS],
        .kv_lengths = set->in[INPUT_KV_LENGTHS],
        .lse = set->out[OUTPUT_LSE],
        .scores = set->out[OUTPUT_SCORES],
        .workspace = set->workspace,
    };

    return clattn_attention_forward(m->plan, m->target->queue, &tensors, 0, NULL, done);
}

static clattn_status run_backward(const struct measurement *m, const struct tensor_set *set,
                                  cl_event *done)
{
    const clattn_backward tensors = {
        .struct_size = sizeof tensors,
        .q = set->in[INPUT_Q],
        .k = set->in[INPUT_K],
        .v = set->in[INPUT_V],
        .o = set->in[INPUT_O],
        .lse = set->in[INPUT_LSE],
        .d_o = set->in[INPUT_DO],
        .bias = set->in[INPUT_BIAS],
        .mask = set->in[INPUT_MASK],
        .slopes = set->in[INPUT_SLOPES],
        .sinks = set->in[INPUT_SINKS],
        .q_lengths = set->in[INPUT_Q_LENGTHS],
        .kv_lengths = set->in[INPUT_KV_LENGTHS],
        .dq = set->out[OUTPUT_DQ],
        .dk = set->out[OUTPUT_DK],
        .dv = set->out[OUTPUT_DV],
        .dbias = set->out[OUTPUT_DBIAS],
        .dslopes = set->out[OUTPUT_DSLOPES],
        .dsinks = set->out[OUTPUT_DSINKS],
        .workspace = set->workspace,
    };

    return clattn_attention_backward(m->plan, m->target->queue, &tensors, 0, NULL, done);
}

static const struct {
    const char *call;
    clattn_status (*run)(const struct measurement *m, const struct tensor_set *set, cl_event *done);
} operations[] = {
    [CLATTN_FORWARD] = {"clattn_attention_forward", run_forward},
    [CLATTN_BACKWARD] = {"clattn_attention_backward", run_backward},
};

static bool execute(struct measurement *m, cl_event *done, struct message *why)
{
    const struct tensor_set *set = &m->sets[m->next++ % m->copies];
    const clattn_status status = operations[m->operation].run(m, set, done);

    return status == CLATTN_SUCCESS || fail(m, operations[m->operation].call, status, why);
}

/* ---- opening and closing ----------------------------------------------------------------------- */

static bool finish(struct measurement *m, struct message *why)
{
    const cl_int err = clFinish(m->target->queue);

    return err == CL_SUCCESS || message_set(why, "clFinish failed with %d", err);
}

static bool name_configuration(struct measurement *m, struct message *why)
{
    const size_t bytes = strlen(m->info.family) + strlen(m->info.tunables) + 2;

    m->configuration = malloc(bytes);
    if (m->configuration == NULL)
        return message_set(why, "no memory for the name of a configuration");
    snprintf(m->configuration, bytes, "%s%s%s", m->info.family,
             m->info.tunables[0] != '\0' ? " " : "", m->info.tunables);
    return true;
}

static bool execute_first(struct measurement *m, struct message *why)
{
    const double begin = timing_clock();
    const bool ok = execute(m, NULL, why) && finish(m, why);

    m->first_seconds = timing_clock() - begin;
    return ok;
}

static bool make_plan(struct measurement *m, const struct target *target,
                      const clattn_problem *problem, const clattn_plan_options *options,
                      struct message *why)
{
    memset(m, 0, sizeof *m);
    m->target = target;
    m->operation = problem->operation;
    m->info.struct_size = sizeof m->info;
    const double begin = timing_clock();
    clattn_status status = clattn_plan_create(target->context, problem, options, &m->plan);
    m->plan_seconds = timing_clock() - begin;
    if (status == CLATTN_SUCCESS)
        status = clattn_plan_describe(m->plan, &m->info);
    return status == CLATTN_SUCCESS ? name_configuration(m, why)
                                    : fail(m, "clattn_plan_create", status, why);
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

bool measurement_open(struct measurement *m, const struct target *target,
                      const struct attention_case *attention, const clattn_plan_options *options,
                      size_t copies, struct message *why)
{
    bool ok = make_plan(m, target, &attention->problem, options, why) && make_sets(m, copies, why);

    for (size_t n = 0; ok && n < copies; n++)
        ok = make_buffers(m, &m->sets[n], attention, why);
    if (ok && make_workspace(m, why) && execute_first(m, why))
        return true;
    measurement_close(m);
    return false;
}

bool measurement_open_beside(struct measurement *m, const struct measurement *other,
                             const struct attention_case *attention,
                             const clattn_plan_options *options, struct message *why)
{
    bool ok = make_plan(m, other->target, &attention->problem, options, why) &&
              make_sets(m, other->copies, why);

    for (size_t n = 0; ok && n < m->copies; n++)
        ok = share_buffers(m->sets[n].in, other->sets[n].in, INPUT_COUNT, why) &&
             share_buffers(m->sets[n].out, other->sets[n].out, OUTPUT_COUNT, why);
    if (ok && make_workspace(m, why) && execute_first(m, why))
        return true;
    measurement_close(m);
    return false;
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
    free(m->configuration);
    clattn_plan_release(m->plan);
    memset(m, 0, sizeof *m);
}

/* ---- results ----------------------------------------------------------------------------------- */

static bool read_back(const struct measurement *m, const clattn_buffer *from, size_t bytes,
                      void **to, struct message *why)
{
    *to = NULL;
    if (bytes == 0)
        return true;
    *to = case_allocate(bytes, 1, why);
    if (*to == NULL)
        return false;
    const cl_int err =
        clEnqueueReadBuffer(m->target->queue, from->buffer, CL_TRUE, 0, bytes, *to, 0, NULL, NULL);
    return err == CL_SUCCESS || message_set(why, "clEnqueueReadBuffer failed with %d", err);
}

static bool poison(const struct measurement *m, const clattn_buffer *output, size_t bytes,
                   struct message *why)
{
    static const unsigned char nan = 0xff; /* four of them, or two */

    if (bytes == 0)
        return true;
    const cl_int err = clEnqueueFillBuffer(m->target->queue, output->buffer, &nan, sizeof nan, 0,
                                           bytes, 0, NULL, NULL);
    return err == CL_SUCCESS || message_set(why, "clEnqueueFillBuffer failed with %d", err);
}

bool measurement_results(struct measurement *m, const struct attention_case *attention,
                         struct results *results, struct message *why)
{
    const struct tensor_set *set = &m->sets[m->next % m->copies];
    bool ok = true;

    *results = (struct results){{NULL}};
    for (int n = 0; ok && n < OUTPUT_COUNT; n++)
        ok = poison(m, &set->out[n], output_bytes(&attention->problem, n), why);
    ok = ok && execute(m, NULL, why);
    for (int n = 0; ok && n < OUTPUT_COUNT; n++)
        ok =
            read_back(m, &set->out[n], output_bytes(&attention->problem, n), &results->out[n], why);
    if (!ok)
        results_release(results);
    return ok;
}

bool measurement_check(struct measurement *m, const struct attention_case *attention,
                       struct worst *worst, struct message *why)
{
    const struct tolerance by_dtype = {-1.0, -1.0};
    struct results results;
    bool ok = true;

    if (!measurement_results(m, attention, &results, why))
        return false;
    if (attention->o.data == NULL)
        ok = check_results(attention, &results, PRECISION_SINGLE, worst, why);
    else
        compare_case(worst, attention, results.out[OUTPUT_O], results.out[OUTPUT_SCORES], by_dtype);
    results_release(&results);
    return ok;
}

/* ---- times ------------------------------------------------------------------------------------- */

static bool enqueue(void *work, cl_event *end, struct message *why)
{
    struct measurement *m = work;
    const double begin = timing_clock();
    const bool ok = execute(m, end, why);

    m->host[m->enqueued++] = timing_clock() - begin;
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
    if (!timing_median(m->target, enqueue, m, executions, seconds, why))
        return false;
    m->seconds = *seconds;
    *host = ca_median(m->host, m->enqueued).middle;
    return true;
}

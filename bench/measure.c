#include "measure.h"
#include "compare.h"
#include "statistics.h"
#include "values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fail(const struct measurement *m, const char *what, clattn_status status,
                 struct message *why)
{
    return message_set(why, "%s: %s: %s", what, clattn_status_string(status), m->target->log.text);
}

/* The tensors besides the workspace: the inputs, then the outputs. */
enum { SHARED_O = INPUT_COUNT, SHARED_LSE, SHARED_SCORES, SHARED_COUNT };

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

static clattn_buffer *shared_buffer(clattn_forward *tensors, int index)
{
    clattn_buffer *const buffers[SHARED_COUNT] = {
        [INPUT_Q] = &tensors->q,
        [INPUT_K] = &tensors->k,
        [INPUT_V] = &tensors->v,
        [INPUT_BIAS] = &tensors->bias,
        [INPUT_MASK] = &tensors->mask,
        [INPUT_SLOPES] = &tensors->slopes,
        [INPUT_SINKS] = &tensors->sinks,
        [INPUT_Q_LENGTHS] = &tensors->q_lengths,
        [INPUT_KV_LENGTHS] = &tensors->kv_lengths,
        [SHARED_O] = &tensors->o,
        [SHARED_LSE] = &tensors->lse,
        [SHARED_SCORES] = &tensors->scores,
    };

    return buffers[index];
}

struct sizes {
    size_t o, lse, scores; /* Bytes; 0 for what the problem has not. */
};

static struct sizes output_sizes(const clattn_problem *p)
{
    const size_t rows = p->batch * p->heads * p->seq_q;
    const struct view o = case_output_view(p);

    return (struct sizes){
        .o = o.extent * value_bytes(o.dtype),
        .lse = p->lse ? rows * sizeof(cl_float) : 0,
        .scores = p->scores != CLATTN_SCORES_NONE ? rows * p->seq_kv * sizeof(cl_float) : 0,
    };
}

static bool make_sets(struct measurement *m, size_t copies, struct message *why)
{
    m->sets = calloc(copies, sizeof *m->sets);
    if (m->sets == NULL)
        return message_set(why, "no memory for a measurement");
    m->copies = copies;
    for (size_t n = 0; n < copies; n++)
        m->sets[n].struct_size = sizeof *m->sets;
    return true;
}

static bool make_buffers(struct measurement *m, clattn_forward *set,
                         const struct attention_case *attention, struct message *why)
{
    const struct sizes sizes = output_sizes(&attention->problem);

    for (int n = 0; n < INPUT_COUNT; n++)
        if (!make_buffer(m, attention->in[n].bytes, attention->in[n].data, shared_buffer(set, n),
                         why))
            return false;
    return make_buffer(m, sizes.o, NULL, &set->o, why) &&
           make_buffer(m, sizes.lse, NULL, &set->lse, why) &&
           make_buffer(m, sizes.scores, NULL, &set->scores, why);
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

static bool execute(struct measurement *m, cl_event *done, struct message *why)
{
    const clattn_forward *set = &m->sets[m->next++ % m->copies];
    const clattn_status status =
        clattn_attention_forward(m->plan, m->target->queue, set, 0, NULL, done);

    return status == CLATTN_SUCCESS || fail(m, "clattn_attention_forward", status, why);
}

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
    m->info.struct_size = sizeof m->info;
    const double begin = timing_clock();
    clattn_status status = clattn_plan_create(target->context, problem, options, &m->plan);
    m->plan_seconds = timing_clock() - begin;
    if (status == CLATTN_SUCCESS)
        status = clattn_plan_describe(m->plan, &m->info);
    return status == CLATTN_SUCCESS ? name_configuration(m, why)
                                    : fail(m, "clattn_plan_create", status, why);
}

/* What measurements beside each other share, another reference each. */
static bool share_buffers(clattn_forward *set, clattn_forward others, struct message *why)
{
    for (int n = 0; n < SHARED_COUNT; n++) {
        const clattn_buffer *shared = shared_buffer(&others, n);
        const cl_int err = shared->buffer != NULL ? clRetainMemObject(shared->buffer) : CL_SUCCESS;
        if (err != CL_SUCCESS)
            return message_set(why, "clRetainMemObject failed with %d", err);
        *shared_buffer(set, n) = *shared;
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
        ok = share_buffers(&m->sets[n], other->sets[n], why);
    if (ok && make_workspace(m, why) && execute_first(m, why))
        return true;
    measurement_close(m);
    return false;
}

void measurement_close(struct measurement *m)
{
    for (size_t set = 0; set < m->copies; set++)
        for (int n = 0; n < SHARED_COUNT; n++)
            if (shared_buffer(&m->sets[set], n)->buffer != NULL)
                clReleaseMemObject(shared_buffer(&m->sets[set], n)->buffer);
    if (m->copies > 0 && m->sets[0].workspace.buffer != NULL)
        clReleaseMemObject(m->sets[0].workspace.buffer);
    free(m->sets);
    free(m->configuration);
    clattn_plan_release(m->plan);
    memset(m, 0, sizeof *m);
}

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

static void free_results(struct results *results)
{
    free(results->o);
    free(results->lse);
    free(results->scores);
    *results = (struct results){0};
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

/* Of an execution, to be freed. Nothing that another has left in the outputs is taken for one. */
static bool make_results(struct measurement *m, const struct attention_case *attention,
                         struct results *results, struct message *why)
{
    const struct sizes sizes = output_sizes(&attention->problem);
    const clattn_forward *set = &m->sets[m->next % m->copies];
    void *o = NULL, *lse = NULL, *scores = NULL;
    const bool ok = poison(m, &set->o, sizes.o, why) && poison(m, &set->lse, sizes.lse, why) &&
                    poison(m, &set->scores, sizes.scores, why) && execute(m, NULL, why) &&
                    read_back(m, &set->o, sizes.o, &o, why) &&
                    read_back(m, &set->lse, sizes.lse, &lse, why) &&
                    read_back(m, &set->scores, sizes.scores, &scores, why);

    *results = (struct results){.o = o, .lse = lse, .scores = scores};
    if (!ok)
        free_results(results);
    return ok;
}

bool measurement_check(struct measurement *m, const struct attention_case *attention,
                       struct worst *worst, struct message *why)
{
    const struct tolerance by_dtype = {-1.0, -1.0};
    struct results results;
    bool ok = true;

    if (!make_results(m, attention, &results, why))
        return false;
    if (attention->o.data == NULL)
        ok = check_results(attention, &results, PRECISION_SINGLE, worst, why);
    else
        compare_case(worst, attention, results.o, results.scores, by_dtype);
    free_results(&results);
    return ok;
}

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

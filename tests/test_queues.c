/* Orders and threads: out-of-order queues, events, four threads on one plan, plans made at once. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "family.h"
#include "faults.h"
#include "fixture.h"
#include "reference.h"
#include "storage.h"
#include "trial.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

TestSuite(queues, .timeout = 300);

static const char problem_text[] = "fwd f32 b2 h4/2 q37 k70 d24 causal=br lse";

/* One execution: its own tensors on the device, filled from the seed. */
struct job {
    struct trial t;
    clattn_forward tensors;
};

static void open_job(struct fixture *f, struct job *job, const char *problem, const uint64_t seed)
{
    memset(job, 0, sizeof *job);
    job->t.problem = fixture_problem(problem);
    job->t.seed = seed;
    trial_fill(&job->t);
    job->tensors.struct_size = sizeof job->tensors;
    for (int id = 0; id < NUM_TENSORS; id++) {
        struct host_tensor *x = &job->t.tensor[id];
        if (!x->bytes)
            continue;
        *tensor_buffer(&job->tensors, (enum tensor_id)id) =
            (clattn_buffer){fixture_buffer(f, x->num_bytes, x->bytes), x->offset};
        x->got = malloc(x->num_bytes);
        cr_assert(x->got != NULL);
    }
}

/* Reads everything back and compares; the work must have finished. */
static void close_job(struct fixture *f, struct job *job)
{
    for (int id = 0; id < NUM_TENSORS; id++) {
        struct host_tensor *x = &job->t.tensor[id];
        if (!x->bytes)
            continue;
        cl_mem buffer = tensor_buffer(&job->tensors, (enum tensor_id)id)->buffer;
        fixture_read(f, buffer, x->num_bytes, x->got);
        clReleaseMemObject(buffer);
    }
    trial_check(&job->t);
    trial_free(&job->t);
}

/* Whether o still holds the poison that it was sent with: nothing has run. */
static int untouched(struct fixture *f, const struct job *job)
{
    const struct host_tensor *o = &job->t.tensor[TENSOR_O];
    cl_int err;
    cl_command_queue other = clCreateCommandQueue(f->opencl, f->device, 0, &err);

    cr_assert(err == CL_SUCCESS);
    clEnqueueReadBuffer(other, job->tensors.o.buffer, CL_TRUE, 0, o->num_bytes, o->got, 0, NULL,
                        NULL);
    clReleaseCommandQueue(other);
    return memcmp(o->got, o->bytes, o->num_bytes) == 0;
}

/* The work waits for a user event, and the stages wait for each other, in whichever order the
 * queue likes; the event that comes back stands for the end of all. */
static void run_behind_event(const cl_command_queue_properties properties)
{
    struct fixture f;
    cl_int err;

    fixture_open(&f);
    cl_command_queue queue = clCreateCommandQueue(f.opencl, f.device, properties, &err);
    if (err == CL_INVALID_QUEUE_PROPERTIES)
        cr_skip_test("the device has no out-of-order queues");
    cr_assert(err == CL_SUCCESS);
    for (size_t family = 0; clattn_family_name(CLATTN_FORWARD, family); family++) {
        clattn_plan *plan =
            fixture_plan(&f, problem_text, clattn_family_name(CLATTN_FORWARD, family));
        struct job job;
        cl_event done = NULL, gate = clCreateUserEvent(f.opencl, &err);
        open_job(&f, &job, problem_text, 3 + family);
        cr_assert(clattn_attention_forward(plan, queue, &job.tensors, 1, &gate, &done) ==
                      CLATTN_SUCCESS,
                  "%s", f.log.last);
        clFlush(queue);
        nanosleep(&(struct timespec){0, 50000000}, NULL);
        cl_int state = CL_COMPLETE;
        clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        cr_expect(state > CL_COMPLETE, "finished before what it waits for");
        cr_expect(untouched(&f, &job), "%s ran before what it waits for",
                  clattn_family_name(CLATTN_FORWARD, family));
        clSetUserEventStatus(gate, CL_COMPLETE);
        cr_assert(clWaitForEvents(1, &done) == CL_SUCCESS);
        clReleaseEvent(gate);
        clReleaseEvent(done);
        close_job(&f, &job);
        clattn_plan_release(plan);
    }
    clReleaseCommandQueue(queue);
    fixture_close(&f);
}

Test(queues, in_order_behind_an_event) {
    run_behind_event(0);
}

Test(queues, out_of_order_behind_an_event) {
    run_behind_event(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
}

/* Many executions at once on one out-of-order queue, each with a workspace of the library's. */
Test(queues, out_of_order_many) {
    enum { JOBS = 12 };
    struct fixture f;
    struct job jobs[JOBS];
    cl_event done[JOBS];
    cl_int err;

    fixture_open(&f);
    cl_command_queue queue =
        clCreateCommandQueue(f.opencl, f.device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &err);
    if (err == CL_INVALID_QUEUE_PROPERTIES)
        cr_skip_test("the device has no out-of-order queues");
    clattn_plan *plan = fixture_plan(&f, problem_text, "unfused");
    const long waits = faults_waits();
    for (int n = 0; n < JOBS; n++) {
        open_job(&f, &jobs[n], problem_text, 100 + (uint64_t)n);
        cr_assert(clattn_attention_forward(plan, queue, &jobs[n].tensors, 0, NULL, &done[n]) ==
                      CLATTN_SUCCESS,
                  "%s", f.log.last);
    }
    /* An implementation may order kernels by their buffers, so ask for the events themselves. */
    cr_expect(faults_waits() - waits == JOBS * (long)(ca_unfused.num_stages - 1));
    clattn_plan_release(plan); /* what was enqueued finishes undisturbed */
    cr_assert(clWaitForEvents(JOBS, done) == CL_SUCCESS);
    for (int n = 0; n < JOBS; n++) {
        clReleaseEvent(done[n]);
        close_job(&f, &jobs[n]);
    }
    clReleaseCommandQueue(queue);
    fixture_close(&f);
}

/* Nothing to compute: the event still stands for the wait list. */
Test(queues, empty_problem_keeps_the_order) {
    struct fixture f;
    cl_event done = NULL;
    cl_int err, state = CL_COMPLETE;
    const clattn_forward tensors = {.struct_size = sizeof tensors};

    fixture_open(&f);
    clattn_plan *plan = fixture_plan(&f, "fwd f32 b0 q3 k4 d8", NULL);
    cl_event gate = clCreateUserEvent(f.opencl, &err);
    cr_assert(clattn_attention_forward(plan, f.queue, &tensors, 1, &gate, &done) == CLATTN_SUCCESS);
    cr_assert(done != NULL);
    clFlush(f.queue);
    clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    cr_expect(state > CL_COMPLETE);
    clSetUserEventStatus(gate, CL_COMPLETE);
    cr_expect(clWaitForEvents(1, &done) == CL_SUCCESS);
    clReleaseEvent(gate);
    clReleaseEvent(done);
    clattn_plan_release(plan);
    fixture_close(&f);
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { THREADS = 4, RUNS = 25 };

struct worker {
    pthread_t thread;
    struct fixture *f;
    const clattn_plan *plan;
    cl_command_queue queue;
    struct job *jobs; /* RUNS */
    const char *failure;
};

static void *execute(void *argument)
{
    struct worker *w = argument;

    for (int n = 0; n < RUNS; n++)
        if (clattn_attention_forward(w->plan, w->queue, &w->jobs[n].tensors, 0, NULL, NULL) !=
            CLATTN_SUCCESS)
            w->failure = "clattn_attention_forward";
    clFinish(w->queue);
    return NULL;
}

/* Each thread has its own queue and tensors; a kernel's arguments must never be mixed up. */
Test(queues, four_threads_on_one_plan) {
    static const char text[] = "fwd f32 h2 q9 k20 d24 lse";
    struct fixture f;
    struct worker workers[THREADS];
    cl_int err;

    fixture_open(&f);
    for (size_t family = 0; clattn_family_name(CLATTN_FORWARD, family); family++) {
        clattn_plan *plan = fixture_plan(&f, text, clattn_family_name(CLATTN_FORWARD, family));
        for (int w = 0; w < THREADS; w++) {
            workers[w] = (struct worker){.f = &f,
                                         .plan = plan,
                                         .queue = clCreateCommandQueue(f.opencl, f.device, 0, &err),
                                         .jobs = calloc(RUNS, sizeof(struct job))};
            cr_assert(workers[w].jobs && err == CL_SUCCESS);
            for (int n = 0; n < RUNS; n++)
                open_job(&f, &workers[w].jobs[n], text, (uint64_t)(1000 * w + n));
        }
        faults_arm(FAULT_DELAY, 0, 0);
        for (int w = 0; w < THREADS; w++)
            cr_assert(pthread_create(&workers[w].thread, NULL, execute, &workers[w]) == 0);
        for (int w = 0; w < THREADS; w++)
            pthread_join(workers[w].thread, NULL);
        faults_disarm();
        for (int w = 0; w < THREADS; w++) {
            cr_assert(workers[w].failure == NULL, "%s", f.log.last);
            for (int n = 0; n < RUNS; n++)
                close_job(&f, &workers[w].jobs[n]);
            clReleaseCommandQueue(workers[w].queue);
            free(workers[w].jobs);
        }
        clattn_plan_release(plan);
    }
    fixture_close(&f);
}

struct maker {
    pthread_t thread;
    clattn_context *context;
    const char *problem;
    clattn_plan *plan;
    clattn_status status;
};

static void *make(void *argument)
{
    struct maker *m = argument;
    clattn_problem problem;

    m->status = clattn_problem_parse(m->problem, &problem, NULL, 0);
    if (m->status == CLATTN_SUCCESS)
        m->status = clattn_plan_create(m->context, &problem, NULL, &m->plan);
    return NULL;
}

/* Several plans on one context at once: two different programs, each built once. */
Test(queues, plans_made_at_once) {
    struct fixture f;
    struct maker makers[6];
    const char *problems[2] = {"fwd f32 q9 k20 d24", "fwd f16 q9 k20 d24 lse"};

    fixture_open(&f);
    for (int n = 0; n < 6; n++) {
        makers[n] = (struct maker){.context = f.context, .problem = problems[n % 2]};
        cr_assert(pthread_create(&makers[n].thread, NULL, make, &makers[n]) == 0);
    }
    for (int n = 0; n < 6; n++) {
        pthread_join(makers[n].thread, NULL);
        cr_assert(makers[n].status == CLATTN_SUCCESS, "%s", f.log.last);
    }
    const size_t builds = clattn_context_builds(f.context);
    clattn_plan_release(fixture_plan(&f, problems[0], NULL));
    clattn_plan_release(fixture_plan(&f, problems[1], NULL));
    cr_expect(clattn_context_builds(f.context) == builds);
    for (int n = 0; n < 6; n++)
        clattn_plan_release(makers[n].plan);
    fixture_close(&f);
}

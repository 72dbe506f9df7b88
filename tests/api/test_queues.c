/* SPDX-License-Identifier: Apache-2.0 */
/* Orders and threads: out-of-order queues, events, four threads on one plan, plans made at once. */
#include "execute/plan.h"
#include "families/family.h"
#include "families/family_units.h"
#include "families/registry.h"
#include "tests/faults/faults.h"
#include "tests/support/families.h"
#include "tests/support/fixture.h"
#include "tests/support/storage.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

TestSuite(queues, .init = unoptimised, .timeout = 300);

/* By operation. */
static const char *const problem_texts[] = {
    "fwd f32 b2 h4/2 q37 k70 d24 causal=br lse keysums",
    "bwd f32 b2 h4/2 q37 k70 d24 causal=br bias=f32:hqk sinks dbias dsinks",
};

/* One execution: its own tensors on the device, filled from the seed. */
struct job {
    struct trial t;
    struct tensor_arguments tensors;
};

static void open_job(struct fixture *f, struct job *job, const char *problem, const uint64_t seed)
{
    memset(job, 0, sizeof *job);
    job->t.problem = fixture_problem(problem);
    job->t.seed = seed;
    trial_fill(&job->t);
    job->tensors = trial_send(f, &job->t);
}

static clattn_status execute_job(const clattn_plan *plan, cl_command_queue queue,
                                 const struct job *job, const cl_uint num_wait,
                                 const cl_event *wait, cl_event *done)
{
    return tensor_execute(job->t.problem.operation, plan, queue, &job->tensors, num_wait, wait,
                          done);
}

/* Reads everything back and compares; the work must have finished. */
static void close_job(struct fixture *f, struct job *job)
{
    trial_receive(f, &job->t, &job->tensors);
    trial_check(&job->t);
    trial_free(&job->t);
}

/* Returns whether a result still holds the poison that it was sent with: nothing has run. */
static int untouched(struct fixture *f, const struct job *job)
{
    const enum tensor_id id = job->t.problem.operation == CLATTN_BACKWARD ? TENSOR_DV : TENSOR_O;
    const struct host_tensor *x = &job->t.tensor[id];
    unsigned char *now = malloc(x->num_bytes);
    cl_int err;
    cl_command_queue other = clCreateCommandQueue(f->opencl, f->device, 0, &err);

    cr_assert(now != NULL && err == CL_SUCCESS);
    clEnqueueReadBuffer(other, job->tensors.at[id].buffer, CL_TRUE, 0, x->num_bytes, now, 0, NULL,
                        NULL);
    clReleaseCommandQueue(other);
    const int same = memcmp(now, x->bytes, x->num_bytes) == 0;
    free(now);
    return same;
}

/* The work waits for a user event, and the stages wait for each other, in whichever order the
 * queue likes; the event that comes back stands for the end of all. Returns how often a kernel waited for an event. */
static long run_one(struct fixture *f, cl_command_queue queue, const clattn_plan *plan,
                    const char *problem, const uint64_t seed)
{
    struct job job;
    cl_int err;
    cl_event done = NULL, gate = clCreateUserEvent(f->opencl, &err);

    open_job(f, &job, problem, seed);
    const long waits = faults_waits();
    cr_assert(execute_job(plan, queue, &job, 1, &gate, &done) == CLATTN_SUCCESS, "%s", f->log.last);
    const long waited = faults_waits() - waits;
    fixture_expect_waiting(queue, done);
    cr_expect(untouched(f, &job), "%s ran before what it waits for", problem);
    clSetUserEventStatus(gate, CL_COMPLETE);
    cr_assert(clWaitForEvents(1, &done) == CL_SUCCESS);
    clReleaseEvent(gate);
    clReleaseEvent(done);
    close_job(f, &job);
    return waited;
}

static void run_behind_event(const cl_command_queue_properties properties)
{
    struct fixture f;

    fixture_open(&f);
    cl_command_queue queue = fixture_queue(&f, properties);
    for (size_t n = 0; ca_family_at(n); n++) {
        const struct ca_family *family = ca_family_at(n);
        if (family->operation > CLATTN_BACKWARD || !family_takes_f32(family->full_name))
            continue;
        const char *problem = problem_texts[family->operation];
        clattn_plan *plan = fixture_plan(&f, problem, family->full_name);
        run_one(&f, queue, plan, problem, 3 + n);
        clattn_plan_release(plan);
    }
    clReleaseCommandQueue(queue);
    fixture_close(&f);
}

static long count_stages(const clattn_plan *plan)
{
    long stages = 0; /* that this problem has something to do for */

    for (size_t s = 0; s < plan->candidate.family->num_stages; s++)
        stages += plan->runs[s] != 0;
    return stages;
}

/* Lists of chosen keys in several executions, of which only the last has gradients of sinks. */
Test(queues, out_of_order_in_several_executions) {
    const char *problem = "bwd f32 b2 h4/2 q70 k700 d16 causal=br sinks dsinks topk=5";
    struct fixture f;

    fixture_open(&f);
    cl_command_queue queue = fixture_queue(&f, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    clattn_plan *plan = fixture_plan(&f, problem, NULL);
    const long executions = (long)plan->chosen.executions;
    cr_assert(executions > 1);
    cr_assert(plan->copies != NULL);
    const long waited = run_one(&f, queue, plan, problem, 5);
    /* What reads the lists waits for the gate, all others for the kernel before. */
    cr_expect(waited == 1 + executions * (count_stages(plan) + count_stages(plan->copies) - 1) + 1,
              "%ld kernels waited", waited);
    clattn_plan_release(plan);
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
static void run_many(const struct ca_family *family)
{
    enum { JOBS = 12 };
    const char *problem = problem_texts[family->operation];
    struct fixture f;
    struct job jobs[JOBS];
    cl_event done[JOBS];

    fixture_open(&f);
    cl_command_queue queue = fixture_queue(&f, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    clattn_plan *plan = fixture_plan(&f, problem, family->full_name);
    const long waits = faults_waits();
    for (int n = 0; n < JOBS; n++) {
        open_job(&f, &jobs[n], problem, 100 + (uint64_t)n);
        cr_assert(execute_job(plan, queue, &jobs[n], 0, NULL, &done[n]) == CLATTN_SUCCESS, "%s",
                  f.log.last);
    }
    /* An implementation may order kernels by their buffers, so ask for the events themselves. */
    const long stages = count_stages(plan) + (plan->then != NULL); /* the one kernel behind them */
    cr_expect(faults_waits() - waits == JOBS * (stages - 1));
    clattn_plan_release(plan); /* what was enqueued finishes undisturbed */
    cr_assert(clWaitForEvents(JOBS, done) == CL_SUCCESS);
    for (int n = 0; n < JOBS; n++) {
        clReleaseEvent(done[n]);
        close_job(&f, &jobs[n]);
    }
    clReleaseCommandQueue(queue);
    fixture_close(&f);
}

Test(queues, out_of_order_many) {
    run_many(ca_family_find("unfused"));
}

Test(queues, out_of_order_many_gradients) {
    run_many(&ca_backward_cpu_vector);
}

/* Nothing to compute: the event still stands for the wait list. */
DeviceTest(queues, empty_problem_keeps_the_order)
{
    cl_event done = NULL;
    cl_int err, state = CL_COMPLETE;
    const clattn_forward_tensors tensors = {.struct_size = sizeof tensors};

    clattn_plan *plan = fixture_plan(f, "fwd f32 b0 q3 k4 d8", NULL);
    cl_event gate = clCreateUserEvent(f->opencl, &err);
    cr_assert(clattn_attention_forward(plan, f->queue, &tensors, 1, &gate, &done) ==
              CLATTN_SUCCESS);
    cr_assert(done != NULL);
    clFlush(f->queue);
    clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    cr_expect(state > CL_COMPLETE);
    clSetUserEventStatus(gate, CL_COMPLETE);
    cr_expect(clWaitForEvents(1, &done) == CL_SUCCESS);
    clReleaseEvent(gate);
    clReleaseEvent(done);
    clattn_plan_release(plan);
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { THREADS = 4, RUNS = 10 };

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
        if (execute_job(w->plan, w->queue, &w->jobs[n], 0, NULL, NULL) != CLATTN_SUCCESS)
            w->failure = "execution";
    clFinish(w->queue);
    return NULL;
}

static void run_in_threads(struct fixture *f, const char *family, const char *problem)
{
    clattn_plan *plan = fixture_plan(f, problem, family);
    struct worker workers[THREADS];
    cl_int err;

    for (int w = 0; w < THREADS; w++) {
        workers[w] = (struct worker){.f = f,
                                     .plan = plan,
                                     .queue = clCreateCommandQueue(f->opencl, f->device, 0, &err),
                                     .jobs = calloc(RUNS, sizeof(struct job))};
        cr_assert(workers[w].jobs && err == CL_SUCCESS);
        for (int n = 0; n < RUNS; n++)
            open_job(f, &workers[w].jobs[n], problem, (uint64_t)(1000 * w + n));
    }
    faults_arm(FAULT_DELAY, 0, 0);
    for (int w = 0; w < THREADS; w++)
        cr_assert(pthread_create(&workers[w].thread, NULL, execute, &workers[w]) == 0);
    for (int w = 0; w < THREADS; w++)
        pthread_join(workers[w].thread, NULL);
    faults_disarm();
    for (int w = 0; w < THREADS; w++) {
        cr_assert(workers[w].failure == NULL, "%s", f->log.last);
        for (int n = 0; n < RUNS; n++)
            close_job(f, &workers[w].jobs[n]);
        clReleaseCommandQueue(workers[w].queue);
        free(workers[w].jobs);
    }
    clattn_plan_release(plan);
}

/* Each thread has its own queue and tensors; a kernel's arguments must never be mixed up. */
DeviceTest(queues, four_threads_on_one_plan)
{
    static const char *const texts[] = {"fwd f32 h2 q9 k20 d24 lse", "bwd f32 h2 q9 k20 d24"};

    for (size_t n = 0; ca_family_at(n); n++)
        if (ca_family_at(n)->operation <= CLATTN_BACKWARD &&
            family_takes_f32(ca_family_at(n)->full_name))
            run_in_threads(f, ca_family_at(n)->full_name, texts[ca_family_at(n)->operation]);
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
DeviceTest(queues, plans_made_at_once)
{
    struct maker makers[6];
    const char *problems[2] = {"fwd f32 q9 k20 d24", "fwd f16 q9 k20 d24 lse"};

    for (int n = 0; n < 6; n++) {
        makers[n] = (struct maker){.context = f->context, .problem = problems[n % 2]};
        cr_assert(pthread_create(&makers[n].thread, NULL, make, &makers[n]) == 0);
    }
    for (int n = 0; n < 6; n++) {
        pthread_join(makers[n].thread, NULL);
        cr_assert(makers[n].status == CLATTN_SUCCESS, "%s", f->log.last);
    }
    const size_t builds = clattn_context_builds(f->context);
    clattn_plan_release(fixture_plan(f, problems[0], NULL));
    clattn_plan_release(fixture_plan(f, problems[1], NULL));
    cr_expect(clattn_context_builds(f->context) == builds);
    for (int n = 0; n < 6; n++)
        clattn_plan_release(makers[n].plan);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Layers on queues of both kinds, from two threads, and when calls fail. */
#include "tests/faults/faults.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/multihead_case.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

TestSuite(multihead_queues, .init = unoptimised, .timeout = 300);

static const char text[] = "layer fwd f32 b2 h2 q5 k5 d8 model=7 biases obias training";

/* A case and its plans: [0] forward, [1] backward. */
struct both {
    struct layer_case c;
    clattn_multihead_plan *plans[2];
};
static const clattn_operation operations[2] = {CLATTN_FORWARD, CLATTN_BACKWARD};

static void open(struct fixture *f, struct both *both, const char *layer_text, const uint64_t seed)
{
    const clattn_multihead layer = layer_parsed(layer_text), gradients = layer_backward(&layer);

    layer_case_open(f, &both->c, &layer, seed);
    both->plans[0] = layer_plan(f, &layer);
    both->plans[1] = layer_plan(f, &gradients);
}

static void close(struct both *both)
{
    clattn_multihead_plan_release(both->plans[1]);
    clattn_multihead_plan_release(both->plans[0]);
    layer_case_close(&both->c);
}

static clattn_status run(const struct both *both, const int n, cl_command_queue queue,
                         const cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    const struct layer_arguments arguments = layer_case_arguments(&both->c);

    return layer_execute(operations[n], both->plans[n], queue, &arguments, num_wait, wait, done);
}

static void read_and_check(struct fixture *f, struct both *both)
{
    layer_case_read(f, &both->c);
    layer_case_check(&both->c, LAYER_ALL_OUTPUTS);
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* Forward waits for a user event, backward for forward, and each done for the end of its work. */
static void run_behind_event(const cl_command_queue_properties properties)
{
    struct fixture f;
    struct both both;
    cl_event done[2] = {NULL, NULL};
    cl_int err;

    fixture_open(&f);
    cl_command_queue queue = fixture_queue(&f, properties);
    open(&f, &both, text, 4);
    cl_event gate = clCreateUserEvent(f.opencl, &err);
    const long waits = faults_waits();
    cr_assert(run(&both, 0, queue, 1, &gate, &done[0]) == CLATTN_SUCCESS, "%s", f.log.last);
    cr_assert(run(&both, 1, queue, 1, &done[0], &done[1]) == CLATTN_SUCCESS, "%s", f.log.last);
    if (properties) /* q, k and v wait for the gate, attention for all of them, and so on */
        cr_expect(faults_waits() - waits >= 20, "%ld waits", faults_waits() - waits);
    fixture_expect_waiting(queue, done[0]);
    clSetUserEventStatus(gate, CL_COMPLETE);
    cr_assert(clWaitForEvents(1, &done[1]) == CL_SUCCESS);
    read_and_check(&f, &both);
    clReleaseEvent(gate);
    clReleaseEvent(done[0]);
    clReleaseEvent(done[1]);
    close(&both);
    clReleaseCommandQueue(queue);
    fixture_close(&f);
}

Test(multihead_queues, in_order_behind_an_event) {
    run_behind_event(0);
}

Test(multihead_queues, out_of_order_behind_an_event) {
    run_behind_event(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
}

/* Whichever step is late, done waits for it, or for what waits for it: often it is one that no other
 * reads, such as the gradient of a bias. */
DeviceTest(multihead_queues, done_waits_for_every_step)
{
    struct both both;
    cl_event done;

    cl_command_queue queue = fixture_queue(f, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    open(f, &both, text, 5);
    for (int direction = 0; direction < 2; direction++) {
        size_t loose;
        faults_record();
        cr_assert(run(&both, direction, queue, 0, NULL, &done) == CLATTN_SUCCESS);
        const size_t commands = faults_recorded(done, &loose);
        cr_expect(commands >= 5 && commands < FAULTS_MOST_COMMANDS, "%zu commands", commands);
        cr_expect(loose == 0, "%s: done waits for neither of %zu commands",
                  direction ? "backward" : "forward", loose);
        cr_assert(clWaitForEvents(1, &done) == CL_SUCCESS);
        clFinish(queue); /* backward needs what forward kept */
        clReleaseEvent(done);
    }
    read_and_check(f, &both);
    close(&both);
    clReleaseCommandQueue(queue);
}

/* Nothing to compute: the event still stands for the wait list. */
DeviceTest(multihead_queues, empty_layer_keeps_the_order)
{
    static const char empty[] = "layer fwd f32 b0 h2 q5 k5 d8 model=7";
    clattn_multihead_forward_tensors tensors = {.struct_size = sizeof tensors};
    const clattn_multihead layer = layer_parsed(empty);
    cl_event done = NULL;
    cl_int err, state = CL_COMPLETE;

    clattn_multihead_plan *plan = layer_plan(f, &layer);
    cl_mem weights = fixture_buffer(f, 4096, NULL);
    cl_event gate = clCreateUserEvent(f->opencl, &err);
    tensors.parameters.w_q.buffer = tensors.parameters.w_k.buffer = weights;
    tensors.parameters.w_v.buffer = tensors.parameters.w_o.buffer = weights;
    cr_assert(clattn_multihead_forward(plan, f->queue, &tensors, 1, &gate, &done) == CLATTN_SUCCESS,
              "%s", f->log.last);
    cr_assert(done != NULL);
    clFlush(f->queue);
    clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    cr_expect(state > CL_COMPLETE);
    clSetUserEventStatus(gate, CL_COMPLETE);
    cr_expect(clWaitForEvents(1, &done) == CL_SUCCESS);
    clReleaseEvent(gate);
    clReleaseEvent(done);
    clReleaseMemObject(weights);
    clattn_multihead_plan_release(plan);
}

/* The same bits on every run, on queues of both kinds. */
DeviceTest(multihead_queues, the_same_bits)
{
    static unsigned char first[NUM_LAYER_TENSORS][4096];
    struct both both;
    cl_int err;

    cl_command_queue free_order =
        clCreateCommandQueue(f->opencl, f->device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &err);
    open(f, &both, text, 6);
    for (int n = 0; n < 20; n++) {
        cl_command_queue queue = n % 2 && free_order ? free_order : f->queue;
        cr_assert(run(&both, 0, queue, 0, NULL, NULL) == CLATTN_SUCCESS);
        clFinish(queue);
        cr_assert(run(&both, 1, queue, 0, NULL, NULL) == CLATTN_SUCCESS);
        clFinish(queue);
        layer_case_read(f, &both.c);
        for (int id = LAYER_Y; id < NUM_LAYER_TENSORS; id++) {
            const struct layer_buffer *t = &both.c.tensor[id];
            cr_assert(t->bytes <= sizeof first[id]);
            if (n == 0)
                memcpy(first[id], t->got, t->bytes);
            cr_assert(memcmp(first[id], t->got, t->bytes) == 0, "%s differs in run %d",
                      layer_tensor_name((enum layer_tensor)id), n);
        }
    }
    if (free_order)
        clReleaseCommandQueue(free_order);
    close(&both);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { RUNS = 20 };

struct worker {
    pthread_t thread;
    struct both *both; /* RUNS, with the plans of the first */
    cl_command_queue queue;
    int failures;
};

static void *execute(void *argument)
{
    struct worker *w = argument;

    for (int n = 0; n < RUNS; n++)
        for (int direction = 0; direction < 2; direction++)
            w->failures += run(&w->both[n], direction, w->queue, 0, NULL, NULL) != CLATTN_SUCCESS;
    clFinish(w->queue);
    return NULL;
}

DeviceTest(multihead_queues, two_threads_on_one_plan)
{
    static struct both cases[2][RUNS];
    struct worker workers[2];
    cl_int err;

    for (int w = 0; w < 2; w++) {
        workers[w] = (struct worker){.both = cases[w]};
        workers[w].queue = clCreateCommandQueue(f->opencl, f->device, 0, &err);
        cr_assert(err == CL_SUCCESS);
        for (int n = 0; n < RUNS; n++)
            open(f, &cases[w][n], text, (uint64_t)(100 * w + n));
    }
    clattn_multihead_plan *const own[2] = {cases[0][0].plans[0], cases[0][0].plans[1]};
    for (int n = 1; n < 2 * RUNS; n++)
        for (int direction = 0; direction < 2; direction++) {
            clattn_multihead_plan_release(cases[n / RUNS][n % RUNS].plans[direction]);
            cases[n / RUNS][n % RUNS].plans[direction] = own[direction];
        }
    faults_arm(FAULT_DELAY, 0, 0);
    for (int w = 0; w < 2; w++)
        cr_assert(pthread_create(&workers[w].thread, NULL, execute, &workers[w]) == 0);
    for (int w = 0; w < 2; w++)
        pthread_join(workers[w].thread, NULL);
    faults_disarm();
    for (int w = 0; w < 2; w++) {
        cr_assert(workers[w].failures == 0, "%s", f->log.last);
        clReleaseCommandQueue(workers[w].queue);
        for (int n = 0; n < RUNS; n++) {
            read_and_check(f, &cases[w][n]);
            layer_case_close(&cases[w][n].c);
        }
    }
    clattn_multihead_plan_release(own[1]);
    clattn_multihead_plan_release(own[0]);
}

/* ---- calls that fail ------------------------------------------------------------------------- */

static clattn_status make_plan(struct fixture *f, void *layer)
{
    clattn_multihead_plan *plan = (clattn_multihead_plan *)(void *)f;
    const clattn_status status = clattn_multihead_plan_create(f->context, layer, 0, &plan);

    cr_assert((plan != NULL) == (status == CLATTN_SUCCESS));
    clattn_multihead_plan_release(plan);
    return status;
}

DeviceTest(multihead_queues, faults_of_plans)
{
    clattn_multihead layer = layer_parsed(text), gradients = layer_backward(&layer);
    struct both both;

    open(f, &both, text, 1); /* builds the programs */
    fixture_fail_each(f, make_plan, &layer, NULL);
    fixture_fail_each(f, make_plan, &gradients, NULL);
    close(&both);
}

struct queued {
    const struct both *both;
    int direction;
    cl_command_queue queue;
};

static clattn_status execute_one(struct fixture *f, void *user)
{
    const struct queued *q = user;
    cl_event done = (cl_event)(void *)f;
    const clattn_status status = run(q->both, q->direction, q->queue, 0, NULL, &done);

    cr_assert((done != NULL) == (status == CLATTN_SUCCESS));
    if (done)
        clReleaseEvent(done);
    return status;
}

DeviceTest(multihead_queues, faults_of_executions)
{
    struct both both;
    cl_int err;

    cl_command_queue free_order =
        clCreateCommandQueue(f->opencl, f->device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &err);
    open(f, &both, text, 2);
    for (int direction = 0; direction < 2; direction++) {
        fixture_fail_each(f, execute_one, &(struct queued){&both, direction, f->queue}, f->queue);
        if (free_order)
            fixture_fail_each(f, execute_one, &(struct queued){&both, direction, free_order},
                              free_order);
    }
    for (int direction = 0; direction < 2; direction++)
        cr_assert(run(&both, direction, f->queue, 0, NULL, NULL) == CLATTN_SUCCESS);
    read_and_check(f, &both);
    if (free_order)
        clReleaseCommandQueue(free_order);
    close(&both);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The n-th allocation or OpenCL call fails, for every n: the right status, a sentence, nothing
 * leaked, and the same call works afterwards. */
#include "families/family.h"
#include "families/registry.h"
#include "tests/faults/faults.h"
#include "tests/support/families.h"
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/tensors.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(faults, .init = unoptimised, .timeout = 300);

enum { MOST_CALLS = 400 };

/* The calls that fail, and the status that the headers promise for each. */
static const struct failure {
    enum fault_kind kind;
    cl_int error;
    clattn_status status;
} failures[] = {
    {FAULT_MEMORY, 0, CLATTN_OUT_OF_MEMORY},
    {FAULT_OPENCL, CL_OUT_OF_HOST_MEMORY, CLATTN_OUT_OF_MEMORY},
    {FAULT_OPENCL, CL_MEM_OBJECT_ALLOCATION_FAILURE, CLATTN_OUT_OF_MEMORY},
    {FAULT_OPENCL, CL_INVALID_OPERATION, CLATTN_OPENCL_ERROR},
};

static const char problem_text[] = "fwd f32 h2 q3 k5 d8 lse scores=raw";

/* ---- making a context ----------------------------------------------------------------------- */

/* A driver whose own allocations count here has hundreds of calls: each run takes the first of them and a part
 * of the others. */
static int is_taken(const size_t n)
{
    return n < 40 || run_takes(n, 16);
}

Test(faults, context) {
    for (size_t kind = 0; kind < sizeof failures / sizeof *failures; kind++) {
        const char *failed = "";
        if (failures[kind].error == CL_MEM_OBJECT_ALLOCATION_FAILURE)
            continue; /* no buffer is made */
        for (size_t n = 0; failed && n < MOST_CALLS; n++) {
            if (!is_taken(n))
                continue;
            struct log log = {0};
            const clattn_context_options options = {.struct_size = sizeof options,
                                                    .log = log_message,
                                                    .log_user_data = &log,
                                                    .cache_directory = ""};
            clattn_context *context = (clattn_context *)(void *)&log;
            const struct faults_alive before = faults_alive();
            faults_arm(failures[kind].kind, n, failures[kind].error);
            const clattn_status status = clattn_context_create_default(NULL, &options, &context);
            failed = faults_disarm();
            if (status == CLATTN_SUCCESS) { /* also where one device of several was passed over */
                cr_assert(context != NULL);
                clattn_context_release(context);
            } else {
                cr_assert(failed && context == NULL);
                cr_assert(status == failures[kind].status, "%s failed: %s", failed,
                          clattn_status_string(status));
                cr_assert(log.errors > 0, "%s failed without a sentence", failed);
            }
            faults_expect_alive(before, failed ? failed : "nothing", n);
        }
        cr_assert(failed == NULL, "there is no end of calls");
    }
}

/* ---- making a plan -------------------------------------------------------------------------- */

static clattn_status make_plan(struct fixture *f, void *text)
{
    const clattn_problem problem = fixture_problem(text);
    const clattn_plan_options options = {.struct_size = sizeof options,
                                         .family = problem.operation == CLATTN_FORWARD
                                                       ? "unfused"
                                                       : clattn_family_name(problem.operation, 0)};
    clattn_plan *plan = (clattn_plan *)(void *)f;
    const clattn_status status = clattn_plan_create(f->context, &problem, &options, &plan);

    cr_assert((plan != NULL) == (status == CLATTN_SUCCESS));
    clattn_plan_release(plan);
    return status;
}

/* The first plan on a fresh context builds and checks a program, which the later ones have. */
Test(faults, plan) {
    static char texts[][64] = {"fwd f32 h2 q3 k5 d8 lse scores=raw",
                               "proj f32 q5 d4/6 bias=f16 accumulate"};

    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        struct fixture f;
        fixture_open_checked(&f, "");
        fixture_fail_each(&f, make_plan, texts[n], NULL);
        fixture_close(&f);
    }
}

/* A compiler's refusal is told apart from a call that failed, and its log reaches the caller. */
DeviceTest(faults, build_failure)
{
    const clattn_problem problem = fixture_problem(problem_text);
    const clattn_plan_options options = {.struct_size = sizeof options, .family = "unfused"};
    clattn_plan *plan;
    const char *failed = "";

    for (size_t n = 0; n < MOST_CALLS && strcmp(failed, "clBuildProgram") != 0; n++) {
        faults_arm(FAULT_OPENCL, n, CL_BUILD_PROGRAM_FAILURE);
        const clattn_status status = clattn_plan_create(f->context, &problem, &options, &plan);
        failed = faults_disarm();
        cr_assert(failed != NULL && plan == NULL);
        cr_assert(status == (strcmp(failed, "clBuildProgram") == 0 ? CLATTN_BUILD_FAILED
                                                                   : CLATTN_OPENCL_ERROR));
    }
    cr_assert(f->log.errors > 0 && clattn_context_builds(f->context) == 0);
}

/* ---- executing ------------------------------------------------------------------------------ */

struct execution {
    clattn_problem problem;
    clattn_plan *plan;
    struct tensor_arguments tensors;
};

static void open_execution(struct fixture *f, struct execution *e, const struct ca_family *family)
{
    /* by operation */
    static const char *const texts[] = {"fwd f32 h2 q3 k5 d8 lse", "bwd f32 h2 q3 k5 d8"};

    memset(e, 0, sizeof *e);
    e->problem = fixture_problem(texts[family->operation]);
    e->plan = fixture_plan(f, texts[family->operation], family->full_name);
    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(&e->problem, (enum tensor_id)id);
        if (s.present)
            e->tensors.at[id].buffer = fixture_buffer(f, s.extent * s.element_bytes, NULL);
    }
}

static void close_execution(struct execution *e)
{
    for (int id = 0; id < NUM_TENSORS; id++)
        if (e->tensors.at[id].buffer)
            clReleaseMemObject(e->tensors.at[id].buffer);
    clattn_plan_release(e->plan);
}

struct queued {
    const struct execution *execution;
    cl_command_queue queue;
};

static clattn_status execute(struct fixture *f, void *user)
{
    const struct queued *q = user;
    cl_event done = (cl_event)(void *)f;
    const clattn_status status = tensor_execute(q->execution->problem.operation, q->execution->plan,
                                                q->queue, &q->execution->tensors, 0, NULL, &done);

    cr_assert((done != NULL) == (status == CLATTN_SUCCESS));
    if (done)
        clReleaseEvent(done);
    return status;
}

DeviceTest(faults, execution)
{
    cl_int err;

    fixture_need_groups(f);
    cl_command_queue free_order =
        clCreateCommandQueue(f->opencl, f->device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &err);
    for (size_t n = 0; ca_family_at(n); n++) {
        struct execution e;
        if (ca_family_at(n)->operation > CLATTN_BACKWARD ||
            !family_takes_f32(ca_family_at(n)->full_name))
            continue;
        open_execution(f, &e, ca_family_at(n));
        fixture_fail_each(f, execute, &(struct queued){&e, f->queue}, f->queue);
        if (free_order)
            fixture_fail_each(f, execute, &(struct queued){&e, free_order}, free_order);
        close_execution(&e);
    }
    if (free_order)
        clReleaseCommandQueue(free_order);
}

/* Executing with a workspace of the caller's allocates nothing at all on the host. */
DeviceTest(faults, execution_allocates_nothing)
{
    fixture_need_groups(f);
    for (size_t n = 0; ca_family_at(n); n++) {
        struct execution e;
        if (ca_family_at(n)->operation > CLATTN_BACKWARD ||
            !family_takes_f32(ca_family_at(n)->full_name))
            continue;
        open_execution(f, &e, ca_family_at(n));
        faults_arm(FAULT_MEMORY, 0, 0);
        const clattn_status status =
            tensor_execute(e.problem.operation, e.plan, f->queue, &e.tensors, 0, NULL, NULL);
        cr_assert(faults_disarm() == NULL && status == CLATTN_SUCCESS);
        clFinish(f->queue);
        close_execution(&e);
    }
}

/* ---- the call with host pointers ------------------------------------------------------------- */

struct host_call {
    clattn_problem problem;
    struct tensor_view view;
};

static clattn_status call_host(struct fixture *f, void *user)
{
    const struct host_call *c = user;

    return tensor_execute_host(f->context, &c->problem, NULL, &c->view);
}

static clattn_status project_host(struct fixture *f, void *text)
{
    static float x[80], w[96], y[180], bias[18];
    const clattn_problem p = fixture_problem(text);
    const clattn_host_projection_tensors tensors = {
        .struct_size = sizeof tensors, .x = x, .w = w, .bias = bias, .y = y};

    return clattn_project_host(f->context, &p, NULL, &tensors);
}

/* The first call builds the program, which stays. */
DeviceTest(faults, host_calls)
{
    static const char *const texts[] = {"fwd f32 q3 k5 d8 lse", "bwd f32 q3 k5 d8"};
    static float memory[NUM_TENSORS][40];

    for (size_t n = 0; n < 2; n++) {
        struct host_call c = {.problem = fixture_problem(texts[n])};
        for (int id = 0; id < NUM_TENSORS; id++)
            if (tensor_shape_of(&c.problem, (enum tensor_id)id).present)
                c.view.at[id] = (const unsigned char *)memory[id];
        cr_assert(call_host(f, &c) == CLATTN_SUCCESS);
        fixture_fail_each(f, call_host, &c, NULL);
    }
    fixture_fail_each(f, project_host, (char[]){"proj f32 b2 h3/2 q5 d4/6 bias=f32"}, NULL);
}

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

/* What fails, and the status that the headers promise for it. */
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

/* The first plan on a fresh context builds and checks a program; `warm` has it done before. */
static void plan_with_faults(const struct failure *failure, const int warm)
{
    const clattn_plan_options options = {.struct_size = sizeof options, .family = "unfused"};
    const clattn_problem problem = fixture_problem(problem_text);
    const char *failed = "";
    struct fixture f;

    fixture_open_checked(&f, "");
    if (warm)
        clattn_plan_release(fixture_plan(&f, problem_text, "unfused"));
    for (size_t n = 0; failed && n < MOST_CALLS; n++) {
        clattn_plan *plan = (clattn_plan *)(void *)&f;
        const struct faults_alive before = faults_alive();
        faults_arm(failure->kind, n, failure->error);
        const clattn_status status = clattn_plan_create(f.context, &problem, &options, &plan);
        failed = faults_disarm();
        /* the clFinish() after a self-check has nobody to tell: the results are there */
        const int closing = failed && strcmp(failed, "clFinish") == 0;
        if (status == CLATTN_SUCCESS) {
            cr_assert(failed == NULL || closing, "%s failed, yet there is a plan", failed);
            clattn_plan_release(plan);
            continue;
        }
        cr_assert(failed != NULL);
        cr_assert(status == failure->status, "%s failed with %d: %s", failed, failure->error,
                  clattn_status_string(status));
        cr_assert(plan == NULL, "%s", failed);
        cr_assert(f.log.errors > 0, "%s failed without a sentence", failed);
        f.log.errors = 0;
        if (clattn_context_builds(f.context) == 0) /* else the program is kept: no leak */
            faults_expect_alive(before, failed, n);
    }
    cr_assert(failed == NULL, "there is no end of calls");
    fixture_close(&f);
}

Test(faults, plan) {
    for (size_t kind = 0; kind < sizeof failures / sizeof *failures; kind++)
        for (int warm = 0; warm < 2; warm++)
            plan_with_faults(&failures[kind], warm);
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

static void execute_with_faults(struct fixture *f, const struct execution *e,
                                cl_command_queue queue, const struct failure *failure)
{
    const char *failed = "";

    for (size_t n = 0; failed && n < MOST_CALLS; n++) {
        cl_event done = (cl_event)(void *)f;
        const struct faults_alive before = faults_alive();
        const long commands = faults_commands();
        faults_arm(failure->kind, n, failure->error);
        const clattn_status status =
            tensor_execute(e->problem.operation, e->plan, queue, &e->tensors, 0, NULL, &done);
        failed = faults_disarm();
        if (status == CLATTN_SUCCESS) {
            cr_assert(failed == NULL && done != NULL, "%s failed, yet the call succeeded", failed);
            clReleaseEvent(done);
        } else {
            cr_assert(failed && done == NULL);
            cr_assert(status == failure->status, "%s failed: %s", failed,
                      clattn_status_string(status));
            cr_assert(strncmp(failed, "clGet", 5) != 0 || faults_commands() == commands);
            cr_assert(f->log.errors > 0, "%s failed without a sentence", failed);
            f->log.errors = 0;
        }
        clFinish(queue);
        faults_expect_alive(before, failed ? failed : "nothing", n);
    }
    cr_assert(failed == NULL, "there is no end of calls");
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
        for (size_t kind = 0; kind < sizeof failures / sizeof *failures; kind++) {
            execute_with_faults(f, &e, f->queue, &failures[kind]);
            if (free_order)
                execute_with_faults(f, &e, free_order, &failures[kind]);
        }
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

static void host_call_with_faults(const char *text)
{
    static float memory[NUM_TENSORS][40];
    const clattn_problem problem = fixture_problem(text);
    struct tensor_view view = {.at = {NULL}};
    struct fixture f;

    fixture_open(&f);
    for (int id = 0; id < NUM_TENSORS; id++)
        if (tensor_shape_of(&problem, (enum tensor_id)id).present)
            view.at[id] = (const unsigned char *)memory[id];
    cr_assert(tensor_execute_host(f.context, &problem, NULL, &view) ==
              CLATTN_SUCCESS); /* the program is built and stays */
    for (size_t kind = 0; kind < sizeof failures / sizeof *failures; kind++) {
        const char *failed = "";
        for (size_t n = 0; failed && n < MOST_CALLS; n++) {
            const struct faults_alive before = faults_alive();
            faults_arm(failures[kind].kind, n, failures[kind].error);
            const clattn_status status = tensor_execute_host(f.context, &problem, NULL, &view);
            failed = faults_disarm();
            /* the closing clFinish() has nobody to tell: the results are there */
            const int closing = failed && strcmp(failed, "clFinish") == 0;
            cr_assert(status ==
                          (failed == NULL || closing ? CLATTN_SUCCESS : failures[kind].status),
                      "%s failed: %s", failed, clattn_status_string(status));
            faults_expect_alive(before, failed ? failed : "nothing", n);
        }
        cr_assert(failed == NULL, "there is no end of calls");
    }
    fixture_close(&f);
}

Test(faults, host_call) {
    host_call_with_faults("fwd f32 q3 k5 d8 lse");
}

Test(faults, host_call_for_gradients) {
    host_call_with_faults("bwd f32 q3 k5 d8");
}

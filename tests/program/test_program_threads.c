/* SPDX-License-Identifier: Apache-2.0 */
/* Programs are built outside the context's lock, each once. Nothing here depends on time: a build
 * waits in clBuildProgram() until it is told to go on. */
#include "context/context.h"
#include "os/clock.h"
#include "program/program_build.h"
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

TestSuite(program_threads, .init = unoptimised, .timeout = 300);

static const char at_hand[] = "fwd f32 h2 q9 k20 d8", wanted[] = "fwd f32 h2 q9 k20 d8 causal=br";

/* A build that is held up. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int reached, open;
    cl_int answer; /* once it is open */
};

static cl_int wait_at(void *user)
{
    struct gate *gate = user;

    pthread_mutex_lock(&gate->lock);
    gate->reached++;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    return gate->answer;
}

static void await_builder(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    while (!gate->reached)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = 1;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

/* A thread that makes a plan. */
struct planner {
    struct fixture *f;
    pthread_t thread;
    clattn_plan *plan;
    clattn_status status;
};

static void *make_plan(void *user)
{
    const clattn_plan_options options = {.struct_size = sizeof options, .family = "unfused_lanes"};
    struct planner *planner = user;
    const clattn_problem problem = fixture_problem(wanted);

    planner->status = clattn_plan_create(planner->f->context, &problem, &options, &planner->plan);
    return NULL;
}

static void start(struct planner *planner, struct fixture *f)
{
    planner->f = f;
    cr_assert(pthread_create(&planner->thread, NULL, make_plan, planner) == 0);
}

static void end(struct planner *planner, clattn_status status)
{
    cr_assert(pthread_join(planner->thread, NULL) == 0);
    cr_expect(planner->status == status, "%s", clattn_status_string(planner->status));
    cr_expect((planner->plan != NULL) == (status == CLATTN_SUCCESS));
    clattn_plan_release(planner->plan);
}

/* Until a thread waits for another one's build. */
static void await_waiter(clattn_context *context)
{
    size_t waiters = 0;

    while (waiters == 0) {
        ca_nap(1e-3);
        ca_mutex_lock(&context->lock);
        for (const struct ca_program *p = context->programs; p; p = p->next)
            waiters += p->waiters;
        ca_mutex_unlock(&context->lock);
    }
}

DeviceTest(program_threads, others_go_on_while_one_builds)
{
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, CL_SUCCESS};
    struct planner planner = {.plan = NULL};

    clattn_plan_release(fixture_plan(f, at_hand, "unfused_lanes"));
    const size_t builds = clattn_context_builds(f->context);
    faults_on_build(wait_at, &gate);
    start(&planner, f);
    await_builder(&gate);
    clattn_plan_release(fixture_plan(f, at_hand, "unfused_lanes")); /* hangs if it has to wait */
    cr_expect(clattn_context_builds(f->context) == builds);
    open_gate(&gate);
    end(&planner, CLATTN_SUCCESS);
    faults_on_build(NULL, NULL);
    cr_expect(clattn_context_builds(f->context) == builds + 1);
}

/* Two threads that want the same program: one builds, and both get what comes of it. */
static void want_the_same(cl_int answer, clattn_status status)
{
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, answer};
    struct planner first = {.plan = NULL}, second = {.plan = NULL};
    struct fixture f;

    fixture_open(&f);
    faults_on_build(wait_at, &gate);
    start(&first, &f);
    await_builder(&gate);
    start(&second, &f);
    await_waiter(f.context);
    open_gate(&gate);
    end(&first, status);
    end(&second, status);
    faults_on_build(NULL, NULL);
    cr_expect(gate.reached == 1, "%d builds", gate.reached);
    cr_expect((f.log.errors >= 2) == (status != CLATTN_SUCCESS));
    clattn_plan_release(fixture_plan(&f, wanted, "unfused_lanes"));
    cr_expect(clattn_context_builds(f.context) == 1);
    fixture_close(&f);
}

Test(program_threads, two_wait_for_one_build) {
    want_the_same(CL_SUCCESS, CLATTN_SUCCESS);
}

/* A failure that may pass is shared too, but not kept: the next plan is made. */
Test(program_threads, two_wait_for_one_failure) {
    want_the_same(CL_OUT_OF_HOST_MEMORY, CLATTN_OUT_OF_MEMORY);
}

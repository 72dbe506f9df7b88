/* SPDX-License-Identifier: Apache-2.0 */
/* A program that computes wrong results is found before its first use, and passed over. */
#define _POSIX_C_SOURCE 200809L /* mkfifo */
#include "context/context.h"
#include "os/file.h"
#include "os/thread.h"
#include "program/program.h"
#include "program/program_made.h"
#include "tests/faults/faults.h"
#include "tests/support/families.h"
#include "tests/support/fixture.h"
#include "tests/support/programs/scratch.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

TestSuite(trust, .init = fixture_folder, .fini = scratch_close, .timeout = 300);

static const char problem_text[] = "fwd f32 h2 q9 k20 d24 causal=br lse";
static const char gradients_text[] = "bwd f32 h2 q9 k20 d24 causal=br";

static clattn_status make_for(struct fixture *f, const char *text, const char *family,
                              clattn_plan **plan)
{
    const clattn_plan_options options = {.struct_size = sizeof options, .family = family};
    const clattn_problem problem = fixture_problem(text);

    return clattn_plan_create(f->context, &problem, &options, plan);
}

static clattn_status make(struct fixture *f, const char *family, clattn_plan **plan)
{
    return make_for(f, problem_text, family, plan);
}

/* The results of the self-check are read back; a lie there stands for a miscompiled kernel. */
static void refuse(const char *text, const char *family)
{
    struct fixture f;
    clattn_plan *plan = (clattn_plan *)(void *)&f;
    char alive[256];

    fixture_open_checked(&f, "");
    fixture_need_groups_of(&f, family);
    const long objects = faults_objects_alive(alive, sizeof alive);
    faults_arm(FAULT_LIE, 0, 0);
    const clattn_status status = make_for(&f, text, family, &plan);
    cr_assert(faults_disarm() != NULL, "%s was not checked", family);
    cr_assert(status == CLATTN_MISCOMPILED, "%s, %s: %s", text, family,
              clattn_status_string(status));
    cr_assert(plan == NULL && f.log.errors > 0);
    cr_assert(faults_objects_alive(alive, sizeof alive) - objects <= 1, "%s", alive);
    fixture_close(&f);
}

static void refuse_forced(const clattn_operation operation, const char *text)
{
    const char *family;

    for (size_t n = 0; (family = clattn_family_name(operation, n)) != NULL; n++)
        if (family_takes_f32(family))
            refuse(text, family);
}

Test(trust, a_forced_family_is_refused) {
    refuse_forced(CLATTN_FORWARD, problem_text);
}

Test(trust, a_forced_family_of_gradients_is_refused) {
    refuse_forced(CLATTN_BACKWARD, gradients_text);
}

/* Self-checks of serving: starts, pages, block lists, appends and merges. Right kernels are
 * trusted, too. */
Test(trust, what_serves_is_checked) {
    static const char *const problems[][2] = {
        {"fused_cpu UNIT=vector", "fwd f32 b3 h4/2 q9 k30 d16 totalq=20 totalkv=70 causal=br lse"},
        {"split_cpu UNIT=vector",
         "fwd f32 b2 h2/1 q3 k70 d64 kcache=q8_0 vcache=q4_0 page=16 pages=7 klen"},
        {"fused_cpu UNIT=vector", "fwd f32 b2 h2 q33 k65 d16 blocks=7x8:40:h mask=qk lse"},
        {"backward_cpu UNIT=vector", "bwd f32 b3 h4/2 q9 k30 d16 totalq=20 totalkv=70 causal=br"},
        {"backward_cpu UNIT=vector", "bwd f32 b2 h2 q33 k65 d16 blocks=7x8:40:h"},
        {"append_tokens",
         "append f16 b2 h4/2 q5 k20 d48 cache=bf16 slots pos rope=halves:32:500 queries"},
        {"append_tokens",
         "append f32 b2 h4/2 q5 k40 d64 kcache=q8_0 vcache=q4_0 page=16 pages=6 klen"},
        {"merge_rows", "merge f16 b2 h3 q5 d20 n3 accumulate"},
    };

    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct fixture f;
        clattn_plan *plan;
        fixture_open_checked(&f, "");
        fixture_need_groups_of(&f, problems[n][0]);
        cr_expect(make_for(&f, problems[n][1], problems[n][0], &plan) == CLATTN_SUCCESS, "%s: %s",
                  problems[n][1], f.log.last);
        clattn_plan_release(plan);
        fixture_close(&f);
        refuse(problems[n][1], problems[n][0]);
    }
}

Test(trust, the_next_family_is_tried) {
    clattn_plan_info first = {.struct_size = sizeof first}, next = {.struct_size = sizeof next};
    struct trial t = {.problem = fixture_problem(problem_text), .seed = 1};
    struct fixture f;
    clattn_plan *sound, *other;
    char chosen[64];

    fixture_open_checked(&f, "");
    cr_assert(make(&f, NULL, &sound) == CLATTN_SUCCESS);
    cr_assert(clattn_plan_describe(sound, &first) == CLATTN_SUCCESS);
    snprintf(chosen, sizeof chosen, "%s", first.family);
    clattn_plan_release(sound);
    fixture_close(&f);

    fixture_open_checked(&f, "");
    faults_arm(FAULT_LIE, 0, 0);
    const clattn_status status = make(&f, NULL, &other);
    cr_assert(faults_disarm() != NULL);
    cr_assert(status == CLATTN_SUCCESS, "%s, %s", clattn_status_string(status), f.log.last);
    cr_assert(clattn_plan_describe(other, &next) == CLATTN_SUCCESS);
    cr_assert_str_neq(next.family, chosen);
    cr_assert(f.log.warnings > 0, "a family is passed over without a word");
    cr_assert(f.log.errors == 0, "a call that succeeded logged an error: %s", f.log.last);
    clattn_plan_release(other);
    trial_pass(&f, &t);
    fixture_close(&f);
}

/* Likewise; the results are right all the same. */
Test(trust, the_next_family_of_gradients_is_tried) {
    struct trial t = {.problem = fixture_problem(gradients_text), .seed = 1};
    struct fixture f;
    clattn_plan *plan;

    fixture_open_checked(&f, "");
    fixture_need_groups(&f); /* the other family */
    faults_arm(FAULT_LIE, 0, 0);
    const clattn_status status = make_for(&f, gradients_text, NULL, &plan);
    cr_assert(faults_disarm() != NULL);
    cr_assert(status == CLATTN_SUCCESS, "%s, %s", clattn_status_string(status), f.log.last);
    cr_assert(f.log.warnings > 0 && f.log.errors == 0, "%s", f.log.last);
    clattn_plan_release(plan);
    trial_pass(&f, &t);
    fixture_close(&f);
}

/* Without self-checks nothing is run while the plan is made. */
DeviceTest(trust, checks_can_be_left_out)
{
    clattn_plan *plan;

    const long commands = faults_commands();
    cr_assert(make(f, NULL, &plan) == CLATTN_SUCCESS);
    cr_assert(faults_commands() == commands);
    clattn_plan_release(plan);
}

/* A second context with the same folder compiles nothing and checks nothing. */
Test(trust, programs_are_kept_on_disk) {
    struct fixture f;

    for (int run = 0; run < 2; run++) {
        struct trial t = {.problem = fixture_problem(problem_text), .seed = 1};
        fixture_open_checked(&f, scratch);
        const long commands = faults_commands();
        clattn_plan *plan;
        cr_assert(make(&f, NULL, &plan) == CLATTN_SUCCESS, "%s", f.log.last);
        cr_expect(clattn_context_builds(f.context) == (run == 0));
        cr_expect((faults_commands() > commands) == (run == 0));
        clattn_plan_release(plan);
        trial_pass(&f, &t);
        fixture_close(&f);
    }
}

static size_t unstored(const clattn_context *context)
{
    size_t count = 0;

    for (const struct ca_program *p = context->programs; p; p = p->next)
        count += p->unstored != 0;
    return count;
}

/* Some drivers compile once more for a binary. Such binaries are written when the context ends;
 * those that are too many for it are written by a later process that builds them again. */
Test(trust, storing_programs_has_an_end) {
    static const size_t left[] = {2, 1, 0}; /* before each run */
    struct fixture f;
    clattn_plan *plan;

    for (size_t run = 0; run < sizeof left / sizeof *left; run++) {
        fixture_open_checked(&f, scratch);
        cr_assert(make(&f, NULL, &plan) == CLATTN_SUCCESS, "%s", f.log.last);
        clattn_plan_release(plan);
        cr_assert(make_for(&f, "fwd f32 h2 q9 k20 d24", NULL, &plan) == CLATTN_SUCCESS, "%s",
                  f.log.last);
        clattn_plan_release(plan);
        if (run == 0 && unstored(f.context) == 0) {
            fixture_close(&f);
            cr_skip_test("the driver hands out binaries without compiling again");
        }
        cr_expect(clattn_context_builds(f.context) == left[run], "run %zu: %zu builds", run,
                  clattn_context_builds(f.context));
        cr_expect(unstored(f.context) == left[run], "run %zu: %zu to be stored", run,
                  unstored(f.context));
        const size_t rest = left[run] > 0 ? left[run] - 1 : 0;
        cr_expect(ca_programs_store(f.context, 0.0) == rest);
        cr_expect(unstored(f.context) == rest, "run %zu: %zu left", run, unstored(f.context));
        for (struct ca_program *p = f.context->programs; p; p = p->next)
            p->unstored = 0; /* the process ends here */
        fixture_close(&f);
    }
}

/* A thread that executes a plan until it is told to stop. */
struct executor {
    const clattn_plan *plan;
    cl_command_queue queue;
    const struct tensor_arguments *tensors;
    atomic_int executions, stop;
    cl_int err;
};

static void *execute_often(void *user)
{
    enum { AT_ONCE = 4 };
    struct executor *e = user;

    while (!atomic_load(&e->stop) && e->err == CL_SUCCESS) {
        for (int n = 0; n < AT_ONCE && e->err == CL_SUCCESS; n++)
            if (tensor_execute(CLATTN_FORWARD, e->plan, e->queue, e->tensors, 0, NULL, NULL))
                e->err = CL_INVALID_OPERATION;
        if (e->err == CL_SUCCESS)
            e->err = clFinish(e->queue);
        atomic_fetch_add(&e->executions, AT_ONCE);
    }
    return NULL;
}

/* A plan of a program that is still to be stored, and its tensors. */
static void open_unstored(struct fixture *f, struct trial *t, struct tensor_arguments *tensors,
                          clattn_plan **plan)
{
    *t = (struct trial){.problem = fixture_problem("fwd f32 h2 q333 k333 d16"), .seed = 1};
    fixture_open_checked(f, scratch);
    cr_assert(clattn_plan_create(f->context, &t->problem, NULL, plan) == CLATTN_SUCCESS, "%s",
              f->log.last);
    if (unstored(f->context) == 0) {
        clattn_plan_release(*plan);
        fixture_close(f);
        cr_skip_test("the driver hands out binaries without compiling again");
    }
    trial_fill(t);
    *tensors = trial_send(f, t);
}

static void close_stored(struct fixture *f, struct trial *t, struct tensor_arguments *tensors,
                         clattn_plan *plan)
{
    clattn_plan *again;

    trial_receive(f, t, tensors);
    trial_check(t);
    trial_free(t);
    clattn_plan_release(plan);
    fixture_close(f);
    fixture_open_checked(f, scratch);
    cr_assert(clattn_plan_create(f->context, &t->problem, NULL, &again) == CLATTN_SUCCESS);
    cr_expect(clattn_context_builds(f->context) == 0, "the program was not stored");
    clattn_plan_release(again);
    fixture_close(f);
}

/* Stores the programs of `storing` while another thread executes the plan. */
static void store_beside(const clattn_plan *plan, struct fixture *f,
                         const struct tensor_arguments *tensors, clattn_context *storing)
{
    struct executor e = {.plan = plan, .queue = f->queue, .tensors = tensors};
    pthread_t thread;

    cr_assert(pthread_create(&thread, NULL, execute_often, &e) == 0);
    while (atomic_load(&e.executions) == 0)
        ca_yield();
    clattn_context_leave(storing);
    cr_expect(unstored(storing) == 0);
    const int before = atomic_load(&e.executions);
    while (atomic_load(&e.executions) == before)
        ca_yield();
    atomic_store(&e.stop, 1);
    cr_assert(pthread_join(thread, NULL) == 0 && e.err == CL_SUCCESS);
}

/* PoCL 3.1 ends the process when a binary is asked for while a kernel of its program runs. */
Test(trust, programs_are_stored_beside_executions) {
    struct tensor_arguments tensors;
    struct fixture f;
    struct trial t;
    clattn_plan *plan;

    open_unstored(&f, &t, &tensors, &plan);
    store_beside(plan, &f, &tensors, f.context);
    close_stored(&f, &t, &tensors, plan);
}

/* ... or of the same program in another context. */
Test(trust, programs_are_stored_beside_executions_of_another_context) {
    const clattn_context_options options = {.struct_size = sizeof options,
                                            .cache_directory = scratch};
    struct tensor_arguments tensors;
    clattn_context *other;
    struct fixture f;
    struct trial t;
    clattn_plan *plan, *same;

    open_unstored(&f, &t, &tensors, &plan);
    cr_assert(clattn_context_create(f.opencl, f.device, &options, &other) == CLATTN_SUCCESS);
    cr_assert(clattn_plan_create(other, &t.problem, NULL, &same) == CLATTN_SUCCESS);
    cr_assert(unstored(other) == 1);
    store_beside(plan, &f, &tensors, other);
    clattn_plan_release(same);
    clattn_context_release(other);
    close_stored(&f, &t, &tensors, plan);
}

/* A kernel that waits for ever keeps no process from ending, and its program is stored later. */
Test(trust, programs_are_not_stored_before_kernels_that_wait) {
    struct tensor_arguments tensors;
    struct fixture f;
    struct trial t;
    clattn_plan *plan;
    cl_int err;

    open_unstored(&f, &t, &tensors, &plan);
    const cl_event event = clCreateUserEvent(f.opencl, &err);
    cr_assert(err == CL_SUCCESS);
    cr_assert(tensor_execute(CLATTN_FORWARD, plan, f.queue, &tensors, 1, &event, NULL) ==
              CLATTN_SUCCESS);
    cr_expect(ca_programs_store(f.context, 0.02) == 1 && unstored(f.context) == 1);
    cr_assert(clSetUserEventStatus(event, CL_COMPLETE) == CL_SUCCESS);
    clReleaseEvent(event);
    cr_assert(clFinish(f.queue) == CL_SUCCESS);
    cr_expect(ca_programs_store(f.context, 0.02) == 0 && unstored(f.context) == 0);
    close_stored(&f, &t, &tensors, plan);
}

/* ---- damaged files: a driver may abort the process on a damaged binary, so none must see one - */

enum damage {
    TRUNCATED,
    HEADER_ALONE,
    EMPTY,
    LONGER,
    FLIPPED_BIT,
    FOREIGN,
    PIPE,
    OTHER_LINE /* this and what follows: of the line of the header that the rest counts */
};

/* Every line but the last, which is empty. */
enum { HEADER_LINES = 13, NUM_DAMAGES = OTHER_LINE + HEADER_LINES };

/* Changes the last letter of a line of the header. */
static void change_line(char *bytes, int line)
{
    char *end = bytes;

    for (int n = 0; n <= line; n++)
        end = strchr(end, '\n') + 1;
    end[-2] = (char)(end[-2] ^ 1);
}

static void damage_program(const char *path, int damage)
{
    size_t size;
    char *bytes = scratch_read(path, &size); /* and a 0 behind them */

    cr_assert(size > 1000);
    if (damage == TRUNCATED)
        size -= 1;
    if (damage == HEADER_ALONE)
        size = (size_t)(strstr(bytes, "\n\n") + 2 - bytes);
    if (damage == EMPTY)
        size = 0;
    if (damage == LONGER)
        size++;
    if (damage == FLIPPED_BIT)
        bytes[size - 500] ^= 4;
    if (damage == FOREIGN)
        memset(bytes, 'x', size);
    if (damage >= OTHER_LINE)
        change_line(bytes, damage - OTHER_LINE);
    cr_assert(ca_file_remove(CA_NO_FILE, path));
#if !defined(_WIN32) /* which has no pipes in folders */
    if (damage == PIPE)
        cr_assert(mkfifo(path, 0600) == 0);
    else
#endif
        scratch_write_bytes(path, bytes, size);
    free(bytes);
}

/* Damages every cached program. */
static void damage_programs(int damage)
{
    const struct scratch_files found = scratch_find("programs", ".clbin");

    for (size_t n = 0; n < found.count; n++)
        damage_program(found.paths[n], damage);
}

/* There is no warning of a file that was never whole. */
static int warns(int damage)
{
    return damage != EMPTY;
}

Test(trust, damaged_programs_are_made_anew) {
    struct fixture f;
    clattn_plan *plan;

    for (int run = 0; run < 2 * NUM_DAMAGES + 2; run++) { /* every other run finds damage */
        fixture_open_checked(&f, scratch);
        cr_assert(make(&f, NULL, &plan) == CLATTN_SUCCESS, "%s", f.log.last);
        cr_expect(clattn_context_builds(f.context) == (run % 2 == 0), "run %d", run);
        cr_expect((f.log.warnings > 0) == (run % 2 == 0 && run > 0 && warns(run / 2 - 1)), "run %d",
                  run);
        clattn_plan_release(plan);
        fixture_close(&f);
        if (run % 2 == 1 && run / 2 < NUM_DAMAGES)
            damage_programs(run / 2);
    }
}

/* Programs that another device, driver or platform built are not taken here. Each fact gets
 * another text, the device's own and more, so that this device is still the one that is chosen. */
Test(trust, programs_of_other_devices_are_not_taken) {
    static const cl_uint facts[] = {0,
                                    CL_DEVICE_NAME,
                                    CL_DEVICE_VENDOR,
                                    CL_DEVICE_VERSION,
                                    CL_DRIVER_VERSION,
                                    CL_PLATFORM_NAME,
                                    CL_PLATFORM_VERSION};
    char text[512];
    cl_platform_id platform;
    struct fixture f;

    for (size_t n = 0; n < sizeof facts / sizeof *facts; n++) {
        fixture_open(&f);
        clGetDeviceInfo(f.device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
        memset(text, 0, sizeof text);
        if (facts[n] == CL_PLATFORM_NAME || facts[n] == CL_PLATFORM_VERSION)
            clGetPlatformInfo(platform, facts[n], sizeof text - 3, text, NULL);
        else if (facts[n])
            clGetDeviceInfo(f.device, facts[n], sizeof text - 3, text, NULL);
        fixture_close(&f);
        strcat(text, " 2");
        if (facts[n])
            faults_pretend(facts[n], text, strlen(text) + 1);
        for (size_t turn = 0; turn < 2; turn++) {
            fixture_open_cached(&f, NULL, scratch);
            clattn_plan_release(fixture_plan(&f, "fwd f32 q3 k5 d1", "unfused_lanes"));
            const size_t builds = clattn_context_builds(f.context);
            cr_expect((builds > 0) == (turn == 0), "'%s': %zu builds in turn %zu", text, builds,
                      turn);
            fixture_close(&f);
        }
        faults_pretend(0, NULL, 0);
    }
}

/* Nothing can be read or written where a folder stands, which costs two warnings each time. */
Test(trust, a_folder_in_a_programs_place) {
    struct fixture f;
    clattn_plan *plan;

    for (int run = 0; run < 2; run++) {
        fixture_open_checked(&f, scratch);
        cr_assert(make(&f, NULL, &plan) == CLATTN_SUCCESS, "%s", f.log.last);
        cr_expect(clattn_context_builds(f.context) == 1);
        cr_expect(f.log.warnings == 2 * (size_t)run && f.log.errors == 0);
        clattn_plan_release(plan);
        fixture_close(&f);
        const struct scratch_files found = scratch_find("programs", "");
        for (size_t n = 0; n < found.count; n++)
            if (ca_file_remove(CA_NO_FILE, found.paths[n]))
                cr_assert(ca_folder_make(found.paths[n]));
    }
}

/* A cache directory that cannot be made costs a warning. */
Test(trust, unwritable_cache) {
    struct fixture f;
    clattn_plan *plan;

    fixture_open_checked(&f, "/dev/null/clattn");
    cr_assert(make(&f, NULL, &plan) == CLATTN_SUCCESS, "%s", f.log.last);
    cr_expect(f.log.warnings == 1 && f.log.errors == 0);
    clattn_plan_release(plan);
    fixture_close(&f);
}

/* A case that would take too much memory is refused before anything is built; without self-checks nothing is. */
Test(trust, too_large_dims) {
    const clattn_problem p = fixture_problem("fwd f32 q1 d1048576");
    struct fixture f;

    fixture_open_checked(&f, "");
    cr_expect(clattn_plan_supports(f.context, &p, NULL) == CLATTN_UNSUPPORTED);
    const char *reason = clattn_context_last_error(f.context);
    cr_expect(strstr(reason, "1048576") && strstr(reason, "64 MiB"), "%s", reason);
    fixture_close(&f);
    fixture_open(&f);
    cr_expect(clattn_plan_supports(f.context, &p, NULL) == CLATTN_SUCCESS, "%s",
              clattn_context_last_error(f.context));
    fixture_close(&f);
}

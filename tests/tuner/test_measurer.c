/* SPDX-License-Identifier: Apache-2.0 */
/* Building, checking and timing candidates in this process, and every way in which they fail. */
#include "context/context.h"
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/tables.h"
#include "tests/support/unoptimised.h"
#include "tune/measurer.h"
#include "tune/measurer_data.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(measurer, .init = unoptimised, .timeout = 300);

static const char small[] = "fwd f32 h2 q33 k40 d16 causal=br lse";

static struct ca_measurer open_measurer(struct fixture *f, const char *text)
{
    const struct ca_problem problem = fixture_checked(text);
    struct ca_measurer m;

    const clattn_status status = ca_measurer_create(f->context, &problem, 1, &m);
    cr_assert(status == CLATTN_SUCCESS, "%s: %s", clattn_status_string(status), f->log.last);
    return m;
}

/* A family's own suggestion. */
static struct ca_candidate suggested(const struct fixture *f, const char *text, const char *family)
{
    const clattn_problem p = fixture_problem(text);

    return table_candidate(family, &p, &f->context->device);
}

static struct ca_reading build_and_measure(struct ca_measurer *m, const struct ca_candidate *c,
                                           double best)
{
    struct ca_reading reading;

    m->build(m->user, c, &reading);
    if (reading.outcome == CA_CORRECT)
        m->measure(m->user, 0, c, best, &reading);
    return reading;
}

static int is_lost(const struct ca_measurer *m)
{
    return ((const struct ca_measuring *)m->user)->lost;
}

/* As good as the best, with at least three readings; or far slower, with one. */
static void expect_right(const struct ca_reading *r, int is_slow)
{
    cr_assert(r->outcome == CA_CORRECT, "outcome %d: %s", (int)r->outcome, r->reason);
    cr_assert(is_slow ? r->num_times == 1 : r->num_times >= 3, "%zu readings", r->num_times);
    cr_assert(r->num_times <= CA_READING_TIMES);
    for (size_t n = 0; n < r->num_times; n++)
        cr_assert(r->times[n] > 0.0 && r->times[n] < 60.0, "reading %zu: %g", n, r->times[n]);
    cr_assert(r->error >= 0.0 && r->error <= 1.0, "%g", r->error);
    cr_assert(r->reason[0] == '\0');
}

Test(measurer, right_candidates) {
    struct fixture f;
    double seconds[3];

    fixture_open_checked(&f, "");
    struct ca_measurer m = open_measurer(&f, small);
    const struct ca_candidate two[] = {suggested(&f, small, "fused_cpu UNIT=vector"),
                                       suggested(&f, small, "unfused")};
    for (size_t n = 0; n < 2; n++) {
        struct ca_reading reading = build_and_measure(&m, &two[n], 0.0);
        expect_right(&reading, 0);
        cr_assert(reading.compile_seconds > 0.0);
        cr_assert(reading.error > 0.0, "nothing was compared");
        m.measure(m.user, 0, &two[n], 1e-12, &reading);
        expect_right(&reading, 1);
        cr_assert(reading.compile_seconds > 0.0, "measure() forgot what build() found");
    }
    const struct ca_candidate three[] = {two[1], two[0], two[1]};
    m.round(m.user, 0, three, 3, seconds);
    for (size_t n = 0; n < 3; n++)
        cr_assert(seconds[n] > 0.0 && seconds[n] < 60.0);
    cr_assert(!is_lost(&m) && f.log.errors == 0 && f.log.warnings == 0);
    m.close(m.user);
    fixture_close(&f);
}

/* Programs, and rounds, of another measurer's candidates too: a worker may have been restarted. */
DeviceTest(measurer, every_option_and_several_problems)
{
    static const char *const texts[] = {
        "fwd f16 b2 h4/2 q33 k40 d16 scale=0.3 softcap=5 causal=br window=20,* bias=bf16:bhqk "
        "mask=bhqk alibi sinks qlen klen lse scores=weights",
        "fwd f16 b2 h4/2 q20 k90 d16 scale=0.3 softcap=5 causal=br window=50,* bias=bf16:bhqk "
        "mask=bhqk alibi sinks qlen klen lse scores=weights"};
    const struct ca_problem problems[2] = {fixture_checked(texts[0]), fixture_checked(texts[1])};
    struct ca_reading reading;
    struct ca_measurer m;
    double seconds;

    const struct ca_candidate c = suggested(f, texts[0], "unfused");
    for (int run = 0; run < 2; run++) {
        cr_assert(ca_measurer_create(f->context, problems, 2, &m) == CLATTN_SUCCESS);
        m.round(m.user, 1, &c, 1, &seconds);
        cr_assert(seconds > 0.0 && seconds < 60.0);
        for (size_t n = 0; n < 2; n++) {
            memset(&reading, 0, sizeof reading);
            m.measure(m.user, n, &c, 0.0, &reading);
            expect_right(&reading, 0);
        }
        m.close(m.user);
    }
}

/* ---- wrong results -------------------------------------------------------------------------- */

/* Results that are read back stand for what a kernel wrote. */
DeviceTest(measurer, wrong_results)
{
    struct ca_reading reading;

    struct ca_measurer m = open_measurer(f, small);
    const struct ca_candidate c = suggested(f, small, "unfused");
    for (size_t n = 0; n < 4; n++) { /* o and lse of the first execution, and of the last */
        m.build(m.user, &c, &reading);
        cr_assert(reading.outcome == CA_CORRECT);
        faults_arm(FAULT_LIE, n, 0);
        m.measure(m.user, 0, &c, 0.0, &reading);
        cr_assert(faults_disarm() != NULL);
        cr_assert(reading.outcome == CA_WRONG && (reading.num_times == 0) == (n < 2));
        cr_assert(strstr(reading.reason, n % 2 == 0 ? "output o" : "output lse"), "%s",
                  reading.reason);
        cr_assert(reading.error > 1.0);
    }
    m.measure(m.user, 0, &c, 0.0, &reading); /* once is no stain */
    expect_right(&reading, 0);
    m.close(m.user);
}

Test(measurer, miscompiled) {
    struct fixture f;

    fixture_open_checked(&f, "");
    struct ca_measurer m = open_measurer(&f, small);
    const struct ca_candidate c = suggested(&f, small, "unfused");
    faults_arm(FAULT_LIES, 0, 0); /* once would be no verdict */
    const struct ca_reading reading = build_and_measure(&m, &c, 0.0);
    faults_disarm();
    cr_assert(reading.outcome == CA_WRONG);
    cr_assert(strstr(reading.reason, "miscompiled") && strstr(reading.reason, "outside"), "%s",
              reading.reason);
    cr_assert(f.log.errors == 0 && f.log.warnings > 0);
    m.close(m.user);
    fixture_close(&f);
}

/* ---- failures ------------------------------------------------------------------------------- */

static void expect_no_leak(long before)
{
    char alive[256];

    cr_assert(faults_objects_alive(alive, sizeof alive) == before, "leaked: %s", alive);
}

/* Every call in turn, with everything made anew; once timing has begun and they repeat, some. */
DeviceTest(measurer, failing_calls)
{
    char alive[256];
    const char *call = "";
    int failed = 0, enqueueing = 0, building = 0;

    const struct ca_candidate c = suggested(f, small, "unfused");
    const struct ca_problem problem = fixture_checked(small);
    const long before = faults_objects_alive(alive, sizeof alive);
    for (size_t n = 0; call; n += n < 200 ? 1 : n / 2) {
        struct ca_measurer m;
        memset(&f->log, 0, sizeof f->log);
        faults_arm(FAULT_OPENCL, n, CL_OUT_OF_RESOURCES);
        if (ca_measurer_create(f->context, &problem, 1, &m) != CLATTN_SUCCESS) {
            call = faults_disarm();
            cr_assert(call != NULL && f->log.errors > 0 && m.user == NULL);
            expect_no_leak(before);
            continue;
        }
        const struct ca_reading reading = build_and_measure(&m, &c, 1e-12);
        call = faults_disarm();
        cr_assert(!is_lost(&m), "after %s", call);
        if (reading.outcome == CA_CORRECT)
            expect_right(&reading, 1);
        else
            cr_assert(call && reading.reason[0], "%s: outcome %d without a reason", call,
                      (int)reading.outcome);
        cr_assert(f->log.errors == 0);
        failed += reading.outcome == CA_RUNTIME_FAILED;
        if (call && strcmp(call, "clEnqueueNDRangeKernel") == 0) {
            enqueueing++;
            cr_assert(reading.outcome == CA_RUNTIME_FAILED &&
                          strstr(reading.reason, "clEnqueueNDRangeKernel for"),
                      "outcome %d: %s", (int)reading.outcome, reading.reason);
        }
        if (call && strcmp(call, "clFinish") == 0)
            cr_assert(reading.outcome == CA_RUNTIME_FAILED, "a failure went unnoticed");
        building += call && strcmp(call, "clBuildProgram") == 0;
        m.close(m.user);
        expect_no_leak(before);
    }
    cr_assert(failed > 10 && enqueueing > 3 && building == 1, "%d, %d, %d", failed, enqueueing,
              building);
}

DeviceTest(measurer, no_memory)
{
    const struct ca_candidate c = suggested(f, small, "unfused");
    const struct ca_problem problem = fixture_checked(small);

    for (struct faults_rounds r = {0}; faults_next(&r);) {
        struct ca_measurer m;
        faults_begin(&r);
        const clattn_status status = ca_measurer_create(f->context, &problem, 1, &m);
        if (status == CLATTN_SUCCESS) {
            const struct ca_reading reading = build_and_measure(&m, &c, 1e-12);
            cr_assert(reading.outcome == CA_CORRECT || reading.reason[0]);
        }
        cr_assert(faults_failed(&r) || status == CLATTN_SUCCESS);
        if (status == CLATTN_SUCCESS)
            m.close(m.user);
    }
}

DeviceTest(measurer, does_not_build)
{
    struct ca_measurer m = open_measurer(f, small);
    const struct ca_candidate c = suggested(f, small, "unfused");
    const char *call = NULL;
    struct ca_reading reading = {.outcome = CA_CORRECT};
    for (size_t n = 0; !call || strcmp(call, "clBuildProgram") != 0; n++) {
        faults_arm(FAULT_OPENCL, n, CL_BUILD_PROGRAM_FAILURE);
        m.build(m.user, &c, &reading);
        call = faults_disarm();
        cr_assert(call != NULL);
    }
    cr_assert(reading.outcome == CA_RUNTIME_FAILED, "its log blames nothing in the source");
    cr_assert(strstr(reading.reason, "does not build"), "%s", reading.reason);
    m.build(m.user, &c, &reading);
    cr_assert(reading.outcome == CA_CORRECT, "%s", reading.reason);
    m.close(m.user);
}

/* After some errors every call fails: only a new process helps. */
DeviceTest(measurer, lost_context)
{
    struct ca_reading reading;
    double seconds;

    struct ca_measurer m = open_measurer(f, small);
    const struct ca_candidate c = suggested(f, small, "unfused");
    reading = build_and_measure(&m, &c, 1e-12);
    expect_right(&reading, 1);
    faults_arm(FAULT_STICKY, 10, CL_OUT_OF_RESOURCES);
    m.measure(m.user, 0, &c, 0.0, &reading);
    cr_assert(reading.outcome == CA_RUNTIME_FAILED);
    cr_assert(strstr(reading.reason, "CL_OUT_OF_RESOURCES") &&
                  strstr(reading.reason, "the context is lost"),
              "%s", reading.reason);
    cr_assert(is_lost(&m));
    faults_disarm();
    m.build(m.user, &c, &reading); /* not held against the next */
    cr_assert(reading.outcome == CA_CONSTRAINT_FAILED && strstr(reading.reason, "lost"));
    m.measure(m.user, 0, &c, 0.0, &reading);
    cr_assert(reading.outcome == CA_CONSTRAINT_FAILED);
    m.round(m.user, 0, &c, 1, &seconds);
    cr_assert(isinf(seconds));
    m.close(m.user);
}

DeviceTest(measurer, round_with_a_failure)
{
    double seconds[2];

    struct ca_measurer m = open_measurer(f, small);
    const struct ca_candidate c = suggested(f, small, "unfused");
    struct ca_candidate misfit = c;
    misfit.values[0] = 3; /* no candidate */
    const struct ca_candidate two[] = {misfit, c};
    struct ca_reading reading;
    m.round(m.user, 0, two, 2, seconds);
    cr_assert(isinf(seconds[0]) && seconds[1] > 0.0 && seconds[1] < 60.0);
    m.build(m.user, &misfit, &reading);
    cr_assert(reading.outcome == CA_CONSTRAINT_FAILED && reading.reason[0]);
    faults_arm(FAULT_OPENCL, 0, CL_INVALID_VALUE);
    m.round(m.user, 0, &c, 1, seconds);
    cr_assert(faults_disarm() && isinf(seconds[0]) && !is_lost(&m));
    m.close(m.user);
}

/* ---- what cannot be measured ---------------------------------------------------------------- */

Test(measurer, too_large_or_empty) {
    const cl_ulong little = 4 << 20, most = 1 << 20;
    const struct ca_problem problem =
        fixture_checked("fwd f32 h8 q1024 k1024 d64"); /* 2 MiB each */
    const struct ca_problem empty = fixture_checked("fwd f32 q0 k4 d8");
    struct ca_measurer m;
    struct fixture f;

    faults_pretend(CL_DEVICE_GLOBAL_MEM_SIZE, &little, sizeof little);
    fixture_open(&f);
    cr_assert(ca_measurer_create(f.context, &problem, 1, &m) == CLATTN_OUT_OF_MEMORY);
    cr_assert(fixture_said(&f, "too large") && m.user == NULL);
    fixture_close(&f);
    faults_pretend(CL_DEVICE_MAX_MEM_ALLOC_SIZE, &most, sizeof most);
    fixture_open(&f);
    fixture_refused(&f, ca_measurer_create(f.context, &problem, 1, &m), CLATTN_OUT_OF_MEMORY,
                    "too large");
    fixture_close(&f);
    faults_pretend(0, NULL, 0);
    fixture_open(&f);
    fixture_refused(&f, ca_measurer_create(f.context, &empty, 1, &m), CLATTN_INVALID_PROBLEM,
                    "nothing to measure");
    fixture_close(&f);
}

/* Data of one problem makes room for another's where both do not fit. */
Test(measurer, problems_take_turns_in_memory) {
    const cl_ulong memory = 9 << 20; /* 2 MiB a problem */
    struct ca_problem problems[4];
    struct ca_measurer m;
    struct fixture f;
    char alive[256];

    for (size_t n = 0; n < 4; n++)
        problems[n] = fixture_checked("fwd f32 h8 q256 k256 d64");
    faults_pretend(CL_DEVICE_GLOBAL_MEM_SIZE, &memory, sizeof memory);
    fixture_open(&f);
    cr_assert(ca_measurer_create(f.context, problems, 4, &m) == CLATTN_SUCCESS, "%s", f.log.last);
    struct ca_measuring *inner = m.user;
    struct ca_work *work;
    const long before = faults_objects_alive(alive, sizeof alive);
    for (size_t n = 0; n < 8; n++) {
        cr_assert(ca_work_open(inner, n % 4, &work) == CLATTN_SUCCESS);
        cr_assert(work == &inner->works[n % 4] && work->buffers[CA_O] != NULL);
        cr_assert(faults_objects_alive(alive, sizeof alive) - before == (n == 0 ? 4 : 8), "%s",
                  alive);
    }
    m.close(m.user);
    fixture_close(&f);
}

/* ---- clocks and sentences ------------------------------------------------------------------- */

Test(measurer, elapsed_time) {
    const struct ca_stopwatch w = {.resolution = 1e-6}, zero = {.resolution = 0.0};

    cr_expect(fabs(ca_stopwatch_elapsed(&w, 1000, 501000, 1.0) - 500e-6) < 1e-12);
    cr_expect(ca_stopwatch_elapsed(&w, 7, 7, 0.25) == 0.25, "a clock that stands still");
    cr_expect(ca_stopwatch_elapsed(&w, 7, 1507, 0.25) == 0.25, "a tick or two are noise");
    cr_expect(ca_stopwatch_elapsed(&zero, 7, 8, 0.25) == 0.25, "a clock that shows 1 ns");
    cr_expect(ca_stopwatch_elapsed(&w, 8, 7, 0.25) == 0.25, "a clock that runs back");
    cr_expect(ca_stopwatch_elapsed(&w, 0, 2000000000, 0.25) == 0.25, "a clock in other units");
    cr_expect(ca_stopwatch_elapsed(&w, 7, 7, 0.0) > 0.0, "two clocks that stand still");
}

/* A winner that meets another program loses half of two cores at most; two and three readings in a row
 * rarely lose as much. */
Test(measurer, readings_that_suffice) {
    static const struct {
        size_t count;
        double times[4];
        int suffice;
    } cases[] = {
        {0, {0.0}, 0},
        {1, {2.4}, 0},
        {1, {2.6}, 1},
        {2, {1.4, 9.0}, 0},
        {2, {9.0, 1.6}, 1},
        {3, {9.0, 1.1, 9.0}, 0},
        {3, {1.2, 1.3, 1.4}, 1},
        {4, {2.0, 1.1, 2.0, 2.0}, 0},
        {4, {2.0, 1.2, 2.0, 2.0}, 1},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct ca_reading reading = {.num_times = cases[n].count};
        for (size_t t = 0; t < cases[n].count; t++)
            reading.times[t] = 1e-3 * cases[n].times[t];
        cr_expect(ca_readings_suffice(&reading, 1e-3) == cases[n].suffice, "case %zu", n);
        cr_expect(ca_readings_suffice(&reading, 0.0) == 0, "there is no best");
    }
}

Test(measurer, executions_of_a_reading) {
    struct ca_stopwatch fine = {.resolution = 1e-9}, coarse = {.resolution = 1e-4};

    cr_expect(ca_stopwatch_executions(&fine, 1.0) == 1);
    cr_expect(ca_stopwatch_executions(&fine, 1e-4) == 5);
    cr_expect(ca_stopwatch_executions(&coarse, 1e-4) == 50);
    cr_expect(ca_stopwatch_executions(&coarse, 6e-3) == 1);
    cr_expect(ca_stopwatch_executions(&coarse, 1e-9) == 1000);
}

Test(measurer, sentences) {
    struct log log = {0};
    struct ca_capture c = {.to = {log_message, &log, 0, 0}};

    ca_capture_message(CLATTN_LOG_ERROR, "a call failed", &c);
    ca_capture_message(CLATTN_LOG_WARNING, "and so on", &c);
    cr_expect_str_eq(c.sentence, "a call failed");
    ca_capture_message(CLATTN_LOG_WARNING, "a.cl:1: warning\na.cl:2: eError: x\nerror: y\n", &c);
    cr_expect_str_eq(c.build_error, "a.cl:2: eError: x");
    cr_expect(log.errors == 0 && log.warnings == 3, "a candidate's failure is no error");
    ca_capture_forget(&c);
    cr_expect(c.sentence[0] == '\0');
    ca_capture_message(CLATTN_LOG_WARNING, "nothing\nto see\n", &c);
    cr_expect_str_eq(c.build_error, "nothing");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The sentence of the last error, without a callback; and what CLATTN_LOG prints. */
#include "os/process.h"
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

TestSuite(last_error, .init = unoptimised, .timeout = 60);

static int has(const clattn_context *context, const char *words)
{
    return strstr(clattn_context_last_error(context), words) != NULL;
}

static void fail_with_family(clattn_context *context, const char *family)
{
    const clattn_problem problem = fixture_problem("fwd f32 q2 k3 d4");
    const clattn_plan_options options = {.struct_size = sizeof options, .family = family};
    clattn_plan *plan;

    cr_expect(clattn_plan_create(context, &problem, &options, &plan) == CLATTN_UNSUPPORTED);
}

Test(last_error, of_calls_without_a_context) {
    clattn_context *context;
    clattn_problem problem;
    cl_device_id device;

    cr_expect_str_eq(clattn_context_last_error(NULL), "");
    cr_expect(clattn_problem_parse("fwd f32 q2 k3", &problem, NULL, 0) == CLATTN_INVALID_PROBLEM);
    cr_expect(has(NULL, "d"), "%s", clattn_context_last_error(NULL));
    cr_expect(clattn_device_select("no such", &device) == CLATTN_NO_DEVICE && has(NULL, "no such"));
    cr_expect(clattn_context_create_default("none", NULL, &context) == CLATTN_NO_DEVICE);
    cr_expect(has(NULL, "could be chosen by 'none'"), "%s", clattn_context_last_error(NULL));
    cr_expect(clattn_context_trim(NULL) == CLATTN_INVALID_ARGUMENT && has(NULL, "context is null"));
    cr_expect(clattn_attention_forward(NULL, NULL, NULL, 0, NULL, NULL) == CLATTN_INVALID_ARGUMENT);
    cr_expect(has(NULL, "plan is null"));
}

static void *fail_beside(void *context)
{
    cr_expect_str_eq(clattn_context_last_error(context), "");
    fail_with_family(context, "fastest");
    cr_expect(has(context, "fastest"));
    return NULL;
}

Test(last_error, is_of_a_thread_and_a_context) {
    clattn_context *first, *second;
    pthread_t thread;

    cr_assert(clattn_context_create_default(NULL, NULL, &first) == CLATTN_SUCCESS);
    cr_assert(clattn_context_create_default(NULL, NULL, &second) == CLATTN_SUCCESS);
    fail_with_family(first, "fast");
    cr_expect(has(first, "fast") && has(NULL, "fast"));
    cr_expect_str_eq(clattn_context_last_error(second), "");
    fail_with_family(second, "faster");
    cr_expect(has(first, "fast") && !has(first, "faster") && has(second, "faster"));
    cr_expect(has(NULL, "faster"), "the thread's last");
    cr_assert(pthread_create(&thread, NULL, fail_beside, first) == 0);
    pthread_join(thread, NULL);
    cr_expect(has(first, "fast") && !has(first, "fastest"));
    clattn_context_release(second);
    clattn_context_release(first);
}

DeviceTest(last_error, is_what_the_callback_gets)
{
    fail_with_family(f->context, "fast");
    cr_expect_str_eq(clattn_context_last_error(f->context), f->log.last);
    clattn_context_log(f->context, CLATTN_LOG_ERROR, "of a library that builds on clattn");
    cr_expect(has(f->context, "builds on clattn"));
    clattn_context_log(f->context, CLATTN_LOG_ERROR, clattn_context_last_error(f->context));
    clattn_context_log(f->context, CLATTN_LOG_WARNING, "not an error");
    cr_expect(has(f->context, "builds on clattn"));
}

/* ---- CLATTN_LOG ------------------------------------------------------------------------------- */

static void print_levels(const char *wish)
{
    clattn_context *context;

    ca_variable_set("CLATTN_LOG", wish);
    cr_assert(clattn_context_create_default(NULL, NULL, &context) == CLATTN_SUCCESS);
    clattn_context_log(context, CLATTN_LOG_ERROR, "e");
    clattn_context_log(context, CLATTN_LOG_WARNING, "w");
    clattn_context_log(context, CLATTN_LOG_INFO, "i");
    ca_variable_set("CLATTN_LOG", "");
    clattn_context_release(context);
    fflush(stderr);
}

Test(last_error, nothing_is_printed_by_itself, .init = cr_redirect_stderr) {
    print_levels("");
    fputs("end\n", stderr);
    fflush(stderr);
    cr_assert_stderr_eq_str("end\n");
}

Test(last_error, errors_are_printed, .init = cr_redirect_stderr) {
    print_levels("error");
    cr_assert_stderr_eq_str("clattn: error: e\n");
}

Test(last_error, warnings_are_printed, .init = cr_redirect_stderr) {
    print_levels("warning");
    cr_assert_stderr_eq_str("clattn: error: e\nclattn: warning: w\n");
}

Test(last_error, other_words_are_named_once, .init = cr_redirect_stderr) {
    print_levels("loud");
    print_levels("loud");
    cr_assert_stderr_eq_str("clattn: CLATTN_LOG must be error, warning, info or detail\n"
                            "clattn: error: e\nclattn: error: e\n");
}

Test(last_error, a_callback_gets_all_instead, .init = cr_redirect_stderr) {
    struct log log = {.errors = 0};
    const clattn_context_options options = {
        .struct_size = sizeof options, .log = log_message, .log_user_data = &log};
    clattn_context *context;

    ca_variable_set("CLATTN_LOG", "detail");
    cr_assert(clattn_context_create_default(NULL, &options, &context) == CLATTN_SUCCESS);
    clattn_context_log(context, CLATTN_LOG_ERROR, "e");
    cr_expect(log.errors == 1);
    clattn_context_release(context);
    fputs("end\n", stderr);
    fflush(stderr);
    cr_assert_stderr_eq_str("end\n");
}

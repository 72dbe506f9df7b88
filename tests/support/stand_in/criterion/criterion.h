/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for Criterion where that is not to be had: nobody builds it for Windows (mingw-w64), and it and its five
 * dependencies would have to be ported first. clattn's tests use little of it, which is here: tests and suites with their
 * options, parameters, the assertions below, skipping, and what a test prints. Each test runs in a process of its own, with
 * a time limit: the program starts itself (run.c). */
#ifndef STAND_IN_CRITERION_H
#define STAND_IN_CRITERION_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The parameters of a test: `length` values, of `size` bytes each. */
struct criterion_test_params {
    size_t size;
    void *params;
    size_t length;
};
#define cr_make_param_array(type, values, count)                                                   \
    ((struct criterion_test_params){sizeof(type), values, count})

/* The options of a test or of a suite; a test has those of its suite where it does not give its own. */
struct stand_in_options {
    void (*init)(void);
    void (*fini)(void);
    double timeout; /* seconds; 0: the default */
    bool disabled;
};

struct stand_in_test {
    const char *suite, *name; /* name: NULL for the options of a suite */
    struct stand_in_options options;
    void (*run)(void *parameter);
    struct criterion_test_params (*parameters)(void); /* NULL: the test has none */
    struct stand_in_test *next;
};
void stand_in_register(struct stand_in_test *test);

#define STAND_IN_REGISTER(id, suite, name, run, parameters, ...)                                   \
    __attribute__((constructor)) static void id##_registers(void)                                  \
    {                                                                                              \
        static struct stand_in_test test = {suite, name, {__VA_ARGS__}, run, parameters, NULL};    \
        stand_in_register(&test);                                                                  \
    }

#define TestSuite(...) STAND_IN_SUITE(__VA_ARGS__, .disabled = false)
#define STAND_IN_SUITE(suite, ...)                                                                 \
    STAND_IN_REGISTER(suite##_suite, #suite, NULL, NULL, NULL, __VA_ARGS__)                        \
    _Static_assert(true, "a semicolon follows")

#define Test(...) STAND_IN_TEST(__VA_ARGS__, .disabled = false)
#define STAND_IN_TEST(suite, name, ...)                                                            \
    static void suite##_##name##_body(void);                                                       \
    static void suite##_##name##_runs(void *parameter)                                             \
    {                                                                                              \
        (void)parameter;                                                                           \
        suite##_##name##_body();                                                                   \
    }                                                                                              \
    STAND_IN_REGISTER(suite##_##name, #suite, #name, suite##_##name##_runs, NULL, __VA_ARGS__)     \
    static void suite##_##name##_body(void)

/* ---- assertions --------------------------------------------------------------------------------- */

/* Says where and why; one that ends the test does not return. */
void stand_in_fail(bool ends, const char *file, int line, const char *condition, const char *format,
                   ...);
_Noreturn void stand_in_skip(const char *format, ...);
void stand_in_log(const char *level, const char *format, ...);

#define STAND_IN_CHECK(ends, text, condition, ...)                                                 \
    ((condition) ? (void)0 : stand_in_fail(ends, __FILE__, __LINE__, text, __VA_ARGS__))

#define cr_assert(...) STAND_IN_CHECK(true, #__VA_ARGS__, __VA_ARGS__, "", 0)
#define cr_expect(...) STAND_IN_CHECK(false, #__VA_ARGS__, __VA_ARGS__, "", 0)
#define cr_assert_fail(...) stand_in_fail(true, __FILE__, __LINE__, "never", "" __VA_ARGS__)
#define cr_skip_test(...) stand_in_skip(__VA_ARGS__)
#define cr_log_info(...) stand_in_log("info", __VA_ARGS__)
#define cr_log_error(...) stand_in_log("error", __VA_ARGS__)

#define STAND_IN_EQUAL(a, b) ((a) == (b))
#define STAND_IN_BYTES_EQUAL(a, b, bytes) (memcmp(a, b, bytes) == 0)
#define cr_assert_eq(a, ...) STAND_IN_CHECK_TWO(true, STAND_IN_EQUAL, a, __VA_ARGS__, "", 0)
#define cr_expect_eq(a, ...) STAND_IN_CHECK_TWO(false, STAND_IN_EQUAL, a, __VA_ARGS__, "", 0)
#define cr_assert_str_eq(a, ...)                                                                   \
    STAND_IN_CHECK_TWO(true, stand_in_texts_equal, a, __VA_ARGS__, "", 0)
#define cr_expect_str_eq(a, ...)                                                                   \
    STAND_IN_CHECK_TWO(false, stand_in_texts_equal, a, __VA_ARGS__, "", 0)
#define cr_assert_str_neq(a, ...)                                                                  \
    STAND_IN_CHECK_TWO(true, stand_in_texts_differ, a, __VA_ARGS__, "", 0)
#define cr_expect_str_neq(a, ...)                                                                  \
    STAND_IN_CHECK_TWO(false, stand_in_texts_differ, a, __VA_ARGS__, "", 0)
#define STAND_IN_CHECK_TWO(ends, holds, a, b, ...)                                                 \
    STAND_IN_CHECK(ends, #holds "(" #a ", " #b ")", holds(a, b), __VA_ARGS__)
#define cr_expect_str_empty(...)                                                                   \
    STAND_IN_CHECK_TWO(false, stand_in_texts_equal, "", __VA_ARGS__, "", 0)
#define cr_expect_not(...) STAND_IN_CHECK_TWO(false, STAND_IN_EQUAL, false, __VA_ARGS__, "", 0)
#define cr_assert_float_eq(a, b, ...)                                                              \
    STAND_IN_CHECK_THREE(true, stand_in_near, a, b, __VA_ARGS__, "", 0)
#define cr_expect_float_eq(a, b, ...)                                                              \
    STAND_IN_CHECK_THREE(false, stand_in_near, a, b, __VA_ARGS__, "", 0)
#define cr_expect_arr_eq(a, b, ...)                                                                \
    STAND_IN_CHECK_THREE(false, STAND_IN_BYTES_EQUAL, a, b, __VA_ARGS__, "", 0)
#define STAND_IN_CHECK_THREE(ends, holds, a, b, c, ...)                                            \
    STAND_IN_CHECK(ends, #holds "(" #a ", " #b ", " #c ")", holds(a, b, c), __VA_ARGS__)

/* They note both values, which the failed assertion prints. */
bool stand_in_texts_equal(const char *a, const char *b);
bool stand_in_texts_differ(const char *a, const char *b);
bool stand_in_near(double a, double b, double most);

/* The standard streams go to files from now on, which the assertions read. */
void cr_redirect_stderr(void);
void stand_in_printed(const char *want, bool ends, const char *file, int line);
#define cr_assert_stderr_eq_str(want, ...) stand_in_printed(want, true, __FILE__, __LINE__)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the tests, each in a process of its own: PROGRAM [--filter 'SUITE/TEST'] [--list] [--verbose]. A `*` in the filter
 * stands for any text. CLATTN_TEST_PATIENCE multiplies the time limits, by 10 if it does not say otherwise.
 * CLATTN_TEST_LAUNCHER is the emulator by which the program runs, and by which it starts itself. */
#include "os/environment.h"
#include "os/process.h"
#include "os/temporary.h"
#include "tests/support/programs/apart.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct stand_in_test *tests;

void stand_in_register(struct stand_in_test *test)
{
    struct stand_in_test **at =
        &tests; /* suites by their names, the tests of one as the files have them */

    while (*at && strcmp((*at)->suite, test->suite) <= 0)
        at = &(*at)->next;
    test->next = *at;
    *at = test;
}

/* ---- in the test's process ------------------------------------------------------------------------ */

enum { PASSED = 0, FAILED = 1, SKIPPED = 77, KEPT_BYTES = 1024 };

static jmp_buf ended;
static _Thread_local bool may_jump; /* the thread that runs the test */
static volatile int outcome = PASSED;
static _Thread_local char noted[KEPT_BYTES];
static char running[256];

static _Noreturn void end_test(void)
{
    if (may_jump)
        longjmp(ended, 1);
    exit(outcome);
}

void stand_in_fail(bool ends, const char *file, int line, const char *condition, const char *format,
                   ...)
{
    va_list arguments;

    outcome = FAILED;
    printf("      %s:%d: %s is false%s%s", file, line, condition, noted[0] ? ", with " : "", noted);
    if (format[0]) {
        printf(": ");
        va_start(arguments, format);
        vprintf(format, arguments);
        va_end(arguments);
    }
    printf("\n");
    fflush(stdout);
    noted[0] = '\0';
    if (ends)
        end_test();
}

_Noreturn void stand_in_skip(const char *format, ...)
{
    va_list arguments;

    printf("[SKIP] %s: ", running);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
    if (outcome == PASSED)
        outcome = SKIPPED;
    end_test();
}

void stand_in_log(const char *level, const char *format, ...)
{
    va_list arguments;

    printf("      %s: ", level);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

static bool note(const bool holds, const char *format, ...)
{
    va_list arguments;

    noted[0] = '\0';
    if (!holds) {
        va_start(arguments, format);
        vsnprintf(noted, sizeof noted, format, arguments);
        va_end(arguments);
    }
    return holds;
}

bool stand_in_texts_equal(const char *a, const char *b)
{
    return note(strcmp(a, b) == 0, "'%s' and '%s'", a, b);
}

bool stand_in_texts_differ(const char *a, const char *b)
{
    return note(strcmp(a, b) != 0, "both '%s'", a);
}

bool stand_in_near(double a, double b, double most)
{
    return note(fabs(a - b) <= most, "%.17g and %.17g", a, b);
}

static bool relates(const int less, const int greater, const int equal, const char *relation)
{
    const bool or_equal = relation[1] == '=';

    if (relation[0] == '=')
        return equal;
    if (relation[0] == '!')
        return !equal;
    return (or_equal && equal) || (relation[0] == '<' ? less : greater);
}

bool stand_in_whole(long long a, const char *relation, long long b)
{
    return note(relates(a<b, a> b, a == b, relation), "%lld and %lld", a, b);
}

bool stand_in_double(double a, const char *relation, double b)
{
    return note(relates(a<b, a> b, a == b, relation), "%.17g and %.17g", a, b);
}

bool stand_in_text(const char *a, const char *relation, const char *b)
{
    const int order = strcmp(a, b);

    return note(relates(order<0, order> 0, order == 0, relation), "'%s' and '%s'", a, b);
}

static char redirected[256];

void cr_redirect_stderr(void)
{
    if (!ca_temporary_file(redirected, sizeof redirected, ca_temporary_place(), "clattn-stderr-") ||
        !freopen(redirected, "wb", stderr))
        stand_in_fail(true, __FILE__, __LINE__, "standard error goes to a file", "");
}

void stand_in_printed(const char *want, bool ends, const char *file, int line)
{
    char got[8192];

    fflush(stderr);
    FILE *stream = fopen(redirected, "rb");
    const size_t bytes = stream ? fread(got, 1, sizeof got - 1, stream) : 0;
    if (stream)
        fclose(stream);
    got[bytes] = '\0';
    if (strcmp(got, want) != 0)
        stand_in_fail(ends, file, line, "what was printed is as it should be", "'%s', not '%s'",
                      got, want);
}

static int run_here(const struct stand_in_test *test, const struct stand_in_options *options,
                    const size_t number)
{
    const struct criterion_test_params parameters =
        test->parameters ? test->parameters() : (struct criterion_test_params){0, NULL, 0};
    void *value = parameters.params ? (char *)parameters.params + number * parameters.size : NULL;

    may_jump = true;
    if (setjmp(ended) == 0) {
        if (options->init)
            options->init();
        test->run(value);
    }
    if (setjmp(ended) == 0 && options->fini)
        options->fini();
    return outcome;
}

/* ---- the program that starts them ----------------------------------------------------------------- */

static double patience = 10;

static struct stand_in_options options_of(const struct stand_in_test *test)
{
    struct stand_in_options options = test->options;

    for (const struct stand_in_test *suite = tests; suite; suite = suite->next) {
        if (suite->name || strcmp(suite->suite, test->suite) != 0)
            continue;
        options.init = options.init ? options.init : suite->options.init;
        options.fini = options.fini ? options.fini : suite->options.fini;
        options.timeout = options.timeout > 0 ? options.timeout : suite->options.timeout;
        options.disabled |= suite->options.disabled;
    }
    return options;
}

static bool suits(const char *text, const char *pattern)
{
    if (*pattern == '*')
        return suits(text, pattern + 1) || (*text && suits(text + 1, pattern));
    return *text == *pattern && (!*text || suits(text + 1, pattern + 1));
}

/* NULL where the system starts this program by itself. */
static const char *launcher_of_tests(void)
{
    const char *launcher = ca_environment_value("CLATTN_TEST_LAUNCHER");

    return launcher && launcher[0] ? launcher : NULL;
}

/* Starts this program for one test, and says how that ended. */
static int run_apart(const char *program, const struct stand_in_test *test,
                     const struct stand_in_options *options, const size_t number)
{
    const double limit = (options->timeout > 0 ? options->timeout : 60) * patience;
    const struct ca_child_files files = {
        .input = CA_NO_FILE, .output = CA_OWN_OUTPUT, .errors = CA_OWN_ERRORS};
    struct ca_child_end end = {0};
    struct ca_child child;
    char which[32], death[128];

    snprintf(which, sizeof which, "%zu", number);
    const char *launcher = launcher_of_tests();
    const char *const argv[] = {launcher, program, "--one", test->suite, test->name, which, NULL};
    if (ca_child_start(&child, argv + !launcher, &files, NULL) != 0) {
        printf("      it cannot be started\n");
        return FAILED;
    }
    if (!ca_child_reap(&child, limit, &end)) {
        ca_child_kill(&child);
        ca_child_reap(&child, 10, &end);
        printf("      it did not end within %.0f seconds\n", limit);
        return FAILED;
    }
    ca_child_kill(&child); /* what it has started and left behind */
    if (end.death) {
        ca_child_print_death(&end, death, sizeof death);
        printf("      %s ended it\n", death);
        return FAILED;
    }
    if (end.status != PASSED && end.status != FAILED && end.status != SKIPPED)
        printf("      it ended with status %d\n", end.status);
    return end.status == PASSED || end.status == SKIPPED ? end.status : FAILED;
}

static int run_one(char **argv)
{
    for (const struct stand_in_test *test = tests; test; test = test->next) {
        if (!test->name || strcmp(test->suite, argv[0]) != 0 || strcmp(test->name, argv[1]) != 0)
            continue;
        const struct stand_in_options options = options_of(test);
        snprintf(running, sizeof running, "%s::%s", test->suite, test->name);
        return run_here(test, &options, (size_t)strtoull(argv[2], NULL, 10));
    }
    return FAILED;
}

int main(int argc, char **argv)
{
    const char *filter = "*", *text = ca_environment_value("CLATTN_TEST_PATIENCE"), *program;
    size_t counts[SKIPPED + 1] = {0};
    bool list = false, verbose = false;

    argv = ca_arguments(argc, argv);
    if (argc == 5 && strcmp(argv[1], "--one") == 0)
        return run_one(argv + 2);
#if defined(_WIN32) /* elsewhere tests fork */
    if (argc == 5 && strcmp(argv[1], "--apart") == 0)
        return apart_main(argv + 2);
#endif
    for (int n = 1; n < argc; n++) {
        list |= strcmp(argv[n], "--list") == 0;
        verbose |= strcmp(argv[n], "--verbose") == 0;
        if (strcmp(argv[n], "--filter") == 0 && n + 1 < argc)
            filter = argv[++n];
    }
    program = launcher_of_tests() ? argv[0] : ca_own_program(argv[0]);
    if (text && atof(text) > 0)
        patience = atof(text);
    for (const struct stand_in_test *test = tests; test; test = test->next) {
        char name[256];
        const struct stand_in_options options = options_of(test);
        snprintf(name, sizeof name, "%s/%s", test->suite, test->name ? test->name : "");
        if (!test->name || options.disabled || !suits(name, filter))
            continue;
        const size_t count = test->parameters ? test->parameters().length : 1;
        if (list)
            printf("%s, %zu\n", name, count);
        for (size_t n = 0; !list && n < count; n++) {
            const int status = run_apart(program, test, &options, n);
            counts[status]++;
            if (status == FAILED || verbose)
                printf("[%s] %s::%s, case %zu of %zu\n",
                       status == FAILED   ? "FAIL"
                       : status == PASSED ? "PASS"
                                          : "SKIP",
                       test->suite, test->name, n + 1, count);
            fflush(stdout);
        }
    }
    if (!list)
        printf("%zu passed, %zu failed, %zu skipped\n", counts[PASSED], counts[FAILED],
               counts[SKIPPED]);
    return counts[FAILED] > 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Progress as a terminal shows it, and as a parent hears it. */
#define _XOPEN_SOURCE 700 /* posix_openpt, setenv, sigaction */
#define _DEFAULT_SOURCE   /* struct winsize */
#include "bench/fleet/progress.h"
#include "internal.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct progress progress;

/* A terminal without a person. */
static struct {
    int person;
    FILE *program;
    char text[4096];
} screen;

static void open_screen(unsigned short columns)
{
    const struct winsize size = {.ws_col = columns, .ws_row = columns > 0 ? 24 : 0};

    screen.person = posix_openpt(O_RDWR | O_NOCTTY);
    cr_assert(screen.person >= 0 && grantpt(screen.person) == 0 && unlockpt(screen.person) == 0);
    const int terminal = open(ptsname(screen.person), O_RDWR | O_NOCTTY);
    cr_assert(terminal >= 0 && ioctl(terminal, TIOCSWINSZ, &size) == 0);
    screen.program = fdopen(terminal, "w");
    cr_assert(screen.program != NULL);
    fcntl(screen.person, F_SETFL, O_NONBLOCK);
    setenv("TERM", "xterm", 1);
    unsetenv("COLUMNS");
    unsetenv(PROGRESS_HEARTBEAT);
}

/* Returns the text that was written since the last time. */
static const char *look(void)
{
    fflush(screen.program);
    const ssize_t bytes = read(screen.person, screen.text, sizeof screen.text - 1);

    screen.text[bytes > 0 ? bytes : 0] = '\0';
    return screen.text;
}

static void close_screen(void)
{
    fclose(screen.program);
    close(screen.person);
}

/* Returns the text that a screen of so many columns shows of the first of `count` problems. */
static const char *show(unsigned short columns, size_t count, const char *what, double part)
{
    open_screen(columns);
    progress_open(&progress, screen.program, false, count, (double)count);
    progress_update(&progress, what, 1.0, part);
    return look();
}

/* One drawn line: back to the left, words, the rest erased. Its length. */
static size_t check_line(const char *text)
{
    const char *end = strstr(text, "\033[K");

    cr_assert(end != NULL && text[0] == '\r' && end[3] == '\0', "'%s'", text);
    cr_expect(strchr(text, '\n') == NULL && strchr(text + 1, '\r') == NULL, "'%s'", text);
    return (size_t)(end - text) - 1;
}

static void check_equal(const char *got, const char *want)
{
    cr_expect(strcmp(got, want) == 0, "'%s', not '%s'", got, want);
}

static void check_says(const char *text, const char *want)
{
    cr_expect(strstr(text, want) != NULL, "'%s' is not in '%s'", want, text);
}

Test(progress, draws_one_line_and_takes_it_away) {
    open_screen(100);
    progress_open(&progress, screen.program, false, 4, 8.0);
    progress_update(&progress, "peaks", 0.0, 0.0);
    check_line(look());
    cr_expect(eq(dbl, progress.begin, 0.0), "what has no weight says nothing of the time left");
    progress.redrawn = 0.0;
    progress_update(&progress, "bert: warming up", 2.0, 0.0);
    cr_assert(lt(sz, check_line(look()), 100));
    check_says(screen.text, "[--------------------]   0%  1/4 bert: warming up");
    cr_expect(strstr(screen.text, "left") == NULL, "nothing is known of the time yet");
    progress_update(&progress, "bert: warming up", 2.0, 0.5);
    check_equal(look(), "");

    progress_done(&progress, 2.0);
    progress.redrawn = 0.0;
    progress.begin = ca_stopwatch_now() - 60.0; /* a quarter took a minute */
    progress_update(&progress, "gpt2: sampling", 2.0, 0.0);
    check_line(look());
    check_says(screen.text, "[#####---------------]  25%  3:00 left  2/4 gpt2: sampling");

    progress.redrawn = 0.0;
    progress.begin = ca_stopwatch_now() - 3600.0;
    progress_update(&progress, "gpt2: sampling", 2.0, 0.5);
    check_line(look());
    check_says(screen.text, " 38%  1:40:00 left  2/4 gpt2");

    progress_clear(&progress);
    check_equal(look(), "\r\033[K");
    progress_clear(&progress);
    check_equal(look(), "");
    close_screen();
}

/* The last column stays free; half a character is not shown, nor what the terminal would obey. */
Test(progress, fits_the_terminal) {
    static const struct {
        unsigned short columns;
        const char *wish;
        size_t length;
    } cases[] = {{200, NULL, 199}, {80, NULL, 79}, {60, "100", 59}, {9, NULL, 8},
                 {0, NULL, 79},    {0, "50", 49},  {0, "x", 79},    {0, "5000", 199}};
    char what[512];

    memset(what, 'x', sizeof what - 1);
    what[sizeof what - 1] = '\0';
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        open_screen(cases[n].columns);
        if (cases[n].wish != NULL)
            setenv("COLUMNS", cases[n].wish, 1);
        progress_open(&progress, screen.program, false, 12, 12.0);
        progress_update(&progress, what, 1.0, 0.0);
        cr_expect(eq(sz, check_line(look()), cases[n].length), "case %zu: '%s'", n, screen.text);
        close_screen();
    }
}

Test(progress, keeps_the_last_column_free) {
    char what[] = "0123456789012345678901234567890";

    for (size_t length = sizeof what - 1; length > 20; length--) {
        what[length] = '\0';
        const size_t all = strlen("  0%  1/1 ") + length;
        cr_expect(eq(sz, check_line(show(40, 1, what, 0.0)), all < 39 ? all : 39), "%zu: '%s'",
                  length, screen.text);
        close_screen();
    }
}

/* Without a second of work, or a fiftieth of it, the time left is anybody's guess. */
Test(progress, guesses_no_time) {
    static const struct {
        double elapsed, part;
        bool guesses;
    } cases[] = {{0.5, 0.5, false}, {60.0, 0.01, false}, {60.0, 0.03, true}, {2.0, 0.5, true}};

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        open_screen(80);
        progress_open(&progress, screen.program, false, 1, 1.0);
        progress.begin = ca_stopwatch_now() - cases[n].elapsed;
        progress_update(&progress, "bert", 1.0, cases[n].part);
        const bool guesses = strstr(look(), " left ") != NULL;
        cr_expect(guesses == cases[n].guesses, "case %zu: '%s'", n, screen.text);
        close_screen();
    }
}

Test(progress, shows_no_half_characters) {
    for (unsigned short columns = 11; columns < 26; columns++) {
        const size_t length = check_line(
            show(columns, 1, "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\033[31m\xe2\x82\xac", 0.0));
        const size_t euros = length - strlen("  0%  1/1 ");
        cr_expect(strchr(screen.text, '\033') == strstr(screen.text, "\033[K"));
        cr_expect(euros > 9 || euros % 3 == 0, "%u columns: '%s'", columns, screen.text);
        close_screen();
    }
}

Test(progress, is_silent_where_nobody_looks) {
    char path[] = "/tmp/clattn-progress-XXXXXX";
    FILE *file = fdopen(mkstemp(path), "w");

    open_screen(80);
    for (int n = 0; n < 3; n++) { /* quiet, on a terminal that cannot, to a file */
        setenv("TERM", n == 1 ? "dumb" : "xterm", 1);
        progress_open(&progress, n == 2 ? file : screen.program, n == 0, 1, 1.0);
        progress_update(&progress, "bert", 1.0, 0.5);
        progress_clear(&progress);
        check_equal(look(), "");
    }
    cr_expect(eq(long, ftell(file), 0), "a file");
    fclose(file);
    remove(path);
    close_screen();
}

/* ---- the heartbeat --------------------------------------------------------------------------- */

static void name_heart(int descriptor)
{
    char number[16];

    snprintf(number, sizeof number, "%d", descriptor);
    setenv(PROGRESS_HEARTBEAT, number, 1);
    progress_open(&progress, stderr, true, 2, 2.0);
}

Test(progress, heart_tells_what_is_done) {
    char text[512];
    int ends[2];

    cr_assert(pipe(ends) == 0);
    name_heart(ends[1]);
    cr_expect(getenv(PROGRESS_HEARTBEAT) == NULL, "children would write to it");
    cr_expect(eq(int, fcntl(ends[1], F_GETFD), FD_CLOEXEC));
    progress_update(&progress, "bert: warming up", 1.0, 0.0);
    progress_update(&progress, "bert: warming up", 1.0, 0.1); /* too soon to be repeated */
    progress_update(&progress, "bert: a\nb", 1.0, 0.2);
    progress.beat -= 1.0;
    progress_update(&progress, "bert: a\nb", 1.0, 0.3);
    const ssize_t bytes = read(ends[0], text, sizeof text - 1);
    text[bytes > 0 ? bytes : 0] = '\0';
    check_equal(text, "bert: warming up\nbert: a?b\nbert: a?b\n");
    close(ends[0]);
    close(ends[1]);
}

/* Only a pipe is a heart: a number out of somebody's environment may be anything. */
Test(progress, heart_must_be_a_pipe) {
    static const char *const wrong[] = {"", "x", "-1", "0", "1", "2", "999", "99999999999"};
    char path[] = "/tmp/clattn-progress-XXXXXX";
    const int file = mkstemp(path);

    name_heart(file);
    progress_update(&progress, "bert", 1.0, 0.0);
    cr_expect(eq(long, lseek(file, 0, SEEK_END), 0));
    close(file);
    remove(path);
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        setenv(PROGRESS_HEARTBEAT, wrong[n], 1);
        progress_open(&progress, stderr, true, 1, 1.0);
        cr_expect(eq(int, progress.heart, -1), "'%s'", wrong[n]);
    }
}

static volatile sig_atomic_t told;

static void notice(int signal_number)
{
    told = signal_number;
}

/* Whoever wanted the results is gone. */
Test(progress, ends_with_its_parent) {
    int ends[2];

    cr_assert(pipe(ends) == 0);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, notice);
    name_heart(ends[1]);
    close(ends[0]);
    progress_update(&progress, "bert", 1.0, 0.0);
    cr_expect(eq(int, (int)told, SIGTERM));
    told = 0;
    progress_update(&progress, "gpt2", 1.0, 0.0);
    cr_expect(eq(int, (int)told, 0), "told twice: the second time kills");
    close(ends[1]);
}

/* A parent that does not read holds nobody up. */
Test(progress, full_pipe_is_not_waited_for) {
    char what[64];
    int ends[2];

    cr_assert(pipe(ends) == 0);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    name_heart(ends[1]);
    for (int n = 0; n < 20000; n++) {
        snprintf(what, sizeof what, "problem %d", n);
        progress_update(&progress, what, 1.0, 0.0);
    }
    cr_expect(ge(int, progress.heart, 0));
    close(ends[0]);
    close(ends[1]);
}

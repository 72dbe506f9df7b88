#define _POSIX_C_SOURCE 200809L /* fcntl, fstat, raise, unsetenv */
#include "bench/fleet/outlook.h"
#include "cli/message.h"
#include "cli/terminal.h"
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEAST_PAUSE 0.2
#define HEARTBEAT 1.0

/* From here on the time that has passed says something about the time left. */
#define LEAST_SECONDS 1.0
#define LEAST_PART 0.02

enum { BAR = 20, BAR_NEEDS = 70, MOST_HEART = 1024 };

/* ---- the pipe -------------------------------------------------------------------------------- */

/* A pipe that the environment names, or -1. */
static int find_heart(void)
{
    const char *name = getenv(OUTLOOK_HEARTBEAT);
    const long heart = name != NULL ? strtol(name, NULL, 10) : -1;
    struct stat what;

    unsetenv(OUTLOOK_HEARTBEAT);
    if (heart <= STDERR_FILENO || heart > MOST_HEART || fstat((int)heart, &what) != 0 ||
        !S_ISFIFO(what.st_mode))
        return -1;
    fcntl((int)heart, F_SETFD, FD_CLOEXEC);
    return (int)heart;
}

/* Whoever reads there wants this program's results: without them it is to end. */
static void beat(struct outlook *outlook, const char *what, double now)
{
    char line[sizeof outlook->what + 1];
    const bool news = strncmp(outlook->what, what, sizeof outlook->what - 1) != 0;

    if (outlook->heart < 0 || (!news && now < outlook->beat + HEARTBEAT))
        return;
    snprintf(outlook->what, sizeof outlook->what, "%s", what);
    message_sanitize(outlook->what);
    const int length = snprintf(line, sizeof line, "%s\n", outlook->what);
    outlook->beat = now;
    if (write(outlook->heart, line, (size_t)length) < 0 && errno == EPIPE) {
        outlook->heart = -1;
        raise(SIGTERM);
    }
}

/* ---- the line -------------------------------------------------------------------------------- */

struct line {
    char text[2 * CA_TERMINAL_MOST];
    size_t length;
};

static void add(struct line *line, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    const int length =
        vsnprintf(line->text + line->length, sizeof line->text - line->length, format, list);
    va_end(list);
    line->length += (size_t)(length > 0 ? length : 0);
    if (line->length >= sizeof line->text)
        line->length = sizeof line->text - 1;
}

/* "1:23 left", or "1:02:03 left". */
static void add_time(struct line *line, double left)
{
    const unsigned long seconds = (unsigned long)(left + 0.5);

    if (seconds < 3600)
        add(line, "%lu:%02lu left  ", seconds / 60, seconds % 60);
    else
        add(line, "%lu:%02lu:%02lu left  ", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

static void draw(struct outlook *outlook, const char *what, double part, double now)
{
    const size_t width = ca_terminal_width(outlook->to);
    const double elapsed = now - outlook->begin;
    struct line line = {.length = 0};

    if (width >= BAR_NEEDS) {
        add(&line, "[");
        for (size_t n = 0; n < BAR; n++)
            add(&line, (double)n + 0.5 < part * BAR ? "#" : "-");
        add(&line, "] ");
    }
    add(&line, "%3.0f%%  ", 100.0 * part);
    if (part >= LEAST_PART && elapsed >= LEAST_SECONDS)
        add_time(&line, elapsed * (1.0 - part) / part);
    add(&line, "%zu/%zu ", outlook->index < outlook->count ? outlook->index + 1 : outlook->count,
        outlook->count);
    add(&line, "%.*s", CA_TERMINAL_MOST, what);
    message_sanitize(line.text);
    if (line.length >= width) { /* the last column stays free: some terminals wrap there */
        line.length = width - 1;
        while (line.length > 0 && ((unsigned char)line.text[line.length] & 0xc0) == 0x80)
            line.length--; /* no half of a character */
    }
    fprintf(outlook->to, "\r%.*s\033[K", (int)line.length, line.text);
    fflush(outlook->to);
    outlook->drawn = true;
    outlook->redrawn = now;
}

/* ---------------------------------------------------------------------------------------------- */

void outlook_open(struct outlook *outlook, FILE *to, bool quiet, size_t count, double total)
{
    *outlook = (struct outlook){.to = to,
                                .shown = !quiet && ca_terminal(to),
                                .heart = find_heart(),
                                .count = count,
                                .total = total};
}

void outlook_update(struct outlook *outlook, const char *what, double weight, double part)
{
    const double now = ca_stopwatch_now();
    const double done = outlook->done + weight * part;

    if (outlook->begin == 0.0 && weight > 0.0) /* what came before has no weight */
        outlook->begin = now;
    beat(outlook, what, now);
    if (outlook->shown && (!outlook->drawn || now >= outlook->redrawn + LEAST_PAUSE))
        draw(outlook, what,
             outlook->total > 0.0 ? fmin(fmax(done / outlook->total, 0.0), 1.0) : 0.0, now);
}

void outlook_done(struct outlook *outlook, double weight)
{
    outlook->done += weight;
    outlook->index++;
}

void outlook_clear(struct outlook *outlook)
{
    if (outlook->drawn) {
        fputs("\r\033[K", outlook->to);
        fflush(outlook->to);
    }
    outlook->drawn = false;
}

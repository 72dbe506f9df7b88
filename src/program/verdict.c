/* SPDX-License-Identifier: Apache-2.0 */
#include "program/verdict.h"
#include "base/log.h"
#include "os/clock.h"

#include <string.h>

struct line {
    const char *text;
    size_t length;
};

/* Returns the text after the first such words; NULL if there are none. */
static const char *find(const struct line *line, const char *words)
{
    const size_t length = strlen(words);

    for (size_t n = 0; n + length <= line->length; n++)
        if (memcmp(line->text + n, words, length) == 0)
            return line->text + n + length;
    return NULL;
}

/* Behind ":12", or NULL. */
static const char *skip_number(const char *text)
{
    const char *end = text + 1;

    if (*text != ':')
        return NULL;
    while (*end >= '0' && *end <= '9')
        end++;
    return end > text + 1 ? end : NULL;
}

/* Returns the text after the first ":12:3:" at or after `from`, which follows a file's name; NULL
 * if there is none. */
static const char *find_place(const struct line *line, const char *from)
{
    for (const char *at = from; at < line->text + line->length; at++) {
        const char *row = skip_number(at);
        const char *column = row ? skip_number(row) : NULL;
        if (column && *column == ':')
            return column + 1;
    }
    return NULL;
}

/* Returns whether an error is in the source. A missing file is no fault of the source, which
 * includes nothing: clang says "fatal error", and PoCL says "file not found" where it leaves the
 * first word out. */
static int blames_source(const struct line *line)
{
    static const char error[] = " error:";
    const char *place = find_place(line, line->text);

    if (find(line, "file not found"))
        return 0;
    if (find(line, "ptxas") &&
        find(line, "; error")) /* ptxas application ptx input, line 12; error   : */
        return 1;
    if (place && strncmp(place, error, strlen(error)) == 0) /* FILE:12:3: error: */
        return 1;
    return line->length > 7 && memcmp(line->text, "error: ", 7) == 0 &&
           find_place(line, line->text + 6) != NULL; /* error: FILE:12:3: */
}

int ca_verdict_blames_source(const char *text)
{
    const struct line line = {text, strcspn(text, "\n")};

    return blames_source(&line);
}

int ca_verdict_of_build_log(const char *log, struct ca_verdict *verdict)
{
    struct line line;

    for (; *log; log += line.length + (log[line.length] == '\n')) {
        line = (struct line){log, strcspn(log, "\n")};
        if (!blames_source(&line))
            continue;
        verdict->status = CLATTN_BUILD_FAILED;
        ca_reason(verdict->reason, sizeof verdict->reason, "%.*s", (int)line.length, line.text);
        return 1;
    }
    return 0;
}

struct ca_verdict ca_verdict_crashed(time_t until)
{
    struct ca_verdict verdict = {.status = CLATTN_BUILD_FAILED, .until = until};
    char text[32];

    ca_utc_print(until, "%Y-%m-%d %H:%M UTC", text, sizeof text);
    ca_reason(
        verdict.reason, sizeof verdict.reason,
        "it ended the process twice while it was compiled or checked, and is tried again after "
        "%s, after a reboot or under other limits of memory",
        text);
    return verdict;
}

struct ca_verdict ca_verdict_miscompiled(void)
{
    return (struct ca_verdict){CLATTN_MISCOMPILED, "it failed its self-check", 0};
}

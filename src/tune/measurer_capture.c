/* SPDX-License-Identifier: Apache-2.0 */
/* The error of a failing candidate in one sentence. */
#include "tune/measurer_data.h"

#include <ctype.h>
#include <string.h>

static int speaks_of_error(const char *line, size_t length)
{
    static const char word[] = "error";

    for (size_t n = 0, same = 0; n < length; n++) {
        const char c = (char)tolower((unsigned char)line[n]);
        same = c == word[same] ? same + 1 : c == word[0];
        if (word[same] == '\0')
            return 1;
    }
    return 0;
}

/* The first line of a build log that speaks of an error; the very first if none does. */
static void copy_build_error(const char *log, char text[CA_READING_REASON])
{
    const char *line = log;

    while (*line && !speaks_of_error(line, strcspn(line, "\n"))) {
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    line = *line ? line : log;
    ca_reason(text, CA_READING_REASON, "%.*s", (int)strcspn(line, "\n"), line);
}

void ca_capture_message(clattn_log_level level, const char *message, void *user)
{
    struct ca_capture *c = user;

    if (strchr(message, '\n')) { /* a build log */
        if (!c->build_error[0])
            copy_build_error(message, c->build_error);
    } else if (!c->sentence[0] && level < CLATTN_LOG_INFO) {
        ca_reason(c->sentence, sizeof c->sentence, "%s", message);
    }
    ca_log_text(&c->to, level == CLATTN_LOG_ERROR ? CLATTN_LOG_WARNING : level, message);
}

void ca_capture_forget(struct ca_capture *c)
{
    c->sentence[0] = c->build_error[0] = '\0';
}

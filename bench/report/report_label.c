#include "bench/report/report.h"
#include "bench/report/report_text.h"

#include <stdio.h>
#include <string.h>

/* Whether the word stands in the problem's text. */
static bool says(const char *problem, const char *word, size_t length)
{
    for (const char *at = problem; *at != '\0'; at += strspn(at, " ")) {
        const size_t n = strcspn(at, " ");
        if (n == length && memcmp(at, word, n) == 0)
            return true;
        at += n;
    }
    return false;
}

/* Whether all problems of that name say the word. */
static bool common(const struct report *report, const char *name, const char *word, size_t length)
{
    for (size_t n = 0; n < report->num_problems; n++) {
        const struct record *record = report->problems[n].record;
        if (strcmp(record->name, name) == 0 && !says(record->problem, word, length))
            return false;
    }
    return true;
}

void report_label_problem(struct report *report, size_t problem)
{
    const struct record *record = report->problems[problem].record;
    const char *name = record->name, *text = record->problem;
    struct report_label *label = &report->problems[problem].label;
    char full[1024], number[16];
    size_t used;

    if (name[0] == '\0')
        used =
            (size_t)snprintf(full, sizeof full, "%s", text + 4 * (strncmp(text, "fwd ", 4) == 0));
    else
        used = (size_t)snprintf(full, sizeof full, "%s", name);
    for (const char *at = text; name[0] != '\0' && *at != '\0'; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        const bool repeated = *at == 'k' && at - text > (long)length && at[-1] == ' ' &&
                              memcmp(at - length, at + 1, length - 1) == 0 &&
                              at[-(long)length - 1] == 'q'; /* "q512 k512" */
        if (!repeated && !common(report, name, at, length) && used + length + 2 < sizeof full)
            used += (size_t)snprintf(full + used, sizeof full - used, " %.*s", (int)length, at);
        at += length;
    }
    text_cut(label->text, full, REPORT_LABEL);
    for (size_t n = 0; n < problem; n++) {
        if (strcmp(report->problems[n].label.text, label->text) != 0)
            continue;
        snprintf(number, sizeof number, " #%zu", problem + 1);
        text_cut(label->text, full, REPORT_LABEL - strlen(number));
        strcat(label->text, number);
        return;
    }
}

/* Throughput by length: problems that differ in nothing else, panel by panel for each device. */
#include "bench/report/report_page.h"

#include <clattn/problem.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TEXT 512

/* Problems of one family, the shortest first. */
struct family {
    char text[MOST_TEXT]; /* The problem without its length. */
    size_t *problems, *lengths;
    size_t count;
    const struct report *report;
    size_t *devices; /* Of the panels. */
};

/* What all of a family have in common; "" for what has no length to speak of. Queries and keys of
 * self-attention grow together, else it is the keys. */
static size_t find_family(const char *problem, char common[MOST_TEXT])
{
    clattn_problem p;

    common[0] = '\0';
    if (clattn_problem_parse(problem, &p, NULL, 0) != CLATTN_SUCCESS)
        return 0;
    const bool merge = p.operation == CLATTN_MERGE, append = p.operation == CLATTN_APPEND;
    const bool attention = p.operation <= CLATTN_BACKWARD;
    const size_t queries = merge       ? p.merge.seq_q
                           : append    ? p.append.tokens
                           : attention ? p.seq_q
                                       : p.projection.rows;
    const size_t length = merge       ? p.merge.states
                          : append    ? p.append.capacity
                          : attention ? p.seq_kv
                                      : 1;
    const bool self = queries == length;
    char *out = common;
    for (const char *word = problem; *word != '\0'; word += strspn(word, " ")) {
        const size_t bytes = strcspn(word, " ");
        const bool sized = bytes > 1 && word[1] >= '0' && word[1] <= '9';
        const bool left_out = sized && (word[0] == 'k' || (self && word[0] == 'q'));
        if (!left_out && (size_t)(out - common) + bytes + 2 < MOST_TEXT) {
            if (out != common)
                *out++ = ' ';
            memcpy(out, word, bytes);
            out += bytes;
        }
        word += bytes;
    }
    *out = '\0';
    return length;
}

static bool timed_anywhere(const struct report *report, size_t problem)
{
    for (size_t d = 0; d < report->num_devices; d++)
        for (size_t n = 0; n < report->num_names; n++)
            if (!isnan(report_seconds(report, d, problem, n)))
                return true;
    return false;
}

/* Takes the problem in, unless another one of this length is there. */
static void insert(struct family *family, size_t problem, size_t length)
{
    size_t at = family->count;

    for (size_t n = 0; n < family->count; n++)
        if (family->lengths[n] == length)
            return;
    for (; at > 0 && family->lengths[at - 1] > length; at--) {
        family->lengths[at] = family->lengths[at - 1];
        family->problems[at] = family->problems[at - 1];
    }
    family->lengths[at] = length;
    family->problems[at] = problem;
    family->count++;
}

/* The family of this problem; empty if an earlier problem has it already. */
static void gather(struct family *family, const struct report *report, size_t first)
{
    char text[MOST_TEXT];

    family->count = 0;
    find_family(report->problems[first].record->problem, family->text);
    for (size_t p = 0; p < report->num_problems; p++) {
        const size_t length = find_family(report->problems[p].record->problem, text);
        if (length == 0 || strcmp(text, family->text) != 0)
            continue;
        if (p < first) {
            family->count = 0;
            return;
        }
        if (timed_anywhere(report, p))
            insert(family, p, length);
    }
}

static void write_rows(struct table *table, const struct family *family, size_t panels)
{
    const struct report *report = family->report;

    for (size_t k = 0; k < family->count; k++) {
        for (size_t d = 0; d < panels; d++) {
            table_row(table);
            table_integer(table, family->lengths[k]);
            table_text(table, report->devices[family->devices[d]].label.text);
            for (size_t n = 0; n < report->num_names; n++)
                table_number(table,
                             report_gflops(report, family->devices[d], family->problems[k], n));
        }
    }
}

/* Which lengths there are, at which rate clattn computes the first and the last. */
static void describe(const struct family *family, size_t panels, char *text, size_t bytes)
{
    const struct report *report = family->report;
    size_t used = (size_t)snprintf(text, bytes, "clattn, from %zu to %zu keys:", family->lengths[0],
                                   family->lengths[family->count - 1]);

    for (size_t d = 0; d < panels && used < bytes; d++) {
        const size_t device = family->devices[d];
        const double first = report_gflops(report, device, family->problems[0], REPORT_CLATTN);
        const double last =
            report_gflops(report, device, family->problems[family->count - 1], REPORT_CLATTN);
        used += (size_t)snprintf(text + used, bytes - used, "%s %s %.3g to %.3g GFLOP/s",
                                 d > 0 ? ";" : "", report->devices[device].label.text, first, last);
    }
    if (used < bytes)
        snprintf(text + used, bytes - used, ". All numbers are in the table below the figure.");
}

static bool ends_word(char c)
{
    return c == '\0' || c == '-' || c == ' ';
}

/* What the names of the family's problems begin with, in whole words; "" for nothing much. */
static void find_name(const struct family *family, char *name, size_t bytes)
{
    const struct report_problem *problems = family->report->problems;

    snprintf(name, bytes, "%s", problems[family->problems[0]].record->name);
    for (size_t k = 1; k < family->count; k++) {
        const char *other = problems[family->problems[k]].record->name;
        size_t same = 0;
        while (name[same] != '\0' && name[same] == other[same])
            same++;
        while (same > 0 && (!ends_word(name[same]) || !ends_word(other[same])))
            same--;
        name[same] = '\0';
    }
}

static void write_family(struct page *page, struct family *family)
{
    const struct report *report = page->report;
    json_t *panels = json_array();
    size_t count = 0;
    char name[128], title[MOST_TEXT + 160], description[1024];

    for (size_t d = 0; d < report->num_devices; d++) {
        bool any = false;
        for (size_t k = 0; k < family->count; k++)
            for (size_t n = 0; n < report->num_names; n++)
                any = any || !isnan(report_gflops(report, d, family->problems[k], n));
        if (!any)
            continue;
        page_put(page, panels,
                 json_pack("{s:o}", "name", text_json(report->devices[d].label.text)));
        family->devices[count++] = d;
    }
    find_name(family, name, sizeof name);
    snprintf(title, sizeof title, "Throughput of %s%s%s%s", name, name[0] ? " (" : "", family->text,
             name[0] ? ")" : "");
    describe(family, count, description, sizeof description);
    struct table table = table_begin(page, "GFLOP/s by the number of keys");
    table_column(&table, "Keys", "number");
    table_column(&table, "Device", "text");
    table_columns_of_names(&table);
    write_rows(&table, family, count);
    table_end_figure(&table, title,
                     "Higher is faster. All panels have the same axes, both logarithmic, so that "
                     "devices can be compared across panels and libraries within one. A line that "
                     "rises to the right belongs to an implementation that gets better with longer "
                     "sequences.",
                     description,
                     json_pack("{s:s, s:s, s:s, s:b, s:i, s:i, s:o}", "kind", "panels", "x", "keys",
                               "y", "GFLOP/s", "lines", 1, "x_column", 0, "first_column", 2,
                               "panels", panels));
}

void report_throughput(struct page *page)
{
    const struct report *report = page->report;
    struct family family = {.report = report};
    bool any = false;

    family.problems = calloc(report->num_problems + 1, sizeof *family.problems);
    family.lengths = calloc(report->num_problems + 1, sizeof *family.lengths);
    family.devices = calloc(report->num_devices + 1, sizeof *family.devices);
    if (family.problems != NULL && family.lengths != NULL && family.devices != NULL) {
        for (size_t p = 0; p < report->num_problems; p++) {
            gather(&family, report, p);
            if (family.count > 1)
                write_family(page, &family);
            any = any || family.count > 1;
        }
    }
    if (!any)
        page_paragraph(page, "text",
                       "No two of the measured problems differ in their length alone, so there is "
                       "no curve to draw.");
    free(family.problems);
    free(family.lengths);
    free(family.devices);
}

#include "bench/fleet/fleet_summary.h"
#include "bench/records/short_name.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A hundred columns hold three devices, which leave 28 for the problem; narrower terminals fewer. */
enum { GAP = 2, COLUMN = 22, BLOCK = 3, LABEL = 28, MOST_LETTERS = 26, MOST_LINE = 100 };

/* Peers are named by letters, in the order in which they are met. */
struct letters {
    const char *name[MOST_LETTERS];
    size_t count;
    bool loose; /* One of them was marked. */
};

struct summary {
    FILE *to;
    const struct run_results *results;
    struct short_name *names;
    const struct record **rows; /* One record of each problem, for its name. */
    size_t count;
    size_t width; /* Columns of the table. */
    size_t label; /* Columns for the problem. */
    struct letters letters;
    struct ca_row line;
};

/* ---- rows ------------------------------------------------------------------------------------ */

static bool same_problem(const struct record *a, const struct record *b)
{
    return strcmp(a->problem, b->problem) == 0 && strcmp(a->name, b->name) == 0;
}

static const struct record *find(const struct device_run *run, const struct record *row)
{
    for (size_t n = 0; n < run->count; n++)
        if (same_problem(&run->records[n], row))
            return &run->records[n];
    return NULL;
}

/* All problems in the order in which they are met: a device may have lost some. */
static bool find_rows(struct summary *summary)
{
    const struct run_results *results = summary->results;
    size_t most = 0;

    for (size_t n = 0; n < results->count; n++)
        most += results->devices[n].count;
    summary->rows = calloc(most + 1, sizeof *summary->rows);
    for (size_t n = 0; summary->rows != NULL && n < results->count; n++) {
        const struct device_run *run = &results->devices[n];
        for (size_t r = 0; r < run->count; r++) {
            size_t row = 0;
            while (row < summary->count && !same_problem(summary->rows[row], &run->records[r]))
                row++;
            if (row == summary->count)
                summary->rows[summary->count++] = &run->records[r];
        }
    }
    return summary->rows != NULL;
}

/* Whether the name stands for more than this problem. */
static bool is_group(const struct summary *summary, const struct record *row)
{
    size_t members = 0;

    for (size_t n = 0; n < summary->count; n++)
        members += strcmp(summary->rows[n]->name, row->name) == 0;
    return members > 1;
}

/* Whether its name is a line of its own above it. */
static bool is_grouped(const struct summary *summary, const struct record *row)
{
    return row->name[0] != '\0' && is_group(summary, row);
}

static const char *label_of(const struct summary *summary, const struct record *row)
{
    return row->name[0] == '\0' || is_group(summary, row) ? row->problem : row->name;
}

/* As much as the longest one needs that fits beside so many devices. */
static void choose_label(struct summary *summary, size_t devices)
{
    const size_t columns = devices * (GAP + COLUMN);
    const size_t room = summary->width > columns ? summary->width - columns : 0;
    size_t need = strlen("problem");

    for (size_t n = 0; n < summary->count; n++) {
        const struct record *row = summary->rows[n];
        const size_t length = strlen(label_of(summary, row)) + (is_grouped(summary, row) ? 2 : 0);
        need = length > need && length <= room ? length : need;
    }
    summary->label = need;
}

/* What does not fit before the columns gets a line of its own. */
static void print_label(struct summary *summary, size_t row)
{
    const struct record *record = summary->rows[row];
    const bool group = is_grouped(summary, record);
    const int width = (int)summary->width;
    char line[MOST_LINE + 1];

    if (group && (row == 0 || strcmp(summary->rows[row - 1]->name, record->name) != 0))
        fprintf(summary->to, "%.*s\n", width, record->name);
    snprintf(line, sizeof line, "%s%.*s", group ? "  " : "", MOST_LINE - 2,
             label_of(summary, record));
    if (strlen(line) > summary->label) {
        ca_print_wrapped(summary->to, 0, "%s", line);
        line[0] = '\0';
    }
    ca_row_label(&summary->line, (int)summary->label, line);
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* The fastest of other people's libraries, or NULL. */
static const struct outcome *best_peer(const struct record *record)
{
    const struct outcome *best = NULL;

    for (size_t n = 0; n < record->count; n++) {
        const struct outcome *outcome = &record->outcome[n];
        if (strncmp(outcome->implementation, "clattn", 6) == 0 || !outcome_timed(outcome))
            continue;
        if (best == NULL || samples_median(&outcome->seconds) < samples_median(&best->seconds))
            best = outcome;
    }
    return best;
}

static char letter(struct letters *letters, const char *name)
{
    size_t n = 0;

    while (n < letters->count && strcmp(letters->name[n], name) != 0)
        n++;
    if (n == MOST_LETTERS)
        return '?';
    if (n == letters->count)
        letters->name[letters->count++] = name;
    return (char)('a' + n);
}

/* "1.83x a", or with a star. */
static void compare(struct letters *letters, const struct record *record, char *text, size_t bytes)
{
    const struct outcome *peer = best_peer(record);

    snprintf(text, bytes, "%6s", "-");
    if (peer == NULL)
        return;
    const bool loose = peer->state == OUTCOME_LOOSE;
    const double times = peer->ratio.middle;
    letters->loose = letters->loose || loose;
    snprintf(text, bytes, "%*.*fx %c%s", 5, times < 99.5 ? 2 : 0, times,
             letter(letters, peer->implementation), loose ? "*" : "");
}

static void print_cell(struct summary *summary, const struct device_run *run,
                       const struct record *row)
{
    const struct record *record = find(run, row);
    const struct outcome *clattn = record != NULL ? record_find(record, "clattn") : NULL;
    char cell[64], times[32];

    if (clattn != NULL && outcome_timed(clattn)) {
        const double seconds = samples_median(&clattn->seconds);
        const double gflops = seconds > 0.0 ? record->flops / seconds * 1e-9 : 0.0;
        compare(&summary->letters, record, times, sizeof times);
        snprintf(cell, sizeof cell, "%7.*f %3.0f%% %s", gflops < 99999.0 ? 1 : 0, gflops,
                 100.0 * record_share(record, clattn), times);
    } else {
        snprintf(cell, sizeof cell, "%7s",
                 clattn != NULL ? outcome_state_name(clattn->state) : "-");
    }
    ca_row_cell(&summary->line, -COLUMN, cell);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void print_block(struct summary *summary, size_t begin, size_t end)
{
    struct ca_row *line = &summary->line;

    ca_row_end(line);
    ca_row_label(line, (int)summary->label, "");
    for (size_t n = begin; n < end; n++)
        ca_row_cell(line, -COLUMN, summary->names[n].text);
    ca_row_end(line);
    ca_row_label(line, (int)summary->label, "problem");
    for (size_t n = begin; n < end; n++)
        ca_row_cell(line, -COLUMN, "GFLOP/s roof   peer");
    ca_row_end(line);
    for (size_t row = 0; row < summary->count; row++) {
        print_label(summary, row);
        for (size_t n = begin; n < end; n++)
            print_cell(summary, &summary->results->devices[n], summary->rows[row]);
        ca_row_end(line);
    }
}

static void print_legend(const struct summary *summary)
{
    const struct letters *letters = &summary->letters;

    fputs("\nroof: the share of the tighter of the device's peaks\n", summary->to);
    for (size_t n = 0; n < letters->count; n++)
        fprintf(summary->to, "%s%c %s%s",
                n == 0 ? "peer: its time over clattn's; the fastest of: " : ", ", (int)('a' + n),
                letters->name[n], n + 1 == letters->count ? "\n" : "");
    if (letters->loose)
        ca_print_wrapped(summary->to, 2,
                         "* its results are only within the bounds of half-precision arithmetic");
}

static void print_notes(const struct summary *summary)
{
    char text[80];

    for (size_t n = 0; n < summary->results->count; n++) {
        const struct device_run *run = &summary->results->devices[n];
        const double noise = device_run_noise(run);
        if (run->failed.text[0] != '\0')
            ca_print_note(summary->to, summary->names[n].text, run->failed.text);
        if (run->interrupted)
            ca_print_note(summary->to, summary->names[n].text, "interrupted");
        if (noise >= RESULTS_NOISY) {
            snprintf(text, sizeof text,
                     "the machine was too noisy: times are only good to +-%.0f %%", 100.0 * noise);
            ca_print_note(summary->to, summary->names[n].text, text);
        }
    }
}

void fleet_summary_print(FILE *to, const struct run_results *results)
{
    struct summary summary = {.to = to,
                              .results = results,
                              .width = (size_t)ca_columns(to),
                              .line = {.to = to, .gap = GAP, .trims = true}};
    const size_t fit = summary.width < LABEL ? 0 : (summary.width - LABEL) / (GAP + COLUMN);
    const size_t block = fit < 1 ? 1 : fit < BLOCK ? fit : BLOCK;
    const size_t blocks = (results->count + block - 1) / block;

    summary.names = calloc(results->count + 1, sizeof *summary.names);
    if (summary.names != NULL && find_rows(&summary)) {
        short_names(results, summary.names);
        choose_label(&summary, blocks > 0 ? (results->count + blocks - 1) / blocks : 0);
        for (size_t n = 0; summary.count > 0 && n < blocks; n++) /* of about the same size */
            print_block(&summary, results->count * n / blocks, results->count * (n + 1) / blocks);
        if (summary.count > 0)
            print_legend(&summary);
        print_notes(&summary);
    }
    fflush(to);
    free(summary.rows);
    free(summary.names);
}

/* How much faster several ranks are than one: problems that clattn-bench run --mpi has timed. */
#include "bench/report/report_page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Modes, of strong and of weak scaling: more than --mode can name are left out. */
enum { MOST_SERIES = 16, SERIES_NAME = 48 };

struct series {
    char name[MOST_SERIES][SERIES_NAME];
    size_t count;
};

static const struct distributed *timed(const struct outcome *outcome)
{
    return outcome_timed(outcome) && outcome->distributed != NULL &&
                   outcome->distributed->efficiency.middle > 0.0
               ? outcome->distributed
               : NULL;
}

static void name_series(const struct distributed *d, char name[SERIES_NAME])
{
    const bool both = strcmp(d->mode, "heads-ring") == 0;
    char heads[24] = "";

    if (both)
        snprintf(heads, sizeof heads, ":%zu", d->heads_ranks);
    snprintf(name, SERIES_NAME, "%s%s%s", d->mode, heads, d->weak ? ", weak" : "");
}

static size_t find_series(const struct series *series, const struct distributed *d)
{
    char name[SERIES_NAME];
    size_t n = 0;

    name_series(d, name);
    while (n < series->count && strcmp(series->name[n], name) != 0)
        n++;
    return n;
}

static bool any_timed(const struct record *record)
{
    for (size_t n = 0; record != NULL && n < record->count; n++)
        if (timed(&record->outcome[n]) != NULL)
            return true;
    return false;
}

/* Calls visit for each problem on each device that ranks have shared. */
static void each_record(const struct report *report, void *data,
                        void (*visit)(void *data, size_t device, size_t problem))
{
    for (size_t p = 0; p < report->num_problems; p++)
        for (size_t d = 0; d < report->num_devices; d++)
            if (any_timed(report_record(report, d, p)))
                visit(data, d, p);
}

struct scaling {
    struct page *page;
    struct series series;
    struct table table;
    json_t *panels;
    double best; /* Efficiency, and where that was. */
    const struct distributed *best_of;
    size_t best_problem;
};

static void collect(void *data, size_t device, size_t problem)
{
    struct scaling *scaling = data;
    const struct record *record = report_record(scaling->page->report, device, problem);

    for (size_t n = 0; n < record->count; n++) {
        const struct distributed *d = timed(&record->outcome[n]);
        if (d == NULL)
            continue;
        const size_t place = find_series(&scaling->series, d);
        if (place == scaling->series.count && place < MOST_SERIES)
            name_series(d, scaling->series.name[scaling->series.count++]);
        if (d->ranks > 1 && d->efficiency.middle > scaling->best) {
            scaling->best = d->efficiency.middle;
            scaling->best_of = d;
            scaling->best_problem = problem;
        }
    }
}

/* A problem's panel has all devices of the same name: runs of one machine with more and more ranks. */
static void name_panel(const struct report *report, size_t device, size_t problem, char *name,
                       size_t bytes)
{
    bool others = false;

    for (size_t d = 0; d < report->num_devices; d++)
        others = others || strcmp(report->devices[d].run->info.name,
                                  report->devices[device].run->info.name) != 0;
    snprintf(name, bytes, "%s%s%s", report->problems[problem].label.text, others ? ", " : "",
             others ? report->devices[device].run->info.name : "");
}

static void add_panel(struct scaling *scaling, const char *name)
{
    for (size_t n = 0; n < json_array_size(scaling->panels); n++) {
        const json_t *other = json_object_get(json_array_get(scaling->panels, n), "name");
        if (json_is_string(other) && strcmp(json_string_value(other), name) == 0)
            return;
    }
    page_put(scaling->page, scaling->panels, json_pack("{s:o}", "name", text_json(name)));
}

static void add_row(void *data, size_t device, size_t problem)
{
    struct scaling *scaling = data;
    const struct report *report = scaling->page->report;
    const struct record *record = report_record(report, device, problem);
    struct table *table = &scaling->table;
    double speed[MOST_SERIES];
    char name[512];
    size_t ranks = 0;

    for (size_t n = 0; n < MOST_SERIES; n++)
        speed[n] = NAN;
    for (size_t n = 0; n < record->count; n++) {
        const struct distributed *d = timed(&record->outcome[n]);
        const size_t place = d != NULL ? find_series(&scaling->series, d) : MOST_SERIES;
        if (place >= scaling->series.count)
            continue;
        speed[place] = d->efficiency.middle * (double)d->ranks;
        ranks = d->ranks;
    }
    name_panel(report, device, problem, name, sizeof name);
    add_panel(scaling, name);
    table_row(table);
    table_integer(table, ranks);
    table_text(table, name);
    for (size_t n = 0; n < scaling->series.count; n++)
        table_number(table, speed[n]);
    table_number(table, (double)ranks);
}

bool report_has_scaling(const struct report *report)
{
    for (size_t p = 0; p < report->num_problems; p++)
        for (size_t d = 0; d < report->num_devices; d++)
            if (any_timed(report_record(report, d, p)))
                return true;
    return false;
}

void report_scaling(struct page *page)
{
    struct scaling scaling = {.page = page, .panels = json_array()};
    char description[512];

    each_record(page->report, &scaling, collect);
    if (scaling.best_of != NULL)
        page_paragraph(
            page, "text",
            "%zu ranks computed %s \1%.2f times\1 as fast as rank 0 alone, by the mode %s: "
            "%.0f\u00a0%% of their number.",
            scaling.best_of->ranks, page->report->problems[scaling.best_problem].label.text,
            scaling.best * (double)scaling.best_of->ranks, scaling.best_of->mode,
            100.0 * scaling.best);
    scaling.table = table_begin(page, "Times the speed of rank 0 alone, by the number of ranks");
    table_column(&scaling.table, "Ranks", "number");
    table_column(&scaling.table, "Problem", "text");
    for (size_t n = 0; n < scaling.series.count; n++)
        table_column(&scaling.table, scaling.series.name[n], "number");
    table_column(&scaling.table, "as many times as ranks", "number");
    each_record(page->report, &scaling, add_row);
    snprintf(description, sizeof description,
             "For each problem and mode the speed over that of one rank alone, by the number of "
             "ranks. All numbers are in the table below the figure.");
    table_end_figure(
        &scaling.table, "Speed of several ranks over that of one",
        "Higher is better; the best that can be expected is the line of as many times "
        "as ranks, which devices of unlike speed need not keep to. Strong scaling: all "
        "ranks share the problem. Weak: of one that is so many times as long. Both axes "
        "are logarithmic.",
        description,
        json_pack("{s:s, s:s, s:s, s:b, s:i, s:i, s:o}", "kind", "panels", "x", "ranks", "y",
                  "times the speed of one", "lines", 1, "x_column", 0, "first_column", 2, "panels",
                  scaling.panels));
}

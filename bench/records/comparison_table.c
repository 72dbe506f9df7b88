/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/comparison_looks.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The columns of both files, the ratio and the words; the problem has what is left of the table's. */
enum { WORDS = 60, LEAST_LABEL = 10, FIGURE = 8, RATIO = 8, INTERVAL = 12 };

char comparison_letter(size_t file)
{
    return (char)('A' + (int)file);
}

static int label_width(void)
{
    const int label = ca_columns(stdout) - WORDS;

    return label > LEAST_LABEL ? label : LEAST_LABEL;
}

static const char *colour_of(enum verdict verdict)
{
    return verdict_kinds[verdict].regression ? "31" : verdict == VERDICT_FASTER ? "32" : NULL;
}

/* ---- figures --------------------------------------------------------------------------------- */

/* Thousandths, and never more than five characters below 10^5. */
static void print_ratio(char text[static 32], double ratio)
{
    snprintf(text, 32, ratio < 99999.5 ? "%.*f" : "%.*e",
             ratio < 99999.5 ? ca_decimals(ratio, 3) : 0, ratio);
}

static void add_figure(struct ca_row *row, const struct comparison *c,
                       const struct comparison_cell *cell)
{
    static const char *const words[] = {
        [OUTCOME_MEASURED] = "-",  [OUTCOME_LOOSE] = "-",       [OUTCOME_UNSUPPORTED] = "cannot",
        [OUTCOME_WRONG] = "wrong", [OUTCOME_FAILED] = "failed",
    };
    const double value = c->options.by_share ? cell->share * 100.0 : cell->seconds * 1e3;
    char text[32] = "-";

    if (isfinite(value) && c->options.by_share)
        snprintf(text, sizeof text, "%.1f %%", value);
    else if (isfinite(value))
        snprintf(text, sizeof text, value < 1e7 ? "%.*f" : "%.*e",
                 value < 1e7 ? ca_decimals(value, 5) : 1, value);
    else if (cell->outcome != NULL)
        snprintf(text, sizeof text, "%s", words[cell->outcome->state]);
    else if (cell->verdict == VERDICT_MISSING)
        snprintf(text, sizeof text, "missing");
    ca_row_cell(row, FIGURE, text);
}

static void add_compared(struct ca_row *row, const struct comparison_cell *cell)
{
    char ratio[32], low[32], high[32], interval[72] = "", middle[40] = "";

    if (cell->compared) {
        print_ratio(ratio, cell->ratio.middle);
        print_ratio(low, cell->ratio.low);
        print_ratio(high, cell->ratio.high);
        snprintf(middle, sizeof middle, "%s%s",
                 cell->ratio.low <= 1.0 && cell->ratio.high >= 1.0 ? "~" : "", ratio);
        snprintf(interval, sizeof interval, "%s..%s", low, high);
    }
    ca_row_cell(row, RATIO, middle);
    ca_row_cell(row, INTERVAL, interval);
}

/* ---- the table: one file beside the first ---------------------------------------------------- */

static void print_columns(const struct comparison *c, size_t file)
{
    const bool share = c->options.by_share;
    const char other = comparison_letter(file);
    struct ca_row row = {.to = stdout};
    char what[64], over[8];

    snprintf(what, sizeof what, "%.*s, %s", label_width() - 8, c->options.implementation,
             share ? "share" : "ms");
    snprintf(over, sizeof over, "%c / %c", share ? 'A' : other, share ? other : 'A');
    putchar('\n');
    ca_row_label(&row, label_width(), what);
    ca_row_cell(&row, FIGURE, "A");
    ca_row_cell(&row, FIGURE, (char[]){other, '\0'});
    ca_row_cell(&row, RATIO, over);
    ca_row_cell(&row, INTERVAL, "95 %");
    ca_row_end(&row);
}

static void print_row(const struct comparison *c, const struct comparison_row *row, size_t file)
{
    const struct comparison_cell *cell = &row->cell[file];
    const struct verdict_kind *verdict = &verdict_kinds[cell->verdict];
    const char *colour = colour_of(cell->verdict);
    const bool fits = (int)strlen(row->problem) + 2 <= label_width();
    struct ca_row cells = {.to = stdout};
    char label[128] = "";

    if (fits)
        snprintf(label, sizeof label, "  %s", row->problem);
    else
        ca_print_line(stdout, row->problem, 2);
    ca_row_label(&cells, label_width(), label);
    add_figure(&cells, c, &row->cell[0]);
    if (colour != NULL)
        ca_colour(stdout, colour);
    add_figure(&cells, c, cell);
    if (cell->compared || cell->verdict != VERDICT_NONE)
        add_compared(&cells, cell);
    if (verdict->mark != ' ') {
        ca_row_cell(&cells, 1, (char[]){verdict->mark, '\0'});
        ca_row_cell(&cells, 1, verdict->word);
    }
    if (colour != NULL)
        ca_colour(stdout, "0");
    ca_row_end(&cells);
}

/* `group` is NULL for all of them. */
static void print_mean(const struct comparison *c, const struct comparison_group *group,
                       size_t file)
{
    const struct comparison_mean mean = comparison_mean(c, group, file);
    struct ca_row row = {.to = stdout};
    char text[64], ratio[32];

    if (mean.count < 2)
        return;
    if (group != NULL)
        snprintf(text, sizeof text, "geometric mean");
    else
        snprintf(text, sizeof text, "geometric mean of all devices, %c", comparison_letter(file));
    print_ratio(ratio, mean.ratio);
    ca_row_label(&row, label_width(), text);
    ca_row_cell(&row, FIGURE, "");
    ca_row_cell(&row, FIGURE, "");
    ca_row_cell(&row, RATIO, ratio);
    snprintf(text, sizeof text, "of %zu", mean.count);
    ca_row_cell(&row, INTERVAL, text);
    ca_row_end(&row);
}

static void print_file(const struct comparison *c, const struct comparison_group *group,
                       size_t file)
{
    const char *name = "";

    print_columns(c, file);
    for (size_t n = 0; n < group->num_rows; n++) {
        if (strcmp(name, group->rows[n].name) != 0)
            printf("%.100s\n",
                   group->rows[n].name[0] != '\0' ? group->rows[n].name : "without a name");
        name = group->rows[n].name;
        print_row(c, &group->rows[n], file);
    }
    print_mean(c, group, file);
}

void comparison_table(const struct comparison *c, const struct comparison_group *group)
{
    for (size_t file = 1; file < c->num_files; file++)
        print_file(c, group, file);
}

void comparison_table_means(const struct comparison *c)
{
    for (size_t file = 1; file < c->num_files; file++)
        print_mean(c, NULL, file);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/comparison_looks.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One file against the first has room for words; of more, two stand beside it at a time (one where
 * the terminal is narrow), and any further ones in another block below. The problem has what is left
 * of the table's columns. */
enum {
    WORDS = 60, /* Columns of both files and the words. */
    FIRST = 8,  /* Of the first of several files. */
    OTHER = 29, /* Of each other one of them. */
    BLOCK = 2,
    INTERVAL = 12, /* Columns of it. */
    LEAST_LABEL = 10,
    GOOD_LABEL = 20
};

const struct verdict_look verdict_looks[] = {
    [VERDICT_NONE] = {' ', ""},
    [VERDICT_FEW] = {'?', "few samples"},
    [VERDICT_SAME] = {' ', ""},
    [VERDICT_FASTER] = {'+', "faster"},
    [VERDICT_SLOWER] = {'!', "slower"},
    [VERDICT_MISSING] = {'!', "missing"},
    [VERDICT_UNSUPPORTED] = {'!', "unsupported"},
    [VERDICT_FAILED] = {'!', "failed"},
    [VERDICT_WRONG] = {'!', "wrong"},
    [VERDICT_LOOSE] = {'!', "less exact"},
};

char comparison_letter(size_t file)
{
    return (char)('A' + (int)file);
}

static void colour_verdict(enum verdict verdict)
{
    if (verdict_regression(verdict))
        ca_colour(stdout, "31");
    else if (verdict == VERDICT_FASTER)
        ca_colour(stdout, "32");
}

static void end_colour(enum verdict verdict)
{
    if (verdict_regression(verdict) || verdict == VERDICT_FASTER)
        ca_colour(stdout, "0");
}

/* ---- figures --------------------------------------------------------------------------------- */

/* Thousandths, and never more than five characters below 10^5. */
static void print_ratio(char text[static 32], double ratio)
{
    snprintf(text, 32, ratio < 99999.5 ? "%.*f" : "%.*e",
             ratio < 99999.5 ? ca_decimals(ratio, 3) : 0, ratio);
}

static void add_figure(struct ca_row *row, const struct comparison *c,
                       const struct comparison_cell *cell, int width)
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
    ca_row_cell(row, width, text);
}

static void add_compared(struct ca_row *row, const struct comparison_cell *cell, int width)
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
    ca_row_cell(row, width, middle);
    ca_row_cell(row, INTERVAL, interval);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Files `begin` to `end` beside the first. */
struct block {
    size_t begin, end;
    bool words;
    size_t most; /* So many files at a time. */
    int label;   /* Columns of the problem. */
    int figure, ratio;
};

static void add_letter(struct ca_row *row, const struct block *block, size_t file)
{
    ca_row_cell(row, block->figure, (char[]){comparison_letter(file), '\0'});
}

static void print_columns(const struct comparison *c, const struct block *block)
{
    const bool share = c->options.by_share;
    char what[64], over[8];

    snprintf(what, sizeof what, "%.*s, %s", block->label - 8, c->options.implementation,
             share ? "share" : "ms");
    struct ca_row row = {.to = stdout};
    putchar('\n');
    ca_row_label(&row, block->label, what);
    add_letter(&row, block, 0);
    for (size_t file = block->begin; file < block->end; file++) {
        snprintf(over, sizeof over, "%c / %c", comparison_letter(share ? 0 : file),
                 comparison_letter(share ? file : 0));
        add_letter(&row, block, file);
        ca_row_cell(&row, block->ratio, over);
        ca_row_cell(&row, INTERVAL, "95 %");
        ca_row_add(&row, file + 1 < block->end ? " " : "");
    }
    ca_row_end(&row);
}

static void print_row(const struct comparison *c, const struct comparison_row *row,
                      const struct block *block)
{
    const bool fits = (int)strlen(row->problem) + 2 <= block->label;
    struct ca_row cells = {.to = stdout};
    char label[128] = "";

    if (fits)
        snprintf(label, sizeof label, "  %s", row->problem);
    else
        ca_print_line(stdout, row->problem, 2);
    ca_row_label(&cells, block->label, label);
    add_figure(&cells, c, &row->cell[0], block->figure);
    for (size_t file = block->begin; file < block->end; file++) {
        const struct comparison_cell *cell = &row->cell[file];
        const struct verdict_look *look = &verdict_looks[cell->verdict];
        const char mark[] = {look->mark, '\0'};
        const bool more = file + 1 < block->end;
        colour_verdict(cell->verdict);
        add_figure(&cells, c, cell, block->figure);
        if (cell->compared || cell->verdict != VERDICT_NONE || more)
            add_compared(&cells, cell, block->ratio);
        if (block->words && look->mark != ' ') {
            ca_row_cell(&cells, 1, mark);
            ca_row_cell(&cells, 1, look->word);
        } else if (!block->words && (look->mark != ' ' || more)) {
            ca_row_add(&cells, mark);
        }
        end_colour(cell->verdict);
    }
    ca_row_end(&cells);
}

/* `group` is NULL for all of them. */
static void print_mean(const struct comparison *c, const struct comparison_group *group,
                       const struct block *block)
{
    char text[64], ratio[32];
    size_t most = 0;

    for (size_t file = block->begin; file < block->end; file++) {
        const struct comparison_mean mean = comparison_mean(c, group, file);
        most = mean.count > most ? mean.count : most;
    }
    if (most < 2)
        return;
    int length = snprintf(text, sizeof text, "geometric mean%s",
                          group != NULL  ? ""
                          : block->words ? " of all devices"
                                         : " of all:");
    for (size_t file = block->begin; group == NULL && !block->words && file < block->end; file++)
        length +=
            snprintf(text + length, sizeof text - (size_t)length, " %c", comparison_letter(file));
    struct ca_row row = {.to = stdout};
    ca_row_label(&row, block->label, text);
    ca_row_cell(&row, block->figure, "");
    for (size_t file = block->begin; file < block->end; file++) {
        const struct comparison_mean mean = comparison_mean(c, group, file);
        if (mean.count > 0)
            print_ratio(ratio, mean.ratio);
        snprintf(text, sizeof text, "of %zu", mean.count);
        ca_row_cell(&row, block->figure, "");
        ca_row_cell(&row, block->ratio, mean.count > 0 ? ratio : "-");
        ca_row_cell(&row, INTERVAL, text);
        ca_row_add(&row, file + 1 < block->end ? " " : "");
    }
    ca_row_end(&row);
}

static void print_group(const struct comparison *c, const struct comparison_group *group,
                        const struct block *block)
{
    const char *name = "";

    print_columns(c, block);
    for (size_t n = 0; n < group->num_rows; n++) {
        if (strcmp(name, group->rows[n].name) != 0)
            printf("%.100s\n",
                   group->rows[n].name[0] != '\0' ? group->rows[n].name : "without a name");
        name = group->rows[n].name;
        print_row(c, &group->rows[n], block);
    }
    print_mean(c, group, block);
}

/* Blocks of files, one below the other. */
static struct block first_block(const struct comparison *c)
{
    const bool words = c->num_files == 2;
    const int columns = ca_columns(stdout);
    const size_t most = columns < GOOD_LABEL + FIRST + BLOCK * OTHER ? 1 : BLOCK;
    const int label = columns - (words ? WORDS : FIRST + (int)most * OTHER + 1);

    return (struct block){.begin = 1,
                          .end = words || c->num_files < 1 + most ? c->num_files : 1 + most,
                          .words = words,
                          .most = most,
                          .label = label > LEAST_LABEL ? label : LEAST_LABEL,
                          .figure = words ? 8 : 7,
                          .ratio = words ? 8 : 6};
}

static bool next_block(const struct comparison *c, struct block *block)
{
    block->begin = block->end;
    block->end =
        block->begin + block->most < c->num_files ? block->begin + block->most : c->num_files;
    return block->begin < c->num_files;
}

void comparison_table(const struct comparison *c, const struct comparison_group *group)
{
    struct block block = first_block(c);

    do
        print_group(c, group, &block);
    while (next_block(c, &block));
}

void comparison_table_means(const struct comparison *c)
{
    struct block block = first_block(c);

    do
        print_mean(c, NULL, &block);
    while (next_block(c, &block));
}

#include "bench/records/comparison_looks.h"
#include "cli/terminal.h"

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

void comparison_colour(const char *code)
{
    if (ca_terminal_colours(stdout))
        printf("\033[%sm", code);
}

static void colour_verdict(enum verdict verdict)
{
    if (verdict_regression(verdict))
        comparison_colour("31");
    else if (verdict == VERDICT_FASTER)
        comparison_colour("32");
}

static void end_colour(enum verdict verdict)
{
    if (verdict_regression(verdict) || verdict == VERDICT_FASTER)
        comparison_colour("0");
}

/* ---- figures --------------------------------------------------------------------------------- */

/* Four digits. */
static void print_digits(char text[static 32], double value)
{
    const int decimals = value < 0.09995  ? 5
                         : value < 0.9995 ? 4
                         : value < 9.9995 ? 3
                         : value < 99.995 ? 2
                         : value < 999.95 ? 1
                                          : 0;

    snprintf(text, 32, value < 1e7 ? "%.*f" : "%.*e", value < 1e7 ? decimals : 1, value);
}

/* Thousandths, and never more than five characters below 10^5. */
static void print_ratio(char text[static 32], double ratio)
{
    const int decimals = ratio < 9.9995 ? 3 : ratio < 99.995 ? 2 : ratio < 999.95 ? 1 : 0;

    snprintf(text, 32, ratio < 99999.5 ? "%.*f" : "%.*e", ratio < 99999.5 ? decimals : 0, ratio);
}

static void print_figure(const struct comparison *c, const struct comparison_cell *cell, int width)
{
    static const char *const words[] = {
        [OUTCOME_MEASURED] = "-",  [OUTCOME_LOOSE] = "-",       [OUTCOME_UNSUPPORTED] = "cannot",
        [OUTCOME_WRONG] = "wrong", [OUTCOME_FAILED] = "failed",
    };
    const double value = c->options.by_share ? cell->share * 100.0 : cell->seconds * 1e3;
    char text[32] = "-", number[32];

    if (isfinite(value) && c->options.by_share)
        snprintf(text, sizeof text, "%.1f %%", value);
    else if (isfinite(value))
        print_digits(text, value);
    else if (cell->outcome != NULL)
        snprintf(text, sizeof text, "%s", words[cell->outcome->state]);
    else if (cell->verdict == VERDICT_MISSING)
        snprintf(text, sizeof text, "missing");
    snprintf(number, sizeof number, "%s", text);
    printf(" %*s", width - 1, number);
}

static void print_compared(const struct comparison_cell *cell, int width)
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
    printf(" %*s %12s", width - 1, middle, interval);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Files `begin` to `end` beside the first. */
struct block {
    size_t begin, end;
    bool narrow;
    size_t most; /* So many files at a time. */
    int label;   /* Columns of the problem. */
};

static void print_columns(const struct comparison *c, const struct block *block)
{
    const bool share = c->options.by_share;
    char what[64], over[8];

    snprintf(what, sizeof what, "%.*s, %s", block->label - 8, c->options.implementation,
             share ? "share" : "ms");
    printf("\n%-*s", block->label, what);
    printf(" %*c", block->narrow ? 8 : 7, comparison_letter(0));
    for (size_t file = block->begin; file < block->end; file++) {
        snprintf(over, sizeof over, "%c / %c", comparison_letter(share ? 0 : file),
                 comparison_letter(share ? file : 0));
        printf(" %*c %*s %12s%s", block->narrow ? 8 : 7, comparison_letter(file),
               block->narrow ? 8 : 6, over, "95 %", file + 1 < block->end ? " " : "");
    }
    putchar('\n');
}

static void print_row(const struct comparison *c, const struct comparison_row *row,
                      const struct block *block)
{
    const int left = block->label;
    const bool fits = (int)strlen(row->problem) + 2 <= left;

    if (fits) {
        printf("  %-*s", left - 2, row->problem);
    } else {
        ca_print_line(stdout, row->problem, 2);
        printf("%*s", left, "");
    }
    print_figure(c, &row->cell[0], block->narrow ? 9 : 8);
    for (size_t file = block->begin; file < block->end; file++) {
        const struct comparison_cell *cell = &row->cell[file];
        colour_verdict(cell->verdict);
        print_figure(c, cell, block->narrow ? 9 : 8);
        if (cell->compared || cell->verdict != VERDICT_NONE || file + 1 < block->end)
            print_compared(cell, block->narrow ? 9 : 7);
        if (block->narrow && verdict_looks[cell->verdict].mark != ' ')
            printf(" %c %s", verdict_looks[cell->verdict].mark, verdict_looks[cell->verdict].word);
        else if (!block->narrow &&
                 (verdict_looks[cell->verdict].mark != ' ' || file + 1 < block->end))
            putchar(verdict_looks[cell->verdict].mark);
        end_colour(cell->verdict);
    }
    putchar('\n');
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
                          group != NULL   ? ""
                          : block->narrow ? " of all devices"
                                          : " of all:");
    for (size_t file = block->begin; group == NULL && !block->narrow && file < block->end; file++)
        length +=
            snprintf(text + length, sizeof text - (size_t)length, " %c", comparison_letter(file));
    printf("%-*s %*s", block->label, text, block->narrow ? 8 : 7, "");
    for (size_t file = block->begin; file < block->end; file++) {
        const struct comparison_mean mean = comparison_mean(c, group, file);
        if (mean.count > 0)
            print_ratio(ratio, mean.ratio);
        snprintf(text, sizeof text, "of %zu", mean.count);
        printf(" %*s %*s %12s%s", block->narrow ? 8 : 7, "", block->narrow ? 8 : 6,
               mean.count > 0 ? ratio : "-", text, file + 1 < block->end ? " " : "");
    }
    putchar('\n');
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
    const bool narrow = c->num_files == 2;
    const int columns = ca_columns(stdout);
    const size_t most = columns < GOOD_LABEL + FIRST + BLOCK * OTHER ? 1 : BLOCK;
    const int label = columns - (narrow ? WORDS : FIRST + (int)most * OTHER + 1);

    return (struct block){.begin = 1,
                          .end = narrow || c->num_files < 1 + most ? c->num_files : 1 + most,
                          .narrow = narrow,
                          .most = most,
                          .label = label > LEAST_LABEL ? label : LEAST_LABEL};
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

/* A page as data: sections of paragraphs, lists, tables and figures, which report.js shows. Nothing
 * here is markup. Calls that find no memory leave it to report_page() to say so. */
#ifndef CLATTN_BENCH_REPORT_PAGE_H
#define CLATTN_BENCH_REPORT_PAGE_H

#include "bench/report/report.h"
#include "bench/report/report_text.h"

#include <stdio.h>

struct page {
    const struct report *report;
    const char *title;
    const char *path;  /* Where the page will be. */
    json_t *blocks;    /* Of the section, or the column, that is being filled. */
    json_t *list;      /* Items, not yet in it. */
    struct sentence s; /* The one being written. */
    bool failed;       /* There was no memory. */
};

/* The document; NULL without memory. */
json_t *report_document(struct page *page);

/* Writes the template of the page with the document in it; false without memory. */
bool report_page(struct page *page, FILE *out);

/* Parts of the summary. */
void report_winners(struct page *page);
void report_ranking(struct page *page);

/* The sections, each without its heading. */
void report_summary(struct page *page);
void report_trust(struct page *page);
void report_speedup(struct page *page);
void report_throughput(struct page *page);
void report_scaling(struct page *page);
void report_share(struct page *page);
void report_roofline(struct page *page);
void report_results(struct page *page);
void report_devices(struct page *page);
void report_choices(struct page *page);
void report_peers(struct page *page);
void report_reproduce(struct page *page);

/* Whether there is anything for report_scaling(). */
bool report_has_scaling(const struct report *report);

/* ---- what a section consists of -------------------------------------------------------------- */

void page_heading(struct page *page, const char *format, ...);

/* Appends to the sentence, STRESS around what is stressed. */
void page_say(struct page *page, const char *format, ...);

/* Likewise, and ends it as a paragraph: "text", or "lead" for the most important one. */
void page_paragraph(struct page *page, const char *kind, const char *format, ...);

/* Likewise as the next item of a list, which page_list() ends, with a heading if that is not NULL;
 * without items there is neither. */
void page_item(struct page *page, const char *format, ...);
void page_list(struct page *page, const char *heading);

/* Ends the sentence as lines of code. */
void page_code(struct page *page);

/* Appends a value to an array, or to the document's failure. */
void page_put(struct page *page, json_t *array, json_t *value);

/* ---- tables ---------------------------------------------------------------------------------- */

/* The first column heads the rows. Kinds are "text", "number", "code" and "state". */
struct table {
    struct page *page;
    json_t *json, *columns, *rows, *row, *cell; /* The last three: of the last row. */
};

struct table table_begin(struct page *page, const char *caption);
void table_column(struct table *table, const char *name, const char *kind);
void table_columns_of_names(struct table *table); /* Numbers of each implementation. */
void table_row(struct table *table);

/* A dash for NULL and "". */
void table_text(struct table *table, const char *text);

/* Sorts by the value; a dash for what is not finite. */
void table_number(struct table *table, double value);
void table_rough(struct table *table, double value);
void table_integer(struct table *table, size_t value);

/* A line below the cell's first, or for figures the range of its value. */
void table_small(struct table *table, const char *format, ...);
void table_range(struct table *table, const struct spread *spread);

/* Ends the table as a block; a tall one scrolls. */
void table_end(struct table *table, bool tall);

/* Ends it as the numbers of a figure, whose chart is taken over: see report_charts.js for its
 * members. */
void table_end_figure(struct table *table, const char *title, const char *caption,
                      const char *description, json_t *chart);

/* null for what is not finite. */
json_t *page_number(double value);

#endif

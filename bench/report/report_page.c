/* The page: its document, and the template around it. */
#include "bench/report/report_page.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Made from report.html, report.css and the scripts by report_template.cmake. */
extern const char bench_report_template[];

#define PLACE_OF_DOCUMENT "@DOCUMENT@"

/* ---- blocks ---------------------------------------------------------------------------------- */

void page_put(struct page *page, json_t *array, json_t *value)
{
    page->failed |= json_array_append_new(array, value) != 0;
}

json_t *page_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

void page_say(struct page *page, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    sentence_add_list(&page->s, format, arguments);
    va_end(arguments);
}

/* Ends the sentence with this: its parts. */
static json_t *end(struct page *page, const char *format, va_list arguments)
{
    sentence_add_list(&page->s, format, arguments);
    return sentence_end(&page->s, STRESS);
}

void page_heading(struct page *page, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    page_put(page, page->blocks, json_pack("{s:o}", "heading", end(page, format, arguments)));
    va_end(arguments);
}

void page_paragraph(struct page *page, const char *kind, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    page_put(page, page->blocks, json_pack("{s:o}", kind, end(page, format, arguments)));
    va_end(arguments);
}

void page_item(struct page *page, const char *format, ...)
{
    va_list arguments;

    if (page->list == NULL)
        page->list = json_array();
    va_start(arguments, format);
    page_put(page, page->list, end(page, format, arguments));
    va_end(arguments);
}

void page_list(struct page *page, const char *heading)
{
    if (page->list != NULL && heading != NULL)
        page_heading(page, "%s", heading);
    if (page->list != NULL)
        page_put(page, page->blocks, json_pack("{s:o}", "list", page->list));
    page->list = NULL;
}

void page_code(struct page *page)
{
    page_put(page, page->blocks, json_pack("{s:o}", "code", sentence_end(&page->s, '\n')));
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void set(struct page *page, json_t *object, const char *key, json_t *value)
{
    page->failed |= json_object_set_new(object, key, value) != 0;
}

struct table table_begin(struct page *page, const char *caption)
{
    struct table table = {
        .page = page, .json = json_object(), .columns = json_array(), .rows = json_array()};

    set(page, table.json, "caption", text_json(caption));
    set(page, table.json, "columns", table.columns);
    set(page, table.json, "rows", table.rows);
    return table;
}

void table_column(struct table *table, const char *name, const char *kind)
{
    page_put(table->page, table->columns,
             json_pack("{s:o, s:s}", "name", text_json(name), "kind", kind));
}

void table_columns_of_names(struct table *table)
{
    for (size_t n = 0; n < table->page->report->num_names; n++)
        table_column(table, table->page->report->names[n], "number");
}

void table_row(struct table *table)
{
    table->row = json_array();
    page_put(table->page, table->rows, table->row);
}

static void add_cell(struct table *table, const char *text)
{
    table->cell = json_pack("{s:o}", "text", text_json(text));
    page_put(table->page, table->row, table->cell);
}

void table_text(struct table *table, const char *text)
{
    add_cell(table, text != NULL && text[0] != '\0' ? text : "\u2013");
}

static void add_number(struct table *table, double value, struct text text)
{
    add_cell(table, text.text);
    if (isfinite(value))
        set(table->page, table->cell, "value", json_real(value));
}

void table_number(struct table *table, double value)
{
    add_number(table, value, text_number(value));
}

void table_rough(struct table *table, double value)
{
    add_number(table, value, text_rough(value));
}

void table_integer(struct table *table, size_t value)
{
    struct text text;

    snprintf(text.text, sizeof text.text, "%zu", value);
    add_number(table, (double)value, text);
}

void table_small(struct table *table, const char *format, ...)
{
    json_t *lines = json_object_get(table->cell, "small");
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (lines == NULL) {
        lines = json_array();
        set(table->page, table->cell, "small", lines);
    }
    page_put(table->page, lines, text_json(text));
}

void table_range(struct table *table, const struct spread *spread)
{
    set(table->page, table->cell, "low", page_number(spread->low));
    set(table->page, table->cell, "high", page_number(spread->high));
    table_small(table, "(%s to %s, n\u00a0=\u00a0%zu)", text_number(spread->low).text,
                text_number(spread->high).text, spread->count);
}

void table_end(struct table *table, bool tall)
{
    set(table->page, table->json, "tall", json_boolean(tall));
    page_put(table->page, table->page->blocks, json_pack("{s:o}", "table", table->json));
}

void table_end_figure(struct table *table, const char *title, const char *caption,
                      const char *description, json_t *chart)
{
    page_put(table->page, table->page->blocks,
             json_pack("{s:{s:o, s:s, s:o, s:o, s:o}}", "figure", "title", text_json(title),
                       "caption", caption, "description", text_json(description), "chart", chart,
                       "table", table->json));
}

/* ---- the document ---------------------------------------------------------------------------- */

static const struct section {
    const char *id, *title;
    void (*fill)(struct page *page);
    bool (*wanted)(const struct report *report); /* NULL: always. */
} sections[] = {
    {"summary", "Summary", report_summary, NULL},
    {"trust", "How far to trust the numbers", report_trust, NULL},
    {"speedup", "Speed-up over alternatives", report_speedup, NULL},
    {"throughput", "Throughput by sequence length", report_throughput, NULL},
    {"scaling", "Several ranks", report_scaling, report_has_scaling},
    {"share", "Share of the peak", report_share, NULL},
    {"roofline", "Roofline", report_roofline, NULL},
    {"results", "All results", report_results, NULL},
    {"devices", "Devices", report_devices, NULL},
    {"configurations", "Configurations", report_choices, NULL},
    {"libraries", "Libraries", report_peers, NULL},
    {"reproduce", "How to reproduce this", report_reproduce, NULL},
};

static json_t *list_sources(struct page *page)
{
    json_t *sources = json_array();

    for (size_t f = 0; f < page->report->num_files; f++) {
        const struct run_results *file = &page->report->files[f];
        page_say(page, "Measured %s on %s (%s), clattn %s", text_date(file->date).text,
                 file->processor, text_count(file->processors, "processor").text, file->clattn);
        page_put(page, sources, sentence_end(&page->s, STRESS));
    }
    return sources;
}

json_t *report_document(struct page *page)
{
    json_t *list = json_array();
    json_t *document = json_pack("{s:o, s:o, s:o}", "title", text_json(page->title), "sources",
                                 list_sources(page), "sections", list);

    page->failed |= document == NULL;
    for (size_t n = 0; n < sizeof sections / sizeof *sections && !page->failed; n++) {
        if (sections[n].wanted != NULL && !sections[n].wanted(page->report))
            continue;
        page->blocks = json_array();
        page_put(page, list,
                 json_pack("{s:s, s:s, s:o}", "id", sections[n].id, "title", sections[n].title,
                           "blocks", page->blocks));
        sections[n].fill(page);
    }
    if (!page->failed)
        return document;
    free(page->s.text);
    json_decref(page->list);
    json_decref(document);
    return NULL;
}

/* A text in a document could otherwise end the element around it, or begin a comment. */
static int write_part(const char *part, size_t bytes, void *out)
{
    for (size_t n = 0; n < bytes; n++)
        if (part[n] == '<' ? fputs("\\u003c", out) < 0 : putc(part[n], out) == EOF)
            return -1;
    return 0;
}

bool report_page(struct page *page, FILE *out)
{
    json_t *document = report_document(page);
    const char *place = strstr(bench_report_template, PLACE_OF_DOCUMENT);

    if (document == NULL)
        return false;
    fwrite(bench_report_template, 1, (size_t)(place - bench_report_template), out);
    json_dump_callback(document, write_part, out, JSON_COMPACT | JSON_REAL_PRECISION(9));
    fputs(place + strlen(PLACE_OF_DOCUMENT), out);
    json_decref(document);
    return true;
}

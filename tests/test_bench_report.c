/* clattn-bench report: what a page says, and what becomes of what may not be said so. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "../bench/report.h"
#include "report/sample.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

/* The page of one run, without charts; to be freed. */
static char *make_page(const struct run_results *results)
{
    char *text = NULL;
    size_t bytes = 0;
    struct report report;
    struct page page = {.report = &report, .title = "A & B", .path = "page.html"};

    cr_assert(report_open(&report, results, 1));
    page.out = open_memstream(&text, &bytes);
    cr_assert(page.out != NULL);
    report_page(&page);
    fclose(page.out);
    report_free(&report);
    return text;
}

Test(bench_report, names_of_devices_are_no_markup) {
    struct run_results results;

    sample_fill(&results);
    char *page = make_page(&results);
    cr_assert(strstr(page, "<script>alert") == NULL);
    cr_assert(strstr(page, "&#60;script&#62;alert(1)&#60;/script&#62; &#38; more") != NULL);
    cr_assert(strstr(page, "<title>A &#38; B</title>") != NULL);
    free(page);
    results_free(&results);
}

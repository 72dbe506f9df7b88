/* Texts of a report's page: markup, names and numbers. */
#define _XOPEN_SOURCE 700 /* open_memstream */
#include "bench/report/report_text.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_same(const char *got, const char *want)
{
    cr_expect(strcmp(got, want) == 0, "'%s' is not '%s'", got, want);
}

/* What a function writes, to be freed. */
static char *written(void (*write)(FILE *, const char *), const char *text)
{
    char *out = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&out, &bytes);

    cr_assert(stream != NULL);
    write(stream, text);
    fclose(stream);
    return out;
}

Test(bench_report_text, becomes_harmless) {
    static const struct {
        void (*write)(FILE *, const char *);
        const char *text, *want;
    } cases[] = {
        {text_html, "a<b>&\"'", "a&#60;b&#62;&#38;&#34;&#39;"},
        {text_html, "Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x98\x80",
         "Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x98\x80"},
        {text_html, "a\x1b[31m\x7f\n", "a\xef\xbf\xbd[31m\xef\xbf\xbd\xef\xbf\xbd"},
        {text_html, "\xe2\x80\xae", "\xef\xbf\xbd"},         /* from right to left */
        {text_html, "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"}, /* too long a slash */
        {text_html, "\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* likewise */
        {text_html, "\xed\xa0\x80", "\xef\xbf\xbd"},                         /* half a pair */
        {text_html, "\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* cut */
        {text_html, "\xff<", "\xef\xbf\xbd&#60;"},
        {text_plot, "it's", "'it\xe2\x80\x99s'"},
        {text_plot, "`rm` \"$x\" @y {/=9 z} \\n",
         "'\xe2\x80\x98rm\xe2\x80\x98 \xe2\x80\x9dSx\xe2\x80\x9d "
         "\xef\xbc\xa0y (/=9 z) /n'"},
        {text_plot, "a\nset output 'x'", "'a\xef\xbf\xbdset output \xe2\x80\x99x\xe2\x80\x99'"},
        {text_shell, "results/a-1.json", "results/a-1.json"},
        {text_shell, "", "''"},
        {text_shell, "a b'c", "'a b'\\''c'"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        char *got = written(cases[n].write, cases[n].text);
        check_same(got, cases[n].want);
        free(got);
    }
}

Test(bench_report_text, is_cut_in_its_middle_and_never_in_a_character) {
    char cut[4 * 40 + 1];

    text_cut(cut, "short", 5);
    check_same(cut, "short");
    text_cut(cut, "llama3-8b-prefill q2048", 11);
    check_same(cut, "llama3-\u2026048");
    text_cut(cut, "\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc", 4);
    cr_assert(eq(sz, text_width(cut), 4));
    check_same(cut, "\xc3\xbc\xc3\xbc\xe2\x80\xa6\xc3\xbc");
}

Test(bench_report_text, numbers_have_three_digits) {
    static const struct {
        double value;
        const char *want;
    } cases[] = {
        {0.0, "0"},          {1.0, "1.00"},        {9.996, "10.0"},        {99.96, "100"},
        {1234.5, "1230"},    {0.012345, "0.0123"}, {9.999e-5, "0.000100"}, {2.5e9, "2.50e+09"},
        {-3.14159, "-3.14"}, {NAN, "&ndash;"},     {INFINITY, "&ndash;"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
        check_same(text_number(cases[n].value).text, cases[n].want);
    check_same(text_duration(0.0194).text, "19&nbsp;ms");
    check_same(text_duration(1.25).text, "1.2&nbsp;s");
    check_same(text_date("2026-11-21T09:30:00Z").text, "2026-11-21&nbsp;09:30&nbsp;UTC");
    check_same(text_date("<yesterday>").text, "&#60;yesterday&#62;");
    check_same(text_count(1, "library").text, "1 library");
    check_same(text_count(2, "library").text, "2 libraries");
}

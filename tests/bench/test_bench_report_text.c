/* Texts of a report's page: sentences, names and numbers. */
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

Test(bench_report_text, becomes_harmless) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"a<b>&\"'", "a<b>&\"'"}, /* markup is no danger to JSON */
        {"Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x98\x80",
         "Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"a\x1b[31m\x7f\n", "a\xef\xbf\xbd[31m\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xe2\x80\xae", "\xef\xbf\xbd"},                         /* from right to left */
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* too long a slash */
        {"\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* likewise */
        {"\xed\xa0\x80", "\xef\xbf\xbd"},                         /* half a pair */
        {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* cut */
        {"\xff<", "\xef\xbf\xbd<"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        json_t *got = text_json(cases[n].text);
        check_same(json_string_value(got), cases[n].want);
        json_decref(got);
    }
}

Test(bench_report_text, words_of_command_lines_are_quoted_where_a_shell_needs_it) {
    struct sentence sentence = {.text = NULL};

    sentence_add_word(&sentence, "results/a-1.json");
    sentence_add(&sentence, " ");
    sentence_add_word(&sentence, "");
    sentence_add(&sentence, " \\\n");
    sentence_add_word(&sentence, "a b'c");
    json_t *lines = sentence_end(&sentence, '\n');
    cr_assert(eq(sz, json_array_size(lines), 2));
    check_same(json_string_value(json_array_get(lines, 0)), "results/a-1.json '' \\");
    check_same(json_string_value(json_array_get(lines, 1)), "'a b'\\''c'");
    json_decref(lines);
}

Test(bench_report_text, every_second_part_of_a_sentence_is_stressed) {
    struct sentence sentence = {.text = NULL};

    sentence_add(&sentence, "\1%s\1 is", "it");
    json_t *parts = sentence_end(&sentence, STRESS);
    cr_assert(eq(sz, json_array_size(parts), 3));
    check_same(json_string_value(json_array_get(parts, 0)), "");
    check_same(json_string_value(json_array_get(parts, 1)), "it");
    check_same(json_string_value(json_array_get(parts, 2)), " is");
    json_decref(parts);
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
        {-3.14159, "-3.14"}, {NAN, "\u2013"},      {INFINITY, "\u2013"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
        check_same(text_number(cases[n].value).text, cases[n].want);
    check_same(text_duration(0.0194).text, "19\u00a0ms");
    check_same(text_duration(1.25).text, "1.2\u00a0s");
    check_same(text_date("2026-11-21T09:30:00Z").text, "2026-11-21\u00a009:30\u00a0UTC");
    check_same(text_date("<yesterday>").text, "<yesterday>");
    check_same(text_count(1, "library").text, "1 library");
    check_same(text_count(2, "library").text, "2 libraries");
}

/* Texts of a page: what came from files and drivers made harmless, numbers made readable. */
#ifndef CLATTN_BENCH_REPORT_TEXT_H
#define CLATTN_BENCH_REPORT_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* The first character of a text that is not empty, and its bytes; U+FFFD for what is no UTF-8, for
 * control characters and for those that turn the direction of writing. */
size_t text_character(const char *text, unsigned long *character);

/* How many characters. */
size_t text_width(const char *text);

/* The text, or its beginning and end around an ellipsis so that it has at most so many characters;
 * `out` holds 4 bytes for each of them and 1 more. */
void text_cut(char *out, const char *text, size_t most);

/* About how wide the text is in a wide sans-serif font, in units of the font's size. */
double text_em(const char *text);

/* text_cut() to what is no wider than that, and to no more than 40 characters. */
void text_fit(char *out, const char *text, double em);

/* Writes text as it may stand between tags and in quoted attributes. */
void text_html(FILE *out, const char *text);

/* Writes a string in gnuplot's single quotes; what gnuplot or SVG might obey is replaced. */
void text_plot(FILE *out, const char *text);

/* Writes a word of a command line, in quotes where a shell needs them; still to be escaped. */
void text_shell(FILE *out, const char *text);

struct text {
    char text[512];
};

/* A short text (64 bytes count) as text_html() writes it, for printf. */
struct text text_escaped(const char *text);

/* Three significant digits, no exponent where it can be helped; a dash for what is not finite. */
struct text text_number(double value);

/* The same with two digits: for what is itself uncertain. */
struct text text_rough(double value);

/* "1.2 s", "19 ms", "14 &micro;s", with two digits. */
struct text text_duration(double seconds);

/* "2026-11-21 10:00 UTC" of an ISO 8601 date; another text as it is, escaped. */
struct text text_date(const char *date);

/* "1 problem", "3 problems", "2 libraries". */
struct text text_count(size_t count, const char *noun);

#endif

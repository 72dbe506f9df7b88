/* Texts of a page: what came from files and drivers made harmless, numbers made readable. */
#ifndef CLATTN_BENCH_REPORT_TEXT_H
#define CLATTN_BENCH_REPORT_TEXT_H

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* The first character of a text that is not empty, and its bytes; U+FFFD for what is no UTF-8, for
 * control characters and for those that turn the direction of writing. */
size_t text_character(const char *text, unsigned long *character);

/* How many characters. */
size_t text_width(const char *text);

/* The text, or its beginning and end around an ellipsis so that it has at most so many characters;
 * `out` holds 4 bytes for each of them and 1 more. */
void text_cut(char *out, const char *text, size_t most);

/* The whole text as a string; NULL without memory. */
json_t *text_json(const char *text);

/* A text that grows. What somebody else wrote may be in it as it is. */
struct sentence {
    char *text;
    size_t length;
    bool failed; /* There was no memory. */
};

/* Append as printf and vprintf do. */
void sentence_add(struct sentence *sentence, const char *format, ...);
void sentence_add_list(struct sentence *sentence, const char *format, va_list arguments);

/* Appends a word of a command line, in quotes where a shell needs them. */
void sentence_add_word(struct sentence *sentence, const char *word);

/* Stands before and after what a sentence stresses: "\1" in formats. */
#define STRESS '\1'

/* Its parts, of which each is made harmless, as an array: with STRESS between them every second one
 * is stressed, else they are lines. Leaves an empty sentence; NULL without memory. */
json_t *sentence_end(struct sentence *sentence, char between);

struct text {
    char text[64];
};

/* Three significant digits, no exponent where it can be helped; a dash for what is not finite. */
struct text text_number(double value);

/* The same with two digits: for what is itself uncertain. */
struct text text_rough(double value);

/* "1.2 s", "19 ms", "14 \u00b5s", with two digits. */
struct text text_duration(double seconds);

/* "2026-11-21 10:00 UTC" of an ISO 8601 date; another text as it is. */
struct text text_date(const char *date);

/* "1 problem", "3 problems", "2 libraries". */
struct text text_count(size_t count, const char *noun);

#endif

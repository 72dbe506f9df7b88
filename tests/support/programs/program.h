/* SPDX-License-Identifier: Apache-2.0 */
/* Programs as people call them: their exit status, what they print, and the JSON that they write. */
#ifndef TEST_PROGRAM_H
#define TEST_PROGRAM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The output of the last program, from both streams. */
extern char program_text[32768];

/* Runs a program with arguments for the shell, given by a format, and waits; its exit status, -1 if a
 * signal ended it. PoCL does not optimise its kernels (unoptimised()). */
int program_run(const char *program, const char *arguments, ...)
    __attribute__((format(printf, 2, 3)));

/* The same; fails the test unless it ends with the status and has printed the words. */
void program_must(const char *program, int status, const char *words, const char *arguments, ...)
    __attribute__((format(printf, 4, 5)));

/* Returns whether a text has the words, wherever its lines break. */
bool text_says(const char *text, const char *words);

/* The same of what the last one printed; program_expect() fails the test, which goes on, if not. */
bool program_said(const char *words);
void program_expect(const char *words);

/* Fails the test, which goes on, for each line of more columns but those that hold `exempt`: NULL, or
 * words, which may begin with the newline before the line. */
void program_expect_width(const char *text, size_t columns, const char *exempt);

/* ---- JSON ---------------------------------------------------------------------------------- */

/* A file of JSON, and what the last program printed; fail the test if it is none. To be released. */
json_t *json_file(const char *path);
json_t *json_printed(void);

/* Return the value at a place such as "devices.0.results.1.name", or NULL. Texts are NULL,
 * numbers NaN, and sizes of arrays 0 if there is none. */
const json_t *json_at(const json_t *root, const char *place, ...)
    __attribute__((format(printf, 2, 3)));
const char *json_text_at(const json_t *root, const char *place);
double json_number_at(const json_t *root, const char *place);
size_t json_size_at(const json_t *root, const char *place);

/* Fails the test unless that text is there. */
void json_must_be(const json_t *root, const char *place, const char *text);

#endif

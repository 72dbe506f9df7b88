/* SPDX-License-Identifier: Apache-2.0 */
/* One sentence for a person about what went wrong. */
#ifndef CLATTN_BENCH_MESSAGE_H
#define CLATTN_BENCH_MESSAGE_H

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

struct ca_json;

struct message {
    char text[512];
};

/* Formats like printf, and makes the text printable. Returns false, so that a failing function ends in
 * `return message_set()`. */
bool message_set(struct message *message, const char *format, ...);

/* Prints a line: formats like printf, makes all of it printable (base/utf8.h) and ends it. */
void message_say(FILE *to, const char *format, ...);
void message_say_list(FILE *to, const char *format, va_list arguments);

/* The text that printf would print, for free(); NULL without memory. */
char *message_text(const char *format, va_list arguments);

/* A JSON string of a text, made printable; NULL without memory or if raw is NULL. */
json_t *message_json(const char *raw);

/* Prints a value and reads it again with the library's reader; NULL without memory. ca_json_free() frees it. */
struct ca_json *message_read(const json_t *value);

#endif

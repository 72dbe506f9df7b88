/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/message.h"
#include "internal.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool message_set(struct message *message, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message->text, sizeof message->text, format, arguments);
    va_end(arguments);
    ca_make_printable(message->text);
    return false;
}

char *message_text(const char *format, va_list arguments)
{
    va_list again;

    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = length >= 0 ? malloc((size_t)length + 1) : NULL;
    if (text != NULL)
        vsnprintf(text, (size_t)length + 1, format, arguments);
    return text;
}

void message_say_list(FILE *to, const char *format, va_list arguments)
{
    char *text = message_text(format, arguments);

    if (text != NULL) {
        ca_make_printable(text);
        fprintf(to, "%s\n", text);
    }
    free(text);
}

void message_say(FILE *to, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    message_say_list(to, format, arguments);
    va_end(arguments);
}

json_t *message_json(const char *raw)
{
    char *clean = raw != NULL ? ca_text_copy(raw) : NULL;
    json_t *string = NULL;

    if (clean != NULL) {
        ca_make_printable(clean);
        string = json_string(clean);
    }
    free(clean);
    return string;
}

struct ca_json *message_read(const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    struct ca_json_error error;
    struct ca_json *read = text != NULL ? ca_json_read(text, strlen(text), &error) : NULL;

    free(text);
    return read;
}

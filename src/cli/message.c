#define _POSIX_C_SOURCE 200809L /* strdup */
#include "cli/message.h"
#include "cli/terminal/utf8.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void message_sanitize(char *text)
{
    while (*text != '\0') {
        unsigned long character;
        const size_t length = utf8_read(text, &character);
        const bool good = length > 0 && utf8_printable(character);
        if (!good)
            *text = '?';
        text += good ? length : 1;
    }
}

bool message_set(struct message *message, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message->text, sizeof message->text, format, arguments);
    va_end(arguments);
    message_sanitize(message->text);
    return false;
}

json_t *message_json(const char *raw)
{
    char *clean = raw != NULL ? strdup(raw) : NULL;
    json_t *string = NULL;

    if (clean != NULL) {
        message_sanitize(clean);
        string = json_string(clean);
    }
    free(clean);
    return string;
}

#include "message.h"

#include <stdarg.h>
#include <stdio.h>

void message_sanitize(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
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

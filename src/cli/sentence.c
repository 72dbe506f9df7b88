#include "cli/sentence.h"

#include <stdarg.h>
#include <stdio.h>

bool ca_say(struct ca_sentence *sentence, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vsnprintf(sentence->text, sizeof sentence->text, format, list);
    va_end(list);
    for (char *c = sentence->text; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return false;
}

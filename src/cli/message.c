#include "cli/message.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Bytes of the character at c; 0 if it is a control character or not well-formed UTF-8 (RFC
 * 3629). */
static size_t printable(const unsigned char *c)
{
    if (c[0] < 0x80)
        return c[0] >= 0x20 && c[0] != 0x7f;
    const size_t length = c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : c[0] < 0xf5 ? 4 : 0;
    for (size_t n = 1; n < length; n++)
        if ((c[n] & 0xc0) != 0x80)
            return 0;
    /* U+0080 to U+009F, too long for what it says, surrogates, beyond the last character. */
    if ((c[0] == 0xc2 && c[1] < 0xa0) || (c[0] == 0xe0 && c[1] < 0xa0) ||
        (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf0 && c[1] < 0x90) ||
        (c[0] == 0xf4 && c[1] > 0x8f))
        return 0;
    return length;
}

void message_sanitize(char *text)
{
    while (*text != '\0') {
        const size_t length = printable((const unsigned char *)text);
        if (length == 0)
            *text = '?';
        text += length > 0 ? length : 1;
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

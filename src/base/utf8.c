/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

/* The number of bytes that a first byte announces; 0 if it is invalid. */
static size_t announced(unsigned char first)
{
    return first < 0x80   ? 1
           : first < 0xc2 ? 0
           : first < 0xe0 ? 2
           : first < 0xf0 ? 3
           : first < 0xf5 ? 4
                          : 0;
}

/* Reads the first character of a text that is not empty. Returns its number of bytes, or 0 if they
 * are not UTF-8 (RFC 3629), which writes each character in the shortest way. */
static size_t read_character(const char *text, unsigned long *character)
{
    static const unsigned long least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *bytes = (const unsigned char *)text;
    const size_t length = announced(bytes[0]);
    unsigned long c = length == 1 ? bytes[0] : bytes[0] & (0xffu >> (length + 1));

    for (size_t n = 1; n < length; n++) {
        if ((bytes[n] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (bytes[n] & 0x3f);
    }
    *character = c;
    return c >= least[length] ? length : 0;
}

/* Returns whether a terminal only prints the character. It is then no control character (C0, DEL,
 * C1) and does not reverse the direction of writing, which would show another text. */
static bool is_printable(unsigned long c)
{
    const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
    const bool surrogate = c >= 0xd800 && c < 0xe000;
    const bool turns = c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
                       (c >= 0x2066 && c <= 0x2069);

    return !control && !surrogate && !turns && c <= 0x10ffff;
}

void ca_make_printable(char *text)
{
    while (*text != '\0') {
        unsigned long character;
        const size_t length = read_character(text, &character);
        const bool good = length > 0 && is_printable(character);
        if (!good)
            *text = '?';
        text += good ? length : 1;
    }
}

/* Characters of texts that may be anything: those of files, drivers and command lines. */
#ifndef CA_UTF8_H
#define CA_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The first character of a text that is not empty; returns its bytes, 0 if they are not formed as
 * UTF-8's are (RFC 3629), each character in the shortest way. */
size_t utf8_read(const char *text, unsigned long *character);

/* Whether it is a character, and none that controls a terminal. */
bool utf8_printable(unsigned long character);

#endif

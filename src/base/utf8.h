/* SPDX-License-Identifier: Apache-2.0 */
/* Characters of texts from outside: from files, drivers, environments and command lines. */
#ifndef CA_UTF8_H
#define CA_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Reads the first character of a text that is not empty. Returns its number of bytes, or 0 if they
 * are not UTF-8 (RFC 3629), which writes each character in the shortest way. */
size_t ca_utf8_read(const char *text, unsigned long *character);

/* Returns whether a terminal only prints the character. It is then no control character (C0, DEL,
 * C1) and does not reverse the direction of writing, which would show another text. */
bool ca_utf8_printable(unsigned long character);

/* Replaces each character that is not printable, and each byte that is no UTF-8, by '?'. All messages of the library
 * (base/log.c) and of the programs (cli/message.h) go through it, since they may quote files and drivers. */
void ca_make_printable(char *text);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Characters of texts that may be anything: those of files, drivers, environments and command lines. */
#ifndef CA_UTF8_H
#define CA_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The first character of a text that is not empty; returns its bytes, 0 if they are not formed as
 * UTF-8's are (RFC 3629), each character in the shortest way. */
size_t ca_utf8_read(const char *text, unsigned long *character);

/* Whether it is a character, and none that a terminal obeys: no control character (C0, DEL, C1), and none
 * that turns the direction of writing, which has what is read differ from what stands there. */
bool ca_utf8_printable(unsigned long character);

/* Puts '?' in the place of all others, and of what is no UTF-8, which JSON cannot hold: the one place in which a
 * text of others becomes one for people. What the library says goes through it (base/log.c), and what programs
 * print (cli/message.h). */
void ca_make_printable(char *text);

#endif

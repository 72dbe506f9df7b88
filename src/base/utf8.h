/* SPDX-License-Identifier: Apache-2.0 */
/* Characters of texts from outside: from files, drivers, environments and command lines. */
#ifndef CA_UTF8_H
#define CA_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Replaces each character that is not printable, and each byte that is no UTF-8, by '?'. All messages of the library
 * (base/log.c) and of the programs (cli/message.h) go through it, since they may quote files and drivers. */
void ca_make_printable(char *text);

#endif

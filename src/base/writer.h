/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a text of several parts to a buffer, and cuts it at the buffer's end. */
#ifndef CA_WRITER_H
#define CA_WRITER_H

#include "base/log.h"

struct ca_writer {
    char *text;    /* the buffer; may be NULL if bytes is 0 */
    size_t bytes;  /* the buffer's size */
    size_t length; /* length of the whole text, including what did not fit */
};

void ca_put(struct ca_writer *writer, const char *format, ...) CA_PRINTF(2, 3);

/* Puts an item of a list, with a comma before it if it is not the first. */
void ca_put_item(struct ca_writer *writer, const char *item);

#endif

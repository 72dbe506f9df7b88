/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a text of several parts, cut off where its room ends. */
#ifndef CA_WRITER_H
#define CA_WRITER_H

#include "base/log.h"

struct ca_writer {
    char *text;    /* may be NULL if there is no room */
    size_t bytes;  /* of room */
    size_t length; /* what was written, or would have been */
};

void ca_put(struct ca_writer *writer, const char *format, ...) CA_PRINTF(2, 3);

/* Puts an item of a list, with a comma before it if it is not the first. */
void ca_put_item(struct ca_writer *writer, const char *item);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of kernels, in which frequent words are characters (cl/embed.cmake). */
#ifndef CLATTN_SOURCE_H
#define CLATTN_SOURCE_H
#include <stddef.h>

/* A reader of a kernel: the pieces that are left, and where the first goes on (NULL: at its begin). */
struct ca_source_reader {
    const char *const *pieces;
    const char *at;
};

/* Returns the next characters of the kernel, `*length` of them; NULL behind the last. */
const char *ca_source_next(struct ca_source_reader *reader, size_t *length);

/* Returns the whole kernel, which the caller frees; NULL without memory. */
char *ca_source_text(const char *const *pieces);

#endif

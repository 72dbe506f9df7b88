/* SPDX-License-Identifier: Apache-2.0 */
/* Reads safetensors files: an 8-byte little-endian length, a JSON header of that length (name ->
 * dtype, shape, data_offsets) and the data. A file is accepted only if everything that the header
 * says is true of the data: each tensor as long as its shape says, one after the other, no holes.
 * Format: github.com/huggingface/safetensors. */
#ifndef CLATTN_BENCH_SAFETENSORS_H
#define CLATTN_BENCH_SAFETENSORS_H

#include "cli/message.h"
#include <stddef.h>

#define SAFETENSORS_MAX_RANK 8

struct json_t;

struct safetensor {
    const char *name;
    const char *dtype; /* The file's name of the dtype: "F32", "BOOL", ... */
    size_t rank;
    size_t shape[SAFETENSORS_MAX_RANK];
    size_t count;              /* Number of elements. */
    size_t bytes;              /* Size of the data. */
    const unsigned char *data; /* Not necessarily aligned. */
};

struct safetensors {
    struct safetensor *tensors; /* Sorted by the place of their data. */
    size_t count;
    struct json_t *header; /* Owns the names. */
    void *bytes;           /* The whole file; NULL after safetensors_parse(). */
};

/* Reads a regular file. On failure *file is empty and *why says what is wrong, path included. */
bool safetensors_read(struct safetensors *file, const char *path, struct message *why);

/* Reads a file that lies in memory, which is borrowed. */
bool safetensors_parse(struct safetensors *file, const void *bytes, size_t size,
                       struct message *why);

/* Frees what the file owns and leaves it empty; allowed on an empty one. */
void safetensors_free(struct safetensors *file);

/* Returns NULL if there is no tensor of that name. */
const struct safetensor *safetensors_find(const struct safetensors *file, const char *name);

/* The text of `key` in the file's __metadata__, or NULL. */
const char *safetensors_attribute(const struct safetensors *file, const char *key);

/* The name of the attribute after `key`, or of the first for NULL; NULL after the last. */
const char *safetensors_next_attribute(const struct safetensors *file, const char *key);

#endif

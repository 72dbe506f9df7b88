/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/cases/safetensors.h"
#include "os/file.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX_BYTES 8
#define MAX_HEADER_BYTES 100000000 /* The format's own limit. */

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
    {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8},
};

/* A JSON integer from 0 to SIZE_MAX. */
static bool read_size(const json_t *json, size_t *size)
{
    if (!json_is_integer(json) || json_integer_value(json) < 0 ||
        (uintmax_t)json_integer_value(json) > SIZE_MAX)
        return false;
    *size = (size_t)json_integer_value(json);
    return true;
}

static bool read_dtype(const json_t *entry, struct safetensor *tensor, size_t *element_bytes,
                       struct message *why)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));

    if (dtype == NULL)
        return message_set(why, "tensor '%s' has no dtype", tensor->name);
    for (size_t n = 0; n < sizeof dtypes / sizeof *dtypes; n++) {
        if (strcmp(dtype, dtypes[n].name) == 0) {
            tensor->dtype = dtypes[n].name;
            *element_bytes = dtypes[n].bytes;
            return true;
        }
    }
    return message_set(why, "tensor '%s' has the unknown dtype '%s'", tensor->name, dtype);
}

static bool read_shape(const json_t *entry, struct safetensor *tensor, struct message *why)
{
    const json_t *shape = json_object_get(entry, "shape");

    if (!json_is_array(shape) || json_array_size(shape) > SAFETENSORS_MAX_RANK)
        return message_set(why, "tensor '%s' has no shape of at most %d sizes", tensor->name,
                           SAFETENSORS_MAX_RANK);
    tensor->rank = json_array_size(shape);
    tensor->count = 1;
    for (size_t n = 0; n < tensor->rank; n++) {
        size_t *size = &tensor->shape[n];
        if (!read_size(json_array_get(shape, n), size))
            return message_set(why, "tensor '%s' has a size that is no whole number from 0 up",
                               tensor->name);
        if (*size > 0 && tensor->count > SIZE_MAX / *size)
            return message_set(why, "the shape of tensor '%s' overflows", tensor->name);
        tensor->count *= *size;
    }
    return true;
}

/* Places the tensor in the file's data of `data_bytes`. */
static bool read_offsets(const json_t *entry, struct safetensor *tensor, size_t element_bytes,
                         const unsigned char *data, size_t data_bytes, struct message *why)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    size_t begin, end;

    if (json_array_size(offsets) != 2 || !read_size(json_array_get(offsets, 0), &begin) ||
        !read_size(json_array_get(offsets, 1), &end) || begin > end)
        return message_set(why, "tensor '%s' has no data_offsets [begin, end]", tensor->name);
    if (end > data_bytes)
        return message_set(why, "tensor '%s' ends at byte %zu of %zu bytes of data", tensor->name,
                           end, data_bytes);
    if (tensor->count > SIZE_MAX / element_bytes || tensor->count * element_bytes != end - begin)
        return message_set(why, "tensor '%s' has %zu bytes, which do not fit its shape and dtype",
                           tensor->name, end - begin);
    tensor->data = data + begin;
    tensor->bytes = end - begin;
    return true;
}

static int by_place(const void *left, const void *right)
{
    const struct safetensor *a = left, *b = right;

    if (a->data != b->data)
        return a->data < b->data ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes); /* empty tensors first */
}

/* Sorts the tensors by place: they must cover the data without gaps and overlaps. */
static bool check_cover(struct safetensors *file, const unsigned char *data, size_t data_bytes,
                        struct message *why)
{
    const unsigned char *end = data;

    if (file->count > 0)
        qsort(file->tensors, file->count, sizeof *file->tensors, by_place);
    for (size_t n = 0; n < file->count; n++) {
        const struct safetensor *tensor = &file->tensors[n];
        if (tensor->data != end)
            return message_set(why, "tensor '%s' %s", tensor->name,
                               tensor->data < end ? "overlaps another tensor"
                                                  : "leaves a hole in the data before it");
        end += tensor->bytes;
    }
    if (end != data + data_bytes)
        return message_set(why, "%zu bytes of data belong to no tensor",
                           (size_t)(data + data_bytes - end));
    return true;
}

static bool check_metadata(const json_t *metadata, struct message *why)
{
    const char *key;
    json_t *value;

    if (!json_is_object(metadata))
        return message_set(why, "__metadata__ is not an object");
    json_object_foreach(
        (json_t *)metadata, key,
        value) if (!json_is_string(value)) return message_set(why,
                                                              "'%s' in __metadata__ is not a text",
                                                              key);
    return true;
}

static bool read_tensors(struct safetensors *file, const unsigned char *data, size_t data_bytes,
                         struct message *why)
{
    const char *name;
    json_t *entry;

    file->tensors = calloc(json_object_size(file->header) + 1, sizeof *file->tensors);
    if (file->tensors == NULL)
        return message_set(why, "no memory for the list of tensors");
    json_object_foreach(file->header, name, entry)
    {
        struct safetensor *tensor = &file->tensors[file->count];
        size_t element_bytes = 0;

        if (strcmp(name, "__metadata__") == 0) {
            if (!check_metadata(entry, why))
                return false;
            continue;
        }
        tensor->name = name;
        if (!read_dtype(entry, tensor, &element_bytes, why) || !read_shape(entry, tensor, why) ||
            !read_offsets(entry, tensor, element_bytes, data, data_bytes, why))
            return false;
        file->count++;
    }
    return check_cover(file, data, data_bytes, why);
}

static bool parse(struct safetensors *file, const unsigned char *bytes, size_t size,
                  struct message *why)
{
    uint64_t length = 0;
    json_error_t error;

    if (size < PREFIX_BYTES)
        return message_set(why, "%zu bytes are no safetensors file", size);
    for (int n = PREFIX_BYTES - 1; n >= 0; n--)
        length = length << 8 | bytes[n];
    if (length > size - PREFIX_BYTES || length > MAX_HEADER_BYTES)
        return message_set(why, "the header of %llu bytes does not fit into the file's %zu",
                           (unsigned long long)length, size);
    file->header = json_loadb((const char *)bytes + PREFIX_BYTES, (size_t)length,
                              JSON_REJECT_DUPLICATES, &error);
    if (file->header == NULL)
        return message_set(why, "the header is not sound JSON: %s", error.text);
    if (!json_is_object(file->header))
        return message_set(why, "the header is not a JSON object");
    return read_tensors(file, bytes + PREFIX_BYTES + length, size - PREFIX_BYTES - (size_t)length,
                        why);
}

bool safetensors_parse(struct safetensors *file, const void *bytes, size_t size,
                       struct message *why)
{
    memset(file, 0, sizeof *file);
    if (parse(file, bytes, size, why))
        return true;
    safetensors_free(file);
    return false;
}

/* The whole of a regular file, to be freed by the caller; NULL on failure. */
static void *read_whole(const char *path, size_t *size, struct message *why)
{
    struct ca_file_facts facts;

    if (!ca_file_follow(path, &facts)) {
        message_set(why, "cannot be found");
        return NULL;
    }
    if (facts.kind != CA_FILE_REGULAR) { /* Not even opened: that could wait for ever. */
        message_set(why, "is not a regular file");
        return NULL;
    }
    FILE *stream = ca_stream_open(path, "rb");
    if (stream == NULL) {
        message_set(why, "cannot be opened");
        return NULL;
    }
    *size = (size_t)facts.bytes;
    unsigned char *bytes = malloc(*size + 1);
    if (bytes == NULL) {
        message_set(why, "no memory for its %zu bytes", *size);
    } else if (fread(bytes, 1, *size, stream) != *size) {
        message_set(why, "cannot be read to its end");
        free(bytes);
        bytes = NULL;
    }
    fclose(stream);
    return bytes;
}

bool safetensors_read(struct safetensors *file, const char *path, struct message *why)
{
    struct message reason;
    size_t size;
    void *bytes = read_whole(path, &size, &reason);

    memset(file, 0, sizeof *file);
    if (bytes == NULL)
        return message_set(why, "%s: %s", path, reason.text);
    if (!safetensors_parse(file, bytes, size, &reason)) {
        free(bytes);
        return message_set(why, "%s: %s", path, reason.text);
    }
    file->bytes = bytes;
    return true;
}

void safetensors_free(struct safetensors *file)
{
    free(file->tensors);
    json_decref(file->header);
    free(file->bytes);
    memset(file, 0, sizeof *file);
}

const struct safetensor *safetensors_find(const struct safetensors *file, const char *name)
{
    for (size_t n = 0; n < file->count; n++)
        if (strcmp(file->tensors[n].name, name) == 0)
            return &file->tensors[n];
    return NULL;
}

const char *safetensors_attribute(const struct safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}

const char *safetensors_next_attribute(const struct safetensors *file, const char *key)
{
    json_t *metadata = json_object_get(file->header, "__metadata__");

    return json_object_iter_key(
        key == NULL ? json_object_iter(metadata)
                    : json_object_iter_next(metadata, json_object_iter_at(metadata, key)));
}

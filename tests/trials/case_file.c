#include "tests/trials/case_file.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void case_file_open(struct case_file *file, const char *path)
{
    FILE *stream = fopen(path, "rb");
    uint64_t header_bytes = 0;

    cr_assert(stream != NULL, "%s cannot be opened", path);
    cr_assert(fseek(stream, 0, SEEK_END) == 0);
    const long size = ftell(stream);
    cr_assert(size > 8);
    rewind(stream);
    file->bytes = malloc((size_t)size);
    cr_assert(file->bytes && fread(file->bytes, (size_t)size, 1, stream) == 1, "%s", path);
    fclose(stream);
    for (int n = 0; n < 8; n++)
        header_bytes |= (uint64_t)file->bytes[n] << 8 * n;
    cr_assert(header_bytes <= (uint64_t)size - 8, "%s is truncated", path);
    file->data = file->bytes + 8 + header_bytes;
    file->header = json_loadb((const char *)file->bytes + 8, (size_t)header_bytes, 0, NULL);
    cr_assert(file->header != NULL, "%s has no JSON header", path);
}

void case_file_close(struct case_file *file)
{
    json_decref(file->header);
    free(file->bytes);
}

int case_file_find(const struct case_file *file, const char *name, struct case_tensor *tensor)
{
    const json_t *entry = json_object_get(file->header, name);
    const json_t *shape = json_object_get(entry, "shape");

    if (!entry)
        return 0;
    tensor->dtype = json_string_value(json_object_get(entry, "dtype"));
    tensor->rank = json_array_size(shape);
    cr_assert(tensor->dtype && tensor->rank <= 4, "%s", name);
    for (size_t n = 0; n < tensor->rank; n++)
        tensor->shape[n] = (size_t)json_integer_value(json_array_get(shape, n));
    tensor->data =
        file->data + json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
    return 1;
}

const char *case_file_text(const struct case_file *file, const char *key, const char *otherwise)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));

    return text ? text : otherwise;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/case_file.h"

#include <criterion/criterion.h>

void case_file_open(struct safetensors *file, const char *path)
{
    struct message why;

    cr_assert(safetensors_read(file, path, &why), "%s", why.text);
}

int case_file_find(const struct safetensors *file, const char *name, struct safetensor *tensor)
{
    const struct safetensor *found = safetensors_find(file, name);

    if (found)
        *tensor = *found;
    return found != NULL;
}

const char *case_file_text(const struct safetensors *file, const char *key, const char *otherwise)
{
    const char *text = safetensors_attribute(file, key);

    return text ? text : otherwise;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/timing/cold_start_parts.h"

#include <stdio.h>

const char *const cold_start_part_keys[COLD_START_PARTS] = {"front_end", "code_generation",
                                                            "self_check", "storing"};

void cold_start_parts_print(const struct cold_start_parts *parts, char *text, size_t bytes)
{
    static const char *const names[COLD_START_PARTS] = {"front end", "code generation",
                                                        "self-check", "storing"};
    size_t length = 0;

    text[0] = '\0';
    for (size_t n = 0; n < COLD_START_PARTS && length < bytes; n++)
        if (parts->seconds[n] > 0.0)
            length += (size_t)snprintf(text + length, bytes - length, "%s%s %.2f s",
                                       length > 0 ? ", " : "", names[n], parts->seconds[n]);
}

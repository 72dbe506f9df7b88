/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: whatever the bytes are, reading them as a case ends in a case or a sentence. */
#include "bench/cases/case_file.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct safetensors file;
    struct attention_case attention;
    struct message why;

    if (!safetensors_parse(&file, bytes, size, &why))
        return 0;
    for (size_t n = 0; n < case_file_count(&file); n++)
        if (case_file_read(&attention, &file, "fuzz", n, &why))
            case_free(&attention);
    safetensors_free(&file);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/bench_program.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *bench_json(int status, const char *words, const char *format, ...)
{
    va_list arguments;
    char call[512];

    va_start(arguments, format);
    vsnprintf(call, sizeof call, format, arguments);
    va_end(arguments);
    program_must(BENCH_PROGRAM, status, words, "%s --json %s", call, scratch_path("run.json"));
    return json_file(scratch_path("run.json"));
}

void bench_copy_layer(const char *path, size_t cut, bool spoil)
{
    size_t size;
    char *bytes = scratch_read(LAYER_0, &size);

    if (spoil) /* the sign of the last element of V, which all queries see */
        bytes[size - 1] ^= (char)0x80;
    scratch_write_bytes(path, bytes, size - cut);
    free(bytes);
}

const json_t *bench_result(const json_t *run, size_t index)
{
    return json_at(run, "devices.0.results.%zu", index);
}

const json_t *bench_row(const json_t *run, size_t index, const char *implementation)
{
    const json_t *rows = json_at(run, "devices.0.results.%zu.implementations", index);

    for (size_t n = 0; n < json_array_size(rows); n++) {
        const json_t *row = json_array_get(rows, n);
        if (strcmp(json_text_at(row, "implementation"), implementation) == 0)
            return row;
    }
    return NULL;
}

size_t bench_samples(const json_t *row)
{
    return json_size_at(row, "milliseconds.samples");
}

void bench_check_width(void)
{
    program_expect_width(program_text, 100, "\n  fwd");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/bench_program.h"

#include <criterion/criterion.h>
#include <string.h>

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

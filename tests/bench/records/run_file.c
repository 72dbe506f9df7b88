/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/records/run_file.h"
#include "tests/support/programs/scratch.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

const char *run_path(void)
{
    return scratch_path("run.json");
}

void write_run(const char *to, const struct run_results *results)
{
    struct message why;

    cr_assert(results_write(to, results, &why), "%s", why.text);
}

void read_run(const char *from, struct run_results *results)
{
    struct message why;

    cr_assert(results_read(from, results, &why), "%s", why.text);
}

void check_text(const char *got, const char *want)
{
    cr_assert(eq(int, got == NULL, want == NULL));
    if (want != NULL)
        cr_assert(eq(str, (char *)got, (char *)want));
}

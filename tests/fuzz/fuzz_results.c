/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: whatever the bytes are, reading them as results of clattn-bench ends in a
 * sentence or in results that are written and read back. */
#include "bench/records/results.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static char path[64];
    struct run_results results, again;
    struct message why = {""};

    if (path[0] == '\0')
        snprintf(path, sizeof path, "/tmp/clattn_fuzz_results_%ld.json", (long)getpid());
    if (results_parse("fuzz", (const char *)bytes, size, &results, &why)) {
        require(results_write(path, &results, &why));
        require(results_read(path, &again, &why));
        require(again.count == results.count);
        results_free(&again);
        results_free(&results);
        remove(path);
    } else {
        require(why.text[0] != '\0' && results.devices == NULL && results.count == 0);
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: any bytes are read as a tuning document. Reading ends in a sentence, or in a
 * table that prints, reads back as itself and is its own union with itself. */
#include "store/tuning_table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct ca_table table, again;
    char reason[256];
    size_t added;

    if (ca_table_read((const char *)bytes, size, &table, reason, sizeof reason) != CLATTN_SUCCESS) {
        require(reason[0] != '\0' && table.num_devices == 0);
        return 0;
    }
    char *text = ca_table_print(&table);
    require(text &&
            ca_table_read(text, strlen(text), &again, reason, sizeof reason) == CLATTN_SUCCESS);
    require(ca_table_merge(&again, &table, &added) && added == 0);
    char *text_again = ca_table_print(&again);
    require(text_again && strcmp(text, text_again) == 0);
    free(text_again);
    free(text);
    ca_table_free(&again);
    ca_table_free(&table);
    return 0;
}

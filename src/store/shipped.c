/* SPDX-License-Identifier: Apache-2.0 */
#include "store/shipped.h"

#include <stdlib.h>
#include <string.h>

/* src/store/shipped.json, embedded at build time. */
extern const char ca_shipped_json[];

struct ca_shipped *ca_shipped_create(void)
{
    struct ca_shipped *shipped = calloc(1, sizeof *shipped);

    if (shipped && !ca_mutex_init(&shipped->lock)) {
        free(shipped);
        return NULL;
    }
    if (shipped)
        shipped->document = ca_shipped_json;
    return shipped;
}

void ca_shipped_destroy(struct ca_shipped *shipped)
{
    if (!shipped)
        return;
    ca_table_free(&shipped->table);
    ca_mutex_destroy(&shipped->lock);
    free(shipped);
}

const struct ca_table *ca_shipped_table(struct ca_shipped *shipped)
{
    ca_mutex_lock(&shipped->lock);
    if (!shipped->parsed)
        shipped->parsed = ca_table_read(shipped->document, strlen(shipped->document),
                                        &shipped->table, NULL, 0) != CLATTN_OUT_OF_MEMORY;
    const struct ca_table *table = shipped->parsed ? &shipped->table : NULL;
    ca_mutex_unlock(&shipped->lock);
    return table;
}

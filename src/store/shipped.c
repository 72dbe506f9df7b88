/* SPDX-License-Identifier: Apache-2.0 */
#include "store/shipped.h"
#include "families/candidate.h"
#include "store/table_advice.h"

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

/* The table; NULL without memory, and then it is read when it is asked next. */
static const struct ca_table *table_of(struct ca_shipped *shipped)
{
    char reason[CA_REASON_BYTES];

    ca_mutex_lock(&shipped->lock);
    if (!shipped->parsed)
        shipped->parsed =
            ca_table_read(shipped->document, strlen(shipped->document), &shipped->table, reason,
                          sizeof reason) != CLATTN_OUT_OF_MEMORY;
    const struct ca_table *table = shipped->parsed ? &shipped->table : NULL;
    ca_mutex_unlock(&shipped->lock);
    return table;
}

clattn_status ca_shipped_find(struct ca_shipped *shipped, const clattn_problem *p,
                              const clattn_device_info *dev, struct ca_candidate *candidates,
                              size_t most, size_t *count)
{
    const struct ca_table *table = table_of(shipped);

    *count = 0;
    return table ? ca_table_nearest(table, p, dev, candidates, most, count) : CLATTN_OUT_OF_MEMORY;
}

size_t ca_shipped_portfolio(struct ca_shipped *shipped, const clattn_problem *p,
                            const clattn_device_info *dev, struct ca_candidate *seeds, size_t most)
{
    const struct ca_table *table = table_of(shipped);

    return table ? ca_table_portfolio(table, p, dev, seeds, most) : 0;
}

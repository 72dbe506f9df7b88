/* SPDX-License-Identifier: Apache-2.0 */
#include "families/split.h"
#include "base/sizes.h"
#include "device/capacity.h"
#include "families/invariant_sizes.h"

size_t ca_split_divide(size_t n, size_t by)
{
    return n / by + (n % by != 0);
}

static size_t product(const size_t *sizes, size_t count)
{
    size_t n = 1;

    for (size_t i = 0; i < count; i++) {
        if (sizes[i] == 0)
            return 0;
        if (n > SIZE_MAX / sizes[i])
            return SIZE_MAX;
        n *= sizes[i];
    }
    return n;
}

size_t ca_split_rows_per_kv_head(const struct ca_problem *p)
{
    return product((const size_t[]){p->normal.heads / p->normal.kv_heads, p->normal.seq_q}, 2);
}

size_t ca_split_rows(const struct ca_problem *p)
{
    return product((const size_t[]){p->normal.batch, p->normal.heads, p->normal.seq_q}, 3);
}

size_t ca_split_groups(const struct ca_problem *p, size_t group_rows, size_t group_heads,
                       size_t splits)
{
    const size_t blocks = ca_split_divide(ca_split_rows_per_kv_head(p), group_rows);
    const size_t heads = ca_split_divide(p->normal.kv_heads, group_heads);

    return product((const size_t[]){blocks, heads, p->normal.batch, splits}, 4);
}

size_t ca_split_parts(const struct ca_problem *p, size_t split_k)
{
    return p->normal.invariant
               ? ca_larger(ca_split_divide(p->normal.seq_kv, INVARIANT_PART_KEYS), 1)
               : split_k;
}

int ca_is_for_split(const struct ca_problem *p)
{
    return (ca_split_rows_per_kv_head(p) <= 32 || p->normal.seq_q <= 16) && p->normal.seq_kv >= 512;
}

void ca_split_suggest(const struct ca_problem *p, const clattn_device_info *dev,
                      const struct ca_tunable *tunable, size_t group_rows, size_t items,
                      size_t *values, size_t split_k,
                      const char *(*reject)(const struct ca_problem *, const clattn_device_info *,
                                            const size_t *))
{
    values[split_k] = 1;
    for (size_t n = 1; n < tunable->num_candidates; n++) {
        const size_t splits = tunable->candidates[n], before = values[split_k];
        if (ca_split_groups(p, group_rows, 1, splits) * items > ca_device_cores(dev) * 512 ||
            p->normal.seq_kv / splits < 128)
            break;
        values[split_k] = splits;
        if (reject(p, dev, values))
            values[split_k] = before;
    }
}

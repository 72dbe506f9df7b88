#include "families/kernels/split.h"

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

size_t ca_split_rows_per_kv_head(const clattn_problem *p)
{
    return product((const size_t[]){p->heads / p->kv_heads, p->seq_q}, 2);
}

size_t ca_split_rows(const clattn_problem *p)
{
    return product((const size_t[]){p->batch, p->heads, p->seq_q}, 3);
}

size_t ca_split_groups(const clattn_problem *p, size_t group_rows, size_t splits)
{
    const size_t blocks = ca_split_divide(ca_split_rows_per_kv_head(p), group_rows);

    return product((const size_t[]){blocks, p->kv_heads, p->batch, splits}, 4);
}

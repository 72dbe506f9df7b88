#include "families/kernels/block_bits.h"

static size_t lists(const clattn_problem *p)
{
    return (p->block_batches ? p->batch : 1) * (p->block_heads ? p->heads : 1);
}

/* Follows cl/score/blocks.h. */
size_t ca_block_bits_bytes(const clattn_problem *p)
{
    const size_t words = (ca_block_columns(p) + 31) / 32, planes = p->mask ? 2 : 1;

    return p->block_q ? lists(p) * ca_block_rows(p) * planes * words * sizeof(cl_uint) : 0;
}

void ca_block_bits_ndrange(const clattn_problem *p, const size_t *values,
                           const clattn_device_info *dev, struct ca_ndrange *range)
{
    (void)values;
    (void)dev;
    *range = (struct ca_ndrange){{ca_block_rows(p), p->block_q ? lists(p) : 0, 1}, {1, 1, 1}};
}

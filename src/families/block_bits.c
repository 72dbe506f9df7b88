/* SPDX-License-Identifier: Apache-2.0 */
#include "families/block_bits.h"

static size_t lists(const clattn_problem *p)
{
    return (p->block_batches ? p->batch : 1) * (p->block_heads ? p->heads : 1);
}

/* The layout of the bits is that of cl/score/blocks.h. */
size_t ca_block_bits_bytes(const clattn_problem *p)
{
    const size_t words = (ca_block_columns(p) + 31) / 32,
                 planes = p->mask || p->mask_function ? 2 : 1;

    return p->block_q ? lists(p) * ca_block_rows(p) * planes * words * sizeof(cl_uint) : 0;
}

struct ca_ndrange ca_block_bits_ndrange(const clattn_problem *p, const size_t *values)
{
    (void)values;
    return ca_single_items(ca_block_rows(p), p->block_q ? lists(p) : 0, 1);
}

size_t ca_query_chunks(const clattn_problem *p, size_t chunk)
{
    const size_t row = p->block_q < p->seq_q ? p->block_q : p->seq_q;

    return p->block_q >= chunk ? ca_block_rows(p) * ((row + chunk - 1) / chunk)
                               : (p->seq_q + chunk - 1) / chunk;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "families/block_bits.h"

static size_t lists(const struct ca_problem *p)
{
    return (p->normal.block_batches ? p->normal.batch : 1) *
           (p->normal.block_heads ? p->normal.heads : 1);
}

/* The layout of the bits is that of cl/score/blocks.h. */
size_t ca_block_bits_bytes(const struct ca_problem *p)
{
    const size_t words = (ca_block_columns(&p->normal) + 31) / 32,
                 planes = p->normal.mask || p->normal.mask_function ? 2 : 1;

    return p->normal.block_q
               ? lists(p) * ca_block_rows(&p->normal) * planes * words * sizeof(cl_uint)
               : 0;
}

struct ca_ndrange ca_block_bits_ndrange(const struct ca_problem *p, const size_t *values)
{
    (void)values;
    return ca_single_items(ca_block_rows(&p->normal), p->normal.block_q ? lists(p) : 0, 1);
}

size_t ca_query_chunks(const struct ca_problem *p, size_t chunk)
{
    const size_t row = p->normal.block_q < p->normal.seq_q ? p->normal.block_q : p->normal.seq_q;

    return p->normal.block_q >= chunk ? ca_block_rows(&p->normal) * ((row + chunk - 1) / chunk)
                                      : (p->normal.seq_q + chunk - 1) / chunk;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/inputs.h"

#include "bench/judge/row.h"
#include "tests/support/storage.h"

void fill_input(const clattn_problem *p, enum tensor_id id, const struct tensor_shape *s,
                struct rng *r, unsigned char *bytes)
{
    for (size_t n = 0; n < s->extent; n += s->cache ? 32 : 1) {
        if (s->cache != CLATTN_CACHE_PLAIN)
            storage_store_block(s->cache, bytes, n / 32, 0.01, r);
        else if (id == TENSOR_MASK)
            bytes[n] = (unsigned char)rng_below(r, 2);
        else if (id == TENSOR_Q_LENGTHS || id == TENSOR_KV_LENGTHS)
            ((cl_int *)(void *)bytes)[n] =
                (cl_int)rng_below(r, (id == TENSOR_Q_LENGTHS ? p->seq_q : p->seq_kv) + 1);
        else if (id == TENSOR_PAGE_TABLE) /* some name no page */
            ((cl_int *)(void *)bytes)[n] = (cl_int)rng_below(r, p->pages + 2) - 1;
        else if (id == TENSOR_Q_STARTS || id == TENSOR_KV_STARTS)
            ((cl_int *)(void *)bytes)[n] =
                (cl_int)((id == TENSOR_Q_STARTS ? p->total_q : p->total_kv) * n / p->batch);
        else if (id == TENSOR_BLOCK_OFFSETS || id == TENSOR_BLOCK_ENTRIES)
            ((cl_int *)(void *)bytes)[n] = (cl_int)rng_below(
                r, id == TENSOR_BLOCK_OFFSETS ? p->max_blocks + 2 : p->seq_kv / p->block_kv + 2);
        else
            value_set(s->dtype, bytes, n, rng_uniform(r, -1, 1));
    }
}

int fill_results(const clattn_problem *p, const struct tensor_view *view,
                 unsigned char *const bytes[NUM_TENSORS])
{
    const struct tensor_shape o = tensor_shape_of(p, TENSOR_O),
                              lse = tensor_shape_of(p, TENSOR_LSE);
    struct reference_row row;
    const int ok = reference_row_open(p, PRECISION_SINGLE, &row);

    for (size_t n = 0; ok && n < p->batch * p->heads * p->seq_q; n++) {
        const size_t b = n / p->seq_q / p->heads, h = n / p->seq_q % p->heads, i = n % p->seq_q;
        size_t block, place;
        if (!tensor_locate_query(p, view, b, i, &block, &place))
            continue;
        reference_row_compute(p, view, b, h, i, &row);
        for (size_t d = 0; d < p->dim_v; d++)
            value_set(o.dtype, bytes[TENSOR_O], tensor_index(&o, block, h, place, d),
                      row.o[d].value);
        value_set(lse.dtype, bytes[TENSOR_LSE], tensor_index(&lse, block, h, 0, place),
                  row.lse.value);
    }
    reference_row_close(&row);
    return ok;
}

#include "case.h"
#include "values.h"

#include <stdlib.h>
#include <string.h>

/* Packed (0, 1, 2, 3) where all four strides are 0 and `packed` says that this means so. */
static struct view make_view(clattn_dtype dtype, const size_t size[4], const clattn_layout *layout,
                             bool packed)
{
    struct view view = {.dtype = dtype, .extent = 1};
    size_t step = 1;

    memcpy(view.size, size, sizeof view.size);
    memcpy(view.stride, layout->stride, sizeof view.stride);
    for (int n = 0; n < 4; n++)
        packed = packed && layout->stride[n] == 0;
    for (int n = 3; n >= 0; n--) {
        if (packed)
            view.stride[n] = step;
        step *= size[n];
        if (size[n] > 0)
            view.extent += (size[n] - 1) * view.stride[n];
    }
    if (step == 0)
        view.extent = 0;
    return view;
}

struct view case_input_view(const clattn_problem *p, enum input input)
{
    const size_t pairs[4] = {p->batch, p->heads, p->seq_q, p->seq_kv};

    switch (input) {
    case INPUT_Q:
        return make_view(p->dtype, (size_t[]){p->batch, p->heads, p->seq_q, p->dim_qk}, &p->q,
                         true);
    case INPUT_K:
        return make_view(p->dtype, (size_t[]){p->batch, p->kv_heads, p->seq_kv, p->dim_qk}, &p->k,
                         true);
    case INPUT_V:
        return make_view(p->dtype, (size_t[]){p->batch, p->kv_heads, p->seq_kv, p->dim_v}, &p->v,
                         true);
    case INPUT_BIAS:
        return make_view(p->bias_dtype, pairs, &p->bias_layout, false);
    default:
        return make_view(CLATTN_F32, pairs, &p->mask_layout, false);
    }
}

struct view case_output_view(const clattn_problem *p)
{
    return make_view(p->dtype, (size_t[]){p->batch, p->heads, p->seq_q, p->dim_v}, &p->o, true);
}

void *case_allocate(size_t count, size_t size, struct message *why)
{
    void *data = count < (SIZE_MAX - 1) / size ? malloc(count * size + 1) : NULL;

    if (data == NULL)
        message_set(why, "no memory for %zu elements of %zu bytes", count, size);
    return data;
}

void case_free(struct attention_case *attention)
{
    for (int n = 0; n < INPUT_COUNT; n++)
        free(attention->in[n].data);
    free(attention->o.data);
    free(attention->scores.data);
    memset(attention, 0, sizeof *attention);
}

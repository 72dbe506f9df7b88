#include "case.h"
#include "values.h"

#include <stdlib.h>
#include <string.h>

/* Packed (0, 1, 2, 3) where all four strides are 0 and `packed` says that this means so. */
static struct view make_view(clattn_dtype dtype, size_t element, const size_t size[4],
                             const clattn_layout *layout, bool packed)
{
    struct view view = {.dtype = dtype, .element = element, .extent = 1};
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

static struct view view_of(clattn_dtype dtype, const size_t size[4], const clattn_layout *layout)
{
    return make_view(dtype, value_bytes(dtype), size, layout, true);
}

/* `count` floats or cl_ints. */
static struct view list_view(size_t count)
{
    return view_of(CLATTN_F32, (size_t[]){1, 1, 1, count}, &(clattn_layout){{0}});
}

bool case_has_input(const clattn_problem *p, enum input input)
{
    const bool backward = p->operation == CLATTN_BACKWARD;
    const bool has[INPUT_COUNT] = {
        [INPUT_Q] = true,
        [INPUT_K] = true,
        [INPUT_V] = true,
        [INPUT_BIAS] = p->bias != 0,
        [INPUT_MASK] = p->mask != 0,
        [INPUT_SLOPES] = p->alibi != 0,
        [INPUT_SINKS] = p->sinks != 0,
        [INPUT_Q_LENGTHS] = p->q_lengths != 0,
        [INPUT_KV_LENGTHS] = p->kv_lengths != 0,
        [INPUT_O] = backward,
        [INPUT_LSE] = backward,
        [INPUT_DO] = backward,
    };

    return has[input];
}

bool case_has_output(const clattn_problem *p, enum output output)
{
    const bool backward = p->operation == CLATTN_BACKWARD;
    const bool has[OUTPUT_COUNT] = {
        [OUTPUT_O] = !backward,
        [OUTPUT_LSE] = !backward && p->lse,
        [OUTPUT_SCORES] = p->scores != CLATTN_SCORES_NONE,
        [OUTPUT_DQ] = backward,
        [OUTPUT_DK] = backward,
        [OUTPUT_DV] = backward,
        [OUTPUT_DBIAS] = p->dbias != 0,
        [OUTPUT_DSLOPES] = p->dslopes != 0,
        [OUTPUT_DSINKS] = p->dsinks != 0,
    };

    return has[output];
}

/* Shapes that several tensors have. */
struct shapes {
    size_t q[4], k[4], v[4], o[4], pairs[4], rows[4];
};

static struct shapes shapes_of(const clattn_problem *p)
{
    return (struct shapes){
        .q = {p->batch, p->heads, p->seq_q, p->dim_qk},
        .k = {p->batch, p->kv_heads, p->seq_kv, p->dim_qk},
        .v = {p->batch, p->kv_heads, p->seq_kv, p->dim_v},
        .o = {p->batch, p->heads, p->seq_q, p->dim_v},
        .pairs = {p->batch, p->heads, p->seq_q, p->seq_kv},
        .rows = {p->batch, p->heads, p->seq_q, 1},
    };
}

static struct view bias_view(const clattn_problem *p, const size_t pairs[4])
{
    return make_view(p->bias_dtype, value_bytes(p->bias_dtype), pairs, &p->bias_layout, false);
}

struct view case_input_view(const clattn_problem *p, enum input input)
{
    const struct shapes shapes = shapes_of(p);

    if (!case_has_input(p, input))
        return (struct view){.extent = 0};
    switch (input) {
    case INPUT_Q:
        return view_of(p->dtype, shapes.q, &p->q);
    case INPUT_K:
        return view_of(p->dtype, shapes.k, &p->k);
    case INPUT_V:
        return view_of(p->dtype, shapes.v, &p->v);
    case INPUT_BIAS:
        return bias_view(p, shapes.pairs);
    case INPUT_MASK:
        return make_view(CLATTN_F32, 1, shapes.pairs, &p->mask_layout, false);
    case INPUT_O:
        return view_of(p->dtype, shapes.o, &p->o);
    case INPUT_LSE:
        return view_of(CLATTN_F32, shapes.rows, &(clattn_layout){{0}});
    case INPUT_DO:
        return view_of(p->dtype, shapes.o, &p->d_o);
    case INPUT_SLOPES:
    case INPUT_SINKS:
        return list_view(p->heads);
    default:
        return list_view(p->batch);
    }
}

struct view case_output_view(const clattn_problem *p, enum output output)
{
    const struct shapes shapes = shapes_of(p);

    if (!case_has_output(p, output))
        return (struct view){.extent = 0};
    switch (output) {
    case OUTPUT_O:
        return view_of(p->dtype, shapes.o, &p->o);
    case OUTPUT_LSE:
        return view_of(CLATTN_F32, shapes.rows, &(clattn_layout){{0}});
    case OUTPUT_SCORES:
        return view_of(CLATTN_F32, shapes.pairs, &(clattn_layout){{0}});
    case OUTPUT_DQ:
        return view_of(p->dtype, shapes.q, &p->dq);
    case OUTPUT_DK:
        return view_of(p->dtype, shapes.k, &p->dk);
    case OUTPUT_DV:
        return view_of(p->dtype, shapes.v, &p->dv);
    case OUTPUT_DBIAS:
        return bias_view(p, shapes.pairs);
    default:
        return list_view(p->heads);
    }
}

size_t view_place(const struct view *view, size_t b, size_t h, size_t s, size_t d)
{
    return b * view->stride[0] + h * view->stride[1] + s * view->stride[2] + d * view->stride[3];
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

#include "bench/cases/case_layer.h"
#include "bench/cases/values.h"

#include <clattn/quantize.h>
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

struct view view_make(clattn_dtype dtype, const size_t size[4], const clattn_layout *layout)
{
    return make_view(dtype, value_bytes(dtype), size, layout, true);
}

static struct view packed(clattn_dtype dtype, size_t a, size_t b, size_t c, size_t d)
{
    return view_make(dtype, (size_t[]){a, b, c, d}, &(clattn_layout){{0}});
}

/* ---- which tensors there are ----------------------------------------------------------------- */

/* Of attention, in a layer or not. */
static bool has_option(const clattn_problem *p, enum input input)
{
    switch (input) {
    case INPUT_BIAS:
        return p->bias != 0;
    case INPUT_MASK:
        return p->mask != 0;
    case INPUT_SLOPES:
        return p->alibi != 0;
    case INPUT_SINKS:
        return p->sinks != 0;
    case INPUT_Q_LENGTHS:
        return p->q_lengths != 0;
    case INPUT_KV_LENGTHS:
        return p->kv_lengths != 0;
    default:
        return false;
    }
}

static bool has_option_gradient(const clattn_problem *p, enum output output)
{
    return (output == OUTPUT_DBIAS && p->dbias) || (output == OUTPUT_DSLOPES && p->dslopes) ||
           (output == OUTPUT_DSINKS && p->dsinks);
}

bool case_has_input(const struct job *job, enum input input)
{
    if (has_option(&job->problem, input))
        return true;
    switch (job_kind(job)) {
    case JOB_FORWARD:
        return input <= INPUT_V;
    case JOB_BACKWARD:
        return input <= INPUT_V || (input >= INPUT_O && input <= INPUT_DO);
    case JOB_PROJECTION:
        return input <= INPUT_K;
    default:
        return layer_has_input(&job->layer, input);
    }
}

bool case_has_output(const struct job *job, enum output output)
{
    const clattn_problem *p = &job->problem;

    if (has_option_gradient(p, output))
        return true;
    switch (job_kind(job)) {
    case JOB_FORWARD:
        return output == OUTPUT_O || (output == OUTPUT_LSE && p->lse) ||
               (output == OUTPUT_SCORES && p->scores != CLATTN_SCORES_NONE);
    case JOB_BACKWARD:
        return output >= OUTPUT_DQ && output <= OUTPUT_DV;
    case JOB_PROJECTION:
        return output == OUTPUT_O;
    default:
        return layer_has_output(&job->layer, output);
    }
}

/* ---- where they lie -------------------------------------------------------------------------- */

static struct view q_view(const clattn_problem *p, const clattn_layout *layout)
{
    const bool projection = p->operation == CLATTN_PROJECTION;
    const size_t heads = projection ? p->kv_heads : p->heads;

    return view_make(p->dtype, (size_t[]){p->batch, heads, p->seq_q, p->dim_qk}, layout);
}

/* Of keys or values; backward they and their gradients are plain. */
static struct view cache_view(const clattn_problem *p, clattn_cache cache, size_t dim,
                              const clattn_layout *layout)
{
    struct view view =
        view_make(p->dtype, (size_t[]){p->batch, p->kv_heads, p->seq_kv, dim}, layout);

    view.cache = cache;
    if (cache != CLATTN_CACHE_PLAIN)
        view.element = clattn_quantized_bytes(cache, VALUE_BLOCK);
    return view;
}

static struct view k_view(const clattn_problem *p, const clattn_layout *layout)
{
    const size_t weights[4] = {p->kv_heads, p->dim_qk, p->heads, p->dim_v};

    return p->operation == CLATTN_PROJECTION ? view_make(p->dtype, weights, layout)
                                             : cache_view(p, p->k_cache, p->dim_qk, layout);
}

static struct view v_view(const clattn_problem *p, const clattn_layout *layout)
{
    return cache_view(p, p->v_cache, p->dim_v, layout);
}

static struct view o_view(const clattn_problem *p, const clattn_layout *layout)
{
    return view_make(p->dtype, (size_t[]){p->batch, p->heads, p->seq_q, p->dim_v}, layout);
}

static struct view bias_view(const clattn_problem *p)
{
    const size_t pairs[4] = {p->batch, p->heads, p->seq_q, p->seq_kv};

    if (p->operation == CLATTN_PROJECTION)
        return packed(p->bias_dtype, 1, 1, p->heads, p->dim_v);
    return make_view(p->bias_dtype, value_bytes(p->bias_dtype), pairs, &p->bias_layout, false);
}

static struct view mask_view(const clattn_problem *p)
{
    const size_t pairs[4] = {p->batch, p->heads, p->seq_q, p->seq_kv};

    return make_view(CLATTN_F32, 1, pairs, &p->mask_layout, false);
}

struct view case_input_view(const struct job *job, enum input input)
{
    const clattn_problem *p = &job->problem;

    if (!case_has_input(job, input))
        return (struct view){.extent = 0};
    switch (input) {
    case INPUT_Q:
        return q_view(p, &p->q);
    case INPUT_K:
        return k_view(p, &p->k);
    case INPUT_V:
        return v_view(p, &p->v);
    case INPUT_BIAS:
        return bias_view(p);
    case INPUT_MASK:
        return mask_view(p);
    case INPUT_O:
        return o_view(p, &p->o);
    case INPUT_LSE:
        return packed(CLATTN_F32, p->batch, p->heads, p->seq_q, 1);
    case INPUT_DO:
        return o_view(p, &p->d_o);
    case INPUT_SLOPES:
    case INPUT_SINKS:
        return packed(CLATTN_F32, 1, 1, 1, p->heads);
    case INPUT_Q_LENGTHS:
    case INPUT_KV_LENGTHS:
        return packed(CLATTN_F32, 1, 1, 1, p->batch);
    default:
        return layer_view(&job->layer, input);
    }
}

/* The input that a layer's output has the shape and strides of. */
static enum input twin_of(enum output output)
{
    return output == OUTPUT_Y ? INPUT_DY : (enum input)(output - OUTPUT_DX + INPUT_X);
}

struct view case_output_view(const struct job *job, enum output output)
{
    const clattn_problem *p = &job->problem;

    if (!case_has_output(job, output) || output == OUTPUT_RESERVE)
        return (struct view){.extent = 0};
    switch (output) {
    case OUTPUT_O:
        return o_view(p, &p->o);
    case OUTPUT_LSE:
        return packed(CLATTN_F32, p->batch, p->heads, p->seq_q, 1);
    case OUTPUT_SCORES:
        return packed(CLATTN_F32, p->batch, p->heads, p->seq_q, p->seq_kv);
    case OUTPUT_DQ:
        return q_view(p, &p->dq);
    case OUTPUT_DK:
        return k_view(p, &p->dk);
    case OUTPUT_DV:
        return v_view(p, &p->dv);
    case OUTPUT_DBIAS:
        return bias_view(p);
    case OUTPUT_DSLOPES:
    case OUTPUT_DSINKS:
        return packed(CLATTN_F32, 1, 1, 1, p->heads);
    default:
        return layer_view(&job->layer, twin_of(output));
    }
}

size_t view_place(const struct view *view, size_t b, size_t h, size_t s, size_t d)
{
    return b * view->stride[0] + h * view->stride[1] + s * view->stride[2] + d * view->stride[3];
}

double view_elements_bytes(const struct view *view, double elements)
{
    return elements / (view->cache == CLATTN_CACHE_PLAIN ? 1 : VALUE_BLOCK) * (double)view->element;
}

double view_get(const struct view *view, const void *data, size_t place)
{
    return view->cache == CLATTN_CACHE_PLAIN ? value_get(view->dtype, data, place)
                                             : value_get_quantized(view->cache, data, place);
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
    for (int n = 0; attention->answers != NULL && n < CASE_PRECISIONS; n++)
        free(attention->answers[n].list);
    free(attention->answers);
    memset(attention, 0, sizeof *attention);
}

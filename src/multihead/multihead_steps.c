/* SPDX-License-Identifier: Apache-2.0 */
#include "multihead/multihead.h"
#include "problem/layout.h"
#include "problem/text/problem_words.h"

#include <stdio.h>

/* A part of the layer that is a matrix product: result = source w + b, of rows by columns. Together
 * with its gradients it makes all steps but attention. */
struct linear {
    const char *name;        /* the name of w and b without that letter: "q" of "w_q" */
    const char *source_name; /* the name of the input x */
    const char *result_name;
    enum ca_place source, dsource, result, dresult, w, dw, b, db; /* b may be CA_NOWHERE */
    size_t rows, inputs, columns;
    size_t first, all; /* w has `all` columns; this part's begin at column `first` */
    int accumulate;    /* dsource holds the part of another linear */
};

/* A matrix and its steps from row to row and from column to column. */
struct matrix {
    struct ca_located at;
    size_t row, column;
};

/* ---- matrix products ------------------------------------------------------------------------- */

/* Steps along the axis of the rows and the last axis; the others have one element. A packed layout
 * has a shorter text. */
static clattn_layout layout_of(const struct matrix *m, int row_axis, const size_t sizes[4])
{
    static const char *const orders[] = {"bhsd", "bhds", CA_OUT_IN};
    clattn_layout layout;

    for (size_t n = 0; n < sizeof orders / sizeof *orders; n++) {
        ca_layout_pack(orders[n], sizes, &layout);
        if (layout.stride[row_axis] == m->row && layout.stride[3] == m->column)
            return layout;
    }
    layout = (clattn_layout){{0, 0, 0, m->column}};
    layout.stride[row_axis] = m->row;
    return layout;
}

/* Sets y (rows, columns) = x (rows, depth) w (depth, columns), with one head. Without terms, as in
 * the gradient of a weight that no row used, y becomes 0, the product of two zeros. */
static struct ca_step *add_product(struct ca_steps *steps, const clattn_multihead *layer,
                                   size_t rows, size_t depth, size_t columns, struct matrix x,
                                   struct matrix w, struct matrix y)
{
    const struct ca_located zero = {CA_AT_CONSTANTS, 1};
    struct ca_step *step = &steps->list[steps->count++];
    clattn_projection_problem *p = &step->problem.projection;

    *step = (struct ca_step){.at = {[CA_PROJECTION_Y] = y.at}};
    if (depth == 0) {
        depth = 1;
        x = (struct matrix){zero, 0, 1};
        w = (struct matrix){zero, 1, 0};
    }
    step->at[CA_PROJECTION_X] = x.at;
    step->at[CA_PROJECTION_W] = w.at;
    clattn_problem_init_operation(&step->problem, CLATTN_PROJECTION);
    p->dtype = layer->attention.dtype;
    p->rows = rows;
    p->x_dim = depth;
    p->y_dim = columns;
    p->x = layout_of(&x, 2, (size_t[]){1, 1, rows, depth});
    p->w = layout_of(&w, 1, (size_t[]){1, depth, 1, columns});
    p->y = layout_of(&y, 2, (size_t[]){1, 1, rows, columns});
    return step;
}

static struct matrix packed(enum ca_place place, size_t columns)
{
    return (struct matrix){{place, 0}, columns, 1};
}

static struct matrix transposed(struct matrix m)
{
    return (struct matrix){m.at, m.column, m.row};
}

/* W or its gradient as (inputs, columns). */
static struct matrix weight(const clattn_multihead *layer, const struct linear *l,
                            enum ca_place place)
{
    if (layer->order == CLATTN_OUT_IN)
        return (struct matrix){{place, l->first * l->inputs}, 1, l->inputs};
    return (struct matrix){{place, l->first}, l->all, 1};
}

static void add_forward(struct ca_steps *steps, const clattn_multihead *layer,
                        const struct linear *l)
{
    struct ca_step *step =
        add_product(steps, layer, l->rows, l->inputs, l->columns, packed(l->source, l->inputs),
                    weight(layer, l, l->w), packed(l->result, l->columns));

    snprintf(step->name, sizeof step->name, "%s", l->result_name);
    if (l->b != CA_NOWHERE) {
        step->problem.projection.bias = 1;
        step->problem.projection.bias_dtype = layer->attention.dtype;
        step->at[CA_PROJECTION_BIAS] = (struct ca_located){l->b, l->first};
    }
}

/* db = 1 dresult, a row of ones times a matrix. */
static void add_bias_gradient(struct ca_steps *steps, const clattn_multihead *layer,
                              const struct linear *l)
{
    const struct matrix ones = {{CA_AT_CONSTANTS, 0}, 1, 0};
    struct matrix db = packed(l->db, l->columns);

    if (l->b == CA_NOWHERE)
        return;
    db.at.offset = l->first;
    struct ca_step *step =
        add_product(steps, layer, 1, l->rows, l->columns, ones, packed(l->dresult, l->columns), db);
    snprintf(step->name, sizeof step->name, "db_%s", l->name);
}

/* Sets dW = source^T dresult, or its transpose if W is transposed, so that it is written row by
 * row. */
static void add_weight_gradient(struct ca_steps *steps, const clattn_multihead *layer,
                                const struct linear *l)
{
    const struct matrix x = packed(l->source, l->inputs), dy = packed(l->dresult, l->columns);
    const struct matrix dw = weight(layer, l, l->dw);
    struct ca_step *step =
        layer->order == CLATTN_OUT_IN
            ? add_product(steps, layer, l->columns, l->rows, l->inputs, transposed(dy), x,
                          transposed(dw))
            : add_product(steps, layer, l->inputs, l->rows, l->columns, transposed(x), dy, dw);

    snprintf(step->name, sizeof step->name, "dw_%s", l->name);
}

/* dsource = dresult W^T, or += . */
static void add_source_gradient(struct ca_steps *steps, const clattn_multihead *layer,
                                const struct linear *l)
{
    struct ca_step *step =
        add_product(steps, layer, l->rows, l->columns, l->inputs, packed(l->dresult, l->columns),
                    transposed(weight(layer, l, l->w)), packed(l->dsource, l->inputs));

    step->problem.projection.accumulate = l->accumulate;
    if (l->accumulate)
        snprintf(step->name, sizeof step->name, "d%s += %s", l->source_name, l->name);
    else
        snprintf(step->name, sizeof step->name, "d%s", l->source_name);
}

/* ---- the products of a layer ----------------------------------------------------------------- */

enum { MOST_GROUPS = 3 };

/* q, k and v, in as few products as can be. group[n]: the product that makes q, k, v. */
static size_t group_inputs(const clattn_multihead *layer, struct linear *groups, size_t group[3])
{
    const struct ca_columns columns = ca_layer_columns(layer);
    const size_t widths[3] = {columns.q, columns.k, columns.v};
    const size_t firsts[3] = {0, columns.q, columns.q + columns.k};
    const int separate = layer->source == CLATTN_SEPARATE, self = layer->source == CLATTN_SELF;
    /* by the first and the last of q, k, v in the product */
    static const char *const names[3][3] = {{"q", "qk", "qkv"}, {"", "k", "kv"}, {"", "", "v"}};
    const int sources[3] = {0, self ? 0 : 1, self ? 0 : separate ? 2 : 1};
    const struct {
        const char *name;
        enum ca_place at, gradient;
        size_t columns, rows;
    } inputs[3] = {
        {"x", CA_AT_X, CA_AT_DX, layer->model, ca_layer_rows(layer, 0)},
        {"context", CA_AT_CONTEXT, CA_AT_DCONTEXT, layer->context_model, ca_layer_rows(layer, 1)},
        {"values", CA_AT_VALUES, CA_AT_DVALUES, layer->values_model, ca_layer_rows(layer, 1)},
    };
    size_t count = 0;

    for (size_t first = 0, last; first < 3; first = last + 1) {
        struct linear *l = &groups[count];
        const size_t shift = layer->packed ? 0 : first; /* places of q, k and v follow each other */
        const int source = sources[first];
        last = first;
        while (layer->packed && last < 2 && sources[last + 1] == source)
            last++;
        *l = (struct linear){
            .name = names[first][last],
            .source_name = inputs[source].name,
            .result_name = names[first][last],
            .source = inputs[source].at,
            .dsource = inputs[source].gradient,
            .result = (enum ca_place)(CA_AT_Q + first),
            .dresult = (enum ca_place)(CA_AT_DQ + first),
            .w = (enum ca_place)(CA_AT_W_Q + shift),
            .dw = (enum ca_place)(CA_AT_DW_Q + shift),
            .b = layer->qkv_biases ? (enum ca_place)(CA_AT_B_Q + shift) : CA_NOWHERE,
            .db = (enum ca_place)(CA_AT_DB_Q + shift),
            .rows = inputs[source].rows,
            .inputs = inputs[source].columns,
            .first = layer->packed ? firsts[first] : 0,
            .all = layer->packed ? columns.all : widths[first],
            .accumulate = first > 0 && sources[first - 1] == source,
        };
        for (size_t n = first; n <= last; n++) {
            l->columns += widths[n];
            group[n] = count;
        }
        count++;
    }
    return count;
}

static struct linear output_of(const clattn_multihead *layer)
{
    return (struct linear){
        .name = "o",
        .source_name = "o",
        .result_name = "y",
        .source = CA_AT_O,
        .dsource = CA_AT_DO,
        .result = CA_AT_Y,
        .dresult = CA_AT_DY,
        .w = CA_AT_W_O,
        .dw = CA_AT_DW_O,
        .b = layer->output_bias ? CA_AT_B_O : CA_NOWHERE,
        .db = CA_AT_DB_O,
        .rows = ca_layer_rows(layer, 0),
        .inputs = layer->attention.heads * layer->attention.dim_v,
        .columns = layer->output,
        .all = layer->output,
    };
}

/* ---- attention ------------------------------------------------------------------------------- */

/* The layout of heads that lie beside each other in rows of `width` elements; each has `dim` of them. */
static clattn_layout heads_of(const clattn_multihead *layer, size_t seq, size_t width, size_t dim)
{
    const size_t batch = layer->attention.batch;

    if (layer->seq_first)
        return (clattn_layout){{width, dim, batch * width, 1}};
    return (clattn_layout){{seq * width, dim, width, 1}};
}

static void add_attention(struct ca_steps *steps, const clattn_multihead *layer,
                          const struct linear *groups, const size_t group[3])
{
    const struct ca_columns columns = ca_layer_columns(layer);
    const size_t firsts[3] = {0, columns.q, columns.q + columns.k};
    struct ca_step *step = &steps->list[steps->count++];
    struct ca_located *at = step->at;
    clattn_problem *p = &step->problem;

    *step = (struct ca_step){.name = "attention",
                             .problem = layer->attention,
                             .at = {
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, ...)                                             \
    CA_IF_INPUT(LAYER, [CA_##ID] = {CA_AT_##ID, 0}, )                                              \
    CA_IF_LAST(LAYER, [CA_##ID] = {CA_AT_##ID, 0}, )                                               \
    CA_IF_GRADIENT(LAYER, [CA_##ID] = {CA_AT_##ID, 0}, )
                                 CA_OPERANDS(OPERAND)
#undef OPERAND
                                     [CA_O] = {CA_AT_O, 0},
                                 [CA_LSE] = {CA_AT_LSE, 0}, [CA_DO] = {CA_AT_DO, 0}}};
    clattn_layout *const layouts[3] = {&p->q, &p->k, &p->v};
    for (size_t n = 0; n < 3; n++) {
        const struct linear *l = &groups[group[n]];
        const size_t offset = firsts[n] - firsts[l->result - CA_AT_Q];
        at[CA_Q + n] = (struct ca_located){l->result, offset};
        at[CA_DQ + n] = (struct ca_located){l->dresult, offset};
        *layouts[n] = heads_of(layer, n == 0 ? p->seq_q : p->seq_kv, l->columns,
                               n == 2 ? p->dim_v : p->dim_qk);
    }
    p->o = heads_of(layer, p->seq_q, p->heads * p->dim_v, p->dim_v);
    if (p->operation == CLATTN_BACKWARD) {
        p->d_o = p->o;
        p->dq = p->q;
        p->dk = p->k;
        p->dv = p->v;
        return;
    }
    p->lse = layer->training != 0;
    if (layer->weights != CLATTN_WEIGHTS_NONE) {
        p->scores = CLATTN_SCORES_WEIGHTS;
        at[CA_SCORES].place = layer->weights == CLATTN_WEIGHTS_HEADS ? CA_AT_WEIGHTS : CA_AT_SCORES;
    }
}

/* The mean over the heads: each batch's weights, (heads, seq_q * seq_kv), summed with a factor. */
static void add_mean(struct ca_steps *steps, const clattn_multihead *layer)
{
    const clattn_problem *a = &layer->attention;
    struct ca_step *step = &steps->list[steps->count++];
    clattn_projection_problem *p = &step->problem.projection;

    *step = (struct ca_step){
        .name = "mean of weights",
        .at = {[CA_PROJECTION_X] = {CA_AT_SCORES, 0},
               [CA_PROJECTION_W] = {CA_AT_CONSTANTS, CA_MEAN_BYTES / sizeof(cl_float)},
               [CA_PROJECTION_Y] = {CA_AT_WEIGHTS, 0}}};
    clattn_problem_init_operation(&step->problem, CLATTN_PROJECTION);
    p->batch = a->batch;
    p->x_heads = a->heads;
    p->rows = a->seq_q * a->seq_kv;
}

/* ---- regions --------------------------------------------------------------------------------- */

static void add_region(struct ca_steps *steps, enum ca_place place, enum ca_place inside,
                       size_t bytes)
{
    size_t *end = inside == CA_AT_RESERVE ? &steps->reserve_bytes : &steps->workspace_bytes;
    const size_t rounded = (bytes + CA_REGION_ALIGN - 1) / CA_REGION_ALIGN * CA_REGION_ALIGN;

    steps->regions[place] = (struct ca_region){inside, *end, bytes};
    *end += rounded;
}

static void make_regions(struct ca_steps *steps, const clattn_multihead *layer,
                         const struct linear *groups, size_t num_groups)
{
    const clattn_problem *p = &layer->attention;
    const int backward = p->operation == CLATTN_BACKWARD;
    const enum ca_place kept = backward || layer->training ? CA_AT_RESERVE : CA_AT_WORKSPACE;
    const size_t bytes = ca_dtype_bytes(p->dtype), rows = p->batch * p->heads * p->seq_q;

    for (size_t n = 0; n < num_groups; n++) {
        const size_t size = groups[n].rows * groups[n].columns * bytes;
        add_region(steps, groups[n].result, kept, size);
        if (backward)
            add_region(steps, groups[n].dresult, CA_AT_WORKSPACE, size);
    }
    add_region(steps, CA_AT_O, kept, rows * p->dim_v * bytes);
    if (backward)
        add_region(steps, CA_AT_DO, CA_AT_WORKSPACE, rows * p->dim_v * bytes);
    if (kept == CA_AT_RESERVE)
        add_region(steps, CA_AT_LSE, kept, rows * sizeof(cl_float));
    if (layer->weights == CLATTN_WEIGHTS_MEAN)
        add_region(steps, CA_AT_SCORES, CA_AT_WORKSPACE, rows * p->seq_kv * sizeof(cl_float));
}

/* ---- all of it ------------------------------------------------------------------------------- */

void ca_layer_steps(const clattn_multihead *layer, struct ca_steps *steps)
{
    const struct linear output = output_of(layer);
    struct linear groups[MOST_GROUPS];
    size_t group[3];
    const size_t num_groups = group_inputs(layer, groups, group);

    *steps = (struct ca_steps){.count = 0};
    make_regions(steps, layer, groups, num_groups);
    if (layer->attention.operation == CLATTN_FORWARD) {
        for (size_t n = 0; n < num_groups; n++)
            add_forward(steps, layer, &groups[n]);
        add_attention(steps, layer, groups, group);
        add_forward(steps, layer, &output);
        if (layer->weights == CLATTN_WEIGHTS_MEAN)
            add_mean(steps, layer);
        return;
    }
    add_source_gradient(steps, layer, &output);
    add_attention(steps, layer, groups, group);
    for (size_t n = 0; n < num_groups; n++)
        add_source_gradient(steps, layer, &groups[n]);
    for (size_t n = 0; n <= num_groups; n++) {
        const struct linear *l = n < num_groups ? &groups[n] : &output;
        add_weight_gradient(steps, layer, l);
        add_bias_gradient(steps, layer, l);
    }
}

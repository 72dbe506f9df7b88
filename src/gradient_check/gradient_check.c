#include "gradient_check/gradient_check.h"
#include "base/log.h"
#include "context/context.h"
#include "problem/layout.h"
#include "problem/problem.h"
#include "reference/trust_case_parts.h"
#include "reference/trust_case_values.h"

#include <clattn/attention.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- data ----------------------------------------------------------------------------------- */

static size_t elements(const struct ca_trust_case *c, enum ca_argument argument, size_t bytes)
{
    return c->bytes[argument] ? (c->sizes[argument] - 2 * CA_TRUST_GUARD) / bytes : 0;
}

/* Multiples of 1/64 from low to high, gaps between strides included. */
static void fill(struct ca_trust_case *c, enum ca_argument argument, clattn_dtype dtype, float low,
                 float high, unsigned *state)
{
    const size_t count = elements(c, argument, ca_dtype_bytes(dtype));

    for (size_t n = 0; n < count; n++) {
        const float value = low + (high - low) * (0.5f + 0.5f * ca_value_next(state));
        ca_value_store(c->bytes[argument] + CA_TRUST_GUARD, dtype, n, roundf(value * 64) / 64);
    }
}

/* At least half of the longest. */
static void fill_lengths(struct ca_trust_case *c, enum ca_argument argument, size_t longest,
                         unsigned *state)
{
    const size_t count = elements(c, argument, sizeof(cl_int));

    for (size_t b = 0; b < count; b++) {
        const double share = 0.75 + 0.25 * (double)ca_value_next(state);
        const cl_int length = (cl_int)ceil(share * (double)longest);
        memcpy(c->bytes[argument] + CA_TRUST_GUARD + b * sizeof length, &length, sizeof length);
    }
}

int ca_gradient_data_make(struct ca_trust_case *c, const clattn_problem *p, unsigned seed)
{
    unsigned state = seed * 2654435761u + 88675123u;

    memset(c, 0, sizeof *c);
    c->problem = *p;
    if (!ca_trust_allocate_blocks(c)) /* NaN, which a result that is not written remains */
        return 0;
    state = state ? state : 1;
    fill(c, CA_Q, p->dtype, -2.0f, 2.0f, &state);
    fill(c, CA_K, p->dtype, -2.0f, 2.0f, &state);
    fill(c, CA_V, p->dtype, -2.0f, 2.0f, &state);
    fill(c, CA_DO, p->dtype, -2.0f, 2.0f, &state);
    fill(c, CA_BIAS, p->bias_dtype, -1.0f, 1.0f, &state);
    fill(c, CA_SLOPES, CLATTN_F32, 0.0f, 0.5f, &state);
    fill(c, CA_SINKS, CLATTN_F32, -1.0f, 1.0f, &state);
    const size_t count = elements(c, CA_MASK, 1);
    for (size_t n = 0; n < count; n++)
        c->bytes[CA_MASK][CA_TRUST_GUARD + n] = ca_value_next(&state) < 0.5f; /* three quarters */
    fill_lengths(c, CA_Q_LENGTHS, p->seq_q, &state);
    fill_lengths(c, CA_KV_LENGTHS, p->seq_kv, &state);
    ca_trust_fill_lists(c);
    return 1;
}

/* One element after the other from a tensor to a packed one of floats. */
static void widen_rows(struct ca_trust_case *wide, const struct ca_trust_case *narrow,
                       enum ca_argument argument, const struct ca_tensor *t)
{
    unsigned char *to = wide->bytes[argument] + CA_TRUST_GUARD;
    size_t index[4], count = t->sizes[0] * t->sizes[1] * t->sizes[2] * t->sizes[3];

    for (size_t n = 0; n < count; n++) {
        ca_gradient_index(t, n, index);
        const size_t at = ca_trust_position(&t->layout, index[0], index[1], index[2], index[3]);
        const double value =
            ca_value_load(ca_trust_elements(narrow, argument), narrow->problem.dtype, at);
        ca_value_store(to, CLATTN_F32, n, (float)value);
    }
}

/* o and lse of every row. 0 without memory. */
static int widen_results(struct ca_trust_case *wide)
{
    const clattn_problem *p = &wide->problem;
    double *o = malloc(p->dim_v * sizeof *o), lse;
    struct ca_trust_row row;
    const int complete = ca_trust_row_open(p, &row) && o;

    for (size_t n = 0; complete && n < p->batch * p->heads * p->seq_q; n++) {
        ca_row_loss(wide, &row, n, o, &lse);
        for (size_t d = 0; d < p->dim_v; d++)
            ca_value_store(wide->bytes[CA_O] + CA_TRUST_GUARD, CLATTN_F32, n * p->dim_v + d,
                           (float)o[d]);
        ca_value_store(wide->bytes[CA_LSE] + CA_TRUST_GUARD, CLATTN_F32, n, (float)lse);
    }
    ca_trust_row_close(&row);
    free(o);
    return complete;
}

int ca_gradient_data_widen(struct ca_trust_case *wide, const struct ca_trust_case *narrow)
{
    static const enum ca_argument rows[] = {CA_Q, CA_K, CA_V, CA_DO};
    static const enum ca_argument others[] = {CA_MASK,         CA_SLOPES,     CA_SINKS,
                                              CA_Q_LENGTHS,    CA_KV_LENGTHS, CA_BLOCK_OFFSETS,
                                              CA_BLOCK_ENTRIES};
    struct ca_tensor tensors[CA_WORKSPACE];
    clattn_problem *p = &wide->problem;

    memset(wide, 0, sizeof *wide);
    *p = narrow->problem;
    p->dtype = p->bias_dtype = CLATTN_F32;
    /* Packed, because an element that is broadcast would be many. */
    p->q = p->k = p->v = p->o = p->d_o = p->dq = p->dk = p->dv = (clattn_layout){{0}};
    *p = ca_problem_normal(p);
    if (!ca_trust_allocate_blocks(wide))
        return 0;
    ca_problem_tensors(&narrow->problem, tensors);
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        widen_rows(wide, narrow, rows[n], &tensors[rows[n]]);
    for (size_t n = 0; n < sizeof others / sizeof *others; n++)
        if (wide->bytes[others[n]])
            memcpy(wide->bytes[others[n]], narrow->bytes[others[n]], wide->sizes[others[n]]);
    const size_t count = elements(wide, CA_BIAS, sizeof(float)); /* of the same layout */
    for (size_t n = 0; n < count; n++)
        ca_value_store(wide->bytes[CA_BIAS] + CA_TRUST_GUARD, CLATTN_F32, n,
                       (float)ca_value_load(ca_trust_elements(narrow, CA_BIAS),
                                            narrow->problem.bias_dtype, n));
    return widen_results(wide);
}

/* ---- on the device --------------------------------------------------------------------------- */

static void *at(const struct ca_trust_case *c, enum ca_argument argument)
{
    return c->bytes[argument] ? c->bytes[argument] + CA_TRUST_GUARD : NULL;
}

/* o and lse as the library's forward leaves them. */
static clattn_status run_forward(clattn_context *ctx, const struct ca_trust_case *c)
{
    const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
#define OPERAND(ID, member, GIVEN, WRITER, ...) CA_OF_FORWARD(GIVEN, .member = at(c, CA_##ID), )
                                                 CA_OPERANDS(OPERAND)
#undef OPERAND
                                                     .dropout_seed = CA_TRUST_SEED,
                                                 .dropout_offset = CA_TRUST_STREAM};
    clattn_problem p = c->problem;

    p.operation = CLATTN_FORWARD;
    p.lse = 1;
    p.d_o = p.dq = p.dk = p.dv = (clattn_layout){{0}};
    p.dbias = p.dslopes = p.dsinks = 0;
    return clattn_attention_forward_host(ctx, &p, NULL, &tensors);
}

static clattn_status run_backward(clattn_context *ctx, const struct ca_trust_case *c,
                                  const clattn_plan_options *options)
{
    const clattn_host_backward_tensors tensors = {.struct_size = sizeof tensors,
#define OPERAND(ID, member, GIVEN, WRITER, ...) CA_OF_BACKWARD(GIVEN, .member = at(c, CA_##ID), )
                                                  CA_OPERANDS(OPERAND)
#undef OPERAND
                                                      .dropout_seed = CA_TRUST_SEED,
                                                  .dropout_offset = CA_TRUST_STREAM};

    return clattn_attention_backward_host(ctx, &c->problem, options, &tensors);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void judge(clattn_gradient_element *worst, const struct ca_tensor *tensor, size_t n,
                  double value, struct ca_bounded expected)
{
    const double distance = fabs(value - expected.value);
    const int same = value == expected.value || (isnan(value) && isnan(expected.value));
    const double ratio = same ? 0.0 : isnan(distance) ? INFINITY : distance / expected.bound;

    if (worst->tensor && ratio <= worst->ratio)
        return;
    *worst = (clattn_gradient_element){
        .tensor = tensor->name, .value = value, .expected = expected.value, .ratio = ratio};
    ca_gradient_index(tensor, n, worst->index);
}

/* o and lse of every row; wrong ones make gradients of another function. 0 without memory. */
static int compare_forward(const struct ca_trust_case *c, clattn_gradient_report *report)
{
    const clattn_problem *p = &c->problem;
    const size_t rows = p->batch * p->heads * p->seq_q;
    struct ca_trust_case forward = *c; /* the blocks are borrowed */
    struct ca_tensor tensors[CA_WORKSPACE];
    size_t index[4];

    forward.problem.operation = CLATTN_FORWARD;
    forward.num_rows = rows;
    forward.rows = calloc(rows + 1, sizeof *forward.rows);
    forward.o = calloc(rows * p->dim_v + 1, sizeof *forward.o);
    forward.lse = calloc(rows + 1, sizeof *forward.lse);
    for (size_t n = 0; forward.rows && n < rows; n++)
        forward.rows[n] = n;
    const int complete = forward.rows && forward.o && forward.lse && ca_trust_case_solve(&forward);
    ca_problem_tensors(p, tensors);
    for (size_t n = 0; complete && n < rows * p->dim_v; n++) {
        ca_gradient_index(&tensors[CA_O], n, index);
        const size_t place =
            ca_trust_position(&tensors[CA_O].layout, index[0], index[1], index[2], index[3]);
        judge(&report->analytic, &tensors[CA_O], n,
              ca_value_load(at(c, CA_O), ca_problem_dtype(p, CA_O), place), forward.o[n]);
    }
    for (size_t n = 0; complete && n < rows; n++)
        judge(&report->analytic, &tensors[CA_LSE], n, ca_value_load(at(c, CA_LSE), CLATTN_F32, n),
              forward.lse[n]);
    report->num_analytic += rows * (p->dim_v + 1);
    free(forward.rows);
    free(forward.o);
    free(forward.lse);
    return complete;
}

/* All of the device's elements. */
static void compare_device(const struct ca_trust_case *c, const struct ca_all_gradients *g,
                           clattn_gradient_report *report)
{
    for (int k = 0; k < CA_NUM_GRADIENTS; k++) {
        const enum ca_argument gradient = (enum ca_argument)(CA_DQ + k);
        const struct ca_tensor *t = &g->tensor[k];
        const clattn_dtype dtype = ca_problem_dtype(&c->problem, gradient);
        size_t index[4];
        for (size_t n = 0; n < g->count[k]; n++) {
            ca_gradient_index(t, n, index);
            const size_t place =
                ca_trust_position(&t->layout, index[0], index[1], index[2], index[3]);
            judge(&report->analytic, t, n, ca_value_load(at(c, gradient), dtype, place),
                  g->of[k][n]);
        }
        report->num_analytic += g->count[k];
    }
}

/* Elements of each tensor whose differences are taken: what some hundred million multiplications
 * allow, spread over all of it. */
enum { MOST_ELEMENTS = 48, LEAST_ELEMENTS = 3, MOST_PRODUCTS = 1 << 28 };

static size_t to_compare(const clattn_problem *p, enum ca_argument gradient, size_t count)
{
    const double row = (double)p->seq_kv * (double)(p->dim_qk + p->dim_v) + 1.0;
    const double most = MOST_PRODUCTS / (4.0 * row * (double)ca_rows_touched(p, gradient));
    const size_t affordable = most < MOST_ELEMENTS ? (size_t)most : MOST_ELEMENTS;
    const size_t wanted = affordable > LEAST_ELEMENTS ? affordable : LEAST_ELEMENTS;

    return wanted < count ? wanted : count;
}

/* 0 without memory. */
static int compare_differences(struct ca_trust_case *wide, const struct ca_all_gradients *g,
                               clattn_gradient_report *report)
{
    for (int k = 0; k < CA_NUM_GRADIENTS; k++) {
        const enum ca_argument gradient = (enum ca_argument)(CA_DQ + k);
        const size_t count = to_compare(&wide->problem, gradient, g->count[k]);
        for (size_t n = 0; n < count; n++) {
            /* From the first to the last, at odd distances. */
            const size_t place =
                count == 1 ? 0
                           : (size_t)((double)(g->count[k] - 1) * (double)n / (double)(count - 1));
            struct ca_bounded difference;
            if (!ca_loss_difference(wide, gradient, &g->tensor[k], place, &difference))
                return 0;
            difference.bound += g->of[k][place].bound;
            judge(&report->difference, &g->tensor[k], place, g->of[k][place].value, difference);
        }
        report->num_differences += count;
    }
    return 1;
}

/* ---- the check ------------------------------------------------------------------------------- */

static clattn_status no_memory(clattn_context *ctx)
{
    return ca_fail(&ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for a check of gradients");
}

static clattn_status check_device(clattn_context *ctx, const struct ca_trust_case *c,
                                  const clattn_plan_options *options,
                                  clattn_gradient_report *report)
{
    struct ca_all_gradients gradients;
    clattn_status status = run_forward(ctx, c);

    if (status == CLATTN_SUCCESS)
        status = run_backward(ctx, c, options);
    if (status != CLATTN_SUCCESS)
        return status;
    if (ca_all_gradients_solve(&gradients, c) && compare_forward(c, report))
        compare_device(c, &gradients, report);
    else
        status = no_memory(ctx);
    ca_all_gradients_free(&gradients);
    return status;
}

static clattn_status check_formulas(clattn_context *ctx, const struct ca_trust_case *narrow,
                                    clattn_gradient_report *report)
{
    struct ca_all_gradients gradients = {.count = {0}};
    struct ca_trust_case wide;
    const int complete = ca_gradient_data_widen(&wide, narrow) &&
                         ca_all_gradients_solve(&gradients, &wide) &&
                         compare_differences(&wide, &gradients, report);

    ca_all_gradients_free(&gradients);
    ca_trust_case_free(&wide);
    return complete ? CLATTN_SUCCESS : no_memory(ctx);
}

/* The family's name. The plan is made again for it by the host call, from the same program. */
static clattn_status name_family(clattn_context *ctx, const clattn_problem *problem,
                                 const clattn_plan_options *options, clattn_gradient_report *report)
{
    clattn_plan_info info = {.struct_size = sizeof info};
    clattn_plan *plan;

    const clattn_status status = clattn_plan_create(ctx, problem, options, &plan);
    if (status != CLATTN_SUCCESS)
        return status;
    clattn_plan_describe(plan, &info);
    snprintf(report->family, sizeof report->family, "%s", info.family);
    clattn_plan_release(plan);
    return CLATTN_SUCCESS;
}

clattn_status clattn_gradient_check(clattn_context *context, const clattn_problem *problem,
                                    const clattn_plan_options *options, unsigned seed,
                                    clattn_gradient_report *report)
{
    struct ca_trust_case c;

    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    if (!report || report->struct_size != sizeof *report)
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT,
                       "report is null, or its struct_size is not that of this library");
    *report = (clattn_gradient_report){.struct_size = sizeof *report};
    clattn_status status = name_family(context, problem, options, report);
    if (status == CLATTN_SUCCESS && problem->operation != CLATTN_BACKWARD)
        status = ca_fail(&context->log, CLATTN_INVALID_ARGUMENT,
                         "problem is not of operation CLATTN_BACKWARD: it has no gradients");
    if (status == CLATTN_SUCCESS) {
        const clattn_problem normal = ca_problem_normal(problem);
        status = ca_gradient_data_make(&c, &normal, seed)
                     ? check_device(context, &c, options, report)
                     : no_memory(context);
        if (status == CLATTN_SUCCESS)
            status = check_formulas(context, &c, report);
        ca_trust_case_free(&c);
    }
    if (status == CLATTN_SUCCESS)
        report->right = report->analytic.ratio <= 1.0 && report->difference.ratio <= 1.0;
    else
        *report = (clattn_gradient_report){.struct_size = sizeof *report};
    return status;
}

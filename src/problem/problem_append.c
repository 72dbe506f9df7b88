/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of operation CLATTN_APPEND: the functions that problem.c and problem_class.c call for
 * them. */
#include "problem/problem_append.h"
#include "base/log.h"
#include "base/sizes.h"
#include "problem/classes/class_size.h"
#include "problem/layout.h"
#include "problem/operations.h"
#include "problem/tensors.h"
#include "problem/text/problem_words.h"

#include <math.h>

enum { MOST_ROTARY_DIM = 4096 };

/* Tokens, heads, and rows of caches and tables in a representative. */
enum { MOST_TOKENS = 4096, MOST_HEADS = 128, MOST_ROWS = 4096 };

/* ---- operands -------------------------------------------------------------------------------- */

size_t ca_append_blocks(const clattn_append_problem *p)
{
    return p->page_size ? p->pages : p->batch;
}

size_t ca_append_rows(const clattn_append_problem *p)
{
    return p->page_size ? p->page_size : p->capacity;
}

size_t ca_append_table_pages(const clattn_append_problem *p)
{
    return p->page_size ? ca_divide_up(p->capacity, p->page_size) : 0;
}

const clattn_append_problem ca_append_initial = {
    .batch = 1, .heads = 1, .kv_heads = 1, .tokens = 1, .capacity = 1, .dim_qk = 1, .dim_v = 1};

struct ca_size_words ca_append_sizes(clattn_problem *p)
{
    return (struct ca_size_words){.dtype = &p->append.dtype,
                                  .b = &p->append.batch,
                                  .h = &p->append.heads,
                                  .second_h = &p->append.kv_heads,
                                  .q = &p->append.tokens,
                                  .k = &p->append.capacity,
                                  .d = &p->append.dim_qk,
                                  .second_d = &p->append.dim_v,
                                  .page_size = &p->append.page_size,
                                  .pages = &p->append.pages};
}

const struct ca_layout_word ca_append_layouts[] = {
    {CA_APPEND_Q, "q"},
    {CA_APPEND_K, "k"},
    {CA_APPEND_V, "v"},
    {CA_APPEND_Q_OUT, "o"},
    {CA_APPEND_K_CACHE, "dk"},
    {CA_APPEND_V_CACHE, "dv"},
    {0, NULL},
};

struct append_shape ca_append_shape(const clattn_append_problem *p)
{
    struct append_shape a = {.batch = (cl_long)p->batch,
                             .heads = (cl_long)p->heads,
                             .kv_heads = (cl_long)p->kv_heads,
                             .tokens = (cl_long)p->tokens,
                             .capacity = (cl_long)p->capacity,
                             .dim_qk = (cl_long)p->dim_qk,
                             .dim_v = (cl_long)p->dim_v,
                             .pages = (cl_long)p->pages,
                             .rotary_length = (cl_long)p->rotary_length,
                             CA_APPEND_OPERANDS(CA_SHAPE_STRIDES, )};

    ca_append_rotation(p, &a.power_high, &a.power_low);
    return a;
}

clattn_dtype ca_append_dtype(const clattn_problem *problem, unsigned argument)
{
    switch (argument) {
    case CA_APPEND_Q:
    case CA_APPEND_Q_OUT:
    case CA_APPEND_K:
    case CA_APPEND_V:
        return problem->append.dtype;
    case CA_APPEND_K_CACHE:
    case CA_APPEND_V_CACHE:
        return problem->append.cache_dtype;
    default:
        return CLATTN_F32;
    }
}

/* ---- what launches derive -------------------------------------------------------------------- */

void ca_append_rotation(const clattn_append_problem *p, float *high, float *low)
{
    const double step =
        p->rotary_base > 0.0f ? pow((double)p->rotary_base, -2.0 / (double)p->rotary_dim) : 1.0;

    *high = (float)step;
    *low = (float)(step - (double)*high);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static clattn_status check_rotary(const clattn_append_problem *p, char *reason, size_t bytes)
{
    const int tables = p->rotary_length > 0;
    const struct ca_rule rules[] = {
        {"queries are given, but there is no rotary that they need",
         !p->rotary && p->queries != CLATTN_QUERIES_NONE},
        {"rotary_dim, rotary_base and rotary_length are 0 without rotary",
         !p->rotary && (p->rotary_dim || p->rotary_base != 0.0f || tables)},
        {"positions are given, but there is no rotary that needs them", !p->rotary && p->positions},
        {"rotary_dim must be even, from 2 to dim_qk and 4096",
         p->rotary && (p->rotary_dim < 2 || p->rotary_dim % 2 != 0 || p->rotary_dim > p->dim_qk ||
                       p->rotary_dim > MOST_ROTARY_DIM)},
        {"rotary_base must be finite and at least 1",
         p->rotary && !tables && !(p->rotary_base >= 1.0f && isfinite(p->rotary_base))},
        {"rotary_base must be 0 where rotary_length says that there are tables",
         tables && p->rotary_base != 0.0f},
        {"k_scaled needs a k_format of bytes: e4m3, e5m2 or int8",
         p->k_scaled && !ca_has_scales(p->k_format)},
        {"v_scaled needs a v_format of bytes: e4m3, e5m2 or int8",
         p->v_scaled && !ca_has_scales(p->v_format)},
        {"k_format and v_format say how an append quantizes: cache_dtype is the dtype",
         ca_format_of(p->k_format)->is_dtype || ca_format_of(p->v_format)->is_dtype},
    };

    return ca_keep_rules(rules, sizeof rules / sizeof *rules, reason, bytes);
}

clattn_status ca_append_check(const clattn_problem *problem, char *reason, size_t bytes)
{
    const clattn_append_problem *p = &problem->append;
    const struct ca_enum_value choices[] = {
        {"dtype", (int)p->dtype, CA_NUM_DTYPES - 1},
        {"cache_dtype", (int)p->cache_dtype, CA_NUM_DTYPES - 1},
        {"k_format", (int)p->k_format, CA_NUM_CACHES - 1},
        {"v_format", (int)p->v_format, CA_NUM_CACHES - 1},
        {"rotary", (int)p->rotary, CLATTN_ROTARY_HALVES},
        {"queries", (int)p->queries, CLATTN_QUERIES_IN_PLACE},
    };
    const struct ca_size sizes[] = {
        {"batch", p->batch, 0},
        {"heads", p->heads, 1},
        {"kv_heads", p->kv_heads, 1},
        {"tokens", p->tokens, 0},
        {"capacity", p->capacity, 0},
        {"dim_qk", p->dim_qk, 1},
        {"dim_v", p->dim_v, 1},
        {"page_size", p->page_size, 0},
        {"rotary_length", p->rotary_length, 0},
    };
    clattn_status status = ca_check_members(choices, sizeof choices / sizeof *choices, sizes,
                                            sizeof sizes / sizeof *sizes, reason, bytes);

    if (status == CLATTN_SUCCESS)
        status = ca_check_pages(p->pages, p->page_size, reason, bytes);
    if (status == CLATTN_SUCCESS)
        status = ca_check_groups(p->heads, p->kv_heads, reason, bytes);
    return status == CLATTN_SUCCESS ? check_rotary(p, reason, bytes) : status;
}

double ca_append_flops(const clattn_problem *problem)
{
    const clattn_append_problem *p = &problem->append;
    const size_t heads = p->kv_heads + (p->queries ? p->heads : 0);

    return 3.0 * (double)p->batch * (double)p->tokens * (double)heads * (double)p->rotary_dim;
}

/* ---- classes --------------------------------------------------------------------------------- */

static int is_unit(const clattn_problem *p, unsigned argument)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(p, tensors);
    return !tensors[argument].present || tensors[argument].layout.stride[3] == 1;
}

int ca_append_reads_units(const clattn_problem *p)
{
    return is_unit(p, CA_APPEND_Q) && is_unit(p, CA_APPEND_K) && is_unit(p, CA_APPEND_V);
}

int ca_append_writes_units(const clattn_problem *p)
{
    return is_unit(p, CA_APPEND_Q_OUT) && is_unit(p, CA_APPEND_K_CACHE) &&
           is_unit(p, CA_APPEND_V_CACHE);
}

clattn_problem ca_append_representative(const clattn_problem *problem)
{
    const clattn_append_problem *p = &problem->append;
    const double tokens = (double)p->batch * (double)p->tokens;
    const int reads = ca_append_reads_units(problem), writes = ca_append_writes_units(problem);
    clattn_problem made = *problem;
    clattn_append_problem *r = &made.append;

    r->batch = 1;
    r->tokens = ca_size_rounded(tokens < MOST_TOKENS ? (size_t)tokens : MOST_TOKENS, MOST_TOKENS);
    r->heads = ca_size_rounded(p->heads, MOST_HEADS);
    r->kv_heads = r->heads / ca_size_rounded(p->heads / p->kv_heads, r->heads);
    r->capacity = ca_size_rounded(p->capacity, MOST_ROWS);
    r->rotary_length = p->rotary_length ? ca_size_rounded(p->rotary_length, MOST_ROWS) : 0;
    r->rotary_base = p->rotary_base != 0.0f ? 10000.0f : 0.0f;
    r->kv_lengths = p->kv_lengths != 0;
    r->positions = p->positions != 0;
    r->slots = p->slots != 0;
    r->k_scaled = p->k_scaled != 0;
    r->v_scaled = p->v_scaled != 0;
    r->k_scales = r->v_scales = (clattn_layout){{0}};
    r->page_size = p->page_size ? ca_size_rounded(p->page_size, MOST_ROWS) : 0;
    for (;;) {
        const size_t pages = ca_append_table_pages(r);
        r->pages = r->page_size == 0 ? 0 : pages ? pages : 1;
        const size_t rows = ca_append_rows(r);
        r->k = ca_class_layout_of(reads, r->kv_heads, r->tokens, r->dim_qk);
        r->v = ca_class_layout_of(reads, r->kv_heads, r->tokens, r->dim_v);
        r->q = ca_class_layout_of(reads, r->heads, r->tokens, r->dim_qk);
        r->q_out = ca_class_layout_of(writes, r->heads, r->tokens, r->dim_qk);
        r->k_cache = ca_class_layout_of(writes || p->k_format, r->kv_heads, rows, r->dim_qk);
        r->v_cache = ca_class_layout_of(writes || p->v_format, r->kv_heads, rows, r->dim_v);
        if ((r->tokens == 1 && r->capacity == 1 && r->heads == 1) ||
            clattn_problem_check(&made, NULL, 0) == CLATTN_SUCCESS)
            return made;
        ca_halve_largest(&r->tokens, &r->capacity, &r->heads);
        r->kv_heads = r->kv_heads < r->heads ? r->kv_heads : r->heads;
    }
}

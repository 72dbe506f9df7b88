/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of appends: the rows that tokens go to, the values written there, and that everything else
 * is unchanged. Rows of k (b, kv_head, i) are counted first, then those of v, then those of q. */
#include "problem/layout.h"
#include "problem/problem.h"
#include "selfcheck/answer_row.h"
#include "selfcheck/case_parts.h"
#include "selfcheck/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A row of k, v or q: the tensors that it is read from and written to, and its place in both. */
struct append_row {
    unsigned from, to;
    size_t b, h, i, dim;
    size_t block, place; /* the batch or page, and the row in it, that the token goes to */
    int skipped;
};

static int64_t cached(const struct ca_trust_case *c, size_t b)
{
    return c->problem.append.kv_lengths ? ca_trust_number(c, CA_APPEND_KV_LENGTHS, b) : 0;
}

static const clattn_layout *layout_of(const clattn_append_problem *p, unsigned argument)
{
    return argument == CA_APPEND_Q         ? &p->q
           : argument == CA_APPEND_K       ? &p->k
           : argument == CA_APPEND_V       ? &p->v
           : argument == CA_APPEND_Q_OUT   ? &p->q_out
           : argument == CA_APPEND_K_CACHE ? &p->k_cache
                                           : &p->v_cache;
}

/* The row of all batches, or pages, that a token goes to; negative, or too large, if there is none. */
static int64_t slot_of(const struct ca_trust_case *c, size_t b, size_t i)
{
    const clattn_append_problem *p = &c->problem.append;
    const int64_t key = cached(c, b) + (int64_t)i, rows = (int64_t)ca_append_rows(p);

    if (p->slots)
        return ca_trust_number(c, CA_APPEND_SLOTS, b * p->tokens + i);
    if (key < 0 || key >= (int64_t)p->capacity)
        return -1;
    if (!p->page_size)
        return (int64_t)b * rows + key;
    const int64_t page = ca_trust_number(c, CA_APPEND_PAGE_TABLE,
                                         b * ca_append_table_pages(p) + (size_t)(key / rows));
    return page < 0 ? -1 : page * rows + key % rows;
}

static struct append_row locate(const struct ca_trust_case *c, size_t index)
{
    const clattn_append_problem *p = &c->problem.append;
    const size_t kv_rows = p->batch * p->kv_heads * p->tokens;
    const int is_q = index >= 2 * kv_rows, is_v = !is_q && index >= kv_rows;
    const size_t heads = is_q ? p->heads : p->kv_heads, row = is_q   ? index - 2 * kv_rows
                                                              : is_v ? index - kv_rows
                                                                     : index;
    struct append_row r = {
        .from = is_q   ? p->queries == CLATTN_QUERIES_IN_PLACE ? CA_APPEND_Q_OUT : CA_APPEND_Q
                : is_v ? CA_APPEND_V
                       : CA_APPEND_K,
        .to = is_q   ? CA_APPEND_Q_OUT
              : is_v ? CA_APPEND_V_CACHE
                     : CA_APPEND_K_CACHE,
        .b = row / p->tokens / heads,
        .h = row / p->tokens % heads,
        .i = row % p->tokens,
        .dim = is_v ? p->dim_v : p->dim_qk,
    };
    const int64_t rows = (int64_t)ca_append_rows(p), slots = (int64_t)ca_append_blocks(p) * rows;
    const int64_t slot = slot_of(c, r.b, r.i);
    r.block = is_q ? r.b : (size_t)(slot / rows);
    r.place = is_q ? r.i : (size_t)(slot % rows);
    r.skipped = !is_q && (slot < 0 || slot >= slots);
    return r;
}

/* ---- answers -------------------------------------------------------------------------------- */

static double input(const struct ca_trust_case *c, const struct append_row *r, size_t d)
{
    return ca_value_load(
        ca_trust_elements(c, r->from), c->problem.append.dtype,
        ca_trust_position(layout_of(&c->problem.append, r->from), r->b, r->h, r->i, d));
}

/* Column d of a row, rotated if it is k's or q's, and the magnitudes that it is made of. */
static double turned(const struct ca_trust_case *c, const struct append_row *r, size_t d,
                     double *magnitude)
{
    const clattn_append_problem *p = &c->problem.append;
    const size_t half = p->rotary_dim / 2;
    const int pairs = p->rotary == CLATTN_ROTARY_PAIRS;
    const double x = input(c, r, d);

    *magnitude = 0.0;
    if (r->to == CA_APPEND_V_CACHE || d >= p->rotary_dim)
        return x;
    const size_t i = pairs ? d / 2 : d % half;
    const int second = pairs ? d % 2 != 0 : d >= half;
    const double y = input(c, r, pairs ? d ^ 1 : second ? d - half : d + half);
    const int64_t position = p->positions
                                 ? ca_trust_number(c, CA_APPEND_POSITIONS, r->b * p->tokens + r->i)
                                 : cached(c, r->b) + (int64_t)r->i;
    double cosine, sine;
    if (p->rotary_length) {
        const int64_t last = (int64_t)p->rotary_length - 1;
        const int64_t row = position < 0 ? 0 : position > last ? last : position;
        cosine =
            ca_value_load(ca_trust_elements(c, CA_APPEND_COS), CLATTN_F32, (size_t)row * half + i);
        sine =
            ca_value_load(ca_trust_elements(c, CA_APPEND_SIN), CLATTN_F32, (size_t)row * half + i);
    } else {
        const double angle = fmax(fmin((double)position, 0x1p22), -0x1p22) *
                             pow((double)p->rotary_base, -2.0 * (double)i / (double)p->rotary_dim);
        cosine = cos(angle);
        sine = sin(angle);
    }
    *magnitude = fabs(x) + fabs(y);
    return x * cosine + (second ? y * sine : -(y * sine));
}

/* The scale of a row's place in its cache; 1 without scales. */
static double scale_of(const struct ca_trust_case *c, const struct append_row *r)
{
    const clattn_append_problem *p = &c->problem.append;
    const int is_v = r->to == CA_APPEND_V_CACHE;
    const unsigned char *scales =
        r->to == CA_APPEND_Q_OUT
            ? NULL
            : ca_trust_elements(c, is_v ? CA_APPEND_V_SCALES : CA_APPEND_K_SCALES);

    return scales ? ca_value_load(scales, CLATTN_F32,
                                  ca_trust_position(is_v ? &p->v_scales : &p->k_scales, r->block,
                                                    r->h, r->place, 0))
                  : 1.0;
}

static void solve_row(const struct ca_trust_case *c, const struct append_row *r,
                      struct ca_bounded *to)
{
    const clattn_append_problem *p = &c->problem.append;
    const clattn_cache cache = ca_problem_cache(&c->problem, r->to);
    const clattn_dtype dtype = r->to == CA_APPEND_Q_OUT ? p->dtype : p->cache_dtype;
    const struct ca_format *format = ca_format_of(cache);

    for (size_t d = 0; d < r->dim; d++) {
        double magnitude;
        to[d].value = turned(c, r, d, &magnitude);
        to[d].bound = 16.0 * CA_TRUST_ROUNDOFF * magnitude + FLT_MIN;
        if (cache == CLATTN_CACHE_PLAIN)
            to[d].bound += ca_value_rounding(dtype, fabs(to[d].value) + to[d].bound);
    }
    const double scale = scale_of(c, r);
    for (size_t d = 0; d < r->dim; d++) {
        to[d].value /= scale;
        to[d].bound = to[d].bound / fabs(scale) + CA_TRUST_ROUNDOFF * fabs(to[d].value);
    }
    for (size_t d = 0; d < r->dim && cache != CLATTN_CACHE_PLAIN; d += CA_BLOCK) {
        double most = 0.0;
        for (size_t n = d; n < d + CA_BLOCK; n++)
            most = fmax(most, fabs(to[n].value));
        for (size_t n = d; n < d + CA_BLOCK;
             n++) /* half a step; of scales half of the last digit */
            to[n].bound +=
                format->scale < 0
                    ? 1.01 * (fabs(to[n].value) * format->error + 0.5 * format->number(1))
                    : 1.01 * most * (format->error + 0x1p-10);
    }
}

/* ---- cases ---------------------------------------------------------------------------------- */

static size_t all_rows(const clattn_append_problem *p)
{
    return p->batch * p->tokens * (2 * p->kv_heads + (p->queries ? p->heads : 0));
}

static size_t longest(const clattn_append_problem *p)
{
    return p->dim_qk > p->dim_v ? p->dim_qk : p->dim_v;
}

/* Fills the slots and positions of all tokens, and the numbers of cached tokens. No two tokens have the same place. */
static void fill_lists(struct ca_trust_case *c, int hostile)
{
    const clattn_append_problem *p = &c->problem.append;
    const size_t tokens = p->batch * p->tokens, places = ca_append_blocks(p) * ca_append_rows(p);
    const size_t entries = p->page_size && !p->slots ? p->batch * ca_append_table_pages(p) : 0;
    const size_t room = p->capacity > p->tokens ? p->capacity - p->tokens : 0;

    for (size_t b = 0; b < p->batch; b++)
        ca_trust_set_number(c, CA_APPEND_KV_LENGTHS, b,
                            hostile ? (cl_int[]){-2, (cl_int)p->capacity - 3}[b % 2]
                                    : (cl_int)room);
    for (size_t n = 0; n < entries; n++) {
        /* A page each, from the last on; those that remain have none. */
        cl_int page = n < p->pages ? (cl_int)(p->pages - 1 - n) : -1;
        if (hostile && n % 3 == 2)
            page = (cl_int[]){-1, INT32_MIN, INT32_MAX, (cl_int)p->pages}[n / 3 % 4];
        ca_trust_set_number(c, CA_APPEND_PAGE_TABLE, n, page);
    }
    for (size_t n = 0; n < tokens; n++) {
        cl_int slot = (cl_int)(places > n ? places - 1 - n : places);
        if (hostile && n % 5 == 2)
            slot = (cl_int[]){-1, INT32_MIN, INT32_MAX, (cl_int)places}[n / 5 % 4];
        ca_trust_set_number(c, CA_APPEND_SLOTS, n, slot);
        ca_trust_set_number(c, CA_APPEND_POSITIONS, n,
                            hostile ? (cl_int)(n * n * 7) - 9 : (cl_int)n);
    }
}

/* An answer for each row that is written, of which some are known: the first, the last and some between. */
static void solve(struct ca_trust_case *c, const struct ca_sample *judged)
{
    size_t next = 0;

    for (size_t n = 0; n < judged->all; n++) {
        const struct append_row r = locate(c, n);
        const int is_judged = next < judged->count && ca_trust_place(judged, next) == n;
        next += is_judged != 0;
        if (r.skipped)
            continue;
        struct ca_bounded *want =
            ca_trust_answer(c, r.to, r.block, r.h, r.place, is_judged ? r.dim : 0);
        if (is_judged)
            solve_row(c, &r, want);
        c->answers[c->num_answers - 1].count = r.dim;
        if (!is_judged)
            c->answers[c->num_answers - 1].want = NULL;
    }
}

/* Numbers of int8 are far from 0 to the largest: rotated magnitudes are up to 4. */
static void fill_scales(struct ca_trust_case *c, unsigned argument, clattn_cache cache,
                        unsigned *state)
{
    const float unit = cache == CLATTN_CACHE_INT8 ? 4.0f / 127.0f : 0.5f;

    ca_trust_fill_random(c, argument, CLATTN_F32, unit, 4.0f * unit, state);
}

static int make(struct ca_trust_case *c)
{
    const clattn_append_problem *p = &c->problem.append;
    const struct ca_sample judged = ca_trust_spread(all_rows(p), longest(p) * 64);
    unsigned state = 20240229u;

    if (!ca_trust_allocate(c, judged.all, judged.count * longest(p)))
        return 0;
    for (unsigned n = 0; n < CA_WORKSPACE; n++)
        if (n == CA_APPEND_Q || n == CA_APPEND_K || n == CA_APPEND_V ||
            (n == CA_APPEND_Q_OUT && p->queries == CLATTN_QUERIES_IN_PLACE))
            ca_trust_fill_random(c, n, p->dtype, -2.0f, 2.0f, &state);
    fill_scales(c, CA_APPEND_K_SCALES, p->k_format, &state);
    fill_scales(c, CA_APPEND_V_SCALES, p->v_format, &state);
    ca_trust_fill_random(c, CA_APPEND_COS, CLATTN_F32, -1.0f, 1.0f, &state);
    ca_trust_fill_random(c, CA_APPEND_SIN, CLATTN_F32, -1.0f, 1.0f, &state);
    fill_lists(c, c->hostile);
    if (!ca_trust_keep_before(c))
        return 0;
    solve(c, &judged);
    return 1;
}

static clattn_layout keep_unit(int unit, const size_t sizes[4], clattn_cache cache)
{
    clattn_layout layout =
        ca_trust_gapped((const int[]){0, 2, 1, 3}, sizes, unit ? 1 : 2, CA_TRUST_GAP);

    for (int n = 0; n < 3 && cache != CLATTN_CACHE_PLAIN; n++) /* whole blocks apart */
        layout.stride[n] = sizes[3] * (n == 1 ? 1 : n == 2 ? sizes[1] + 1 : 64);
    return layout;
}

/* The sizes are ragged; rows are a little longer than their rotated columns. */
int ca_append_case_make(struct ca_trust_case *c, clattn_context *ctx, const clattn_problem *real,
                        const struct ca_candidate *candidate)
{
    enum { BATCH = 2, HEADS = 3, TOKENS = 11, KEYS = 13 };
    const clattn_append_problem *r = &real->append;
    const int quantized = r->k_format || r->v_format;
    const size_t least = (r->rotary_dim + CA_BLOCK - 1) / CA_BLOCK * CA_BLOCK;

    (void)ctx;
    (void)candidate;
    c->problem = *real;
    clattn_append_problem *p = &c->problem.append;
    p->batch = BATCH;
    p->kv_heads = HEADS;
    p->heads = 2 * HEADS;
    p->tokens = TOKENS;
    p->capacity = KEYS;
    p->dim_qk = least + (quantized ? CA_BLOCK : 37);
    p->dim_v = quantized ? 3 * CA_BLOCK : 41;
    p->rotary_length = r->rotary_length ? 17 : 0;
    p->q = keep_unit(r->q.stride[3] == 1, (size_t[]){BATCH, p->heads, TOKENS, p->dim_qk}, 0);
    p->k = keep_unit(r->k.stride[3] == 1, (size_t[]){BATCH, HEADS, TOKENS, p->dim_qk}, 0);
    p->v = keep_unit(r->v.stride[3] == 1, (size_t[]){BATCH, HEADS, TOKENS, p->dim_v}, 0);
    p->q_out =
        keep_unit(r->q_out.stride[3] == 1, (size_t[]){BATCH, p->heads, TOKENS, p->dim_qk}, 0);
    p->pages = p->page_size ? BATCH * ca_append_table_pages(p) : 0;
    const size_t blocks = ca_append_blocks(p), rows = ca_append_rows(p);
    p->k_cache = keep_unit(r->k_cache.stride[3] == 1, (size_t[]){blocks, HEADS, rows, p->dim_qk},
                           p->k_format);
    p->v_cache = keep_unit(r->v_cache.stride[3] == 1, (size_t[]){blocks, HEADS, rows, p->dim_v},
                           p->v_format);
    ca_layout_spread(7, (size_t[]){blocks, HEADS, rows, 1}, &p->k_scales);
    p->v_scales = p->k_scales;
    return make(c);
}

int ca_append_case_make_ordinary(struct ca_trust_case *c, clattn_context *ctx)
{
    (void)ctx;
    return make(c);
}

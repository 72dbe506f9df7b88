/* SPDX-License-Identifier: Apache-2.0 */
#include "selfcheck/answer_row.h"
#include "problem/problem.h"
#include "selfcheck/function_calls.h"
#include "selfcheck/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static const double u = CA_TRUST_ROUNDOFF;

int ca_trust_row_open(const clattn_problem *p, struct ca_trust_row *row)
{
    const size_t dim = p->dim_qk > p->dim_v ? p->dim_qk : p->dim_v;

    *row = (struct ca_trust_row){.q = malloc(p->dim_qk * sizeof(double)),
                                 .values = malloc(dim * sizeof(double)),
                                 .mean = malloc(p->dim_qk * sizeof(double)),
                                 .weights = malloc((p->seq_kv + 1) * sizeof(double)),
                                 .slack = malloc((p->seq_kv + 1) * sizeof(double)),
                                 .errors = malloc(p->dim_v * sizeof(double))};
    return row->q && row->values && row->mean && row->weights && row->slack && row->errors;
}

void ca_trust_row_close(struct ca_trust_row *row)
{
    free(row->q);
    free(row->values);
    free(row->mean);
    free(row->weights);
    free(row->slack);
    free(row->errors);
}

size_t ca_trust_guard(const clattn_problem *p, unsigned argument)
{
    const clattn_cache cache = ca_problem_cache(p, argument);

    return CA_TRUST_GUARD - CA_TRUST_GUARD % ca_cache_bytes(cache, ca_problem_dtype(p, argument));
}

unsigned char *ca_trust_elements(const struct ca_trust_case *c, unsigned argument)
{
    return c->bytes[argument] ? c->bytes[argument] + ca_trust_guard(&c->problem, argument) : NULL;
}

size_t ca_trust_position(const clattn_layout *layout, size_t b, size_t h, size_t s, size_t d)
{
    return b * layout->stride[0] + h * layout->stride[1] + s * layout->stride[2] +
           d * layout->stride[3];
}

/* Rows of sequence b of `total`, and the first of them. */
static size_t sequence(const struct ca_trust_case *c, unsigned starts, size_t b, size_t total,
                       size_t longest, size_t *first)
{
    const cl_int *edges = (const cl_int *)(const void *)ca_trust_elements(c, starts) + b;
    const int64_t most = (int64_t)total, begin = edges[0] < 0 ? 0 : edges[0];
    const int64_t end = edges[1] < most ? edges[1] : most;

    *first = (size_t)(begin < most ? begin : most);
    if (end <= begin)
        return 0;
    return (size_t)(end - begin) < longest ? (size_t)(end - begin) : longest;
}

/* Queries and keys that batch b has: all, or those of its sequence in a packed batch. */
static size_t queries_of(const struct ca_trust_case *c, size_t b)
{
    const clattn_problem *p = &c->problem;
    size_t first;

    return p->total_q ? sequence(c, CA_Q_STARTS, b, p->total_q, p->seq_q, &first) : p->seq_q;
}

size_t ca_trust_keys(const struct ca_trust_case *c, size_t b)
{
    const clattn_problem *p = &c->problem;
    size_t first;

    return p->total_kv ? sequence(c, CA_KV_STARTS, b, p->total_kv, p->seq_kv, &first) : p->seq_kv;
}

int ca_trust_locate_query(const struct ca_trust_case *c, size_t b, size_t i, size_t *block,
                          size_t *row)
{
    const clattn_problem *p = &c->problem;
    size_t first;

    *block = b;
    *row = i;
    if (!p->total_q)
        return 1;
    if (i >= sequence(c, CA_Q_STARTS, b, p->total_q, p->seq_q, &first))
        return 0;
    *block = 0;
    *row = first + i;
    return 1;
}

int ca_trust_locate_key(const struct ca_trust_case *c, size_t b, size_t j, size_t *block,
                        size_t *row)
{
    const clattn_problem *p = &c->problem;
    size_t first;

    *block = b;
    *row = j;
    if (p->total_kv) {
        if (j >= sequence(c, CA_KV_STARTS, b, p->total_kv, p->seq_kv, &first))
            return 0;
        *block = 0;
        *row = first + j;
        return 1;
    }
    if (!p->page_size)
        return 1;
    const cl_int page = ((const cl_int *)(const void *)ca_trust_elements(
        c, CA_PAGE_TABLE))[b * ca_table_pages(p) + j / p->page_size];
    if (page < 0 || (size_t)page >= p->pages)
        return 0;
    *block = (size_t)page;
    *row = j % p->page_size;
    return 1;
}

int ca_trust_lse_place(const struct ca_trust_case *c, const struct ca_trust_row *row, size_t *place)
{
    size_t block, at;
    const int there = ca_trust_locate_query(c, row->b, row->i, &block, &at);

    *place = (block * c->problem.heads + row->h) * ca_query_rows(&c->problem) + at;
    return there;
}

static int rounds_operands(const clattn_problem *p)
{
    return !p->strict && p->dtype != CLATTN_F32 && ca_problem_dtype(p, CA_V) == p->dtype;
}

double ca_trust_operand_share(const clattn_problem *p)
{
    return !rounds_operands(p) ? 0.0 : p->dtype == CLATTN_BF16 ? 0x1p-8 : 0x1p-11;
}

double ca_trust_operand_tiny(const clattn_problem *p)
{
    return !rounds_operands(p) ? 0.0 : p->dtype == CLATTN_BF16 ? 0x1p-126 : 0x1p-25;
}

struct ca_bounded ca_trust_operand(const clattn_problem *p, struct ca_bounded x)
{
    x.bound += ca_trust_operand_share(p) * (fabs(x.value) + x.bound) + ca_trust_operand_tiny(p);
    return x;
}

double ca_trust_length_error(size_t n)
{
    return fmin((double)(n + 8), 16.0 * sqrt((double)n)) * u;
}

static size_t length_in_use(const struct ca_trust_case *c, unsigned argument, size_t b, size_t most)
{
    const cl_int *length;

    if (!c->bytes[argument])
        return most;
    length = (const cl_int *)(const void *)ca_trust_elements(c, argument) + b;
    return *length < 0 ? 0 : (size_t)*length < most ? (size_t)*length : most;
}

void ca_trust_row_locate(const struct ca_trust_case *c, size_t index, struct ca_trust_row *row)
{
    const clattn_problem *p = &c->problem;

    row->b = index / p->seq_q / p->heads;
    row->h = index / p->seq_q % p->heads;
    row->i = index % p->seq_q;
    row->queries = length_in_use(c, CA_Q_LENGTHS, row->b, queries_of(c, row->b));
    row->keys = length_in_use(c, CA_KV_LENGTHS, row->b, ca_trust_keys(c, row->b));
    row->diagonal = p->diagonal == CLATTN_BOTTOM_RIGHT ? (int64_t)row->keys - (int64_t)row->queries
                                                       : ca_problem_diagonal(p);
}

/* Returns how the block lists have the row's query and key j: 0 not listed, 2 listed as full. */
static int listed(const struct ca_trust_case *c, const struct ca_trust_row *row, size_t j)
{
    const clattn_problem *p = &c->problem;
    const size_t list = (p->block_batches ? row->b * (p->block_heads ? p->heads : 1) : 0) +
                        (p->block_heads ? row->h : 0);
    const cl_int *offset = (const cl_int *)(const void *)ca_trust_elements(c, CA_BLOCK_OFFSETS) +
                           list * (ca_block_rows(p) + 1) + row->i / p->block_q;
    const cl_int *entries =
        (const cl_int *)(const void *)ca_trust_elements(c, CA_BLOCK_ENTRIES) + list * p->max_blocks;
    int said = 0;

    for (cl_int n = offset[0]; n < offset[1]; n++)
        if ((size_t)(entries[n] & ~CLATTN_BLOCK_FULL) == j / p->block_kv)
            said = entries[n] & CLATTN_BLOCK_FULL ? 2 : said ? said : 1;
    return said;
}

/* Returns whether the row's list of chosen keys, if there is one, has key j. */
static int is_chosen(const struct ca_trust_case *c, const struct ca_trust_row *row, size_t j)
{
    const clattn_problem *p = &c->problem;
    const size_t head = p->topk_heads ? row->h / (p->heads / p->kv_heads) : 0;
    size_t block, place;

    if (!p->topk)
        return 1;
    if (!ca_trust_locate_query(c, row->b, row->i, &block, &place))
        return 0;
    const cl_int *list = (const cl_int *)(const void *)ca_trust_elements(c, CA_TOPK_INDICES) +
                         ((block * ca_topk_heads(p) + head) * ca_query_rows(p) + place) * p->topk;
    for (size_t n = 0; n < p->topk; n++)
        if (list[n] >= 0 && (size_t)list[n] == j)
            return 1;
    return 0;
}

/* Returns whether the mask, if there is one, lets the row see key j. */
static int lets_through(const struct ca_trust_case *c, const struct ca_trust_row *row, size_t j)
{
    const clattn_problem *p = &c->problem;
    const size_t without = p->mask_keys ? row->keys : p->seq_kv; /* plus column less key */

    return !p->mask || j + ca_mask_keys(p) < without ||
           ca_trust_elements(c, CA_MASK)[ca_trust_position(&p->mask_layout, row->b, row->h, row->i,
                                                           j + ca_mask_keys(p) - without)] != 0;
}

static struct ca_function_pair pair_of(const struct ca_trust_row *row, size_t j)
{
    return (struct ca_function_pair){row->b, row->h, row->i, j, row->queries, row->keys};
}

/* Returns whether the row's query sees key j, but for a bias of -inf. */
int ca_trust_row_sees(const struct ca_trust_case *c, const struct ca_trust_row *row, size_t j)
{
    const clattn_problem *p = &c->problem;
    const int64_t now = (int64_t)row->i + row->diagonal, key = (int64_t)j;
    const int said = p->block_q && row->i < row->queries ? listed(c, row, j) : 1;
    size_t block, place;

    return said && row->i < row->queries && j < row->keys && is_chosen(c, row, j) &&
           ca_trust_locate_key(c, row->b, j, &block, &place) &&
           (p->window_left == CLATTN_UNLIMITED || key >= now - p->window_left) &&
           (p->window_right == CLATTN_UNLIMITED || key <= now + p->window_right) &&
           (said == 2 || (lets_through(c, row, j) && ca_function_sees(c, pair_of(row, j))));
}

double ca_trust_distance(const clattn_problem *p, const struct ca_trust_row *row, size_t j)
{
    const double distance = (double)((int64_t)j - (int64_t)row->i - row->diagonal);

    return p->alibi_symmetric ? -fabs(distance) : distance;
}

void ca_trust_load_key(const struct ca_trust_case *c, unsigned argument,
                       const clattn_layout *layout, size_t block, size_t head, size_t place,
                       size_t dim, double *values)
{
    const clattn_problem *p = &c->problem;
    const clattn_layout *scales = argument == CA_K ? &p->k_scales_layout : &p->v_scales_layout;
    const unsigned char *given = ca_trust_elements(c, argument == CA_K ? CA_K_SCALES : CA_V_SCALES);

    ca_cache_load(ca_trust_elements(c, argument), ca_problem_cache(p, argument),
                  ca_problem_dtype(p, argument), ca_trust_position(layout, block, head, place, 0),
                  layout->stride[3], dim, values);
    for (size_t d = 0; given && d < dim; d++)
        values[d] *=
            ca_value_load(given, CLATTN_F32, ca_trust_position(scales, block, head, place, 0));
}

/* ---- products of int8 ("Products of int8", clattn/problem.h) -------------------------------------- */

static double larger_magnitude(double most, double x)
{
    return isnan(most) || fabs(x) <= most ? most : fabs(x);
}

/* Finds the mean of the keys of kv head g, which takes row->values. */
static void find_mean(const struct ca_trust_case *c, size_t g, struct ca_trust_row *row)
{
    const clattn_problem *p = &c->problem;
    const size_t of = 1 + row->b * p->kv_heads + g;
    double weights = 0.0;
    size_t block, place;

    if (row->mean_of == of)
        return;
    row->mean_of = of;
    for (size_t d = 0; d < p->dim_qk; d++)
        row->mean[d] = 0.0;
    for (size_t j = 0; j < row->keys && p->k_cache != CLATTN_CACHE_INT8; j++) {
        double most = 0.0;
        if (!ca_trust_locate_key(c, row->b, j, &block, &place))
            continue;
        ca_trust_load_key(c, CA_K, &p->k, block, g, place, p->dim_qk, row->values);
        for (size_t d = 0; d < p->dim_qk; d++)
            most = larger_magnitude(most, row->values[d]);
        if (!(most >= 0x1p-40 && most <= 0x1p40))
            continue;
        weights += 1.0 / (most * most);
        for (size_t d = 0; d < p->dim_qk; d++)
            row->mean[d] += row->values[d] / (most * most);
    }
    for (size_t d = 0; weights > 0.0 && d < p->dim_qk; d++)
        row->mean[d] /= weights;
}

/* The largest error of the product of row->q and the key in row->values, from rounding to bytes and from f32 arithmetic. */
static double int8_error(const clattn_problem *p, const struct ca_trust_row *row)
{
    double q = 0.0, k = 0.0, error = 0.0, magnitude = 0.0;

    for (size_t d = 0; d < p->dim_qk; d++) {
        q = larger_magnitude(q, row->q[d]);
        k = larger_magnitude(k, row->values[d] - row->mean[d]);
    }
    const double a = q / 254.0 * (1.0 + 0x1p-10);
    const double b = p->k_cache == CLATTN_CACHE_INT8 ? 0.0 : k / 254.0 * (1.0 + 0x1p-10);
    for (size_t d = 0; d < p->dim_qk; d++) {
        const double distance = fabs(row->values[d] - row->mean[d]);
        error += fabs(row->q[d]) * b + distance * a + a * b;
        magnitude += fabs(row->q[d]) * (fabs(row->mean[d]) + distance);
    }
    return error + ca_trust_length_error(p->dim_qk) * magnitude + FLT_MIN;
}

/* The final score of key j, and its value at the point that the problem hands out, if that lies
 * before the masks; each with the error that it may have. */
struct ca_bounded ca_trust_row_score(const struct ca_trust_case *c, struct ca_trust_row *row,
                                     size_t j, struct ca_bounded *shown)
{
    const clattn_problem *p = &c->problem;
    const size_t g = row->h / (p->heads / p->kv_heads);
    const double scale = (double)p->scale, cap = (double)p->softcap;
    double dot = 0.0, magnitude = 0.0, bias = 0.0, alibi = 0.0;
    size_t block, place;

    if (p->int8)
        find_mean(c, g, row);
    ca_trust_locate_key(c, row->b, j, &block, &place);
    ca_trust_load_key(c, CA_K, &p->k, block, g, place, p->dim_qk, row->values);
    for (size_t d = 0; d < p->dim_qk; d++) {
        dot += row->q[d] * row->values[d];
        magnitude += fabs(row->q[d] * row->values[d]);
    }
    struct ca_bounded s = {scale * dot,
                           ca_trust_length_error(p->dim_qk) * fabs(scale) * magnitude + FLT_MIN};
    if (p->int8)
        s.bound += fabs(scale) * int8_error(p, row);
    if (p->scores == CLATTN_SCORES_RAW)
        *shown = s;
    row->slope = (struct ca_bounded){1.0, 0.0};
    if (cap > 0.0) {
        /* tanh is off by its argument's error and a few units */
        row->slope = (struct ca_bounded){1.0 - tanh(s.value / cap) * tanh(s.value / cap),
                                         2.0 * s.bound / cap + 16.0 * u};
        s.value = cap * tanh(s.value / cap);
        s.bound += 16.0 * u * fabs(s.value);
    }
    if (p->scores == CLATTN_SCORES_SOFTCAP)
        *shown = s;
    struct ca_bounded derivative;
    s = ca_function_scores(c, pair_of(row, j), s, &derivative, &row->loads);
    row->slope.bound = row->slope.bound * (fabs(derivative.value) + derivative.bound) +
                       fabs(row->slope.value) * derivative.bound;
    row->slope.value *= derivative.value;
    if (p->bias)
        bias = ca_value_load(ca_trust_elements(c, CA_BIAS), p->bias_dtype,
                             ca_trust_position(&p->bias_layout, row->b, row->h, row->i, j));
    if (p->alibi)
        alibi = ca_value_load(ca_trust_elements(c, CA_SLOPES), CLATTN_F32, row->h) *
                ca_trust_distance(p, row, j);
    if (p->bias || p->alibi)
        s.bound += 4.0 * u * (fabs(s.value) + fabs(bias) + fabs(alibi));
    s.value += bias + alibi;
    return bias == -INFINITY ? (struct ca_bounded){-INFINITY, 0.0} : s;
}

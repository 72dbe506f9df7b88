/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds. u = 2^-24 is the error of one f32 operation, relative to its result; terms of order
 * u^2 are left out, the counts below have room for them. FLT_MIN terms allow for subnormal results
 * that a device flushes to 0. Certain is what any order of f32 operations keeps; likely is what sums
 * of many terms keep but for odds below 1e-7, and all that can be said of half precision.
 *
 * Raw score   scale * sum q k. Certain: dim_qk products and sums in some order, one more rounding for
 *             scale, one for a scale that was computed, and two where log2(e) is folded in:
 *             (dim_qk + 6) u |scale| sum|q k|. Likely: growth(dim_qk) of it, and 4 u |result|.
 * Int8        The error of rounding q and k to bytes (int8.c) more.
 * Softcap     cap * tanh(s / cap) has a slope of at most 1, so the error before it passes at most
 *             whole; s / cap, tanh (OpenCL: 5 ulp = 10 u) and the product add 16 u |result|.
 *             x = s / cap is off by e_x = e / cap + 4 u |x|, by which the slope 1 - tanh^2(x) changes
 *             by a factor of at most exp(2 e_x); tanh itself and the difference add 34 u.
 * Function    as function_number.h carries errors along, from that of s on.
 * Bias, ALiBi slope * (j - i - d) and two sums: certain 4 u (|s| + |bias| + |alibi|), likely 4 u of
 *             what is added and of each sum. */
#include "bench/judge/score.h"
#include "bench/judge/int8.h"
#include "bench/judge/values.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct reference reference_of(const clattn_problem *p, const struct tensor_view *view,
                              enum precision precision)
{
    struct reference r = {.problem = p,
                          .view = view,
                          .arithmetic = arithmetic_of(precision, p->dtype),
                          .scale =
                              isnan(p->scale) ? 1.0 / sqrt((double)p->dim_qk) : (double)p->scale};

    for (int id = 0; id < NUM_TENSORS; id++)
        r.shape[id] = tensor_shape_of(p, (enum tensor_id)id);
    r.score_function = function_program_of(p->score_function);
    r.mask_function = function_program_of(p->mask_function);
    arithmetic_relax(&r.arithmetic, p);
    return r;
}

/* The number in use in the batch: all, or the clamped length. */
static long double in_use(const struct reference *r, enum tensor_id lengths, bool given, size_t b,
                          size_t whole)
{
    int32_t length;

    if (!given)
        return (long double)whole;
    memcpy(&length, r->view->at[lengths] + b * sizeof length, sizeof length);
    return length < 0 ? 0.0L : (size_t)length > whole ? (long double)whole : (long double)length;
}

struct query reference_query(const struct reference *r, size_t b, size_t h, size_t i)
{
    const clattn_problem *p = r->problem;
    struct query query = {.b = b, .h = h, .i = i, .kv_head = h / (p->heads / p->kv_heads)};

    query.queries = in_use(r, TENSOR_Q_LENGTHS, p->q_lengths, b, tensor_queries(p, r->view, b));
    query.keys = in_use(r, TENSOR_KV_LENGTHS, p->kv_lengths, b, tensor_keys(p, r->view, b));
    if (p->diagonal == CLATTN_BOTTOM_RIGHT)
        query.diagonal = query.keys - query.queries;
    else if (p->diagonal == CLATTN_OFFSET)
        query.diagonal = (long double)p->diagonal_offset;
    return query;
}

double reference_distance(const struct reference *r, const struct query *query, size_t j)
{
    const double distance = (double)((long double)j - (long double)query->i - query->diagonal);

    return r->problem->alibi_symmetric ? -fabs(distance) : distance;
}

static double bias_of(const struct reference *r, const struct query *query, size_t j)
{
    const struct tensor_shape *s = &r->shape[TENSOR_BIAS];

    return r->problem->bias ? value_get(s->dtype, r->view->at[TENSOR_BIAS],
                                        tensor_index(s, query->b, query->h, query->i, j))
                            : 0.0;
}

/* A float of the query's head. */
static double of_head(const struct reference *r, enum tensor_id list, const struct query *query)
{
    return value_get(CLATTN_F32, r->view->at[list], query->h);
}

static double alibi_of(const struct reference *r, const struct query *query, size_t j)
{
    return r->problem->alibi ? of_head(r, TENSOR_SLOPES, query) * reference_distance(r, query, j)
                             : 0.0;
}

double reference_sink(const struct reference *r, const struct query *query)
{
    return r->problem->sinks ? of_head(r, TENSOR_SINKS, query) : -(double)INFINITY;
}

/* The int n of a list. */
static int32_t listed_int(const struct reference *r, enum tensor_id id, const struct query *query,
                          size_t n)
{
    const clattn_problem *p = r->problem;
    int32_t value;

    memcpy(&value,
           r->view->at[id] + 4 * tensor_index(&r->shape[id], p->block_batches ? query->b : 0,
                                              p->block_heads ? query->h : 0, 0, n),
           sizeof value);
    return value;
}

static int64_t listed_offset(const struct reference *r, const struct query *query, size_t row)
{
    const int64_t offset = listed_int(r, TENSOR_BLOCK_OFFSETS, query, row);
    const int64_t most = (int64_t)r->problem->max_blocks;

    return offset < 0 ? 0 : offset > most ? most : offset;
}

/* Returns whether the block that holds the query and key j is listed. *full: whether its entry says
 * that no pair of it is masked. */
static bool is_listed(const struct reference *r, const struct query *query, size_t j, bool *full)
{
    const size_t row = query->i / r->problem->block_q;
    const int64_t column = (int64_t)(j / r->problem->block_kv);
    const int64_t end = listed_offset(r, query, row + 1);
    bool listed = false;

    *full = false;
    for (int64_t n = listed_offset(r, query, row); n < end; n++) {
        const int64_t entry = listed_int(r, TENSOR_BLOCK_ENTRIES, query, (size_t)n);
        const bool whole = entry >= CLATTN_BLOCK_FULL;
        if (entry - (whole ? CLATTN_BLOCK_FULL : 0) == column) {
            listed = true;
            *full = *full || whole;
        }
    }
    return listed;
}

/* Returns whether the query's list of chosen keys has key j. */
static bool is_chosen(const struct reference *r, const struct query *query, size_t j)
{
    const struct tensor_shape *shape = &r->shape[TENSOR_TOPK_INDICES];
    size_t block, row;
    int32_t key = -1;

    if (!tensor_locate_query(r->problem, r->view, query->b, query->i, &block, &row))
        return false;
    const size_t first =
        tensor_index(shape, block, r->problem->topk_heads ? query->kv_head : 0, row, 0);
    for (size_t n = 0; n < r->problem->topk; n++) {
        memcpy(&key, r->view->at[TENSOR_TOPK_INDICES] + 4 * (first + n), sizeof key);
        if (key >= 0 && (size_t)key == j)
            return true;
    }
    return false;
}

/* Returns whether the mask, which may have columns for the last keys in use alone, lets a key
 * through. */
static bool lets_through(const struct reference *r, const struct query *query, size_t j)
{
    const unsigned char *mask = r->view->at[TENSOR_MASK];
    const struct tensor_shape *shape = &r->shape[TENSOR_MASK];

    if (!r->problem->mask || mask == NULL)
        return true;
    if (r->problem->mask_keys > 0) {
        const size_t from_end = (size_t)query->keys - j; /* 1: the last key in use */
        if (from_end > r->problem->mask_keys)
            return true;
        j = r->problem->mask_keys - from_end;
    }
    return mask[tensor_index(shape, query->b, query->h, query->i, j)] != 0;
}

/* ---- functions of the caller's ------------------------------------------------------------------ */

/* The pair as the functions see it: in the whole attention, if the call computes a part of one. */
static struct function_pair pair_of(const struct reference *r, const struct query *query, size_t j)
{
    const clattn_problem *p = r->problem;
    const clattn_dropout_place *first = &r->view->dropout_place;
    const size_t heads = first->heads == 0 ? p->heads : first->heads;
    const size_t row = first->batch * heads + first->head, group = p->heads / p->kv_heads;
    const size_t batch = query->b + row / heads, head = query->h + row % heads;
    const size_t i = query->i + first->query, key = j + first->key;
    const bool part = p->whole_q > 0;
    const size_t own[5] = {query->b, query->h, query->kv_head, query->i, j};
    const size_t of_whole[5] = {batch, head, head / group, i, key};
    const size_t *at = part ? of_whole : own;
    const size_t queries = !part                    ? (size_t)query->queries
                           : r->view->whole_queries ? r->view->whole_queries
                                                    : p->whole_q;
    const size_t keys = !part                 ? (size_t)query->keys
                        : r->view->whole_keys ? r->view->whole_keys
                                              : p->whole_kv;
    const size_t members[12] = {batch, head,  head / group, i,     key,   queries,
                                keys,  at[0], at[1],        at[2], at[3], at[4]};
    struct function_pair pair = {.own = {at[0], at[1], at[2], at[3], at[4]}};

    tensor_function_sizes(p, pair.sizes);

    for (int n = 0; n < 12; n++)
        pair.members[n] = (int32_t)(uint32_t)members[n];
    return pair;
}

/* Operands and parameters of a function, which follow those of the functions before it. */
static void give(const struct reference *r, const struct function_program *program,
                 const struct function_program *before, struct function_pair *pair)
{
    const struct function_counts own = function_counts_of(program);
    const struct function_counts others =
        before ? function_counts_of(before) : (struct function_counts){0, 0, 0};
    const clattn_function_values *values = r->view->function_values;

    for (size_t n = 0; n < own.operands; n++)
        pair->operands[n] = r->view->at[(size_t)TENSOR_FUNCTION_0 + others.operands + n];
    pair->ints = values ? values->ints + others.ints : NULL;
    pair->floats = values ? values->floats + others.floats : NULL;
}

/* Returns whether the mask function lets a pair through. */
static bool function_sees(const struct reference *r, const struct query *query, size_t j)
{
    if (!r->mask_function)
        return true;
    struct function_pair pair = pair_of(r, query, j);
    give(r, r->mask_function, r->score_function, &pair);
    return function_visible(r->mask_function, &pair);
}

/* The score function's value and slope. */
static void map(const struct reference *r, const struct query *query, size_t j, struct score *score)
{
    struct function_pair pair = pair_of(r, query, j);
    struct bounded slope;

    give(r, r->score_function, NULL, &pair);
    score->mapped =
        function_score(r->score_function, &pair, r->arithmetic.value, score->capped, &slope);
    score->slope = bounded_times(score->slope, slope);
}

size_t reference_loads(const struct reference *r, const struct query *query, size_t j,
                       const struct score *score, struct function_load *loads, size_t most)
{
    struct function_pair pair = pair_of(r, query, j);

    give(r, r->score_function, NULL, &pair);
    return function_loads(r->score_function, &pair, r->arithmetic.value, score->capped, loads,
                          most);
}

/* ---- visibility -------------------------------------------------------------------------------- */

bool reference_sees(const struct reference *r, const struct query *query, size_t j)
{
    const clattn_problem *p = r->problem;
    const long double now = (long double)query->i + query->diagonal, key = (long double)j;
    bool full = false;
    size_t block, row;

    if ((long double)query->i >= query->queries || key >= query->keys)
        return false;
    if (p->causal && key > now)
        return false;
    if (p->window_left != CLATTN_UNLIMITED && key < now - (long double)p->window_left)
        return false;
    if (p->window_right != CLATTN_UNLIMITED && key > now + (long double)p->window_right)
        return false;
    if (p->block_q > 0 && r->view->at[TENSOR_BLOCK_OFFSETS] != NULL &&
        !is_listed(r, query, j, &full))
        return false;
    if (p->topk > 0 && r->view->at[TENSOR_TOPK_INDICES] != NULL && !is_chosen(r, query, j))
        return false;
    if (!full && (!lets_through(r, query, j) || !function_sees(r, query, j)))
        return false;
    if (!tensor_locate_key(p, r->view, query->b, j, &block, &row))
        return false;
    return !p->bias || r->view->at[TENSOR_BIAS] == NULL ||
           bias_of(r, query, j) != -(double)INFINITY;
}

/* Softcap's value and slope. */
static void cap(const struct reference *r, struct score *score)
{
    const struct arithmetic *a = &r->arithmetic;
    const double softcap = (double)r->problem->softcap;
    const double x = score->raw.value / softcap, t = tanh(x);
    const double value = softcap * t, slope = 1.0 - t * t;
    const double likely =
        a->precision == PRECISION_HALF ? 4.0 * a->value * fabs(value) : 16.0 * a->value * softcap;

    score->capped = (struct bounded){
        value, score->raw.bound + arithmetic_bound(a, 16.0 * a->value * fabs(value), likely)};
    score->slope = (struct bounded){
        slope, slope * expm1(2.0 * score->raw.bound / softcap + 8.0 * a->value * fabs(x)) +
                   34.0 * a->value};
}

void reference_score_add(const struct reference *r, const struct query *query, size_t j,
                         double bias, double alibi, struct score *score)
{
    const clattn_problem *p = r->problem;
    const struct arithmetic *a = &r->arithmetic;

    score->capped = score->raw;
    score->slope = bounded_exactly(1.0);
    if (p->softcap > 0.0f)
        cap(r, score);
    if (p->softcap > 0.0f)
        score->slope.bound =
            arithmetic_bound(a, score->slope.bound,
                             2.0 * score->capped.bound / (double)p->softcap + 16.0 * a->value);
    score->mapped = score->capped;
    if (r->score_function)
        map(r, query, j, score);
    const double s = score->mapped.value;
    score->s = score->mapped;
    if (p->bias || p->alibi) {
        const double likely = (p->bias ? fabs(bias) + fabs(s + bias) : 0.0) +
                              (p->alibi ? fabs(alibi) + fabs(s + bias + alibi) : 0.0);
        score->s.bound +=
            4.0 * a->value * arithmetic_bound(a, fabs(s) + fabs(bias) + fabs(alibi), likely);
        score->s.value += bias + alibi;
    }
}

void reference_score_finish(const struct reference *r, const struct query *query, size_t j,
                            struct score *score)
{
    reference_score_add(r, query, j, bias_of(r, query, j), alibi_of(r, query, j), score);
}

struct score reference_score(const struct reference *r, const struct query *query, size_t j,
                             const double *q, const double *k)
{
    const struct arithmetic *a = &r->arithmetic;
    const size_t n = r->problem->dim_qk;
    const struct dot dot = dot_of(q, k, n);
    const double scale = fabs(r->scale), s = r->scale * dot.sum;
    const double certain = (double)(n + 6) * a->value * scale * dot.magnitude;
    double likely = scale * dot_error(a, &dot, n) + 4.0 * a->value * fabs(s);

    double flushed = 0.0;

    for (size_t d = 0; a->flushes && d < n; d++)
        flushed += arithmetic_flushed(a, q[d], k[d]);
    if (a->precision == PRECISION_HALF) /* q and k, or q times scale, are rounded */
        likely += 2.0 * a->value * scale * dot.magnitude;
    struct score score = {.raw = {s, arithmetic_bound(a, certain, likely) + scale * flushed +
                                         (double)(n + 6) * (double)FLT_MIN * fmax(1.0, scale)}};
    if (r->problem->int8)
        score.raw.bound += scale * int8_error(query->mean, a->value, q, k, n);
    reference_score_finish(r, query, j, &score);
    return score;
}

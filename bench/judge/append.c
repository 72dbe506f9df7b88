/* SPDX-License-Identifier: Apache-2.0 */
/* The bound. u = 2^-24 is the error of one f32 operation, relative to its result. A sine or cosine is off
 * by 4 u, its products and their sum by 2 u of their magnitudes each. What a block of a quantized cache
 * adds is half a step of its scale, a whole one for the value that 4 bits do not reach, and the rounding of
 * the scale to binary16. */
#include "bench/judge/append.h"
#include "bench/judge/tensors.h"
#include "bench/judge/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define U 0x1p-24

struct append_strides reference_append_strides(const clattn_append_problem *p,
                                               enum append_kind kind)
{
    const size_t heads = kind == APPEND_Q ? p->heads : p->kv_heads;
    const size_t dim = kind == APPEND_V ? p->dim_v : p->dim_qk;
    const bool paged = kind != APPEND_Q && p->page_size > 0;
    const size_t rows = kind == APPEND_Q ? p->tokens : paged ? p->page_size : p->capacity;
    const int in_place = p->queries == CLATTN_QUERIES_IN_PLACE;
    struct append_strides s = {
        .heads = heads, .dim = dim, .blocks = paged ? p->pages : p->batch, .rows = rows};

    tensor_resolve(kind == APPEND_K   ? &p->k
                   : kind == APPEND_V ? &p->v
                   : in_place         ? &p->q_out
                                      : &p->q,
                   (size_t[]){p->batch, heads, p->tokens, dim}, s.from);
    tensor_resolve(kind == APPEND_K   ? &p->k_cache
                   : kind == APPEND_V ? &p->v_cache
                                      : &p->q_out,
                   (size_t[]){s.blocks, heads, rows, dim}, s.to);
    return s;
}

static int64_t cached(const struct append_view *view, size_t b, size_t i)
{
    return (view->kv_lengths ? view->kv_lengths[b] : 0) + (int64_t)i;
}

int64_t reference_append_place(const clattn_append_problem *p, const struct append_view *view,
                               size_t b, size_t i)
{
    const struct append_strides s = reference_append_strides(p, APPEND_K);
    const int64_t rows = (int64_t)s.rows, row = cached(view, b, i);

    if (p->slots) {
        const int64_t slot = view->slots[b * p->tokens + i];
        return slot >= 0 && slot < (int64_t)s.blocks * rows ? slot : -1;
    }
    if (row < 0 || row >= (int64_t)p->capacity)
        return -1;
    if (p->page_size == 0)
        return (int64_t)b * rows + row;
    const size_t columns = (p->capacity + p->page_size - 1) / p->page_size;
    const int64_t page = view->page_table[b * columns + (size_t)(row / rows)];
    return page >= 0 && page < (int64_t)p->pages ? page * rows + row % rows : -1;
}

/* The cosine, and the sine if `sine`, of a pair at the token's position. */
static double turn(const clattn_append_problem *p, const struct append_view *view, size_t b,
                   size_t i, size_t pair, bool sine)
{
    const int64_t position = p->positions ? view->positions[b * p->tokens + i] : cached(view, b, i);

    if (p->rotary_length > 0) {
        const int64_t last = (int64_t)p->rotary_length - 1;
        const int64_t row = position < 0 ? 0 : position > last ? last : position;
        const size_t at = (size_t)row * (p->rotary_dim / 2) + pair;
        return (double)(sine ? view->sin[at] : view->cos[at]);
    }
    const double angle = fmax(fmin((double)position, 0x1p22), -0x1p22) *
                         pow((double)p->rotary_base, -2.0 * (double)pair / (double)p->rotary_dim);
    return sine ? sin(angle) : cos(angle);
}

static struct bounded rotated(const clattn_append_problem *p, const struct append_view *view,
                              enum append_kind kind, size_t b, size_t i, const void *data,
                              const size_t step[4], size_t first, size_t d)
{
    const size_t half = p->rotary_dim / 2;
    const double x = value_get(p->dtype, data, first + d * step[3]);

    if (kind == APPEND_V || p->rotary == CLATTN_ROTARY_NONE || d >= p->rotary_dim)
        return (struct bounded){x, 0.0};
    const bool pairs = p->rotary == CLATTN_ROTARY_PAIRS;
    const bool second = pairs ? d % 2 == 1 : d >= half;
    const size_t pair = pairs ? d / 2 : d % half;
    const size_t other = pairs ? d ^ 1 : second ? d - half : d + half;
    const double y = value_get(p->dtype, data, first + other * step[3]);
    const double c = turn(p, view, b, i, pair, false), s = turn(p, view, b, i, pair, true);
    return (struct bounded){second ? y * s + x * c : x * c - y * s,
                            10.0 * U * (fabs(x) + fabs(y)) + (double)FLT_MIN};
}

static void quantize(clattn_cache cache, struct bounded *block)
{
    double most = 0.0;

    for (int n = 0; n < VALUE_BLOCK; n++)
        most = fmax(most, fabs(block[n].value) + block[n].bound);
    for (int n = 0; n < VALUE_BLOCK; n++)
        block[n].bound +=
            most * 1.001 * value_block_error(cache) + fabs(block[n].value) * 0x1p-10 + 0x1p-24;
}

void reference_append(const clattn_append_problem *p, const struct append_view *view,
                      enum append_kind kind, size_t b, size_t h, size_t i, struct bounded *row)
{
    const struct append_strides s = reference_append_strides(p, kind);
    const size_t first = b * s.from[0] + h * s.from[1] + i * s.from[2];
    const clattn_cache cache = kind == APPEND_K   ? p->k_format
                               : kind == APPEND_V ? p->v_format
                                                  : CLATTN_CACHE_PLAIN;
    const clattn_dtype dtype = kind == APPEND_Q ? p->dtype : p->cache_dtype;

    for (size_t d = 0; d < s.dim; d++) {
        row[d] = rotated(p, view, kind, b, i, view->from[kind], s.from, first, d);
        if (cache == CLATTN_CACHE_PLAIN)
            row[d] = bounded_stored(dtype, row[d]);
    }
    for (size_t d = 0; cache != CLATTN_CACHE_PLAIN && d < s.dim; d += VALUE_BLOCK)
        quantize(cache, row + d);
}

enum { FEWEST_ROWS = 64 };

static void judge_token(const clattn_append_problem *p, const struct append_view *view,
                        enum append_kind kind, size_t index, struct bounded *want, judge_row *row,
                        void *user)
{
    const struct append_strides s = reference_append_strides(p, kind);
    const size_t i = index % p->tokens, h = index / p->tokens % s.heads;
    const size_t b = index / p->tokens / s.heads;
    const int64_t place =
        kind == APPEND_Q ? (int64_t)(b * p->tokens + i) : reference_append_place(p, view, b, i);

    if (place < 0)
        return;
    reference_append(p, view, kind, b, h, i, want);
    row(user, (int)kind, (size_t[]){(size_t)place / s.rows, h, (size_t)place % s.rows, 0}, want,
        s.dim);
}

bool judge_append(const clattn_append_problem *p, const struct append_view *view, double budget,
                  judge_row *row, void *user)
{
    const size_t longest = p->dim_qk > p->dim_v ? p->dim_qk : p->dim_v;
    struct bounded *want = calloc(longest + 1, sizeof *want);
    const bool ok = want != NULL;

    for (int kind = 0; ok && kind < (p->queries ? APPEND_KINDS : APPEND_Q); kind++) {
        const size_t all = p->batch * (kind == APPEND_Q ? p->heads : p->kv_heads) * p->tokens;
        const size_t rows = judge_affordable(budget, all, (double)longest * 64.0, FEWEST_ROWS);
        for (size_t n = 0; n < rows; n++)
            judge_token(p, view, (enum append_kind)kind, judge_spread(n, rows, all), want, row,
                        user);
    }
    free(want);
    return ok;
}

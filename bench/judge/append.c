/* SPDX-License-Identifier: Apache-2.0 */
/* The bound. u = 2^-24 is the error of one f32 operation, relative to its result. A sine or
 * cosine is off by 4 u, its products and their sum by 2 u of their magnitudes each. A block of a
 * quantized cache adds half a step of its scale, or a whole one for the value that 4 bits do not
 * reach. The rounding of the scale to binary16 comes on top. */
#include "bench/judge/judge.h"
#include "bench/judge/values.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define U 0x1p-24

/* A result: where it is read from, and written to. */
struct appending {
    const clattn_append_problem *p;
    const struct tensor_view *view;
    int from, to;
    struct tensor_shape read, written;
    struct tensor_shape scales; /* what rows are divided by; not present: 1 */
};

/* Entry n of a list of int32_t. */
static int64_t listed(const struct tensor_view *view, int id, size_t n)
{
    int32_t entry;

    memcpy(&entry, view->at[id] + n * sizeof entry, sizeof entry);
    return entry;
}

static int64_t cached(const struct appending *t, size_t b, size_t i)
{
    return (t->p->kv_lengths ? listed(t->view, APPEND_KV_LENGTHS, b) : 0) + (int64_t)i;
}

/* The cache row of token (b, i): batch * capacity + row, or page * page_size + row; -1 if it is
 * skipped. */
static int64_t place_of(const struct appending *t, size_t b, size_t i)
{
    const clattn_append_problem *p = t->p;
    const int64_t rows = (int64_t)t->written.size[2], row = cached(t, b, i);

    if (p->slots) {
        const int64_t slot = listed(t->view, APPEND_SLOTS, b * p->tokens + i);
        return slot >= 0 && slot < (int64_t)t->written.size[0] * rows ? slot : -1;
    }
    if (row < 0 || row >= (int64_t)p->capacity)
        return -1;
    if (p->page_size == 0)
        return (int64_t)b * rows + row;
    const size_t columns = (p->capacity + p->page_size - 1) / p->page_size;
    const int64_t page = listed(t->view, APPEND_PAGE_TABLE, b * columns + (size_t)(row / rows));
    return page >= 0 && page < (int64_t)p->pages ? page * rows + row % rows : -1;
}

/* The cosine, and the sine if `sine`, of a pair at the token's position. */
static double turn(const struct appending *t, size_t b, size_t i, size_t pair, bool sine)
{
    const clattn_append_problem *p = t->p;
    const int64_t position =
        p->positions ? listed(t->view, APPEND_POSITIONS, b * p->tokens + i) : cached(t, b, i);

    if (p->rotary_length > 0) {
        const int64_t last = (int64_t)p->rotary_length - 1;
        const int64_t row = position < 0 ? 0 : position > last ? last : position;
        return value_get(CLATTN_F32, t->view->at[sine ? APPEND_SIN : APPEND_COS],
                         (size_t)row * (p->rotary_dim / 2) + pair);
    }
    const double angle = fmax(fmin((double)position, 0x1p22), -0x1p22) *
                         pow((double)p->rotary_base, -2.0 * (double)pair / (double)p->rotary_dim);
    return sine ? sin(angle) : cos(angle);
}

static struct bounded rotated(const struct appending *t, size_t b, size_t h, size_t i, size_t d)
{
    const clattn_append_problem *p = t->p;
    const size_t half = p->rotary_dim / 2;
    const void *data = t->view->at[t->from];
    const double x = value_get(p->dtype, data, tensor_index(&t->read, b, h, i, d));

    if (t->from == APPEND_V || p->rotary == CLATTN_ROTARY_NONE || d >= p->rotary_dim)
        return (struct bounded){x, 0.0};
    const bool pairs = p->rotary == CLATTN_ROTARY_PAIRS;
    const bool second = pairs ? d % 2 == 1 : d >= half;
    const size_t pair = pairs ? d / 2 : d % half;
    const size_t other = pairs ? d ^ 1 : second ? d - half : d + half;
    const double y = value_get(p->dtype, data, tensor_index(&t->read, b, h, i, other));
    const double c = turn(t, b, i, pair, false), s = turn(t, b, i, pair, true);
    return (struct bounded){second ? y * s + x * c : x * c - y * s,
                            10.0 * U * (fabs(x) + fabs(y)) + (double)FLT_MIN};
}

static void quantize(clattn_cache cache, struct bounded *block)
{
    double most = 0.0;

    for (int n = 0; n < VALUE_BLOCK; n++)
        most = fmax(most, fabs(block[n].value) + block[n].bound);
    for (int n = 0; n < VALUE_BLOCK; n++) {
        const double size = fabs(block[n].value) + block[n].bound;
        const double error = value_block_error(cache);
        if (value_has_scale(cache)) {
            block[n].bound += most * 1.001 * error + fabs(block[n].value) * 0x1p-10 +
                              (value_has_offset(cache) ? most * 0x1p-11 : 0.0) + 0x1p-24;
        } else { /* rounded to a neighbour, or to the largest number */
            const double least = value_block_least(cache);
            block[n].bound += 1.001 * (size * error + 0.5 * least) +
                              fmax(size - (value_block_largest(cache) - least), 0.0);
        }
    }
}

/* Token (b, i) of head h, with its columns as they are read back. */
static void judge_token(const struct appending *t, size_t b, size_t h, size_t i,
                        struct bounded *want, judge_visit *visit, void *user)
{
    const size_t rows = t->written.size[2], dim = t->written.size[3];
    const int64_t place = t->to == APPEND_Q_OUT ? (int64_t)(b * rows + i) : place_of(t, b, i);

    if (place < 0)
        return;
    for (size_t d = 0; d < dim; d++) {
        want[d] = rotated(t, b, h, i, d);
        if (t->written.cache == CLATTN_CACHE_PLAIN)
            want[d] = bounded_stored(t->written.dtype, want[d]);
    }
    if (t->scales.present) {
        const double scale = tensor_load(
            &t->scales, t->view->at[t->to == APPEND_K_CACHE ? APPEND_K_SCALES : APPEND_V_SCALES],
            tensor_index(&t->scales, (size_t)place / rows, h, (size_t)place % rows, 0));
        for (size_t d = 0; d < dim; d++) {
            want[d].value /= scale;
            want[d].bound = want[d].bound / fabs(scale) + U * fabs(want[d].value);
        }
    }
    for (size_t d = 0; t->written.cache != CLATTN_CACHE_PLAIN && d < dim; d += VALUE_BLOCK)
        quantize(t->written.cache, want + d);
    visit(user, t->to, (size_t[]){(size_t)place / rows, h, (size_t)place % rows, 0}, want, dim);
}

static struct tensor_shape scales_of(const clattn_problem *problem, int to)
{
    const struct tensor_shape none = {.present = false};

    return to == APPEND_Q_OUT
               ? none
               : tensor_shape_of(problem, to == APPEND_K_CACHE ? APPEND_K_SCALES : APPEND_V_SCALES);
}

enum { FEWEST_ROWS = 64 };

bool judge_append(const clattn_problem *problem, const struct tensor_view *view,
                  enum precision precision, double budget, judge_visit *visit, void *user)
{
    const clattn_append_problem *p = &problem->append;
    const int from[] = {APPEND_K, APPEND_V,
                        p->queries == CLATTN_QUERIES_IN_PLACE ? APPEND_Q_OUT : APPEND_Q};
    static const int to[] = {APPEND_K_CACHE, APPEND_V_CACHE, APPEND_Q_OUT};
    const size_t longest = p->dim_qk > p->dim_v ? p->dim_qk : p->dim_v;
    struct bounded *want = calloc(longest + 1, sizeof *want);
    const bool ok = want != NULL;

    (void)precision;
    for (int n = 0; ok && n < (p->queries ? 3 : 2); n++) {
        const struct appending t = {.p = p,
                                    .view = view,
                                    .from = from[n],
                                    .to = to[n],
                                    .read = tensor_shape_of(problem, from[n]),
                                    .written = tensor_shape_of(problem, to[n]),
                                    .scales = scales_of(problem, to[n])};
        const size_t heads = t.read.size[1], all = p->batch * heads * p->tokens;
        const size_t rows = judge_affordable(budget, all, (double)longest * 64.0, FEWEST_ROWS);
        for (size_t row = 0; row < rows; row++) {
            const size_t index = judge_spread(row, rows, all);
            judge_token(&t, index / p->tokens / heads, index / p->tokens % heads, index % p->tokens,
                        want, visit, user);
        }
    }
    free(want);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The cases of attention, forward and backward. */
#include "families/candidate.h"
#include "problem/function.h"
#include "problem/layout.h"
#include "problem/problem.h"
#include "selfcheck/answer_row.h"
#include "selfcheck/case_parts.h"
#include "selfcheck/function_calls.h"
#include "selfcheck/values.h"

#include <math.h>
#include <string.h>

/* ---- the hostile case ----------------------------------------------------------------------- */

#define HUGE_VALUE_BEHIND_MASK 1e30f
enum { USUAL_DIM = 4096 };

/* One key is hidden from every query by the mask, except in blocks that are listed as full; one
 * query sees nothing because of the mask. */
static size_t hidden_key(const clattn_problem *p)
{
    return p->seq_kv * 70 / 149;
}

static int masked(const clattn_problem *p, size_t i, size_t j)
{
    return j == hidden_key(p) || i == p->seq_q / 2 || (i * 7 + j * 3) % 5 == 0;
}

/* Returns whether the key lies in the column of blocks that no row lists. */
static int unlisted(const clattn_problem *p, size_t j)
{
    return p->block_q && ca_block_columns(p) > 1 && j / p->block_kv == hidden_key(p) / p->block_kv;
}

/* Three columns in four of each row, from the last to the first, as far as there is room. */
static void fill_lists(struct ca_trust_case *c)
{
    const clattn_problem *p = &c->problem;
    const size_t rows = ca_block_rows(p), columns = ca_block_columns(p);
    const size_t lists = (p->block_batches ? p->batch : 1) * (p->block_heads ? p->heads : 1);
    cl_int *offsets = (cl_int *)(void *)ca_trust_elements(c, CA_BLOCK_OFFSETS);
    cl_int *entries = (cl_int *)(void *)ca_trust_elements(c, CA_BLOCK_ENTRIES);

    for (size_t list = 0; p->block_q && list < lists; list++) {
        size_t count = 0;
        for (size_t row = 0; row < rows; row++) {
            const size_t end = p->max_blocks * (row + 1) / rows;
            offsets[row] = (cl_int)count;
            for (size_t column = columns; column-- > 0 && count < end;)
                if (!unlisted(p, column * p->block_kv) && (column + row + list) % 4 != 3)
                    entries[count++] = (cl_int)column | (column % 3 == 1 ? CLATTN_BLOCK_FULL : 0);
        }
        offsets[rows] = (cl_int)count;
        offsets += rows + 1;
        entries += p->max_blocks;
    }
}

/* Returns whether key j is of no list of chosen keys. */
static int unchosen(const clattn_problem *p, size_t j)
{
    return p->topk && p->seq_kv > 1 && j == hidden_key(p);
}

/* Fills the lists of chosen keys. Of five entries one is no valid index, and one repeats an earlier key. */
static void fill_chosen(struct ca_trust_case *c)
{
    const clattn_problem *p = &c->problem;
    const cl_int none[] = {-1, INT32_MIN, INT32_MAX, (cl_int)p->seq_kv};
    const size_t lists = ca_query_batch(p) * ca_topk_heads(p) * ca_query_rows(p);
    cl_int *list = (cl_int *)(void *)ca_trust_elements(c, CA_TOPK_INDICES);

    for (size_t row = 0; p->topk && row < lists; row++, list += p->topk)
        for (size_t n = 0; n < p->topk; n++) {
            const size_t key = p->seq_kv ? (row * 11 + n * 5) % p->seq_kv : 0;
            list[n] = n % 5 == 3         ? none[(row + n) % 4]
                      : n % 5 == 4       ? list[n - 3]
                      : unchosen(p, key) ? -1
                                         : (cl_int)key;
        }
}

static float hidden_value(size_t n)
{
    return n % 3 == 0 ? NAN : n % 3 == 1 ? HUGE_VALUE_BEHIND_MASK : -INFINITY;
}

/* If there are lengths, the last batch is shorter. */
static size_t shorter(const clattn_problem *p, size_t b)
{
    return b == p->batch - 1 ? p->seq_q * 21 / 67 : 0;
}

static size_t keys_in_use(const clattn_problem *p, size_t b)
{
    const size_t all = p->seq_kv - (p->total_kv && b == p->batch - 1 ? p->seq_q / 3 : 0);
    const size_t used = p->seq_kv - (p->kv_lengths ? shorter(p, b) : 0);

    return used < all ? used : all;
}

static size_t queries_in_use(const clattn_problem *p, size_t b)
{
    return p->seq_q - (p->q_lengths ? shorter(p, b) : 0);
}

/* The largest number that a row draws: of all of int8, where rows have scales. */
static float largest_number(const struct ca_trust_case *c, unsigned argument)
{
    const unsigned of = argument == CA_K ? CA_K_SCALES : CA_V_SCALES;

    return ca_problem_cache(&c->problem, argument) == CLATTN_CACHE_INT8 && c->bytes[of] ? 127.0f
                                                                                        : 1.0f;
}

/* Stores the scale of a row of k or v, with which the row's numbers reach about 1. A hidden row gets a NaN, -Inf or huge
 * scale. */
static void fill_scale(struct ca_trust_case *c, unsigned argument, const size_t at[3], int hidden,
                       unsigned *state)
{
    const clattn_problem *p = &c->problem;
    const unsigned of = argument == CA_K ? CA_K_SCALES : CA_V_SCALES;
    const clattn_layout *layout = argument == CA_K ? &p->k_scales_layout : &p->v_scales_layout;

    if ((argument == CA_K || argument == CA_V) && c->bytes[of])
        ca_value_store(
            ca_trust_elements(c, of), CLATTN_F32, ca_trust_position(layout, at[0], at[1], at[2], 0),
            hidden ? hidden_value(at[2])
                   : (0.75f + 0.5f * ca_value_next(state)) / largest_number(c, argument));
}

/* A row's elements from `place` on. */
static void fill_row(struct ca_trust_case *c, unsigned argument, const struct ca_tensor *t,
                     size_t place, int hidden, size_t s, unsigned *state)
{
    const clattn_cache cache = ca_problem_cache(&c->problem, argument);

    if (cache != CLATTN_CACHE_PLAIN) {
        for (size_t d = 0; d < t->sizes[3]; d += CA_BLOCK)
            ca_block_store(ca_trust_elements(c, argument), cache, (place + d) / CA_BLOCK,
                           hidden ? hidden_value(s + d / CA_BLOCK) : largest_number(c, argument),
                           state);
        return;
    }
    for (size_t d = 0; d < t->sizes[3]; d++) {
        const float value = ca_value_next(state);
        ca_value_store(ca_trust_elements(c, argument), ca_problem_dtype(&c->problem, argument),
                       place + d * t->layout.stride[3], hidden ? hidden_value(s + d) : value);
    }
}

static void fill_rows(struct ca_trust_case *c, unsigned argument, const struct ca_tensor *t,
                      unsigned *state)
{
    const clattn_problem *p = &c->problem;

    const int of_queries = argument == CA_Q || argument == CA_DO || argument == CA_O;
    const size_t packed = of_queries ? p->total_q : p->total_kv;
    const size_t longest = packed ? (of_queries ? p->seq_q : p->seq_kv) : t->sizes[2];

    for (size_t b = 0; b < t->sizes[0]; b++)
        for (size_t h = 0; h < t->sizes[1]; h++)
            for (size_t s = 0; s < t->sizes[2]; s++) {
                const size_t n = b + s / longest, row = s % longest;
                const int hidden =
                    of_queries ? row >= queries_in_use(p, n)
                               : row >= keys_in_use(p, n) || unlisted(p, row) || unchosen(p, row) ||
                                     (p->mask && !p->block_q && row == hidden_key(p));
                fill_row(c, argument, t,
                         b * t->layout.stride[0] + h * t->layout.stride[1] +
                             s * t->layout.stride[2],
                         hidden, s, state);
                fill_scale(c, argument, (size_t[]){b, h, s}, hidden, state);
            }
}

/* The page that entry n of the table names. */
static cl_int page_at(const clattn_problem *p, size_t n)
{
    const size_t entries = p->batch * ca_table_pages(p);

    return (cl_int)((entries - 1 - n + entries / 2) % entries % p->pages);
}

/* Pages in an order that is not theirs: of all but one of the pool, whose rows nothing sees. An entry in
 * 5, from the third on, names no page, and what comes behind the last key in use is out of range. */
static void fill_pages(struct ca_trust_case *c)
{
    const clattn_problem *p = &c->problem;
    cl_int *table = (cl_int *)(void *)ca_trust_elements(c, CA_PAGE_TABLE);
    const size_t pages = ca_table_pages(p);

    for (size_t n = 0; n < p->batch * pages; n++) {
        const size_t b = n / pages, column = n % pages;
        const int none = n % 5 == 3, behind = column * p->page_size >= keys_in_use(p, b);
        table[n] = behind ? INT32_MAX : none ? (n % 2 ? -1 : (cl_int)p->pages) : page_at(p, n);
    }
}

/* Rows of a pool: NaN and huge values where no batch has a key that it sees. */
static void fill_pool(struct ca_trust_case *c, unsigned argument, const struct ca_tensor *t,
                      unsigned *state)
{
    const clattn_problem *p = &c->problem;
    const size_t entries = p->batch * ca_table_pages(p);

    for (size_t page = 0; page < t->sizes[0]; page++)
        for (size_t h = 0; h < t->sizes[1]; h++)
            for (size_t s = 0; s < t->sizes[2]; s++) {
                fill_row(c, argument, t,
                         page * t->layout.stride[0] + h * t->layout.stride[1] +
                             s * t->layout.stride[2],
                         1, s, state);
                fill_scale(c, argument, (size_t[]){page, h, s}, 1, state);
            }
    for (size_t n = 0; n < entries; n++)
        for (size_t h = 0; h < t->sizes[1]; h++)
            for (size_t s = 0; s < t->sizes[2]; s++) {
                const size_t b = n / ca_table_pages(p);
                const size_t j = n % ca_table_pages(p) * p->page_size + s;
                size_t page, row;
                if (j < keys_in_use(p, b) && !(p->mask && j == hidden_key(p)) && !unchosen(p, j) &&
                    ca_trust_locate_key(c, b, j, &page, &row)) {
                    fill_row(c, argument, t,
                             page * t->layout.stride[0] + h * t->layout.stride[1] +
                                 row * t->layout.stride[2],
                             0, s, state);
                    fill_scale(c, argument, (size_t[]){page, h, row}, 0, state);
                }
            }
}

static void fill_keys(struct ca_trust_case *c, unsigned argument, const struct ca_tensor *t,
                      unsigned *state)
{
    if (c->problem.page_size)
        fill_pool(c, argument, t, state);
    else
        fill_rows(c, argument, t, state);
}

/* Sequences have the longest length; the last one has what the total leaves. A hostile case begins
 * with a negative start and ends with one beyond the end. */
static void fill_starts(struct ca_trust_case *c, unsigned argument, size_t longest, size_t total)
{
    const size_t batch = c->problem.batch, all = batch * longest < total ? batch * longest : total;
    cl_int *starts = (cl_int *)(void *)ca_trust_elements(c, argument);

    for (size_t b = 0; starts && b <= batch; b++)
        starts[b] = (cl_int)(c->hostile ? b * longest : all * b / batch);
    if (starts && c->hostile) {
        starts[0] = -1;
        starts[batch] = INT32_MAX;
    }
}

static void fill_plain(struct ca_trust_case *c, unsigned *state)
{
    const clattn_problem *p = &c->problem;

    for (size_t n = 0; n < p->batch * p->heads * p->seq_q * p->seq_kv; n++) {
        const size_t j = n % p->seq_kv, i = n / p->seq_kv % p->seq_q;
        if (p->bias)
            ca_value_store(ca_trust_elements(c, CA_BIAS), p->bias_dtype, n,
                           (i + 2 * j) % 11 == 0    ? -INFINITY
                           : ca_trust_is_high(c, i) ? CA_TRUST_HIGH_BIAS
                                                    : ca_value_next(state));
    }
    const size_t columns = ca_mask_keys(p), count = p->batch * p->heads * p->seq_q * columns;
    for (size_t n = 0; p->mask && n < count; n++) {
        const size_t first =
            p->mask_keys ? keys_in_use(p, n / columns / p->seq_q / p->heads) : columns;
        ca_trust_elements(c, CA_MASK)[n] =
            !masked(p, n / columns % p->seq_q, n % columns + first - columns);
    }
    for (size_t h = 0; h < p->heads; h++) {
        if (p->alibi)
            ca_value_store(ca_trust_elements(c, CA_SLOPES), CLATTN_F32, h, 0.03f * (float)(h + 1));
        if (p->sinks)
            ca_value_store(ca_trust_elements(c, CA_SINKS), CLATTN_F32, h, 0.5f - (float)h);
    }
    for (size_t b = 0; b < p->batch; b++) {
        const cl_int queries = (cl_int)queries_in_use(p, b), keys = (cl_int)keys_in_use(p, b);
        if (p->q_lengths)
            memcpy(ca_trust_elements(c, CA_Q_LENGTHS) + 4 * b, &queries, 4);
        if (p->kv_lengths)
            memcpy(ca_trust_elements(c, CA_KV_LENGTHS) + 4 * b, &keys, 4);
    }
}

/* Every how manyth row or key is judged: a check should take milliseconds. All are computed, and
 * seq_q is prime, so every place of a tile has its turn. Of few rows more are judged. */
static size_t step_of(const clattn_problem *p)
{
    enum { BACKWARD_STEP = 11, FORWARD_STEP = 13, FEW = 20 };
    const size_t step = 1 + (p->dim_qk + p->dim_v) / 64;

    if (p->seq_q < FEW)
        return 1 + p->seq_q / 8;
    if (p->operation == CLATTN_BACKWARD)
        return BACKWARD_STEP;
    return step < FORWARD_STEP ? step : FORWARD_STEP;
}

size_t ca_trust_judged(const clattn_problem *p, size_t all)
{
    const size_t step = step_of(p);

    return (all + step - 1) / step;
}

/* One bound serves all elements, since sizes and magnitudes are known. Sums over unusually long
 * dims have larger errors, which their own bounds state. */
static void set_bounds(const struct ca_trust_case *c)
{
    const clattn_problem *p = &c->problem;
    /* functions magnify errors, and bytes have their own */
    const int is_long = p->dim_qk > USUAL_DIM || ca_has_functions(p) || p->int8;
    /* The dtype that o is stored in, or that weights are rounded to. */
    const clattn_dtype rounded =
        ca_trust_operand_share(p) > 0.0 ? p->dtype : ca_problem_dtype(p, CA_O);

    for (size_t n = 0; n < c->num_answers; n++) {
        const double tolerance = c->answers[n].argument != CA_O || rounded == CLATTN_F32 ? 2e-5
                                 : rounded == CLATTN_F16                                 ? 2e-3
                                                                                         : 1e-2;
        for (size_t d = 0; d < c->answers[n].count; d++) {
            struct ca_bounded *want = &c->answers[n].want[d];
            want->bound =
                fmax(is_long ? want->bound : 0.0, tolerance * fmax(1.0, fabs(want->value)));
        }
    }
}

/* Room for the answers of so many rows, or rows and keys. */
static int allocate(struct ca_trust_case *c, const struct ca_sample *rows,
                    const struct ca_sample *keys)
{
    const clattn_problem *p = &c->problem;
    const size_t of_row = p->scores == CLATTN_SCORES_NONE ? 0 : p->seq_kv;
    const size_t of_bias = ca_gradients_has_bias(p) ? p->seq_kv : 0;

    const size_t sums = p->key_sums ? p->batch * p->kv_heads : 0;

    if (p->operation != CLATTN_BACKWARD)
        return ca_trust_allocate(c, 3 * rows->count + sums,
                                 rows->count * (p->dim_v + 1 + of_row) + sums * p->seq_kv);
    return ca_trust_allocate(c, 2 * rows->count + 2 * keys->count + 3,
                             rows->count * (p->dim_qk + of_bias) +
                                 keys->count * (p->dim_qk + p->dim_v) + 2 * p->heads +
                                 (p->dfunction ? ca_function_gradients(p) : 0));
}

/* Every step-th of all. */
static struct ca_sample sample_of(const clattn_problem *p, size_t all)
{
    return (struct ca_sample){all, ca_trust_judged(p, all), step_of(p)};
}

/* Operands of functions: numbers from -1 to 1, and zeros for integers, which may be indices. */
static void fill_functions(struct ca_trust_case *c, unsigned *state)
{
    for (unsigned n = 0; n < CLATTN_FUNCTION_OPERANDS; n++) {
        const struct ca_function_operand *o = ca_function_slot(&c->problem, n);
        const clattn_function_type type = o ? o->type : CLATTN_FUNCTION_INT;
        unsigned char *data = ca_trust_elements(c, CA_FUNCTION_0 + n);
        if (type <= CLATTN_FUNCTION_BFLOAT)
            ca_trust_fill_random(c, CA_FUNCTION_0 + n,
                                 type == CLATTN_FUNCTION_FLOAT  ? CLATTN_F32
                                 : type == CLATTN_FUNCTION_HALF ? CLATTN_F16
                                                                : CLATTN_BF16,
                                 -1.0f, 1.0f, state);
        else if (data)
            memset(data, 0, c->sizes[CA_FUNCTION_0 + n] - 2 * CA_TRUST_GUARD);
    }
}

/* Numbers from -1 to 1 in rows that see a key, and NaN in others, which nothing may read. */
static int fill_dlse(struct ca_trust_case *c, unsigned *state)
{
    const clattn_problem *p = &c->problem;
    struct ca_trust_row row;
    const int complete = !p->dlse || ca_trust_row_open(p, &row);

    if (!p->dlse || !complete)
        return complete;
    for (size_t n = 0; n < p->batch * p->heads * p->seq_q; n++) {
        size_t place;
        ca_trust_row_locate(c, n, &row);
        if (ca_trust_lse_place(c, &row, &place))
            ca_value_store(ca_trust_elements(c, CA_DLSE), CLATTN_F32, place,
                           ca_trust_seen(c, &row) ? ca_value_next(state) : NAN);
    }
    ca_trust_row_close(&row);
    return 1;
}

/* The answers, for data that are complete but for lse of a hostile case of gradients. 0 without memory. */
static int solve(struct ca_trust_case *c, const struct ca_sample *rows,
                 const struct ca_sample *keys, unsigned state)
{
    if (c->problem.operation != CLATTN_BACKWARD)
        return ca_trust_solve(c, rows);
    return (!c->hostile || ca_gradients_fill_lse(c, &state)) &&
           ca_gradients_solve(c, rows, keys, c->hostile);
}

/* The same, of a problem that may have functions. */
static int solve_with_functions(struct ca_trust_case *c, clattn_context *ctx,
                                const struct ca_sample *rows, const struct ca_sample *keys,
                                unsigned state)
{
    if (!ca_has_functions(&c->problem))
        return solve(c, rows, keys, state);
    if (!ca_function_calls_begin(c) || !solve(c, rows, keys, state))
        return 0;
    c->failure = ca_function_calls_compute(ctx, c);
    if (c->failure != CLATTN_SUCCESS)
        return 0;
    memset(c->room, 0, c->room_used * sizeof *c->room);
    c->num_answers = c->room_used = 0;
    return solve(c, rows, keys, state);
}

int ca_attention_case_make(struct ca_trust_case *c, clattn_context *ctx, const clattn_problem *real,
                           const struct ca_candidate *candidate)
{
    struct ca_tensor tensors[CA_WORKSPACE];
    unsigned state = 20240229u;

    c->problem = ca_trust_shrink(real, candidate);
    const clattn_problem *p = &c->problem;
    const size_t queries = p->batch * p->heads * p->seq_q;
    const struct ca_sample rows =
        ca_has_weight_sums(p) ? ca_trust_each(queries) : sample_of(p, queries);
    const struct ca_sample keys = sample_of(p, p->batch * p->kv_heads * p->seq_kv);
    if (!allocate(c, &rows, &keys))
        return 0;
    ca_problem_tensors(p, tensors);
    fill_starts(c, CA_Q_STARTS, p->seq_q, p->total_q);
    fill_starts(c, CA_KV_STARTS, p->seq_kv, p->total_kv);
    fill_rows(c, CA_Q, &tensors[CA_Q], &state);
    if (p->page_size)
        fill_pages(c);
    fill_keys(c, CA_K, &tensors[CA_K], &state);
    fill_keys(c, CA_V, &tensors[CA_V], &state);
    fill_plain(c, &state);
    fill_lists(c);
    fill_functions(c, &state);
    fill_chosen(c);
    if (p->operation == CLATTN_BACKWARD) {
        fill_rows(c, CA_O, &tensors[CA_O], &state);
        fill_rows(c, CA_DO, &tensors[CA_DO], &state);
        if (!fill_dlse(c, &state))
            return 0;
    }
    if (!solve_with_functions(c, ctx, &rows, &keys, state))
        return 0;
    if (p->operation != CLATTN_BACKWARD)
        set_bounds(c);
    return 1;
}

/* ---- an ordinary case ----------------------------------------------------------------------- */

/* Random k or v of at most 2. */
static void fill_cache(struct ca_trust_case *c, unsigned argument, unsigned *state)
{
    const clattn_cache cache = ca_problem_cache(&c->problem, argument);
    unsigned char *data = ca_trust_elements(c, argument);
    const size_t block = ca_cache_bytes(cache, CLATTN_F32);

    if (cache == CLATTN_CACHE_PLAIN) {
        ca_trust_fill_random(c, argument, ca_problem_dtype(&c->problem, argument), -2.0f, 2.0f,
                             state);
        return;
    }
    const size_t count = data ? (c->sizes[argument] - 2 * CA_TRUST_GUARD) / block : 0;
    const size_t drawn = count < CA_TRUST_PERIOD ? count : CA_TRUST_PERIOD;
    for (size_t n = 0; n < drawn; n++)
        ca_block_store(data, cache, n, 2.0f, state);
    if (drawn < count)
        ca_trust_repeat(data, drawn * block, count * block);
}

static void fill_mask(struct ca_trust_case *c, unsigned *state)
{
    unsigned char *data = ca_trust_elements(c, CA_MASK);
    const size_t count = data ? c->sizes[CA_MASK] - 2 * CA_TRUST_GUARD : 0;
    const size_t drawn = count < CA_TRUST_PERIOD ? count : CA_TRUST_PERIOD;

    for (size_t n = 0; n < drawn; n++)
        data[n] = ca_value_next(state) < 0.5f; /* three quarters */
    if (drawn < count)
        ca_trust_repeat(data, drawn, count);
}

static void fill_lengths(struct ca_trust_case *c, unsigned argument, size_t longest,
                         unsigned *state)
{
    unsigned char *data = ca_trust_elements(c, argument);

    for (size_t b = 0; data && b < c->problem.batch; b++) {
        const double share = 0.75 + 0.25 * (double)ca_value_next(state);
        const cl_int length = (cl_int)ceil(share * (double)longest);
        memcpy(data + 4 * b, &length, 4);
    }
}

int ca_attention_case_make_ordinary(struct ca_trust_case *c, clattn_context *ctx)
{
    const clattn_problem *p = &c->problem;
    unsigned state = 20240229u;
    const int backward = p->operation == CLATTN_BACKWARD;
    const size_t per_pair = p->dim_qk + p->dim_v, queries = p->seq_q * (p->heads / p->kv_heads);
    const struct ca_sample rows =
        ca_trust_spread(p->batch * p->heads * p->seq_q, p->seq_kv * per_pair);
    const struct ca_sample keys =
        ca_trust_spread(p->batch * p->kv_heads * p->seq_kv, queries * per_pair);

    if (!allocate(c, &rows, &keys))
        return 0;
    ca_trust_fill_random(c, CA_Q, p->dtype, -2.0f, 2.0f, &state);
    fill_cache(c, CA_K, &state);
    fill_cache(c, CA_V, &state);
    ca_trust_fill_random(c, CA_BIAS, p->bias_dtype, -1.0f, 1.0f, &state);
    ca_trust_fill_random(c, CA_K_SCALES, CLATTN_F32, 0.25f, 1.0f, &state);
    ca_trust_fill_random(c, CA_V_SCALES, CLATTN_F32, 0.25f, 1.0f, &state);
    ca_trust_fill_random(c, CA_SLOPES, CLATTN_F32, 0.004f, 0.5f, &state);
    ca_trust_fill_random(c, CA_SINKS, CLATTN_F32, -1.0f, 1.0f, &state);
    fill_mask(c, &state);
    fill_lists(c);
    fill_functions(c, &state);
    fill_chosen(c);
    fill_lengths(c, CA_Q_LENGTHS, p->seq_q, &state);
    fill_lengths(c, CA_KV_LENGTHS, p->seq_kv, &state);
    fill_starts(c, CA_Q_STARTS, p->seq_q, p->total_q);
    fill_starts(c, CA_KV_STARTS, p->seq_kv, p->total_kv);
    for (size_t n = 0; p->page_size && n < p->batch * ca_table_pages(p); n++)
        ((cl_int *)(void *)ca_trust_elements(c, CA_PAGE_TABLE))[n] = page_at(p, n);
    if (backward) {
        ca_trust_fill_random(c, CA_O, ca_problem_dtype(p, CA_O), -2.0f, 2.0f, &state);
        ca_trust_fill_random(c, CA_DO, p->dtype, -2.0f, 2.0f, &state);
        ca_trust_fill_random(c, CA_DLSE, CLATTN_F32, -2.0f, 2.0f, &state);
        const float low = logf((float)p->seq_kv) + 1.0f;
        ca_trust_fill_random(c, CA_LSE, CLATTN_F32, low, low + 0.5f, &state);
    }
    return solve_with_functions(c, ctx, &rows, &keys, state);
}

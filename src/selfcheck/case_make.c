/* SPDX-License-Identifier: Apache-2.0 */
#include "families/candidate.h"
#include "problem/layout.h"
#include "problem/problem.h"
#include "selfcheck/answer_row.h"
#include "selfcheck/case.h"
#include "selfcheck/case_parts.h"
#include "selfcheck/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- blocks --------------------------------------------------------------------------------- */

void ca_trust_case_sizes(const clattn_problem *p, size_t sizes[CA_WORKSPACE])
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(p, tensors);
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        size_t span = 0;
        sizes[n] = 0;
        if (!tensors[n].present)
            continue;
        ca_layout_span(&tensors[n].layout, tensors[n].sizes, &span); /* was checked */
        sizes[n] =
            ca_elements_bytes(span, tensors[n].element_bytes, ca_problem_cache(p, (unsigned)n)) +
            2 * CA_TRUST_GUARD;
    }
}

/* The elements of a tensor; NULL if the problem has no such tensor. */
static unsigned char *elements(const struct ca_trust_case *c, unsigned argument)
{
    return c->bytes[argument] ? c->bytes[argument] + ca_trust_guard(&c->problem, argument) : NULL;
}

int ca_trust_allocate(struct ca_trust_case *c, size_t answers, size_t of_elements)
{
    int complete = 1;

    ca_trust_case_sizes(&c->problem, c->sizes);
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        if (c->sizes[n] == 0)
            continue;
        c->bytes[n] = malloc(c->sizes[n]);
        if (c->bytes[n])
            memset(c->bytes[n], CA_TRUST_FILL, c->sizes[n]);
        else
            complete = 0;
    }
    c->answers = calloc(answers + 1, sizeof *c->answers);
    c->room = calloc(of_elements + 1, sizeof *c->room);
    return complete && c->answers && c->room;
}

static struct ca_answer *add_answer(struct ca_trust_case *c, unsigned argument, size_t b, size_t h,
                                    size_t s, size_t count)
{
    struct ca_answer *answer = &c->answers[c->num_answers++];

    *answer = (struct ca_answer){.argument = argument,
                                 .at = {b, h, s},
                                 .step = 1,
                                 .count = count,
                                 .want = c->room + c->room_used};
    c->room_used += count;
    return answer;
}

struct ca_bounded *ca_trust_answer(struct ca_trust_case *c, unsigned argument, size_t b, size_t h,
                                   size_t s, size_t count)
{
    struct ca_answer *answer = add_answer(c, argument, b, h, s, count);
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(&c->problem, tensors);
    answer->first = ca_trust_position(&tensors[argument].layout, b, h, s, 0);
    answer->step = tensors[argument].layout.stride[3];
    return answer->want;
}

struct ca_bounded *ca_trust_answer_lse(struct ca_trust_case *c, unsigned argument, size_t b,
                                       size_t h, size_t s, size_t heads, size_t rows)
{
    struct ca_answer *answer = add_answer(c, argument, b, h, s, 1);

    answer->first = (b * heads + h) * rows + s;
    return answer->want;
}

void ca_trust_case_free(struct ca_trust_case *c)
{
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        free(c->bytes[n]);
        free(c->before[n]);
    }
    free(c->answers);
    free(c->room);
    memset(c, 0, sizeof *c);
}

/* ---- the hostile case ----------------------------------------------------------------------- */

#define HUGE_VALUE_BEHIND_MASK 1e30f
enum { USUAL_DIM = 4096 };

/* A key that the mask hides from every query, but for blocks that are listed as full, and a query that it lets see nothing. */
static size_t hidden_key(const clattn_problem *p)
{
    return p->seq_kv * 70 / 149;
}

static int masked(const clattn_problem *p, size_t i, size_t j)
{
    return j == hidden_key(p) || i == p->seq_q / 2 || (i * 7 + j * 3) % 5 == 0;
}

/* Whether the key lies in the column of blocks that no row lists. */
static int unlisted(const clattn_problem *p, size_t j)
{
    return p->block_q && ca_block_columns(p) > 1 && j / p->block_kv == hidden_key(p) / p->block_kv;
}

/* Three columns in four of each row, from the last to the first, as far as there is room. */
void ca_trust_fill_lists(struct ca_trust_case *c)
{
    const clattn_problem *p = &c->problem;
    const size_t rows = ca_block_rows(p), columns = ca_block_columns(p);
    const size_t lists = (p->block_batches ? p->batch : 1) * (p->block_heads ? p->heads : 1);
    cl_int *offsets = (cl_int *)(void *)elements(c, CA_BLOCK_OFFSETS);
    cl_int *entries = (cl_int *)(void *)elements(c, CA_BLOCK_ENTRIES);

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

static float hidden_value(size_t n)
{
    return n % 3 == 0 ? NAN : n % 3 == 1 ? HUGE_VALUE_BEHIND_MASK : -INFINITY;
}

/* The last batch is shorter where there are lengths. */
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

/* A row's elements from `place` on. */
static void fill_row(struct ca_trust_case *c, unsigned argument, const struct ca_tensor *t,
                     size_t place, int hidden, size_t s, unsigned *state)
{
    const clattn_cache cache = ca_problem_cache(&c->problem, argument);

    if (cache != CLATTN_CACHE_PLAIN) {
        for (size_t d = 0; d < t->sizes[3]; d += CA_BLOCK)
            ca_block_store(elements(c, argument), cache, (place + d) / CA_BLOCK,
                           hidden ? hidden_value(s + d / CA_BLOCK) : 1.0f, state);
        return;
    }
    for (size_t d = 0; d < t->sizes[3]; d++) {
        const float value = ca_value_next(state);
        ca_value_store(elements(c, argument), ca_problem_dtype(&c->problem, argument),
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
                const int hidden = of_queries
                                       ? row >= queries_in_use(p, n)
                                       : row >= keys_in_use(p, n) || unlisted(p, row) ||
                                             (p->mask && !p->block_q && row == hidden_key(p));
                fill_row(c, argument, t,
                         b * t->layout.stride[0] + h * t->layout.stride[1] +
                             s * t->layout.stride[2],
                         hidden, s, state);
            }
}

/* The page of entry n, of as many as the table has. */
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
    cl_int *table = (cl_int *)(void *)elements(c, CA_PAGE_TABLE);
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
            for (size_t s = 0; s < t->sizes[2]; s++)
                fill_row(c, argument, t,
                         page * t->layout.stride[0] + h * t->layout.stride[1] +
                             s * t->layout.stride[2],
                         1, s, state);
    for (size_t n = 0; n < entries; n++)
        for (size_t h = 0; h < t->sizes[1]; h++)
            for (size_t s = 0; s < t->sizes[2]; s++) {
                const size_t b = n / ca_table_pages(p);
                const size_t j = n % ca_table_pages(p) * p->page_size + s;
                size_t page, row;
                if (j < keys_in_use(p, b) && !(p->mask && j == hidden_key(p)) &&
                    ca_trust_locate_key(c, b, j, &page, &row))
                    fill_row(c, argument, t,
                             page * t->layout.stride[0] + h * t->layout.stride[1] +
                                 row * t->layout.stride[2],
                             0, s, state);
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

/* Sequences of the longest length, the last one as the total leaves it. A hostile case says so by a
 * first start that is negative and a last that is beyond the end. */
static void fill_starts(struct ca_trust_case *c, unsigned argument, size_t longest, size_t total)
{
    const size_t batch = c->problem.batch, all = batch * longest < total ? batch * longest : total;
    cl_int *starts = (cl_int *)(void *)elements(c, argument);

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
            ca_value_store(elements(c, CA_BIAS), p->bias_dtype, n,
                           (i + 2 * j) % 11 == 0    ? -INFINITY
                           : ca_trust_is_high(c, i) ? CA_TRUST_HIGH_BIAS
                                                    : ca_value_next(state));
    }
    const size_t columns = ca_mask_keys(p), count = p->batch * p->heads * p->seq_q * columns;
    for (size_t n = 0; p->mask && n < count; n++) {
        const size_t first =
            p->mask_keys ? keys_in_use(p, n / columns / p->seq_q / p->heads) : columns;
        elements(c, CA_MASK)[n] = !masked(p, n / columns % p->seq_q, n % columns + first - columns);
    }
    for (size_t h = 0; h < p->heads; h++) {
        if (p->alibi)
            ca_value_store(elements(c, CA_SLOPES), CLATTN_F32, h, 0.03f * (float)(h + 1));
        if (p->sinks)
            ca_value_store(elements(c, CA_SINKS), CLATTN_F32, h, 0.5f - (float)h);
    }
    for (size_t b = 0; b < p->batch; b++) {
        const cl_int queries = (cl_int)queries_in_use(p, b), keys = (cl_int)keys_in_use(p, b);
        if (p->q_lengths)
            memcpy(elements(c, CA_Q_LENGTHS) + 4 * b, &queries, 4);
        if (p->kv_lengths)
            memcpy(elements(c, CA_KV_LENGTHS) + 4 * b, &keys, 4);
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

/* One bound for all: the sizes and magnitudes are known. Sums over longer dims than are usual are off
 * by more, which their own bounds tell. */
static void set_bounds(const struct ca_trust_case *c)
{
    const clattn_problem *p = &c->problem;
    const int is_long = p->dim_qk > USUAL_DIM;
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

static int made_or_freed(struct ca_trust_case *c, int made)
{
    if (!made)
        ca_trust_case_free(c);
    return made;
}

int ca_trust_case_make(struct ca_trust_case *c, const clattn_problem *real,
                       const struct ca_candidate *candidate)
{
    static int (*const of[])(struct ca_trust_case *, const clattn_problem *,
                             const struct ca_candidate *) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = ca_##name##_case_make,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    memset(c, 0, sizeof *c);
    c->hostile = 1;
    return made_or_freed(c, of[real->operation](c, real, candidate));
}

/* Room for the answers of so many rows, or rows and keys. */
static int allocate(struct ca_trust_case *c, const struct ca_sample *rows,
                    const struct ca_sample *keys)
{
    const clattn_problem *p = &c->problem;
    const size_t of_row = p->scores == CLATTN_SCORES_NONE ? 0 : p->seq_kv;
    const size_t of_bias = ca_gradients_has_bias(p) ? p->seq_kv : 0;

    if (p->operation != CLATTN_BACKWARD)
        return ca_trust_allocate(c, 3 * rows->count, rows->count * (p->dim_v + 1 + of_row));
    return ca_trust_allocate(c, 2 * rows->count + 2 * keys->count + 2,
                             rows->count * (p->dim_qk + of_bias) +
                                 keys->count * (p->dim_qk + p->dim_v) + 2 * p->heads);
}

/* Every step-th of all. */
static struct ca_sample sample_of(const clattn_problem *p, size_t all)
{
    return (struct ca_sample){all, ca_trust_judged(p, all), step_of(p)};
}

int ca_attention_case_make(struct ca_trust_case *c, const clattn_problem *real,
                           const struct ca_candidate *candidate)
{
    struct ca_tensor tensors[CA_WORKSPACE];
    unsigned state = 20240229u;

    c->problem = ca_trust_shrink(real, candidate);
    const clattn_problem *p = &c->problem;
    const struct ca_sample rows = sample_of(p, p->batch * p->heads * p->seq_q);
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
    ca_trust_fill_lists(c);
    if (p->operation == CLATTN_BACKWARD) {
        fill_rows(c, CA_O, &tensors[CA_O], &state);
        fill_rows(c, CA_DO, &tensors[CA_DO], &state);
        return ca_gradients_fill_lse(c, &state) && ca_gradients_solve(c, &rows, &keys, 1);
    }
    if (!ca_trust_solve(c, &rows))
        return 0;
    set_bounds(c);
    return 1;
}

int ca_trust_case_make_in_pieces(struct ca_trust_case *c, const clattn_problem *p)
{
    memset(c, 0, sizeof *c);
    c->hostile = 1;
    return made_or_freed(c, ca_projection_case_make_in_pieces(c, p));
}

/* ---- an ordinary case ----------------------------------------------------------------------- */

/* Rows that are judged, and multiplications that their answers may take in all, unless the rows
 * would be fewer than LEAST_ROWS. */
enum { MOST_ROWS = 64, LEAST_ROWS = 8, MOST_PRODUCTS = 1 << 26 };

struct ca_sample ca_trust_spread(size_t all, size_t products)
{
    const size_t affordable = MOST_PRODUCTS / (products + 1);
    size_t rows = affordable < MOST_ROWS ? affordable : MOST_ROWS;

    rows = rows > LEAST_ROWS ? rows : LEAST_ROWS;
    return (struct ca_sample){all, rows < all ? rows : all, 0};
}

struct ca_sample ca_trust_each(size_t all)
{
    return (struct ca_sample){all, all, 1};
}

size_t ca_trust_place(const struct ca_sample *sample, size_t n)
{
    if (sample->step > 0 || n == 0)
        return n * sample->step;
    return (size_t)((double)(sample->all - 1) * (double)n / (double)(sample->count - 1));
}

/* Repeats the first done bytes to the end. */
static void repeat(unsigned char *bytes, size_t done, size_t count)
{
    while (done < count) {
        const size_t more = done < count - done ? done : count - done;
        memcpy(bytes + done, bytes, more);
        done += more;
    }
}

/* Drawing all numbers would take longer than the kernels, so they repeat: after a prime, so that no
 * two rows are alike. */
enum { PERIOD = 65521 };

void ca_trust_fill_random(struct ca_trust_case *c, unsigned argument, clattn_dtype dtype, float low,
                          float high, unsigned *state)
{
    unsigned char *data = elements(c, argument);
    const size_t bytes = ca_dtype_bytes(dtype);
    const size_t count = data ? (c->sizes[argument] - 2 * CA_TRUST_GUARD) / bytes : 0;
    const size_t drawn = count < PERIOD ? count : PERIOD;

    for (size_t n = 0; n < drawn; n++)
        ca_value_store(data, dtype, n, low + (high - low) * (0.5f + 0.5f * ca_value_next(state)));
    if (drawn < count)
        repeat(data, drawn * bytes, count * bytes);
}

/* k or v, values of up to 2. */
static void fill_cache(struct ca_trust_case *c, unsigned argument, unsigned *state)
{
    const clattn_cache cache = ca_problem_cache(&c->problem, argument);
    unsigned char *data = elements(c, argument);
    const size_t block = ca_cache_bytes(cache, CLATTN_F32);

    if (cache == CLATTN_CACHE_PLAIN) {
        ca_trust_fill_random(c, argument, ca_problem_dtype(&c->problem, argument), -2.0f, 2.0f,
                             state);
        return;
    }
    const size_t count = data ? (c->sizes[argument] - 2 * CA_TRUST_GUARD) / block : 0;
    const size_t drawn = count < PERIOD ? count : PERIOD;
    for (size_t n = 0; n < drawn; n++)
        ca_block_store(data, cache, n, 2.0f, state);
    if (drawn < count)
        repeat(data, drawn * block, count * block);
}

static void fill_mask(struct ca_trust_case *c, unsigned *state)
{
    unsigned char *data = elements(c, CA_MASK);
    const size_t count = data ? c->sizes[CA_MASK] - 2 * CA_TRUST_GUARD : 0;
    const size_t drawn = count < PERIOD ? count : PERIOD;

    for (size_t n = 0; n < drawn; n++)
        data[n] = ca_value_next(state) < 0.5f; /* three quarters */
    if (drawn < count)
        repeat(data, drawn, count);
}

static void fill_lengths(struct ca_trust_case *c, unsigned argument, size_t longest,
                         unsigned *state)
{
    unsigned char *data = elements(c, argument);

    for (size_t b = 0; data && b < c->problem.batch; b++) {
        const double share = 0.75 + 0.25 * (double)ca_value_next(state);
        const cl_int length = (cl_int)ceil(share * (double)longest);
        memcpy(data + 4 * b, &length, 4);
    }
}

int ca_trust_case_make_ordinary(struct ca_trust_case *c, const clattn_problem *p)
{
    static int (*const of[])(struct ca_trust_case *) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = ca_##name##_case_make_ordinary,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    memset(c, 0, sizeof *c);
    c->problem = *p;
    return made_or_freed(c, of[p->operation](c));
}

int ca_attention_case_make_ordinary(struct ca_trust_case *c)
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
    ca_trust_fill_random(c, CA_SLOPES, CLATTN_F32, 0.004f, 0.5f, &state);
    ca_trust_fill_random(c, CA_SINKS, CLATTN_F32, -1.0f, 1.0f, &state);
    fill_mask(c, &state);
    ca_trust_fill_lists(c);
    fill_lengths(c, CA_Q_LENGTHS, p->seq_q, &state);
    fill_lengths(c, CA_KV_LENGTHS, p->seq_kv, &state);
    fill_starts(c, CA_Q_STARTS, p->seq_q, p->total_q);
    fill_starts(c, CA_KV_STARTS, p->seq_kv, p->total_kv);
    for (size_t n = 0; p->page_size && n < p->batch * ca_table_pages(p); n++)
        ((cl_int *)(void *)elements(c, CA_PAGE_TABLE))[n] = page_at(p, n);
    if (backward) {
        ca_trust_fill_random(c, CA_O, ca_problem_dtype(p, CA_O), -2.0f, 2.0f, &state);
        ca_trust_fill_random(c, CA_DO, p->dtype, -2.0f, 2.0f, &state);
        const float low = logf((float)p->seq_kv) + 1.0f;
        ca_trust_fill_random(c, CA_LSE, CLATTN_F32, low, low + 0.5f, &state);
    }
    return backward ? ca_gradients_solve(c, &rows, &keys, 0) : ca_trust_solve(c, &rows);
}

void ca_trust_case_drop_inputs(struct ca_trust_case *c)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(&c->problem, tensors);
    for (size_t n = 0; n < CA_WORKSPACE; n++)
        if (!tensors[n].written) {
            free(c->bytes[n]);
            c->bytes[n] = NULL;
        }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "families/candidate.h"
#include "problem/layout.h"
#include "problem/problem.h"
#include "selfcheck/answer_row.h"
#include "selfcheck/case.h"
#include "selfcheck/case_parts.h"
#include "selfcheck/function_calls.h"
#include "selfcheck/values.h"

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
    ca_function_calls_free(c->calls);
    memset(c, 0, sizeof *c);
}

/* ---- cases of any operation -------------------------------------------------------------------- */

static int made_or_freed(struct ca_trust_case *c, int made)
{
    const clattn_status failure = c->failure;

    if (!made)
        ca_trust_case_free(c);
    c->failure = failure;
    return made;
}

int ca_trust_case_make(struct ca_trust_case *c, clattn_context *ctx, const clattn_problem *real,
                       const struct ca_candidate *candidate, cl_program program)
{
    static int (*const of[])(struct ca_trust_case *, clattn_context *, const clattn_problem *,
                             const struct ca_candidate *) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = ca_##name##_case_make,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    memset(c, 0, sizeof *c);
    c->hostile = 1;
    c->program = program;
    return made_or_freed(c, of[real->operation](c, ctx, real, candidate));
}

int ca_trust_case_make_in_pieces(struct ca_trust_case *c, const clattn_problem *p)
{
    memset(c, 0, sizeof *c);
    c->hostile = 1;
    return made_or_freed(c, ca_projection_case_make_in_pieces(c, p));
}

int ca_trust_case_make_ordinary(struct ca_trust_case *c, clattn_context *ctx,
                                const clattn_problem *p)
{
    static int (*const of[])(struct ca_trust_case *, clattn_context *) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = ca_##name##_case_make_ordinary,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    memset(c, 0, sizeof *c);
    c->problem = *p;
    return made_or_freed(c, of[p->operation](c, ctx));
}

void ca_trust_case_give(struct ca_trust_case *c)
{
    const int mean = c->problem.scores == CLATTN_SCORES_MEAN;

    for (size_t n = 0; n < c->num_answers; n++) {
        const struct ca_answer *a = &c->answers[n];
        if (a->argument == CA_KEY_SUMS || (a->argument == CA_SCORES && mean))
            continue;
        for (size_t d = 0; d < a->count; d++)
            ca_value_store(ca_trust_elements(c, a->argument),
                           ca_problem_dtype(&c->problem, a->argument), a->first + d * a->step,
                           (float)a->want[d].value);
    }
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

/* ---- which rows are judged, and random numbers ---------------------------------------------------- */

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

void ca_trust_repeat(unsigned char *bytes, size_t done, size_t count)
{
    while (done < count) {
        const size_t more = done < count - done ? done : count - done;
        memcpy(bytes + done, bytes, more);
        done += more;
    }
}

void ca_trust_fill_random(struct ca_trust_case *c, unsigned argument, clattn_dtype dtype, float low,
                          float high, unsigned *state)
{
    unsigned char *data = ca_trust_elements(c, argument);
    const size_t bytes = ca_dtype_bytes(dtype);
    const size_t count = data ? (c->sizes[argument] - 2 * CA_TRUST_GUARD) / bytes : 0;
    const size_t drawn = count < CA_TRUST_PERIOD ? count : CA_TRUST_PERIOD;

    for (size_t n = 0; n < drawn; n++)
        ca_value_store(data, dtype, n, low + (high - low) * (0.5f + 0.5f * ca_value_next(state)));
    if (drawn < count)
        ca_trust_repeat(data, drawn * bytes, count * bytes);
}

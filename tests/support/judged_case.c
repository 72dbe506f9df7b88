/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/judged_case.h"

#include "bench/judge/judge.h"
#include "problem/problem.h"
#include "selfcheck/values.h"
#include "tests/support/fixture.h"
#include "tests/support/storage.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ca_trust_case judged_case(const char *text, const int hostile)
{
    const clattn_problem parsed = fixture_problem(text), p = ca_problem_normal(&parsed);
    struct ca_trust_case c;

    cr_assert(hostile ? ca_trust_case_make(&c, NULL, &p, NULL, NULL)
                      : ca_trust_case_make_ordinary(&c, NULL, &p));
    return c;
}

void judged_write(struct ca_trust_case *c)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(&c->problem, tensors);
    for (size_t n = 0; n < c->num_answers; n++) {
        const struct ca_answer *a = &c->answers[n];
        const bool lists = strcmp(tensors[a->argument].type, "int") == 0;
        for (size_t d = 0; lists && d < a->count; d++)
            ((cl_int *)(void *)(c->bytes[a->argument] + CA_TRUST_GUARD))[a->first + d * a->step] =
                (cl_int)a->want[d].value;
        for (size_t d = 0; !lists && d < a->count; d++)
            ca_value_store(c->bytes[a->argument] + CA_TRUST_GUARD,
                           ca_problem_dtype(&c->problem, a->argument), a->first + d * a->step,
                           (float)a->want[d].value);
    }
}

/* The library's number of a tensor that the judge numbers otherwise. */
static unsigned argument_of(const clattn_operation operation, const int id)
{
    static const unsigned of[][NUM_TENSORS] = {
#define TENSOR(ID, ...) [ID] = CA_##ID,
#define JUDGED(ID, ...) [CLATTN_##ID] = {ID##_TENSORS(TENSOR)},
        JUDGED_OPERATIONS(JUDGED)
#undef JUDGED
#undef TENSOR
    };

    return of[operation][id];
}

static unsigned char *tensor_of(const struct ca_trust_case *c, int id)
{
    unsigned char *bytes = c->bytes[argument_of(c->problem.operation, id)];

    return bytes ? bytes + CA_TRUST_GUARD : NULL;
}

void judged_results(const struct ca_trust_case *c, judge_visit *visit, void *user)
{
    struct tensor_view view = {.at = {NULL}};
    unsigned char *before[NUM_TENSORS] = {NULL};

    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(&c->problem, id);
        if (!s.present)
            continue;
        const size_t bytes = tensor_bytes(&s, s.extent);
        before[id] = malloc(bytes);
        cr_assert(before[id] != NULL);
        view.at[id] = memcpy(before[id], tensor_of(c, id), bytes);
    }
    cr_assert(judge_results(&c->problem, &view, PRECISION_SINGLE, INFINITY, visit, user));
    for (int id = 0; id < NUM_TENSORS; id++)
        free(before[id]);
}

static void write_row(void *user, int id, const size_t at[4], const struct bounded *want,
                      size_t count)
{
    const struct ca_trust_case *c = user;
    const struct tensor_shape s = tensor_shape_of(&c->problem, id);

    for (size_t n = 0; n < count; n++)
        tensor_store(&s, tensor_of(c, id), tensor_index(&s, at[0], at[1], at[2], at[3] + n),
                     want[n].value);
}

void judged_compute(struct ca_trust_case *c)
{
    judged_results(c, write_row, c);
}

void judged_right(const struct ca_trust_case *c, const char *text)
{
    char why[256] = "";
    double error;

    cr_expect(ca_trust_case_judge(c, &error, why, sizeof why) == NULL, "%s: %s", text, why);
    cr_expect(error <= 1.0);
}

void judged_wrong(const struct ca_trust_case *c, const char *text, const char *words)
{
    char why[256] = "";
    double error;

    cr_expect(ca_trust_case_judge(c, &error, why, sizeof why) != NULL, "%s: not found: %s", text,
              words);
    cr_expect(strstr(why, words) != NULL, "%s: '%s', not '%s'", text, why, words);
}

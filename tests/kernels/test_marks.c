/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of a mask's tiles, or of a mask function that reads the mask: the bits that come out without them. Forward makes none
 * of the copies of a mask that heads have; backward none where a window could hide keys, here of more keys than there are. The
 * sweep draws masks and biases with tiles that nobody sees with every other option. */
#include "families/pair_marks.h"
#include "problem/problem.h"
#include "tests/support/fixture.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(marks, .timeout = 600);

enum { BATCH = 2, HEADS = 2, QUERIES = 131, KEYS = 301, DIM = 16, PAIRS = QUERIES * KEYS };

struct data {
    float q[BATCH * HEADS * QUERIES * DIM], k[BATCH * HEADS * KEYS * DIM];
    float v[BATCH * HEADS * KEYS * DIM], bias[BATCH * HEADS * PAIRS];
    unsigned char mask[BATCH * HEADS * PAIRS];
};

struct results {
    float o[BATCH * HEADS * QUERIES * DIM], lse[BATCH * HEADS * QUERIES];
    float dq[BATCH * HEADS * QUERIES * DIM];
    float dk[BATCH * HEADS * KEYS * DIM], dv[BATCH * HEADS * KEYS * DIM];
};

/* Tiles of 64 x 64 keys are empty, full, hide some pairs, or a pair in one of a few marks; two rows see nothing. Copies
 * follow for each batch and head. */
static void fill(struct data *d)
{
    struct rng r = rng_seed(17);
    float *const inputs[] = {d->q, d->k, d->v};
    const size_t counts[] = {sizeof d->q, sizeof d->k, sizeof d->v};
    int tiles[3][5];

    for (size_t t = 0; t < 3; t++)
        for (size_t n = 0; n < counts[t] / sizeof(float); n++)
            inputs[t][n] = (float)rng_uniform(&r, -2, 2);
    for (size_t n = 0; n < 15; n++)
        tiles[n / 5][n % 5] = (int)rng_below(&r, 4);
    tiles[0][0] = 2; /* one of each at least */
    tiles[1][1] = 0;
    tiles[1][2] = 1;
    tiles[0][1] = tiles[0][3] = tiles[1][3] = 3;
    for (size_t n = 0; n < PAIRS; n++) {
        const size_t i = n / KEYS, j = n % KEYS;
        const int tile = tiles[i / 64][j / 64];
        const int single = i % 32 == 30 && j % 32 == (i / 32 * 8 + (j / 64 == 1 ? 7 : 3)) % 32;
        const int sees = i != 3 && i != 130 &&
                         (tile == 1 || (tile == 2 && !rng_one_in(&r, 3)) || (tile == 3 && !single));
        d->mask[n] = (unsigned char)(sees ? 1 + n % 255 : 0);
        d->bias[n] = sees ? (float)rng_uniform(&r, -2, 2) : -INFINITY;
    }
    for (size_t n = 1; n < (size_t)BATCH * HEADS; n++) {
        memcpy(d->mask + n * PAIRS, d->mask, PAIRS);
        memcpy(d->bias + n * PAIRS, d->bias, PAIRS * sizeof *d->bias);
    }
}

/* With the same tunables whether there are marks or not. */
static const struct {
    const char *name, *tunables;
} families[] = {{"fused_cpu UNIT=vector", "BLOCK_N=64 QK_KEYS=8"},
                {"fused_gpu UNIT=item", "BLOCK_M=32 BLOCK_N=32"},
                {"backward_cpu UNIT=vector", NULL},
                {"backward_gpu UNIT=item", NULL}};
enum { NUM_FAMILIES = sizeof families / sizeof *families, FORWARD_FAMILIES = 2 };

/* Bytes of the plan's workspace. */
static size_t workspace_of(struct fixture *f, const clattn_problem *p,
                           const clattn_plan_options *options)
{
    clattn_plan_info info = {.struct_size = sizeof info};
    clattn_plan *plan;

    cr_assert(clattn_plan_create(f->context, p, options, &plan) == CLATTN_SUCCESS, "%s",
              f->log.last);
    clattn_plan_describe(plan, &info);
    clattn_plan_release(plan);
    return info.workspace_bytes;
}

static void attend(struct fixture *f, const clattn_problem *p, const clattn_plan_options *options,
                   const struct data *d, struct results *results)
{
    const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = d->q,
                                                 .k = d->k,
                                                 .v = d->v,
                                                 .o = results->o,
                                                 .lse = results->lse,
                                                 .bias = p->bias ? d->bias : NULL,
                                                 .mask = p->mask ? d->mask : NULL,
                                                 .function_0 = p->mask_function ? d->mask : NULL};

    cr_assert(clattn_attention_forward_host(f->context, p, options, &tensors) == CLATTN_SUCCESS,
              "%s", f->log.last);
}

/* q stands for its gradient as well, the gradient of o. */
static void differentiate(struct fixture *f, const clattn_problem *p,
                          const clattn_plan_options *options, const struct data *d,
                          struct results *results)
{
    const clattn_host_backward_tensors tensors = {.struct_size = sizeof tensors,
                                                  .q = d->q,
                                                  .k = d->k,
                                                  .v = d->v,
                                                  .o = results->o,
                                                  .lse = results->lse,
                                                  .d_o = d->q,
                                                  .bias = p->bias ? d->bias : NULL,
                                                  .mask = p->mask ? d->mask : NULL,
                                                  .function_0 = p->mask_function ? d->mask : NULL,
                                                  .dq = results->dq,
                                                  .dk = results->dk,
                                                  .dv = results->dv};

    cr_assert(clattn_attention_backward_host(f->context, p, options, &tensors) == CLATTN_SUCCESS,
              "%s", f->log.last);
}

/* The family's results, of backward those of fused_cpu UNIT=vector as well; returns the bytes of its workspace. */
static size_t compute(struct fixture *f, size_t family, const char *text, const char *pairs,
                      const char *window, const struct data *d, struct results *results)
{
    char whole[400];
    const clattn_plan_options options = {.struct_size = sizeof options,
                                         .family = families[family].name,
                                         .tunables = families[family].tunables};
    const clattn_plan_options forward = {.struct_size = sizeof options,
                                         .family = families[0].name,
                                         .tunables = families[0].tunables};

    snprintf(whole, sizeof whole, "%s%s%s", text, pairs, window);
    clattn_problem p = fixture_problem(whole), gradients;
    memset(results, 0xff, sizeof *results);
    if (family < FORWARD_FAMILIES) {
        attend(f, &p, &options, d, results);
        return workspace_of(f, &p, &options);
    }
    cr_assert(clattn_problem_backward(&p, &gradients, NULL, 0) == CLATTN_SUCCESS);
    attend(f, &p, &forward, d, results);
    differentiate(f, &gradients, &options, d, results);
    return workspace_of(f, &gradients, &options);
}

/* Options that follow: those of masks that heads and batches share (NULL: of a function), and of copies of them; a window
 * without marks. */
static const struct {
    const char *text, *shared, *own, *window;
} cases[] = {
    {"fwd f32 b2 h2/1 q131 k301 d16 lse mask=", "qk", "bhqk", " window=999,*"},
    {"fwd f32 b2 h2/1 q131 k301 d16 lse mask=", "bqk", "bhqk", " window=999,*"},
    {"fwd f32 b2 h2 q131 k301 d16 lse mask=", "hqk", "bhqk", " window=999,*"},
    {"fwd f32 b2 h2 q131 k301 d16 lse causal=br mask=", "qk", "bhqk", " window=999,0"},
    {"fwd f32 b2 h2/1 q131 k301 d16 lse bias=f32:", "qk", "bhqk", " window=999,*"},
    {"fwd f32 b2 h2/1 q131 k301 d16 lse ", NULL, "mask=bhqk", " window=999,*"},
    {"fwd f32 b2 h2/1 q131 k301 d16 lse causal=br ", NULL, "mask=bhqk", " window=999,0"},
};
enum { NUM_CASES = sizeof cases / sizeof *cases };

/* The option of a function that reads a mask. */
static const char *function_of_mask(void)
{
    static char option[300];
    const clattn_function *f;

    cr_assert(clattn_function_create("seen",
                                     "#pragma clattn operand uchar seen[q][k]\n"
                                     "bool visible(pair p, operands o) { return seen_of(o, p); }\n",
                                     &f, NULL, 0) == CLATTN_SUCCESS);
    snprintf(option, sizeof option, "visible=%s", clattn_function_name(f));
    return option;
}

ParameterizedTestParameters(marks, shared_pairs_have_the_bits_of_copies) {
    static size_t numbers[NUM_FAMILIES];
    size_t count = 0;

    for (size_t n = 0; n < NUM_FAMILIES; n++)
        if (run_takes_of(n, NUM_FAMILIES, 2)) /* of each direction one */
            numbers[count++] = n;
    return cr_make_param_array(size_t, numbers, count);
}

ParameterizedTest(size_t *family, marks, shared_pairs_have_the_bits_of_copies) {
    static struct data d;
    static struct results shared, own;
    struct fixture f;

    unoptimised();
    fixture_open(&f);
    fixture_need_groups_of(&f, families[*family].name);
    fill(&d);
    for (size_t n = 0; n < NUM_CASES; n++) {
        if (!run_takes_of(n + *family, NUM_CASES, 3)) /* the others in the next runs */
            continue;
        const char *name = families[*family].name, *text = cases[n].text;
        const char *window = *family < FORWARD_FAMILIES ? "" : cases[n].window;
        const size_t unmarked = compute(&f, *family, text, cases[n].own, window, &d, &own);
        const char *option = cases[n].shared ? cases[n].shared : function_of_mask();
        const size_t marked = compute(&f, *family, text, option, "", &d, &shared);
        cr_expect(marked > unmarked, "%s, %s: no room for marks", name, text);
        cr_expect(memcmp(&shared, &own, sizeof own) == 0, "%s: %s: other bits with marks", name,
                  text);
        if (*family >= FORWARD_FAMILIES) {
            const size_t copied = compute(&f, *family, text, cases[n].own, "", &d, &shared);
            cr_expect(copied > marked, "%s, %s: no room for a mark of each head", name, text);
            cr_expect(memcmp(&shared, &own, sizeof own) == 0,
                      "%s: %s: other bits with marks of copies", name, text);
        }
        cr_expect(shared.lse[3] == -INFINITY && shared.o[(size_t)3 * DIM] == 0.0f,
                  "%s: a row that sees nothing", cases[n].text);
    }
    fixture_close(&f);
}

/* Problems in whose first pass tiles are marked, of those with a mask function. */
Test(marks, of_which_problems) {
    static const struct {
        const char *text;
        int marked;
    } problems[] = {
        {"fwd f32 h2 q32 k128 d8 visible=dilated", 1},
        {"fwd f32 b2 h2 q32 k128 d8 visible=documents totalq=40 totalkv=140", 1},
        {"bwd f32 b2 h2 q32 k128 d8 visible=dilated totalq=40 totalkv=140", 1},
        {"fwd f32 b2 h2 q32 k128 d8 visible=dilated page=16 pages=20 klen", 1},
        {"fwd f32 h2 q31 k128 d8 visible=dilated", 0},
        {"fwd f32 h2 q32 k127 d8 visible=dilated", 0},
        {"fwd f32 h2 q32 k128 d8 visible=dilated window=9,*", 0},
        {"fwd f32 h2 q32 k128 d8 visible=dilated mask=qk maskkeys=40", 0},
    };

    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        const clattn_problem p = fixture_problem(problems[n].text);
        const struct ca_problem own = ca_problem_own(&p);
        cr_expect(ca_marks_pairs(&own) == problems[n].marked, "%s", problems[n].text);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout in every family: results against the reference, whose mask is an independent one; the same
 * bits again; other seeds; forward and backward; two devices. */
#include "families/family.h"
#include "families/family_units.h"
#include "families/registry.h"
#include "os/process.h"
#include "tests/support/families.h"
#include "tests/support/rng.h"
#include "tests/support/storage.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(dropout, .timeout = 300);

/* A test has one family in nine in a run, by index: parameters cross processes, pointers do not.
 * split_gpu UNIT=mma draws no dropout, and says so (tests/units/test_unit_choices.c). */
static struct criterion_test_params families_of(const size_t test)
{
    static size_t families[MOST_FAMILIES];
    size_t all[MOST_FAMILIES], numbers[MOST_FAMILIES], count = 0;

    for (size_t n = 0; ca_family_at(n) && count < MOST_FAMILIES; n++)
        if (ca_family_at(n)->operation <= CLATTN_BACKWARD && ca_family_at(n) != &ca_split_gpu_mma &&
            family_takes_any_dims(ca_family_at(n)->full_name))
            all[count++] = n;
    const size_t taken = numbers_taken(count, test, 14, numbers);
    for (size_t n = 0; n < taken; n++)
        families[n] = all[numbers[n]];
    return cr_make_param_array(size_t, families, taken);
}

#define FOR_EACH_FAMILY(name)                                                                      \
    ParameterizedTestParameters(dropout, name) {                                                   \
        return families_of(__COUNTER__);                                                           \
    }                                                                                              \
    ParameterizedTest(size_t *family, dropout, name)

static struct trial make(const size_t family, const char *options, const double rate)
{
    const struct ca_family *of = ca_family_at(family);
    char text[256];

    snprintf(text, sizeof text, "%s %s dropout=%.9g",
             of->operation == CLATTN_BACKWARD ? "bwd" : "fwd", options, rate);
    return (struct trial){.problem = fixture_problem(family_text(of->full_name, text)),
                          .family = of->full_name,
                          .seed = 17};
}

/* ---- results --------------------------------------------------------------------------------- */

static void pass(struct fixture *f, const size_t family, const char *options, const double rate)
{
    struct trial t = make(family, options, rate);

    trial_pass(f, &t);
}

/* Problems of one kind share programs; with a window, so that the first key that a query sees may
 * have any remainder by 4. */
#define KIND "f32 b2 h3 q37 k70 d20/9 causal=33 window=24,*"

static const char *kind_for(const size_t family)
{
    return ca_family_at(family)->operation == CLATTN_BACKWARD ? KIND : KIND " lse";
}

/* From almost nothing dropped (2^-30) to all but a weight in 2^24. */
FOR_EACH_FAMILY(rates)
{
    static const double rates[] = {0x1p-30, 0.1, 0.5, 0.9, 0.999, 1 - 0x1p-24};
    struct fixture f;

    mostly_unoptimised(*family, 5);
    fixture_open(&f);
    for (size_t n = 0; n < sizeof rates / sizeof *rates; n++) {
        struct trial t = make(*family, kind_for(*family), rates[n]);
        t.problem.window_left += (int64_t)n;
        trial_pass(&f, &t);
    }
    fixture_close(&f);
}

FOR_EACH_FAMILY(options)
{
    const int backward = ca_family_at(*family)->operation == CLATTN_BACKWARD;
    struct fixture f;

    mostly_unoptimised(*family, 5);
    fixture_open(&f);
    for (int left = 28; left < 32; left++) {
        char options[192];
        snprintf(options, sizeof options,
                 "f16 b2 h4/2 q45 k131 d24 causal=%d window=%d,* mask=bhqk bias=bf16:hqk alibi "
                 "sinks klen qlen %s",
                 86 - left / 2, left, backward ? "softcap=5 dbias dslopes dsinks" : "lse");
        pass(&f, *family, options, 0.3);
    }
    fixture_close(&f);
}

/* Gradients on CPUs process keys from the beginning of a column of blocks. It may lie anywhere
 * between two multiples of four, whose keys share random numbers. */
Test(dropout, columns_between_fours) {
    static const struct {
        const char *family, *tunables, *problem;
    } cases[] = {
        {"backward_cpu UNIT=vector", "SIMD_WIDTH=4 BLOCK_VECTORS=2 BLOCKS_PER_TILE=1 SPLIT_K=2",
         "bwd f32 q21 k96 d9 dropout=0.3 blocks=16x17:12"},
        {"backward_cpu UNIT=vector", "SIMD_WIDTH=8 BLOCK_VECTORS=2 BLOCKS_PER_TILE=1 SPLIT_K=2",
         "bwd f32 q21 k96 d9 dropout=0.3 blocks=16x18:12"},
        {"backward_cpu UNIT=pairs", "BLOCKS_PER_TILE=1 SPLIT_K=2",
         "bwd bf16 q21 k200 d32 dropout=0.3 blocks=16x67:6"},
    };
    struct fixture f;

    unoptimised();
    fixture_open(&f);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct trial t = {
            .problem = fixture_problem(cases[n].problem), .family = cases[n].family, .seed = 17};
        const clattn_plan_options options = {
            .struct_size = sizeof options, .family = t.family, .tunables = cases[n].tunables};
        snprintf(t.tunables, sizeof t.tunables, "%s", cases[n].tunables);
        if (clattn_plan_supports(f.context, &t.problem, &options) == CLATTN_SUCCESS)
            trial_pass(&f, &t);
        else
            cr_expect(n == 2, "%s", cases[n].problem); /* bf16's instructions, or an emulation */
    }
    fixture_close(&f);
}

/* Weights are handed out as they are before dropout; o is what comes after it. */
Test(dropout, weights) {
    struct trial t = {.problem = fixture_problem("fwd f32 h2 q9 k50 d8 scores=weights dropout=0.5"),
                      .seed = 3};
    struct fixture f;

    fixture_open(&f);
    trial_pass(&f, &t);
    fixture_close(&f);
}

/* ---- seeds ------------------------------------------------------------------------------------ */

static void run(struct fixture *f, struct trial *t, const uint64_t seed, const cl_uint offset)
{
    const clattn_plan_options options = {.struct_size = sizeof options, .family = t->family};
    struct tensor_arguments tensors = trial_send(f, t);
    clattn_plan *plan;

    tensors.dropout_seed = seed;
    tensors.dropout_offset = offset;
    fixture_need_groups_of(f, t->family);
    cr_assert(clattn_plan_create(f->context, &t->problem, &options, &plan) == CLATTN_SUCCESS, "%s",
              f->log.last);
    cr_assert(tensor_execute(t->problem.operation, plan, f->queue, &tensors, 0, NULL, NULL) ==
              CLATTN_SUCCESS);
    trial_receive(f, t, &tensors);
    clattn_plan_release(plan);
}

/* Returns whether all results have the bits of the last call. */
static int same_bits(const struct trial *t, unsigned char *last[NUM_TENSORS])
{
    int same = 1;

    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct host_tensor *x = &t->tensor[id];
        if (!x->bytes || !x->shape.written)
            continue;
        same = same && last[id] && memcmp(last[id], x->got, x->num_bytes) == 0;
        free(last[id]);
        last[id] = malloc(x->num_bytes);
        cr_assert(last[id] != NULL);
        memcpy(last[id], x->got, x->num_bytes);
    }
    return same;
}

FOR_EACH_FAMILY(seeds_and_offsets)
{
    static const struct {
        uint64_t seed;
        cl_uint offset;
        int same; /* as the ones before */
    } runs[] = {{5, 1, 0}, {5, 1, 1}, {5, 2, 0}, {6, 2, 0}, {6 + (UINT64_C(1) << 32), 2, 0},
                {5, 1, 0}, {5, 1, 1}};
    struct trial t = make(*family, kind_for(*family), 0.5);
    unsigned char *last[NUM_TENSORS] = {NULL};
    struct fixture f;

    mostly_unoptimised(*family, 5);
    fixture_open(&f);
    trial_fill(&t);
    for (size_t n = 0; n < sizeof runs / sizeof *runs; n++) {
        run(&f, &t, runs[n].seed, runs[n].offset);
        cr_assert(same_bits(&t, last) == runs[n].same, "run %zu", n);
    }
    for (int id = 0; id < NUM_TENSORS; id++)
        free(last[id]);
    trial_free(&t);
    fixture_close(&f);
}

/* ---- forward and backward ---------------------------------------------------------------------- */

enum { QUERIES = 20, KEYS = 70, DIM_QK = 20, DIM_V = 9 };

struct point {
    float q[QUERIES * DIM_QK], k[KEYS * DIM_QK], v[KEYS * DIM_V];
};

/* sum(do * o), by the library. */
static double loss(struct fixture *f, const struct point *x, const float *d_o, float *o, float *lse)
{
    const clattn_problem p =
        fixture_problem("fwd f32 q20 k70 d20/9 causal=40 window=24,* lse dropout=0.4");
    const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = x->q,
                                                 .k = x->k,
                                                 .v = x->v,
                                                 .o = o,
                                                 .lse = lse,
                                                 .dropout_seed = 77,
                                                 .dropout_offset = 5};
    double sum = 0.0;

    cr_assert(clattn_attention_forward_host(f->context, &p, NULL, &tensors) == CLATTN_SUCCESS, "%s",
              f->log.last);
    for (int n = 0; n < QUERIES * DIM_V; n++)
        sum += (double)d_o[n] * (double)o[n];
    return sum;
}

static void draw(struct rng *r, float *x, const size_t count)
{
    for (size_t n = 0; n < count; n++)
        x[n] = (float)rng_uniform(r, -1, 1);
}

/* The derivative of the loss in random directions, by differences of what forward computes. */
Test(dropout, differences) {
    enum { NUMBERS = sizeof(struct point) / sizeof(float) };
    const clattn_problem p =
        fixture_problem("bwd f32 q20 k70 d20/9 causal=40 window=24,* dropout=0.4");
    float d_o[QUERIES * DIM_V], o[QUERIES * DIM_V], lse[QUERIES];
    struct rng r = rng_seed(41);
    struct point x, gradient;
    struct fixture f;

    draw(&r, (float *)&x, NUMBERS);
    draw(&r, d_o, QUERIES * DIM_V);
    unoptimised();
    fixture_open(&f);
    loss(&f, &x, d_o, o, lse);
    const clattn_host_backward_tensors tensors = {.struct_size = sizeof tensors,
                                                  .q = x.q,
                                                  .k = x.k,
                                                  .v = x.v,
                                                  .o = o,
                                                  .lse = lse,
                                                  .d_o = d_o,
                                                  .dq = gradient.q,
                                                  .dk = gradient.k,
                                                  .dv = gradient.v,
                                                  .dropout_seed = 77,
                                                  .dropout_offset = 5};
    cr_assert(clattn_attention_backward_host(f.context, &p, NULL, &tensors) == CLATTN_SUCCESS, "%s",
              f.log.last);
    for (int n = 0; n < 20; n++) {
        const double step = 0x1p-7;
        struct point direction, before = x, after = x;
        double want = 0.0, size = 0.0;
        float other_o[QUERIES * DIM_V], other_lse[QUERIES];
        draw(&r, (float *)&direction, NUMBERS);
        for (size_t m = 0; m < NUMBERS; m++) {
            const double term = (double)((float *)&direction)[m] * (double)((float *)&gradient)[m];
            ((float *)&before)[m] -= (float)step * ((float *)&direction)[m];
            ((float *)&after)[m] += (float)step * ((float *)&direction)[m];
            want += term;
            size += fabs(term);
        }
        const double got = (loss(&f, &after, d_o, other_o, other_lse) -
                            loss(&f, &before, d_o, other_o, other_lse)) /
                           (2.0 * step);
        cr_assert(fabs(got - want) <= 2e-3 * size, "%g by differences, %g by the gradients", got,
                  want);
    }
    fixture_close(&f);
}

/* ---- devices ---------------------------------------------------------------------------------- */

/* PoCL's two drivers for one processor; elsewhere there is nothing to compare. */
Test(dropout, two_devices) {
    const clattn_problem p = fixture_problem("fwd " KIND " dropout=0.5");
    enum { BYTES = 2 * 3 * 37 * 70 };
    static unsigned char masks[2][BYTES];
    cl_device_id devices[16];
    size_t count = 0, used = 0;

    unoptimised();
    if (!getenv("POCL_DEVICES"))
        ca_variable_set("POCL_DEVICES", "pthread basic");
    cr_assert(clattn_device_list(devices, 16, &count) == CLATTN_SUCCESS);
    for (size_t n = 0; n < count && n < 16 && used < 2; n++) {
        clattn_device_info info = {.struct_size = sizeof info};
        struct fixture f;
        char index[8];
        if (clattn_device_query(devices[n], &info) != CLATTN_SUCCESS ||
            strcmp(info.platform_name, "Portable Computing Language") != 0)
            continue;
        snprintf(index, sizeof index, "%zu", n);
        ca_variable_set("CLATTN_DEVICE", index);
        fixture_open(&f);
        cr_assert(f.device == devices[n]);
        const clattn_buffer mask = {.buffer = fixture_buffer(&f, BYTES, NULL)};
        cr_assert(clattn_dropout_mask(f.context, &p, 17, 3, f.queue, &mask, 0, NULL, NULL) ==
                  CLATTN_SUCCESS);
        fixture_read(&f, mask.buffer, BYTES, masks[used++]);
        clReleaseMemObject(mask.buffer);
        for (size_t k = 0; ca_family_at(k); k++) {
            const char *name = ca_family_at(k)->full_name;
            if (strcmp(name, "fused_cpu UNIT=vector") == 0 ||
                strcmp(name, "backward_cpu UNIT=vector") == 0)
                pass(&f, k, kind_for(k), 0.5);
        }
        fixture_close(&f);
    }
    if (used < 2)
        cr_skip_test("there are no two devices of PoCL");
    cr_assert(memcmp(masks[0], masks[1], BYTES) == 0);
}

/* ---- planning --------------------------------------------------------------------------------- */

/* Results that were tuned for one rate serve all rates, but not problems without dropout. */
Test(dropout, problem_class) {
    static const char *const texts[] = {"fwd f32 h8 q1024 d64", "fwd f32 h8 q1024 d64 dropout=0.1",
                                        "fwd f32 h8 q1024 d64 dropout=0.9"};
    char class[3][256];

    for (size_t n = 0; n < 3; n++) {
        const clattn_problem p = fixture_problem(texts[n]);
        cr_assert(clattn_problem_class(&p, class[n], sizeof class[n], NULL) == CLATTN_SUCCESS);
    }
    cr_assert(strcmp(class[0], class[1]) != 0 && strcmp(class[1], class[2]) == 0, "%s", class[1]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Products of int8 ("Products of int8" in clattn/problem.h). The sweep draws them with other options; its bound is one of the
 * worst case, so that here stand data for which they are exact, and what the mean of keys is for. */
#include "bench/judge/row.h"
#include "context/context.h"
#include "device/capacity.h"
#include "families/fragments.h"
#include "families/registry.h"
#include "tests/support/problems.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include "tests/units/unit_trials.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

TestSuite(int8, .init = unoptimised, .timeout = 240);

static const char *const families[] = {"fused_cpu UNIT=bytes", "fused_gpu UNIT=bytes",
                                       "fused_cpu UNIT=amx", "fused_gpu UNIT=mma"};
enum { FAMILIES = sizeof families / sizeof *families };

/* Tiles are of problems in bf16 and f16, a processor's of standard precision; of groups a test takes two. */
static int takes(const char *family, const char *text, size_t number)
{
    if (family == families[2] || family == families[3])
        return !strstr(text, " f32 ") && (family == families[3] || !strstr(text, "strict"));
    return family == families[0] || number % 3 == 0;
}

static struct trial filled(const char *family, const char *text, uint64_t seed)
{
    struct trial t = {.problem = fixture_problem(text), .family = family, .seed = seed};

    trial_fill(&t);
    return t;
}

static void run(struct trial *t)
{
    struct fixture f;

    unit_open(&f, 1);
    fixture_need_groups_of(&f, t->family);
    trial_run(&f, t);
    fixture_close(&f);
}

/* Sets a row to whole numbers of `unit` from its second element on, with 127 among them, times sign. */
static void set_numbers(const struct trial *t, int id, const size_t at[3], double unit, double sign,
                        uint64_t seed)
{
    const size_t dim = t->problem.dim_qk;
    struct rng r = rng_seed(seed);
    const size_t largest = 1 + rng_below(&r, dim - 1);

    for (size_t d = 1; d < dim; d++) {
        const double number = d == largest ? 127.0 : (double)rng_below(&r, 255) - 127.0;
        trial_set(t, id, at[0], at[1], at[2], d, sign * unit * number);
    }
}

/* Sets q to numbers that bytes hold, of a unit for each row. */
static void set_queries(const struct trial *t)
{
    const clattn_problem *p = &t->problem;

    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->heads; h++)
            for (size_t i = 0; i < p->seq_q; i++) {
                const double unit = ldexp(1.0, -(int)(i % 5));
                set_numbers(t, TENSOR_Q, (size_t[]){b, h, i}, unit, 1.0, 7 * i + h);
                trial_set(t, TENSOR_Q, b, h, i, 0, unit * (double)(i % 9));
            }
}

/* Sets k to numbers that bytes hold, behind a mean of 1024 in the first column: of two keys one is the other's negative. */
static void set_keys(const struct trial *t)
{
    const clattn_problem *p = &t->problem;

    for (size_t b = 0; b < p->batch; b++)
        for (size_t g = 0; g < p->kv_heads; g++)
            for (size_t j = 0; j < p->seq_kv; j++) {
                const size_t at[] = {b, g, j};
                set_numbers(t, TENSOR_K, at, 1.0, j % 2 ? -1.0 : 1.0, 1000 + 3 * (j / 2) + g);
                trial_set(t, TENSOR_K, b, g, j, 0, 1024.0);
            }
}

/* Sets a cache of int8 to bytes of all kinds. */
static void set_bytes(const struct trial *t)
{
    const struct host_tensor *k = &t->tensor[TENSOR_K];
    const size_t *size = k->shape.size;
    struct rng r = rng_seed(11);

    for (size_t n = 0; n < size[0] * size[1] * size[2] * size[3]; n++) {
        const size_t d = n % size[3], j = n / size[3] % size[2],
                     g = n / size[3] / size[2] % size[1];
        const size_t b = n / size[3] / size[2] / size[1];
        const size_t at = k->offset + tensor_index(&k->shape, b, g, j, d);
        k->bytes[tensor_bytes(&k->shape, at - at % 32) + at % 32] =
            (unsigned char)rng_below(&r, 256);
    }
}

/* The elements of o and lse that are outside of the bounds of a problem whose products are exact. */
static size_t inexact(const struct trial *t)
{
    const struct tensor_view view = trial_sent(t);
    clattn_problem p = t->problem;
    struct reference_row row;
    size_t count = 0;

    p.int8 = 0;
    cr_assert(reference_row_open(&p, PRECISION_SINGLE, &row));
    for (size_t n = 0; n < p.batch * p.heads * p.seq_q; n++) {
        const size_t b = n / p.seq_q / p.heads, h = n / p.seq_q % p.heads, i = n % p.seq_q;
        reference_row_compute(&p, &view, b, h, i, &row);
        for (size_t d = 0; d < p.dim_v; d++)
            count += !within(trial_value(t, TENSOR_O, b, h, i, d), row.o[d]);
        if (p.lse)
            count += !within(trial_value(t, TENSOR_LSE, b, h, 0, i), row.lse);
    }
    reference_row_close(&row);
    return count;
}

/* Rows of numbers that bytes hold have the scores of q and k, and so results within the bounds without int8. */
static void expect_exact_products(const char *family)
{
    static const char *const texts[] = {
        "fwd f32 b2 h4/2 q40 k64 d24/16 scale=0.003 softcap=3 bias=f32:hqk lse precision=int8",
        "fwd bf16 h2 q50 k130 d40/24 scale=0.002 causal=br alibi sinks lse precision=int8 strict",
        "fwd f16 b2 h2/1 q33 k96 d9/8 scale=-0.001 mask=bqk window=40,3 precision=int8",
        "fwd f32 h2 q20 k64 d130/8 scale=0.001 score=softcap blocks=8x16:9 lse precision=int8",
        "fwd bf16 h2 q50 k130 d80/24 scale=0.002 causal=br alibi sinks lse precision=int8"};

    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        if (!takes(family, texts[n], n))
            continue;
        struct trial t = filled(family, texts[n], n);
        set_queries(&t);
        set_keys(&t);
        run(&t);
        cr_expect(inexact(&t) == 0, "%s '%s': %zu", family, texts[n], inexact(&t));
        trial_free(&t);
    }
}

Test(int8, products_of_bytes_are_exact) {
    expect_exact_products(families[0]);
}

Test(int8, products_of_bytes_are_exact_in_groups) {
    expect_exact_products(families[1]);
}

Test(int8, products_of_bytes_are_exact_in_tiles) {
    expect_exact_products(families[2]);
}

Test(int8, products_of_bytes_are_exact_in_fragments) {
    expect_exact_products(families[3]);
}

/* A cache of int8 is multiplied as it is stored, and has no mean: -128 too. */
static void expect_stored_products(const char *family)
{
    static const char *const texts[] = {
        "fwd f32 b2 h4/2 q40 k70 d32 scale=0.001 kcache=int8 kscales=bhk lse precision=int8",
        "fwd f16 h2 q40 k70 d64 scale=0.0001 kcache=int8 vcache=int8 softcap=2 lse precision=int8"};

    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        if ((family == families[2] || family == families[3]) && !takes(family, texts[n], n))
            continue;
        struct trial t = filled(family, texts[n], n);
        set_queries(&t);
        set_bytes(&t);
        run(&t);
        cr_expect(inexact(&t) == 0, "%s '%s': %zu", family, texts[n], inexact(&t));
        trial_free(&t);
    }
}

Test(int8, a_cache_of_bytes_is_multiplied_as_it_is) {
    expect_stored_products(families[0]);
}

Test(int8, a_cache_of_bytes_is_multiplied_as_it_is_in_groups) {
    expect_stored_products(families[1]);
}

Test(int8, a_cache_of_bytes_is_multiplied_as_it_is_in_tiles) {
    expect_stored_products(families[2]);
}

Test(int8, a_cache_of_bytes_is_multiplied_as_it_is_in_fragments) {
    expect_stored_products(families[3]);
}

/* Root mean square of the error of o. Rows of k are numbers in +-1, and what `change` makes of them. */
static double error_of(const char *family, void (*change)(const struct trial *t))
{
    struct trial t = filled(family, "fwd f32 h2 q40 k200 d64/16 bias=f32:qk precision=int8", 3);
    clattn_problem exact = t.problem;
    struct reference_row row;
    double sum = 0.0;

    trial_set_ordinary(&t, TENSOR_Q, 1);
    trial_set_ordinary(&t, TENSOR_K, 2);
    trial_set_ordinary(&t, TENSOR_V, 3);
    for (size_t i = 0; i < exact.seq_q; i++)
        for (size_t j = 0; j < exact.seq_kv; j++)
            trial_set(&t, TENSOR_BIAS, 0, 0, i, j, j == 17 ? -INFINITY : 0.0);
    if (change)
        change(&t);
    run(&t);
    const struct tensor_view view = trial_sent(&t);
    exact.int8 = 0;
    cr_assert(reference_row_open(&exact, PRECISION_SINGLE, &row));
    for (size_t n = 0; n < exact.heads * exact.seq_q; n++) {
        const size_t h = n / exact.seq_q, i = n % exact.seq_q;
        reference_row_compute(&exact, &view, 0, h, i, &row);
        for (size_t d = 0; d < exact.dim_v; d++) {
            const double off = trial_value(&t, TENSOR_O, 0, h, i, d) - row.o[d].value;
            sum += off * off;
        }
    }
    reference_row_close(&row);
    trial_free(&t);
    return sqrt(sum / (double)(exact.heads * exact.seq_q * exact.dim_v));
}

/* Three columns of keys with a large value in common. */
static void set_outliers(const struct trial *t)
{
    for (size_t h = 0; h < t->problem.kv_heads; h++)
        for (size_t j = 0; j < t->problem.seq_kv; j++)
            for (size_t d = 5; d < 64; d += 20)
                trial_set(t, TENSOR_K, 0, h, j, d, (d == 25 ? -40.0 : 60.0) + (double)(j % 3) / 8);
}

/* A key that the bias hides from all queries. */
static void set_huge(const struct trial *t)
{
    for (size_t h = 0; h < t->problem.kv_heads; h++)
        for (size_t d = 0; d < t->problem.dim_qk; d++)
            trial_set(t, TENSOR_K, 0, h, 17, d, 1e9);
}

/* What keys have in common costs no accuracy, and what a mask hides hardly any. */
static void expect_accuracy(const char *family)
{
    const double usual = error_of(family, NULL), outliers = error_of(family, set_outliers),
                 hidden = error_of(family, set_huge);

    cr_expect(usual > 0.0 && usual < 0.01, "%s: %g", family, usual);
    cr_expect(outliers < 1.5 * usual, "%s: %g, without outliers %g", family, outliers, usual);
    cr_expect(hidden < 1.5 * usual, "%s: %g, without the hidden key %g", family, hidden, usual);
}

Test(int8, the_mean_of_keys_keeps_accuracy) {
    expect_accuracy(families[0]);
}

Test(int8, the_mean_of_keys_keeps_accuracy_in_groups) {
    expect_accuracy(families[1]);
}

/* A device without the instruction refuses the problem, unless the family is named. */
Test(int8, needs_the_instruction) {
    const clattn_problem p = fixture_problem("fwd f32 h2 q64 k64 d64 precision=int8");
    const clattn_plan_options forced = {.struct_size = sizeof forced, .family = families[0]};
    const clattn_plan_options other = {.struct_size = sizeof other,
                                       .family = "fused_cpu UNIT=vector"};
    struct fixture f;
    clattn_plan *plan;

    unit_open(&f, 1);
    cr_expect(clattn_plan_create(f.context, &p, NULL, &plan) == CLATTN_UNSUPPORTED);
    cr_expect(strstr(f.log.last, "no instruction for products of bytes"), "%s", f.log.last);
    cr_expect(clattn_plan_create(f.context, &p, &other, &plan) == CLATTN_UNSUPPORTED);
    cr_expect(strstr(f.log.last, "multiplies q and k as they are stored"), "%s", f.log.last);
    cr_expect(clattn_plan_create(f.context, &p, &forced, &plan) == CLATTN_SUCCESS);
    clattn_plan_release(plan);
    fixture_close(&f);
}

/* Which processors have the instruction. */
Test(int8, the_instruction_has_registers_of_its_own) {
    static const struct {
        const char *architecture;
        unsigned lanes;
        int has;
    } rows[] = {{"avx512_bf16 amx_bf16_off vnni", 16, 1},
                {"vnni", 8, 0},
                {"avx_vnni", 8, 1},
                {"avx_vnni", 16, 0},
                {"avx512_bf16", 16, 0}};

    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        clattn_device_info dev = {.struct_size = sizeof dev, .type = CL_DEVICE_TYPE_CPU};
        dev.vector_width_float = rows[n].lanes;
        strcpy(dev.architecture, rows[n].architecture);
        cr_expect(ca_multiplies_bytes(&dev) == rows[n].has, "%s", rows[n].architecture);
    }
}

/* Which matrix units multiply bytes, and faster than f16. */
Test(int8, matrix_units_multiply_bytes) {
    static const struct {
        const char *architecture, *extensions;
        unsigned sub_group;
        int has;
    } rows[] = {{"sm_75", "", 32, 0},
                {"sm_80", "", 32, 1},
                {"sm_120", "", 32, 1},
                {"gfx90a", "", 64, 0},
                {"gfx942", "", 64, 1},
                {"gfx1100", "", 32, 0},
                {"intel_12.55", "cl_intel_subgroup_matrix_multiply_accumulate", 8, 1},
                {"intel_12.0", "", 8, 0}};
    const clattn_problem given = fixture_problem("fwd f16 h2 q64 k64 d64 precision=int8");
    const struct ca_problem p = ca_problem_own(&given);
    const struct ca_family *mma = ca_family_find("fused_gpu UNIT=mma");

    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        clattn_device_info dev = {.struct_size = sizeof dev, .type = CL_DEVICE_TYPE_GPU};
        strcpy(dev.architecture, rows[n].architecture);
        strcpy(dev.extensions, rows[n].extensions);
        dev.sub_group_size = rows[n].sub_group;
        const size_t own = ca_instruction_of(&dev);
        cr_expect((own && ca_fragment_multiplies_bytes(&dev, own)) == rows[n].has, "%s",
                  rows[n].architecture);
        if (own)
            cr_expect((mma->unsupported(&p, &dev) == NULL) == rows[n].has, "%s",
                      rows[n].architecture);
    }
}

/* Which GPUs have an instruction of their work-items. */
Test(int8, gpus_have_the_instruction) {
    static const struct {
        const char *architecture, *extensions;
        int has;
    } rows[] = {{"sm_60", "", 0},
                {"sm_61", "", 1},
                {"sm_120", "", 1},
                {"gfx900", "", 0},
                {"gfx90c", "", 0},
                {"gfx1010", "", 0},
                {"gfx90a", "", 1},
                {"gfx1030", "", 1},
                {"gfx1151", "", 1},
                {"intel_12.0", "cl_khr_fp16", 0},
                {"intel_12.0", "cl_khr_fp16 cl_khr_integer_dot_product", 1},
                {"", "cl_arm_integer_dot_product_int8", 0},
                {"", "cl_arm_integer_dot_product_accumulate_int8 cl_khr_fp16", 1}};

    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        clattn_device_info dev = {.struct_size = sizeof dev, .type = CL_DEVICE_TYPE_GPU};
        strcpy(dev.architecture, rows[n].architecture);
        strcpy(dev.extensions, rows[n].extensions);
        cr_expect(ca_items_multiply_bytes(&dev) == rows[n].has, "%s %s", rows[n].architecture,
                  rows[n].extensions);
        dev.type = CL_DEVICE_TYPE_CPU;
        cr_expect(!ca_items_multiply_bytes(&dev), "%s of a CPU", rows[n].architecture);
    }
}

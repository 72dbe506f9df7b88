/* SPDX-License-Identifier: Apache-2.0 */
/* The least time of a problem, and the peaks of a device. */
#include "bench/judge/score.h"
#include "bench/judge/values.h"
#include "bench/timing/peaks.h"
#include "bench/timing/roof.h"
#include "bench/verify/sample.h"
#include "tests/support/rng.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- roof --------------------------------------------------------------------------------- */

static void parse(const char *text, clattn_problem *problem)
{
    char reason[256];

    cr_assert(eq(int, clattn_problem_parse(text, problem, reason, sizeof reason), CLATTN_SUCCESS),
              "%s: %s", text, reason);
}

static const char *pick(struct rng *r, const char *const *words, size_t count)
{
    return words[rng_below(r, count)];
}
#define PICK(r, ...)                                                                               \
    pick((r), (const char *const[]){__VA_ARGS__},                                                  \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* The text of a small problem with any options. */
static void draw_problem(struct rng *r, char text[512])
{
    const size_t kv_heads = 1 + rng_below(r, 2);

    snprintf(text, 512, "fwd %s b%zu h%zu/%zu q%zu k%zu d%zu/%zu %s %s %s %s %s %s %s %s %s %s",
             PICK(r, "f32", "f16", "bf16"), rng_below(r, 4), kv_heads * (1 + rng_below(r, 3)),
             kv_heads, rng_below(r, 12), rng_below(r, 14), 1 + rng_below(r, 5), 1 + rng_below(r, 5),
             PICK(r, "", "", "causal=tl", "causal=br", "causal=3", "causal=-2", "diagonal=br"),
             PICK(r, "", "", "window=2,*", "window=*,1", "window=0,0", "window=4,3"),
             PICK(r, "", "", "mask=bhqk", "mask=qk", "mask=bk", "mask=h", "mask=q", "mask=0.0.0.0"),
             PICK(r, "", "", "bias=f32:bhqk", "bias=f16:hqk", "bias=bf16:bq", "bias=f32:k"),
             PICK(r, "", "", "q=bshd", "q=0.60.5.1", "q=70.0.5.1", "q=900.100.0.0"),
             PICK(r, "", "", "k=sbhd", "k=0.90.6.1", "k=200.0.6.1", "k=200.100.6.0"),
             PICK(r, "", "", "v=bshd", "v=0.0.7.1", "v=200.100.0.1"), PICK(r, "", "", "qlen"),
             PICK(r, "", "", "klen", "klen lse"), PICK(r, "", "", "scores=raw", "scores=weights"));
}

/* Lengths out of range, and biases of -inf. */
static void spoil(struct rng *r, struct attention_case *c)
{
    const clattn_problem *p = &c->job.problem;
    const struct view bias = case_input_view(&c->job, INPUT_BIAS);

    for (size_t n = 0; p->bias && n < bias.extent; n++)
        if (rng_one_in(r, 4))
            value_set(p->bias_dtype, c->in[INPUT_BIAS].data, n, -INFINITY);
    for (int input = INPUT_Q_LENGTHS; input <= INPUT_KV_LENGTHS; input++)
        for (size_t b = 0; c->in[input].data != NULL && b < p->batch; b++)
            if (rng_one_in(r, 3))
                ((cl_int *)c->in[input].data)[b] = (cl_int)rng_below(r, 20) - 3;
}

/* The purposes for which each element is read, by its place: a byte for each element. */
struct touched {
    unsigned char *byte[INPUT_MASK + 1];
};

static void touch_row(struct touched *touched, const struct job *job, enum input input, size_t b,
                      size_t h, size_t s)
{
    const struct view view = case_input_view(job, input);

    for (size_t d = 0; d < view.size[3]; d++)
        touched->byte[input][view_place(&view, b, h, s, d)] = 1;
}

/* Returns the judge's view of pair (b, h, i, j): 1 if causality, windows and lengths leave it
 * visible, 2 if mask and bias do so, too. */
static int state_of(const struct reference *without, const struct reference *all, size_t b,
                    size_t h, size_t i, size_t j)
{
    const struct query query = reference_query(all, b, h, i);

    return reference_sees(all, &query, j) ? 2 : reference_sees(without, &query, j) ? 1 : 0;
}

/* Counts visible pairs and touches whatever they need. */
static double count_by_hand(const struct attention_case *c, struct touched *touched)
{
    const clattn_problem *p = &c->job.problem;
    const bool all_scores = p->scores == CLATTN_SCORES_RAW;
    const struct view mask = case_input_view(&c->job, INPUT_MASK),
                      bias = case_input_view(&c->job, INPUT_BIAS);
    const struct tensor_view tensors = sample_inputs(c);
    struct tensor_view bare = tensors;
    const struct reference all = reference_of(p, &tensors, PRECISION_SINGLE),
                           without = reference_of(p, &bare, PRECISION_SINGLE);
    double pairs = 0.0;

    bare.at[TENSOR_MASK] = bare.at[TENSOR_BIAS] = NULL;
    for (size_t n = 0; n < p->batch * p->heads * p->seq_q * p->seq_kv; n++) {
        const size_t j = n % p->seq_kv, i = n / p->seq_kv % p->seq_q;
        const size_t h = n / p->seq_kv / p->seq_q % p->heads,
                     b = n / p->seq_kv / p->seq_q / p->heads;
        const size_t kv_head = h / (p->heads / p->kv_heads);
        const int state = state_of(&without, &all, b, h, i, j);
        if (state > 0 && p->mask)
            touched->byte[INPUT_MASK][view_place(&mask, b, h, i, j)] = 1;
        if (state > 0 && p->bias)
            touched->byte[INPUT_BIAS][view_place(&bias, b, h, i, j)] = 1;
        if (state == 2 || all_scores) {
            touch_row(touched, &c->job, INPUT_Q, b, h, i);
            touch_row(touched, &c->job, INPUT_K, b, kv_head, j);
        }
        if (state == 2)
            touch_row(touched, &c->job, INPUT_V, b, kv_head, j);
        pairs += state == 2;
    }
    return pairs;
}

static double bytes_by_hand(const struct job *job, const struct touched *touched)
{
    const clattn_problem *p = &job->problem;
    const size_t rows = p->batch * p->heads * p->seq_q;
    size_t bytes = rows * p->dim_v * value_bytes(p->dtype) + (p->lse ? rows * 4 : 0) +
                   (p->scores != CLATTN_SCORES_NONE ? rows * p->seq_kv * 4 : 0);

    for (int input = INPUT_Q; input <= INPUT_MASK; input++) {
        const struct view view = case_input_view(job, input);
        const bool there = input <= INPUT_V || (input == INPUT_BIAS ? p->bias : p->mask);
        const size_t element = input == INPUT_MASK ? 1 : value_bytes(view.dtype);
        for (size_t n = 0; there && n < view.extent; n++)
            bytes += touched->byte[input][n] * element;
    }
    return (double)bytes;
}

Test(bench_roof, operations_and_bytes_are_those_counted_pair_by_pair) {
    struct rng r = rng_seed(20250811);

    for (int n = 0; n < 4000; n++) {
        struct touched touched;
        struct attention_case c;
        struct message why;
        clattn_problem problem;
        char text[512];
        draw_problem(&r, text);
        parse(text, &problem);
        cr_assert(case_random(&c, &(struct job){.problem = problem}, (unsigned)n, &why), "%s",
                  why.text);
        spoil(&r, &c);
        for (int input = INPUT_Q; input <= INPUT_MASK; input++)
            touched.byte[input] = calloc(case_input_view(&c.job, input).extent + 1, 1);
        const double pairs = count_by_hand(&c, &touched);
        cr_assert(eq(dbl, case_flops(&c), 2.0 * (double)(problem.dim_qk + problem.dim_v) * pairs),
                  "%s", text);
        cr_assert(eq(dbl, case_bytes(&c), bytes_by_hand(&c.job, &touched)), "%s", text);
        for (int input = INPUT_Q; input <= INPUT_MASK; input++)
            free(touched.byte[input]);
        case_free(&c);
    }
}

/* Where only shapes decide the library counts in closed form. */
Test(bench_roof, agrees_with_the_library_where_no_tensor_hides_keys) {
    static const char *const texts[] = {
        "fwd f32 q8192 d64 causal=tl",
        "fwd f16 b2 h32/8 q700 k1500 d128 causal=br window=511,*",
        "fwd bf16 b3 h4 q1 k4096 d192/128 causal=br",
    };

    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        struct attention_case c = {.name = ""};
        parse(texts[n], &c.job.problem);
        cr_assert(eq(dbl, case_flops(&c), clattn_problem_flops(&c.job.problem)), "%s", texts[n]);
    }
}

Test(bench_roof, bytes_of_known_problems) {
    static const struct {
        const char *text;
        double bytes;
    } cases[] = {
        {"fwd f32 b2 h3 q5 k7 d4/6", 4 * 2 * 3 * (5 * 4 + 7 * 4 + 7 * 6 + 5 * 6)},
        {"fwd f16 h8/2 q1 k1000 d64 causal=br", 2 * (2 * 8 * 64 + 2 * 2 * 1000 * 64)},
        {"fwd f16 h8/2 q1 k1000 d64 causal=br window=99,0", 2 * (2 * 8 * 64 + 2 * 2 * 100 * 64)},
        {"fwd f32 h1 q4 k9 d1 causal=tl", 4 * (4 + 4 + 4 + 4)},
        {"fwd f32 h1 q4 k9 d1 lse scores=raw", 4 * (4 + 9 + 9 + 4 + 4 + 36)},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct attention_case c = {.name = ""};
        parse(cases[n].text, &c.job.problem);
        cr_assert(eq(dbl, case_bytes(&c), cases[n].bytes), "%s", cases[n].text);
    }
}

Test(bench_roof, copies_cover_the_caches_where_memory_limits) {
    static const struct {
        double flops, bytes, gflops, gigabytes, cover, set, most;
        size_t copies;
    } cases[] = {
        {1e9, 1e6, 100, 10, 1e8, 1e6, 1e9, 1},  /* 10 ms of operations, 0.1 ms of bytes */
        {1e6, 1e6, 100, 10, 1e8, 1e6, 1e9, 64}, /* 100 would cover it */
        {1e6, 3e6, 100, 10, 1e8, 3e6, 1e9, 34}, /* rounded up */
        {1e6, 3e6, 100, 10, 1e8, 3e6, 2e7, 6},  /* no more room */
        {1e6, 3e6, 100, 10, 1e8, 5e8, 1e9, 2},  /* for caches that are hardly touched */
        {1e6, 3e6, 100, 10, 1e8, 3e6, 1e6, 1},  /* not even for one */
        {1e6, 2e8, 100, 10, 1e8, 2e8, 1e9, 1},  /* covers it alone */
        {0, 0, 100, 10, 1e8, 0, 1e9, 1},        /* nothing to do */
        {1e6, 1e6, 0, 0, 1e8, 1e6, 1e9, 1},     /* no peaks */
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
        cr_assert(eq(sz,
                     roof_copies(cases[n].flops, cases[n].bytes, cases[n].gflops,
                                 cases[n].gigabytes, cases[n].cover, cases[n].set, cases[n].most),
                     cases[n].copies),
                  "case %zu", n);
}

/* ---- peaks -------------------------------------------------------------------------------- */

/* The default device, made up to look like others. */
Test(bench_peaks, forms_suit_the_device) {
    static const struct {
        cl_device_type type;
        unsigned width;
        cl_bool fp16;
        unsigned lanes; /* Lanes of the vectors of all float forms; 0 if they differ. */
        const char *architecture;
    } cases[] = {
        {CL_DEVICE_TYPE_CPU, 16, CL_FALSE, 16, ""},
        {CL_DEVICE_TYPE_CPU, 16, CL_TRUE, 16, "avx512_bf16"},
        {CL_DEVICE_TYPE_CPU, 16, CL_FALSE, 16, "avx512_bf16 amx_bf16"},
        {CL_DEVICE_TYPE_CPU, 8, CL_TRUE, 8, ""},
        {CL_DEVICE_TYPE_CPU, 4, CL_FALSE, 4, ""},
        {CL_DEVICE_TYPE_CPU, 1, CL_FALSE, 0, ""},
        {CL_DEVICE_TYPE_GPU, 1, CL_FALSE, 0, ""},
        {CL_DEVICE_TYPE_GPU, 4, CL_TRUE, 0, ""},
        {CL_DEVICE_TYPE_ACCELERATOR, 1, CL_TRUE, 0, ""},
    };
    struct target target;
    struct message why;

    cr_assert(target_open(&target, "", &why), "%s", why.text);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct peak_form forms[PEAK_MOST_FORMS];
        clattn_device_info info = *target.info;
        bool has[NUM_PEAK_KINDS] = {false};
        info.type = cases[n].type;
        info.vector_width_float = cases[n].width;
        info.fp16 = cases[n].fp16;
        info.max_work_group_size = 128;
        snprintf(info.architecture, sizeof info.architecture, "%s", cases[n].architecture);
        const size_t count = peak_form_list(forms, &info);
        cr_assert(lt(sz, 0, count));
        cr_assert(le(sz, count, PEAK_MOST_FORMS));
        cr_assert(forms[0].kind == PEAK_F32, "case %zu has none for f32", n);
        for (size_t f = 0; f < count; f++) {
            char text[64];
            has[forms[f].kind] = true;
            peak_form_describe(&forms[f], text);
            cr_assert(lt(sz, strlen(text), 63), "%s", text);
            cr_assert(eq(sz, forms[f].local, forms[f].alone ? 1 : 128), "%s", text);
            cr_assert(forms[f].kind != PEAK_F32 || cases[n].lanes == 0 ||
                      forms[f].lanes == cases[n].lanes);
            cr_assert(eq(sz, forms[f].global % forms[f].local, 0), "%s", text);
        }
        cr_assert(eq(int, has[PEAK_F16], (int)cases[n].fp16), "case %zu", n);
        cr_assert(eq(int, has[PEAK_BF16], cases[n].architecture[0] != '\0'), "case %zu", n);
    }
    target_close(&target);
}

/* Two samples of each, all of them positive and told in words. */
Test(bench_peaks, the_default_device_has_them) {
    struct target target;
    struct peaks peaks;
    struct message why;

    cr_assert(target_open(&target, "", &why), "%s", why.text);
    cr_assert(peaks_open(&peaks, &target, 0, &why), "%s", why.text);
    cr_assert(strstr(peaks.form[PEAK_F32], "(") != NULL);
    cr_assert(eq(int, peaks.form[PEAK_F16][0] != '\0', (int)target.info->fp16));
    cr_assert(eq(int, peaks.form[PEAK_BF16][0] != '\0',
                 strstr(target.info->architecture, "_bf16") != NULL));
    cr_assert(lt(dbl, 1e6, peaks_read_bytes(&peaks)));
    for (int n = 0; n < 2; n++) {
        double value[2 + NUM_PEAK_KINDS] = {0.0};
        cr_assert(peaks_read(&peaks, &value[0], &why), "%s", why.text);
        cr_assert(peaks_copy(&peaks, &value[1], &why), "%s", why.text);
        for (int kind = 0; kind < NUM_PEAK_KINDS; kind++)
            if (peaks.fastest[kind] != NULL)
                cr_assert(peaks_fma(&peaks, (enum peak_kind)kind, 0.0, &value[2 + kind], &why),
                          "%s", why.text);
        for (int v = 0; v < 2 + NUM_PEAK_KINDS; v++)
            cr_assert(eq(int, value[v] > 0.0, v < 2 || peaks.fastest[v - 2] != NULL), "peak %d", v);
    }
    peaks_close(&peaks);
    target_close(&target);
}

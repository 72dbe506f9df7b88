/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of clattn-bench that decide whether a result is right. */
#include "bench/cases/case.h"
#include "bench/cases/case_file.h"
#include "bench/commands/duel.h"
#include "bench/verify/check.h"
#include "bench/verify/compare.h"
#include "cli/job.h"
#include "tests/bench/run_example.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Test(bench_worst, nan_and_infinity_are_right_only_where_they_are_wanted) {
    static const struct {
        double got, want, bound;
        bool ok;
    } cases[] = {
        {1.0, 1.0, 0.0, true},           {1.1, 1.0, 0.2, true},
        {1.1, 1.0, 0.0, false},          {NAN, 1.0, 1e30, false},
        {1.0, NAN, 1e30, false},         {NAN, NAN, 0.0, true},
        {INFINITY, INFINITY, 0.0, true}, {-INFINITY, INFINITY, 1.0, false},
        {INFINITY, 1.0, 1e30, false},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct worst worst = {.results = 0};
        cr_assert(not(worst_ok(&worst)), "nothing was compared");
        worst_add(&worst, cases[n].got, cases[n].want, cases[n].bound);
        cr_assert(eq(int, worst_ok(&worst), cases[n].ok), "case %zu", n);
        worst_add(&worst, 0.0, 0.0, 1.0);
        cr_assert(eq(int, worst_ok(&worst), cases[n].ok), "case %zu is forgotten", n);
    }
}

Test(bench_duel, a_verdict_needs_the_whole_interval_on_one_side) {
    static const struct {
        struct ca_interval ratio;
        const char *verdict;
    } cases[] = {
        {{1.05, 1.01, 1.1}, "slower"},
        {{0.95, 0.9, 0.99}, "faster"},
        {{1.05, 0.99, 1.1}, "tie"},
        {{1.0, 1.0, 1.0}, "tie"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
        cr_assert(strcmp(duel_verdict(&cases[n].ratio), cases[n].verdict) == 0, "case %zu", n);
}

/* With V the same for all keys the output is that value: known without a reference. */
Test(bench_check, accepts_what_is_right_and_nothing_else) {
    const char *text = "fwd f32 b2 h4/2 q5 k9 d8/3 causal=br softcap=3 alibi mask=bk klen";
    struct attention_case attention;
    struct message why;

    example_case(&attention, text);
    float *v = attention.in[INPUT_V].data;
    for (size_t n = 0; n < attention.in[INPUT_V].bytes / sizeof *v; n++)
        v[n] = 1.25f;
    cl_int *lengths = attention.in[INPUT_KV_LENGTHS].data;
    lengths[0] = 9;
    lengths[1] = 0; /* this batch sees nothing */
    memset(attention.in[INPUT_MASK].data, 1, attention.in[INPUT_MASK].bytes);

    const size_t count = 2 * 4 * 5 * 3;
    float *o = malloc(count * sizeof *o);
    for (size_t n = 0; n < count; n++)
        o[n] = n < count / 2 ? 1.25f : 0.0f;
    struct worst worst = {.results = 0};
    const struct results results = {.out = {[OUTPUT_O] = o}};
    cr_assert(check_results(&attention, &results, PRECISION_SINGLE, &worst, &why), "%s", why.text);
    cr_assert(eq(sz, worst.results, count));
    cr_assert(worst_ok(&worst), "error %g, bound %g", worst.error, worst.bound);

    for (size_t n = 0; n < count; n += 7) {
        static const float wrong[] = {1.2501f, 1e-6f, NAN};
        const float kept = o[n];
        for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
            o[n] = wrong[w];
            worst = (struct worst){.results = 0};
            cr_assert(check_results(&attention, &results, PRECISION_SINGLE, &worst, &why), "%s",
                      why.text);
            cr_assert(not(worst_ok(&worst)), "%g passed as element %zu", (double)wrong[w], n);
        }
        o[n] = kept;
    }
    free(o);
    case_free(&attention);
}

/* ---- ONNX's own cases of windows ------------------------------------------------------------- */

struct window_case {
    char file[64];
    char problem[96];
};

ParameterizedTestParameters(bench_case, windows) {
    static struct window_case cases[] = {
        {"bidirectional_window", "fwd f32 b1 h1 q5 k5 d1 window=1,2"},
        {"local_window_default", "fwd f32 b2 h3 q4 k6 d8"},
        {"local_window_rank1_boolean_mask", "fwd f32 b2 h3 q4 k6 d8 causal=tl window=2,* mask=k"},
        {"local_window_with_past", "fwd f32 b2 h3 q4 k10 d8 causal=8 window=2,*"},
        {"local_window_ext_cache_rank2_mask",
         "fwd f32 b2 h3 q4 k8 d8 causal=br window=2,* bias=f32:k klen"},
        {"3d_local_window", "fwd f32 b2 h4/1 q4 k6 d8/6 causal=tl window=2,*"},
        {"local_window_gqa_rank4_mask", "fwd f32 b2 h4/2 q4 k6 d8/6 softcap=2 causal=tl window=2,* "
                                        "mask=bhqk scores=weights"},
    };
    return cr_make_param_array(struct window_case, cases, sizeof cases / sizeof *cases);
}

/* The file's answers are what double precision makes of the problem that was read. */
ParameterizedTest(struct window_case *c, bench_case, windows) {
    struct attention_case attention;
    struct safetensors file;
    struct message why;
    char path[256];

    snprintf(path, sizeof path, TEST_DATA "/windows/test_attention_%s.safetensors", c->file);
    cr_assert(safetensors_read(&file, path, &why), "%s", why.text);
    cr_assert(case_file_read(&attention, &file, path, 0, &why), "%s", why.text);
    char *text = job_text(&attention.job);
    clattn_problem want;
    cr_assert(clattn_problem_parse(c->problem, &want, NULL, 0) == CLATTN_SUCCESS, "%s", c->problem);
    const clattn_problem *got = &attention.job.problem;
    cr_expect(got->window_left == want.window_left && got->window_right == want.window_right &&
                  got->causal == want.causal && got->diagonal == want.diagonal &&
                  got->diagonal_offset == want.diagonal_offset && got->mask == want.mask &&
                  got->bias == want.bias && got->kv_lengths == want.kv_lengths,
              "%s: %s", c->file, text);
    struct worst worst = {.results = 0};
    const struct results results = {.out = {[OUTPUT_O] = attention.o.data}};
    cr_assert(check_results(&attention, &results, PRECISION_SINGLE, &worst, &why), "%s", why.text);
    cr_expect(worst_ok(&worst), "%s: off by %g, bound %g", c->file, worst.error, worst.bound);
    free(text);
    case_free(&attention);
    safetensors_free(&file);
}

/* A file of one query and two keys: Q, K and V of `dtype`, Y of `answer`, all of it zeros, with
 * those attributes, and a mask of the first key alone. */
static bool read_small(const char *dtype, const char *answer, const char *attributes,
                       struct attention_case *attention, struct message *why)
{
    static unsigned char bytes[1024];
    const size_t in = strcmp(dtype, "F32") == 0 ? 4 : 2, out = strcmp(answer, "F32") == 0 ? 4 : 2;
    const size_t data = 5 * in + out + 1;
    struct safetensors file;

    memset(bytes, 0, sizeof bytes);
    const int length =
        snprintf((char *)bytes + 8, sizeof bytes - 8,
                 "{\"__metadata__\":{%s},"
                 "\"Q\":{\"dtype\":\"%s\",\"shape\":[1,1],\"data_offsets\":[0,%zu]},"
                 "\"K\":{\"dtype\":\"%s\",\"shape\":[2,1],\"data_offsets\":[%zu,%zu]},"
                 "\"V\":{\"dtype\":\"%s\",\"shape\":[2,1],\"data_offsets\":[%zu,%zu]},"
                 "\"Y\":{\"dtype\":\"%s\",\"shape\":[1,1],\"data_offsets\":[%zu,%zu]},"
                 "\"attn_mask\":{\"dtype\":\"BOOL\",\"shape\":[1,1],\"data_offsets\":[%zu,%zu]}}",
                 attributes, dtype, in, dtype, in, 3 * in, dtype, 3 * in, 5 * in, answer, 5 * in,
                 5 * in + out, 5 * in + out, data);
    bytes[0] = (unsigned char)(length & 255);
    bytes[1] = (unsigned char)(length >> 8);
    memset(bytes + 8 + length, 0, data - 1);
    bytes[8 + (size_t)length + data - 1] = 1; /* it sees its first key */
    cr_assert(safetensors_parse(&file, bytes, 8 + (size_t)length + data, why), "%s", why->text);
    const bool ok = case_file_read(attention, &file, "x", 0, why);
    safetensors_free(&file);
    return ok;
}

Test(bench_case, a_short_mask_hides_the_remaining_keys) {
    struct attention_case attention;
    struct message why;

    cr_assert(read_small("F32", "F32", "", &attention, &why), "%s", why.text);
    const unsigned char *mask = attention.in[INPUT_MASK].data;
    cr_assert(eq(sz, attention.in[INPUT_MASK].bytes, 2));
    cr_assert(mask[0] == 1 && mask[1] == 0);
    cr_assert(eq(sz, attention.job.problem.mask_layout.stride[3], 1));
    case_free(&attention);
}

Test(bench_case, an_attribute_that_is_not_known_is_refused_by_name) {
    static const struct {
        char attributes[64], says[64]; /* "": taken */
    } files[] = {
        {"\"scale\":\"0.5\",\"op\":\"Attention\",\"notes\":\"x\"", ""},
        {"\"softmax_precision\":\"1\",\"format\":\"pt\"", ""},
        {"\"scale\":\"0.5\",\"windowed\":\"1\"", "'windowed' is not known"},
        {"\"cal\":\"1\"", "'cal' is not known"}, /* a part of one that is */
        {"\"scale softcap\":\"1\"", "'scale softcap' is not known"},
        {"\"left_window_size\":\"-2\"", "left_window_size=-2 is neither"},
        {"\"right_window_size\":\"few\"", "right_window_size=few is neither"},
    };
    struct attention_case attention;
    struct message why = {""};

    for (size_t n = 0; n < sizeof files / sizeof *files; n++) {
        const bool ok = read_small("F32", "F32", files[n].attributes, &attention, &why);
        cr_expect(ok == (files[n].says[0] == '\0'), "%s: %s", files[n].attributes, why.text);
        cr_expect(strstr(why.text, files[n].says) != NULL, "%s: %s", files[n].attributes, why.text);
        if (ok)
            case_free(&attention);
    }
}

/* 1 + 2^-8 is no bf16: the nearest is off by more than f32's tolerance. */
Test(bench_case, a_bf16_result_is_held_to_what_bf16_can_hold) {
    const unsigned short one = 0x3f80;
    struct attention_case attention;
    struct message why;

    cr_assert(read_small("BF16", "F32", "", &attention, &why), "%s", why.text);
    *(float *)attention.o.data = 1.00390625f;
    struct worst worst = {.results = 0};
    compare_case(&worst, &attention, &one, NULL, (struct tolerance){-1.0, -1.0});
    cr_expect(worst_ok(&worst), "off by %g, bound %g", worst.error, worst.bound);
    *(float *)attention.o.data = 1.05f;
    worst = (struct worst){.results = 0};
    compare_case(&worst, &attention, &one, NULL, (struct tolerance){-1.0, -1.0});
    cr_expect(not(worst_ok(&worst)), "%g passed", worst.error);
    case_free(&attention);
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* One element that the others are not like: it is found, and told. */
Test(bench_check, a_wrong_gradient_has_its_place) {
    struct results results = {{NULL}};
    struct attention_case attention;
    struct check_place place;
    struct worst worst = {.results = 0};
    struct message why;

    example_case(&attention, "bwd f32 h2 q3 k5 d6");
    float *dk = calloc(2 * 5 * 6, sizeof *dk);
    dk[30 + 2 * 6 + 3] = INFINITY;
    results.out[OUTPUT_DK] = dk;
    cr_assert(check_all_results(&attention, &results, &worst, &place, &why));
    cr_expect(worst.results == 60 && !worst_ok(&worst) && strcmp(place.tensor, "dk") == 0);
    cr_expect(place.at[0] == 0 && place.at[1] == 1 && place.at[2] == 2 && place.at[3] == 3);
    cr_expect(isinf(place.got) && isfinite(place.want));
    results_release(&results);
    case_free(&attention);
}

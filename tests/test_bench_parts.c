/* The parts of clattn-bench that decide whether a result is right. */
#include "../bench/case.h"
#include "../bench/case_file.h"
#include "../bench/check.h"
#include "../bench/compare.h"
#include "../bench/duel.h"
#include "../bench/values.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

Test(bench_values, every_half_survives_a_round_trip) {
    for (unsigned bits = 0; bits < 65536; bits++) {
        const uint16_t half = (uint16_t)bits;
        uint16_t back;
        const double x = value_get(CLATTN_F16, &half, 0);
        if (isnan(x))
            continue;
        value_set(CLATTN_F16, &back, 0, (float)x);
        cr_assert(eq(u16, back, half));
    }
}

Test(bench_values, rounding_to_half_and_bf16_is_to_nearest_even) {
    static const struct {
        clattn_dtype dtype;
        float x;
        double want;
    } cases[] = {
        {CLATTN_F16, 1.0f + 0x1p-11f, 1.0},
        {CLATTN_F16, 1.0f + 0x1.8p-10f, 1.0 + 0x1p-9},
        {CLATTN_F16, 0x1.ffep-15f, 0x1p-14}, /* the largest subnormal and a half more */
        {CLATTN_F16, 0x1p-25f, 0.0},
        {CLATTN_F16, 0x1.8p-24f, 0x1p-23},
        {CLATTN_F16, 65519.0f, 65504.0},
        {CLATTN_F16, 65520.0f, (double)INFINITY},
        {CLATTN_F16, -65520.0f, -(double)INFINITY},
        {CLATTN_BF16, 1.0f + 0x1p-8f, 1.0},
        {CLATTN_BF16, 1.0f + 0x1.8p-7f, 1.0 + 0x1p-6},
    };
    uint16_t stored;

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        value_set(cases[n].dtype, &stored, 0, cases[n].x);
        cr_assert(eq(dbl, value_get(cases[n].dtype, &stored, 0), cases[n].want), "case %zu", n);
    }
    value_set(CLATTN_BF16, &stored, 0, NAN);
    cr_assert(isnan(value_get(CLATTN_BF16, &stored, 0)));
}

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
    clattn_problem problem;
    char reason[200];

    cr_assert(eq(int, clattn_problem_parse(text, &problem, reason, sizeof reason), CLATTN_SUCCESS),
              "%s", reason);
    cr_assert(case_random(&attention, &(struct job){.problem = problem}, 1, &why), "%s", why.text);
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

/* A case in memory: Q, K, V and Y of one query, two keys; `mask` is one of its two columns. */
Test(bench_case, a_short_mask_hides_the_remaining_keys) {
    static const char header[] =
        "{\"Q\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]},"
        "\"K\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[4,12]},"
        "\"V\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[12,20]},"
        "\"Y\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[20,24]},"
        "\"attn_mask\":{\"dtype\":\"BOOL\",\"shape\":[1,1],\"data_offsets\":[24,25]}}";
    unsigned char bytes[sizeof header + 8 + 25] = {(unsigned char)((sizeof header - 1) & 255),
                                                   (unsigned char)((sizeof header - 1) >> 8)};
    struct attention_case attention;
    struct safetensors file;
    struct message why;

    memcpy(bytes + 8, header, sizeof header - 1);
    bytes[8 + sizeof header - 1 + 24] = 1;
    cr_assert(safetensors_parse(&file, bytes, 8 + sizeof header - 1 + 25, &why), "%s", why.text);
    cr_assert(eq(sz, case_file_count(&file), 1));
    cr_assert(case_file_read(&attention, &file, "x", 0, &why), "%s", why.text);
    cr_assert(eq(sz, attention.in[INPUT_MASK].bytes, 2));
    cr_assert(eq(int, ((unsigned char *)attention.in[INPUT_MASK].data)[0], 1));
    cr_assert(eq(int, ((unsigned char *)attention.in[INPUT_MASK].data)[1], 0));
    cr_assert(eq(sz, attention.job.problem.mask_layout.stride[3], 1));
    case_free(&attention);
    safetensors_free(&file);
}

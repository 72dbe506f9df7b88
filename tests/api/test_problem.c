/* SPDX-License-Identifier: Apache-2.0 */
/* Every rule of clattn_problem_check(), the layouts and the operation count. */
#include "problem/layout.h"
#include "tests/support/fixture.h"
#include "tests/support/problems.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#define SOUND "fwd f32 b2 h4/2 q5 k6 d8/3"

static clattn_problem sound(void)
{
    return fixture_problem(SOUND);
}

#define REFUSED(change, words) PROBLEM_REFUSED(SOUND, change, words)

Test(problem, init_is_sound) {
    clattn_problem p;
    char reason[256] = "?";

    clattn_problem_init(&p);
    cr_assert(clattn_problem_check(&p, reason, sizeof reason) == CLATTN_SUCCESS);
    cr_assert(reason[0] == 0);
    cr_assert(isnan(p.scale) && p.window_left == CLATTN_UNLIMITED && p.batch == 1);
}

Test(problem, sizes) {
    const struct {
        const char *name;
        size_t offset;
        int zero_allowed;
    } sizes[] = {
        {"batch", offsetof(clattn_problem, batch), 1},
        {"heads", offsetof(clattn_problem, heads), 0},
        {"kv_heads", offsetof(clattn_problem, kv_heads), 0},
        {"seq_q", offsetof(clattn_problem, seq_q), 1},
        {"seq_kv", offsetof(clattn_problem, seq_kv), 1},
        {"dim_qk", offsetof(clattn_problem, dim_qk), 0},
        {"dim_v", offsetof(clattn_problem, dim_v), 0},
    };

    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        clattn_problem p = sound();
        size_t *size = (size_t *)(void *)((char *)&p + sizes[n].offset);
        *size = 0;
        if (sizes[n].zero_allowed)
            cr_expect(clattn_problem_check(&p, NULL, 0) == CLATTN_SUCCESS, "%s", sizes[n].name);
        else
            problem_refused(&p, sizes[n].name);
        *size = SIZE_MAX;
        problem_refused(&p, sizes[n].name);
    }
    REFUSED(p.kv_heads = 3, "multiple");
}

Test(problem, values) {
    REFUSED(p.scale = INFINITY, "scale");
    REFUSED(p.softcap = -1, "softcap");
    REFUSED(p.softcap = NAN, "softcap");
    REFUSED(p.softcap = INFINITY, "softcap");
    REFUSED(p.window_left = -2, "window_left");
    REFUSED(p.window_right = INT64_MIN, "window_right");
    REFUSED(p.dtype = (clattn_dtype)3, "dtype");
    REFUSED((p.bias = 1, p.bias_dtype = (clattn_dtype)77), "bias_dtype");
    REFUSED(p.diagonal = (clattn_diagonal)3, "diagonal");
    REFUSED(p.scores = (clattn_scores)5, "scores");
    REFUSED(p.dlse = 1, "dlse is an input of backward only");
    REFUSED(p.operation = (clattn_operation)7, "operation");
    clattn_problem unbiased = sound();
    unbiased.bias_dtype = (clattn_dtype)77;
    cr_expect(clattn_problem_check(&unbiased, NULL, 0) == CLATTN_SUCCESS, "not looked at");
}

Test(problem, layouts) {
    static const clattn_layout bshd = {{60, 3, 12, 1}}, over = {{0, 15, 3, 1}},
                               rows = {{60, 15, 2, 1}}, broadcast = {{0, 0, 0, 7}},
                               far = {{SIZE_MAX / 2, 0, 0, 1}};
    clattn_problem good = sound();

    REFUSED(p.o = over, "o"); /* batches over each other */
    REFUSED(p.o = rows, "o"); /* rows overlap */
    REFUSED(p.k = far, "k");
    REFUSED(p.v = ((clattn_layout){{1, (size_t)1 << 62, 1, 1}}), "v");
    REFUSED((p.k_scales = 1, p.k_cache = CLATTN_CACHE_Q8_0, p.dim_qk = 32), "k_scales");
    REFUSED((p.v_scales = 1), "v_scales");
    REFUSED((p.mask = 1, p.mask_layout.stride[3] = (size_t)1 << 61), "mask");
    PROBLEM_REFUSED("fwd f32 h1000000 q1000000 k1000000 d1", p.scores = CLATTN_SCORES_RAW,
                    "scores");
    good.o = bshd;
    good.q = broadcast; /* an input may */
    cr_expect(clattn_problem_check(&good, NULL, 0) == CLATTN_SUCCESS);
}

/* Which places of a layout hold an element: gaps between rows, heads and batches, and axes in any
 * order. */
Test(problem, places_of_elements) {
    static const clattn_layout layouts[] = {
        {{60, 30, 10, 2}}, {{90, 31, 9, 2}}, {{4, 8, 24, 100}}, {{70, 1, 2, 20}}};
    static const size_t sizes[4] = {2, 2, 3, 4};

    for (size_t n = 0; n < sizeof layouts / sizeof *layouts; n++) {
        const size_t *step = layouts[n].stride;
        int holds[512] = {0};
        for (size_t b = 0; b < sizes[0]; b++)
            for (size_t h = 0; h < sizes[1]; h++)
                for (size_t i = 0; i < sizes[2]; i++)
                    for (size_t d = 0; d < sizes[3]; d++)
                        holds[b * step[0] + h * step[1] + i * step[2] + d * step[3]] = 1;
        for (size_t place = 0; place < 512; place++)
            cr_expect(ca_layout_holds(&layouts[n], sizes, place) == holds[place],
                      "layout %zu, place %zu", n, place);
    }
}

/* A quantized tensor consists of whole blocks, wherever its strides lead. */
Test(problem, caches) {
    const clattn_problem good = fixture_problem("fwd f32 b2 h4/2 q5 k6 d64/32");
    clattn_problem p = good;

    p.k_cache = (clattn_cache)CA_NUM_CACHES;
    problem_refused(&p, "k_cache");
    p = good;
    p.v_cache = (clattn_cache)-1;
    problem_refused(&p, "v_cache");
    for (size_t format = 0; format < CA_NUM_BLOCK_FORMATS; format++) {
        p = good;
        p.k_cache = p.v_cache = ca_block_caches[format];
        cr_expect(clattn_problem_check(&p, NULL, 0) == CLATTN_SUCCESS);
        p.dim_v = 48;
        problem_refused(&p, "v is quantized: its dim must be a multiple of 32");
        p.dim_v = 32;
        p.dim_qk = 1;
        problem_refused(&p, "k is quantized: its dim");
        p.dim_qk = 64;
        p.k = (clattn_layout){{768, 64, 128, 1}}; /* bshd */
        cr_expect(clattn_problem_check(&p, NULL, 0) == CLATTN_SUCCESS);
        p.k = (clattn_layout){{0, 0, 96, 1}};
        cr_expect(clattn_problem_check(&p, NULL, 0) == CLATTN_SUCCESS);
        p.k = (clattn_layout){{768, 64, 128, 2}};
        problem_refused(&p, "k is quantized: its innermost stride");
        for (int n = 0; n < 3; n++) {
            p.k = (clattn_layout){{768, 64, 128, 1}};
            p.k.stride[n] += 16;
            problem_refused(&p, "k is quantized: its strides");
        }
        p.k = (clattn_layout){{0}};
        p.operation = CLATTN_BACKWARD;
        problem_refused(&p, "k_cache and v_cache are options of forward only");
        p.operation = CLATTN_PROJECTION;
        problem_refused(&p, "a projection has no");
    }
    for (int dtype = 0; dtype < CA_NUM_DTYPES; dtype++) {
        p = good;
        p.v_cache = p.k_cache = ca_cache_of_dtype((clattn_dtype)dtype);
        p.dim_v = 33;
        p.k = (clattn_layout){{771, 67, 129, 2}};
        cr_expect(clattn_problem_check(&p, NULL, 0) == CLATTN_SUCCESS);
        p.operation = CLATTN_BACKWARD;
        if (dtype == CLATTN_F32) /* the dtype's other name */
            cr_expect(clattn_problem_check(&p, NULL, 0) == CLATTN_SUCCESS);
        else
            problem_refused(&p, "k_cache and v_cache are options of forward only");
    }
}

Test(problem, null_and_size) {
    clattn_problem p = sound();
    char reason[8] = "";

    cr_expect(clattn_problem_check(NULL, NULL, 0) == CLATTN_INVALID_ARGUMENT);
    p.struct_size--;
    cr_expect(clattn_problem_check(&p, reason, sizeof reason) == CLATTN_INVALID_ARGUMENT);
    cr_expect(strlen(reason) == sizeof reason - 1, "a reason is cut, not left out: '%s'", reason);
}

Test(problem, packed_layouts) {
    const size_t sizes[4] = {2, 3, 5, 7};
    clattn_layout l;

    cr_expect(clattn_layout_packed("bhsd", sizes, &l) == CLATTN_SUCCESS);
    cr_expect(memcmp(l.stride, (size_t[4]){105, 35, 7, 1}, sizeof l.stride) == 0);
    cr_expect(clattn_layout_packed("sbhd", sizes, &l) == CLATTN_SUCCESS);
    cr_expect(memcmp(l.stride, (size_t[4]){21, 7, 42, 1}, sizeof l.stride) == 0);
    cr_expect(clattn_layout_packed("bhds", sizes, &l) == CLATTN_SUCCESS);
    cr_expect(memcmp(l.stride, (size_t[4]){105, 35, 1, 5}, sizeof l.stride) == 0);
    const char *wrong[] = {"bhs", "bhsdd", "bbsd", "bhsx", ""};
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        l.stride[0] = 9;
        cr_expect(clattn_layout_packed(wrong[n], sizes, &l) == CLATTN_INVALID_ARGUMENT);
        cr_expect(l.stride[0] == 0, "'%s'", wrong[n]);
    }
    const size_t large = (size_t)1 << 40;
    l.stride[0] = 9;
    cr_expect(clattn_layout_packed("bhsd", (size_t[]){2, large, large, 1}, &l) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(l.stride[0] == 0);
    cr_expect(clattn_layout_packed("bhsd", (size_t[]){large, large, 1, 1}, &l) ==
                  CLATTN_INVALID_ARGUMENT,
              "the strides alone would fit");
    cr_expect(clattn_layout_packed("bhsd", (size_t[]){0, large, large, 1}, &l) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_layout_packed("bhsd", (size_t[]){large, 0, 1, 1}, &l) == CLATTN_SUCCESS);
    cr_expect(clattn_layout_packed(NULL, sizes, &l) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_layout_packed("bhsd", NULL, &l) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_layout_packed("bhsd", sizes, NULL) == CLATTN_INVALID_ARGUMENT);
}

/* All tensors at once, as the text form has it. */
Test(problem, set_layout) {
    clattn_problem p = fixture_problem("bwd f16 b2 h4/2 q3 k5 d8/16 bias=f32:qk mask=bk");
    const clattn_problem before = p;
    const clattn_problem want =
        fixture_problem("bwd f16 b2 h4/2 q3 k5 d8/16 bias=f32:qk mask=bk layout=bshd");
    char reason[128];

    cr_expect(clattn_problem_set_layout(&p, "bshd", reason, sizeof reason) == CLATTN_SUCCESS);
    cr_expect(memcmp(&p, &want, sizeof p) == 0 && reason[0] == '\0');
    p = before;
    cr_expect(clattn_problem_set_layout(&p, "bsh", reason, sizeof reason) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(strstr(reason, "'bsh'") != NULL, "%s", reason);
    cr_expect(clattn_problem_set_layout(&p, NULL, reason, sizeof reason) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(strstr(reason, "null") != NULL, "%s", reason);
    cr_expect(clattn_problem_set_layout(NULL, "bshd", reason, sizeof reason) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(memcmp(&p, &before, sizeof p) == 0);
    p.heads = 3;
    cr_expect(clattn_problem_set_layout(&p, "bshd", NULL, 0) == CLATTN_INVALID_PROBLEM);
    p.heads = 4;
    p.struct_size = 1;
    cr_expect(clattn_problem_set_layout(&p, "bshd", NULL, 0) == CLATTN_INVALID_ARGUMENT);
}

/* The problem of the gradients, and lse asked for in the one that writes it. */
Test(problem, backward) {
    const struct {
        const char *forward, *backward;
    } cases[] = {
        {"fwd f32 b2 h4/2 q3 k5 d8 layout=bshd causal=br dropout=0.25",
         "bwd f32 b2 h4/2 q3 k5 d8 layout=bshd causal=br dropout=0.25"},
        {"fwd bf16 b2 h4 q3 k5 d8/6 q=sbhd k=0.8.40.1 bias=f32:qk alibi sinks klen scores=weights",
         "bwd bf16 b2 h4 q3 k5 d8/6 q=sbhd dq=sbhd k=0.8.40.1 bias=f32:qk alibi sinks klen"},
        {"fwd f16 q3 d8 lse", "bwd f16 q3 d8"},
    };
    clattn_problem forward, backward;
    char reason[128];

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const clattn_problem want = fixture_problem(cases[n].backward);
        clattn_problem kept = forward = fixture_problem(cases[n].forward);
        cr_expect(clattn_problem_backward(&forward, &backward, reason, sizeof reason) ==
                      CLATTN_SUCCESS,
                  "%s", reason);
        cr_expect(memcmp(&backward, &want, sizeof want) == 0, "case %zu", n);
        kept.lse = 1;
        cr_expect(memcmp(&forward, &kept, sizeof kept) == 0, "case %zu", n);
    }
    cr_expect(clattn_problem_backward(&backward, &forward, reason, sizeof reason) ==
              CLATTN_INVALID_PROBLEM);
    cr_expect(strstr(reason, "CLATTN_FORWARD") != NULL && forward.seq_q == 1, "%s", reason);
    forward = fixture_problem("fwd f32 q3 d32 kcache=q8_0");
    cr_expect(clattn_problem_backward(&forward, &backward, reason, sizeof reason) ==
              CLATTN_INVALID_PROBLEM);
    cr_expect(strstr(reason, "k_cache") != NULL && !forward.lse, "%s", reason);
    forward = fixture_problem("fwd f16 q3 d32 odtype=f32"); /* it reads o as forward writes it */
    cr_expect(clattn_problem_backward(&forward, &backward, reason, sizeof reason) ==
              CLATTN_SUCCESS);
    cr_expect(backward.o_f32 && forward.lse, "%s", reason);
    cr_expect(clattn_problem_backward(NULL, &backward, NULL, 0) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_problem_backward(&forward, NULL, NULL, 0) == CLATTN_INVALID_ARGUMENT);
    forward.struct_size = 1;
    cr_expect(clattn_problem_backward(&forward, &backward, NULL, 0) == CLATTN_INVALID_ARGUMENT);
}

Test(problem, broadcast_layouts) {
    const clattn_problem p = sound(); /* 2, 4, 5, 6 */
    const size_t whole[] = {2, 4, 5, 6}, keys[] = {6}, one[] = {1}, some[] = {2, 1, 5, 1};
    clattn_layout l;

    cr_expect(clattn_layout_broadcast(&p, 4, whole, &l) == CLATTN_SUCCESS);
    cr_expect(memcmp(l.stride, (size_t[4]){120, 30, 6, 1}, sizeof l.stride) == 0);
    cr_expect(clattn_layout_broadcast(&p, 1, keys, &l) == CLATTN_SUCCESS);
    cr_expect(memcmp(l.stride, (size_t[4]){0, 0, 0, 1}, sizeof l.stride) == 0);
    cr_expect(clattn_layout_broadcast(&p, 4, some, &l) == CLATTN_SUCCESS);
    cr_expect(memcmp(l.stride, (size_t[4]){5, 0, 1, 0}, sizeof l.stride) == 0);
    cr_expect(clattn_layout_broadcast(&p, 1, one, &l) == CLATTN_SUCCESS);
    cr_expect(memcmp(l.stride, (size_t[4]){0, 0, 0, 0}, sizeof l.stride) == 0);
    cr_expect(clattn_layout_broadcast(&p, 0, NULL, &l) == CLATTN_SUCCESS);
    clattn_problem huge = p;
    huge.batch = huge.heads = (size_t)1 << 40;
    cr_expect(clattn_layout_broadcast(&huge, 4, (size_t[]){huge.batch, huge.heads, 1, 1}, &l) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_layout_broadcast(&huge, 4, (size_t[]){huge.batch, 1, 5, 1}, &l) ==
              CLATTN_SUCCESS);
    cr_expect(clattn_layout_broadcast(&p, 1, NULL, &l) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_layout_broadcast(&p, 5, whole, &l) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_layout_broadcast(&p, 1, &whole[2], &l) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_layout_broadcast(NULL, 1, keys, &l) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_layout_broadcast(&p, 1, keys, NULL) == CLATTN_INVALID_ARGUMENT);
}

/* Pairs counted one by one, times 2 * (dim_qk + dim_v). */
Test(problem, flops) {
    const char *cases[] = {
        "fwd f32 q5 k7 d3/4",
        "fwd f32 b2 h3 q5 k7 d3/4 causal=tl",
        "fwd f32 q5 k7 d3 causal=br",
        "fwd f32 q9 k4 d3 causal=br",
        "fwd f32 q9 k4 d3 causal=-30",
        "fwd f32 q9 k4 d3 causal=30",
        "fwd f32 q9 k12 d3 window=2,1",
        "fwd f32 q9 k12 d3 diagonal=-3 window=0,4",
        "fwd f32 q6 k6 d3 causal=tl window=*,3",
        "fwd f32 q0 k6 d3",
        "fwd f32 q6 k0 d3",
    };

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const clattn_problem p = fixture_problem(cases[c]);
        const long long d = p.diagonal == CLATTN_OFFSET ? p.diagonal_offset
                            : p.diagonal == CLATTN_BOTTOM_RIGHT
                                ? (long long)p.seq_kv - (long long)p.seq_q
                                : 0;
        double pairs = 0;
        for (long long i = 0; i < (long long)p.seq_q; i++)
            for (long long j = 0; j < (long long)p.seq_kv; j++)
                pairs += (!p.causal || j <= i + d) &&
                         (p.window_left < 0 || j >= i + d - p.window_left) &&
                         (p.window_right < 0 || j <= i + d + p.window_right);
        const double want = pairs * (double)(p.batch * p.heads * 2 * (p.dim_qk + p.dim_v));
        cr_expect(clattn_problem_flops(&p) == want, "%s: %g, not %g", cases[c],
                  clattn_problem_flops(&p), want);
    }
    clattn_problem bad = sound();
    bad.heads = 0;
    cr_expect(clattn_problem_flops(&bad) == 0.0);
}

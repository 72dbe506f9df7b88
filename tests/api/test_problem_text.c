/* SPDX-License-Identifier: Apache-2.0 */
/* The one-line text form: what it says, that it comes back equal, and every way to be refused. */
#include "problem/problem.h"
#include "tests/support/fixture.h"
#include "tests/support/problems.h"
#include "tests/trials/random_function.h"
#include "tests/trials/random_problem.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* Field by field: four zeros and packed strides are one layout, and unused fields may differ. */
static int same_layout(const clattn_layout *a, const clattn_layout *b, const char *dims,
                       const size_t sizes[4])
{
    clattn_layout x = *a, y = *b;
    const clattn_layout zero = {{0, 0, 0, 0}};

    if (dims && memcmp(&x, &zero, sizeof x) == 0)
        clattn_layout_packed(dims, sizes, &x);
    if (dims && memcmp(&y, &zero, sizeof y) == 0)
        clattn_layout_packed(dims, sizes, &y);
    return memcmp(&x, &y, sizeof x) == 0;
}

static int same(const clattn_problem *a, const clattn_problem *b)
{
    const size_t pairs[4] = {a->batch, a->heads, a->seq_q, a->seq_kv};
    const size_t q[4] = {ca_query_batch(a), a->heads, ca_query_rows(a), a->dim_qk};
    const size_t k[4] = {ca_cache_batch(a), a->kv_heads, ca_cache_rows(a), a->dim_qk};
    const size_t v[4] = {ca_cache_batch(a), a->kv_heads, ca_cache_rows(a), a->dim_v};
    const size_t o[4] = {ca_query_batch(a), a->heads, ca_query_rows(a), a->dim_v};
    const size_t scales[4] = {k[0], k[1], k[2], 1};

    clattn_problem x = *a, y = *b;
    ca_problem_simplify(&x);
    ca_problem_simplify(&y);
    return a->operation == b->operation && a->dtype == b->dtype && a->batch == b->batch &&
           a->heads == b->heads && a->kv_heads == b->kv_heads && a->seq_q == b->seq_q &&
           a->seq_kv == b->seq_kv && a->dim_qk == b->dim_qk && a->dim_v == b->dim_v &&
           same_layout(&a->q, &b->q, "bhsd", q) && same_layout(&a->k, &b->k, "bhsd", k) &&
           same_layout(&a->v, &b->v, "bhsd", v) && same_layout(&a->o, &b->o, "bhsd", o) &&
           (a->scale == b->scale || (isnan(a->scale) && isnan(b->scale))) &&
           a->softcap == b->softcap && a->causal == b->causal && a->diagonal == b->diagonal &&
           (a->diagonal != CLATTN_OFFSET || a->diagonal_offset == b->diagonal_offset) &&
           a->window_left == b->window_left && a->window_right == b->window_right &&
           a->bias == b->bias && (!a->bias || a->bias_dtype == b->bias_dtype) &&
           (!a->bias || same_layout(&a->bias_layout, &b->bias_layout, NULL, pairs)) &&
           a->mask == b->mask &&
           (!a->mask || same_layout(&a->mask_layout, &b->mask_layout, NULL, pairs)) &&
           a->alibi == b->alibi && a->alibi_symmetric == b->alibi_symmetric &&
           a->sinks == b->sinks && a->q_lengths == b->q_lengths && a->kv_lengths == b->kv_lengths &&
           a->lse == b->lse && x.o_f32 == y.o_f32 && x.strict == y.strict && a->int8 == b->int8 &&
           a->invariant == b->invariant && a->scores == b->scores && x.k_cache == y.k_cache &&
           x.v_cache == y.v_cache && a->mask_keys == b->mask_keys && a->page_size == b->page_size &&
           a->pages == b->pages && a->total_q == b->total_q && a->total_kv == b->total_kv &&
           a->topk == b->topk && a->topk_heads == b->topk_heads &&
           a->whole_batch == b->whole_batch && a->whole_heads == b->whole_heads &&
           a->whole_q == b->whole_q && a->whole_kv == b->whole_kv && a->k_scales == b->k_scales &&
           a->v_scales == b->v_scales &&
           (!a->k_scales || same_layout(&a->k_scales_layout, &b->k_scales_layout, NULL, scales)) &&
           (!a->v_scales || same_layout(&a->v_scales_layout, &b->v_scales_layout, NULL, scales)) &&
           a->score_function == b->score_function && a->mask_function == b->mask_function;
}

Test(problem_text, what_is_printed) {
    const char *canonical[] = {
        "fwd f16 b1 h32/8 q1024 k4096 d128 causal=br",
        "fwd f32 b2 h4 q1 k0 d64/32 q=bshd k=4096.64.128.1 scale=0.125 softcap=30 lse",
        "fwd bf16 b2 h3 q3 k4 d1 causal=-3 window=4,* bias=f16:qk mask=bk alibi sinks qlen klen",
        "fwd f32 b1 h3 q3 k4 d1 diagonal=br window=4,4 alibi symmetric sinks",
        "fwd f16 b1 h32/8 q1 k4096 d128 kcache=q8_0 vcache=q4_0 causal=br",
        "fwd f32 b2 h3 q5 k7 d64/32 v=bshd vcache=q8_0 lse",
        "fwd f32 b2 h3 q5 k7 d3 kcache=f16 vcache=bf16 lse",
        "fwd bf16 b2 h3 q5 k7 d3 vcache=f32",
        "fwd f16 b4 h8 q1 k4096 d128 k=bshd v=bshd kcache=q8_0 vcache=q8_0 page=16 pages=900 klen",
        "fwd f16 b64 h32/8 q4096 k4096 d128 causal=br lse totalq=90000 totalkv=90001",
        "fwd bf16 b4 h16/2 q8 k4096 d576/512 page=64 pages=300 causal=br topkheads topk=2048",
        "fwd f16 b2 h3 q5 k7 d64 lse odtype=f32 scores=raw",
        "fwd f16 b4 h8/2 q1 k9 d64 kcache=e4m3 vcache=e5m2 page=8 pages=9 klen kscales=bhk vscales",
        "fwd f32 b2 h8/2 q1 k96 d64 kcache=e4m3 vcache=e5m2 kscales=h vscales=0.1.2.0",
        "bwd bf16 b2 h3 q5 k7 d64 odtype=f32",
        "fwd bf16 b1 h3 q5 k7 d64 lse strict",
        "fwd bf16 b1 h3 q5 k7 d64 lse strict precision=int8",
        "bwd f16 b1 h3 q5 k7 d64 strict",
        "fwd bf16 b1 h3 q5 k7 d64 invariant lse strict",
        "fwd f16 b2 h8/2 q4 k4096 d128 mask=bqk klen lse maskkeys=4",
        "fwd f32 b2 h4/2 q3 k5 d8 wholeb=3 wholeh=8 wholeq=9 wholek=7 score=t5",
        "fwd f32 b2 h3 q5 k7 d3 diagonal=17 window=*,0 bias=f32:0.0.0.0 mask=bhqk scores=weights",
    };

    problem_texts_canonical(canonical, sizeof canonical / sizeof *canonical);
    const struct {
        const char *text, *printed;
    } all_at_once[] = {
        {"bwd f32 layout=bshd b2 h4/2 q3 k5 d8",
         "bwd f32 b2 h4/2 q3 k5 d8 q=bshd k=bshd v=bshd o=bshd do=bshd dq=bshd dk=bshd dv=bshd"},
        {"fwd f32 b2 h3 q3 d8 k=sbhd layout=bshd v=200.8.24.1",
         "fwd f32 b2 h3 q3 k3 d8 q=bshd k=sbhd v=200.8.24.1 o=bshd"},
        {"fwd f32 b2 h3 q3 d8 layout=bhsd", "fwd f32 b2 h3 q3 k3 d8"},
        {"fwd f16 q5 k7 d3 kcache=f16 vcache=f32", "fwd f16 b1 h1 q5 k7 d3 vcache=f32"},
        {"bwd f32 q5 k7 d3 kcache=f32 vcache=f32", "bwd f32 b1 h1 q5 k7 d3"},
        {"proj f32 b2 h3/4 q5 d6 layout=bshd w=oi", "proj f32 b2 h3/4 q5 d6 x=bshd y=bshd w=oi"},
        {"proj f32 b2 h3/4 q5 d6 y=sbhd layout=bshd", "proj f32 b2 h3/4 q5 d6 x=bshd y=sbhd"},
        {"fwd f32 q3 d8 odtype=f32", "fwd f32 b1 h1 q3 k3 d8"},
        {"fwd f32 q3 d8 strict", "fwd f32 b1 h1 q3 k3 d8"},
    };
    for (size_t n = 0; n < sizeof all_at_once / sizeof *all_at_once; n++) {
        const clattn_problem p = fixture_problem(all_at_once[n].text);
        cr_expect_str_eq(problem_printed(&p), all_at_once[n].printed);
    }
    const clattn_problem p = fixture_problem(" d8\tf32  q3 fwd \n");
    cr_expect_str_eq(problem_printed(&p), "fwd f32 b1 h1 q3 k3 d8");
}

Test(problem_text, random_problems_come_back_equal) {
    struct rng r = rng_seed(3);

    for (int n = 0; n < 3000; n++) {
        clattn_problem p = random_problem(&r);
        random_functions_of_some(&r, &p);
        problem_must_come_back(&p, same);
    }
}

/* Every refusal names the word. */
Test(problem_text, refusals) {
    static const struct refused_text cases[] = {
        {"", "operation"},
        {"f32 q1 d1", "operation"},
        {"fwd q1 d1", "dtype"},
        {"fwd f32 d1", "q"},
        {"fwd f32 q1", "d"},
        {"sideways f32 q1 d1", "sideways"},
        {"fwd f64 q1 d1", "f64"},
        {"fwd f32 f16 q1 d1", "dtype"},
        {"fwd f32 f32 q1 d1", "f32"},
        {"fwd f32 q1 q1 d1", "q"},
        {"fwd f32 q1 d1 causal=tl causal=br", "causal"},
        {"fwd f32 q1 d1 causal=tl diagonal=br", "causal"},
        {"fwd f32 q1 d1 causal", "causal"},
        {"fwd f32 q1 d1 causal=", "causal"},
        {"fwd f32 q1 d1 causal=x", "causal"},
        {"fwd f32 q1 d1 causal=5x", "causal"},
        {"fwd f32 q1 d1 diagonal=99999999999999999999", "diagonal"},
        {"fwd f32 q-1 d1", "q-1"},
        {"fwd f32 q1 d32 kcache", "kcache"},
        {"fwd f32 q1 d32 kcache=", "kcache"},
        {"fwd f32 q1 d32 kcache=plain", "kcache"},
        {"fwd f32 q1 d32 vcache=q5_9", "vcache"},
        {"fwd f32 q1 d32 vcache=q8_0 vcache=q4_0", "vcache"},
        {"fwd f32 q1 d33/32 kcache=q8_0", "k is quantized"},
        {"bwd f32 q1 d32 vcache=q8_0", "v_cache"},
        {"bwd f32 q1 d32 vcache=f16", "v_cache"},
        {"fwd f32 q1 d32 odtype=f16", "odtype"},
        {"fwd bf16 q1 d32 strict=1", "strict"},
        {"fwd bf16 q1 d32 strict strict", "strict"},
        {"proj bf16 q1 d32 strict", "strict"},
        {"fwd f32 q1 d32 precision=int4", "precision=int4"},
        {"fwd f32 q1 d32 precision", "precision"},
        {"proj f32 q1 d32 precision=int8", "precision=int8"},
        {"bwd2 f32 q1 d32 precision=int8", "precision=int8"},
        {"indexer f32 q1 k9 d32 topk=2 precision=int8", "precision=int8"},
        {"bwd f32 q1 d32 precision=int8", "precision=int8 is an option of forward only"},
        {"fwd f32 q1 k9 d32 precision=int8 topk=3", "precision=int8 excludes topk"},
        {"fwd f32 q1 d32 precision=int8 scores=raw", "precision=int8 excludes scores"},
        {"fwd f32 q1 d32 precision=int8 lse keysums", "precision=int8 excludes scores"},
        {"fwd f32 q1 d32 precision=int8 invariant", "precision=int8 excludes invariant"},
        {"merge bf16 q1 d32 n2 strict", "strict"},
        {"proj f16 q1 d32 odtype=f32", "odtype"},
        {"proj f32 q1 d32 kcache=q8_0", "kcache"},
        {"fwd f32 q d1", "'q'"},
        {"fwd f32 q1x d1", "q1x"},
        {"fwd f32 q1 d0", "dim_qk"},
        {"fwd f32 q1 d1/0", "dim_v"},
        {"fwd f32 q1 d1/", "d1/"},
        {"fwd f32 q99999999999999999999999 d1", "q999"},
        {"fwd f32 h0 q1 d1", "heads"},
        {"fwd f32 h4/3 q1 d1", "multiple"},
        {"fwd f32 q1 d1 scale=abc", "scale"},
        {"fwd f32 q1 d1 scale=nan", "scale"},
        {"fwd f32 q1 d1 scale=1e99", "scale"},
        {"fwd f32 q1 d1 dropout=0x1p-2", "dropout"},
        {"fwd f32 q1 d1 scale=0X1", "scale"},
        {"fwd f32 q1 d1 scale=+1", "scale"},
        {"fwd f32 q1 d1 scale=--1", "scale"},
        {"fwd f32 q1 d1 scale=1,5", "scale"},
        {"fwd f32 q1 d1 scale=.5", "scale"},
        {"fwd f32 q1 d1 scale=1.5.2", "scale"},
        {"fwd f32 q1 d1 scale=1e", "scale"},
        {"fwd f32 q1 d1 scale= 1", "scale"},
        {"fwd f32 q1 d1 scale=0infinity", "scale"},
        {"fwd f32 q1 d1 causal=+3", "causal"},
        {"fwd f32 q1 d1 causal=--3", "causal"},
        {"fwd f32 q1 d1 causal=0x3", "causal"},
        {"fwd f32 q0x3 d1", "q0x3"},
        {"fwd f32 q+3 d1", "q+3"},
        {"fwd f32 q1 d1 window=+1,1", "window"},
        {"fwd f32 q1 d1 mask=0.0.+1.1", "mask"},
        {"fwd f32 q1 d1 layout=bhs", "layout=bhs"},
        {"fwd f32 q1 d1 layout=", "layout="},
        {"fwd f32 q1 d1 layout=1.1.1.1", "layout"},
        {"fwd f32 q1 d1 layout=bshd layout=bshd", "layout="},
        {"fwd f32 b281474976710656 h281474976710656 q4 d1 layout=bshd", "2^58"},
        {"fwd f32 b281474976710656 h281474976710656 q4 d1 q=bshd", "2^58"},
        {"fwd f32 b281474976710656 h281474976710656 q4 d1 mask=bhqk", "2^58"},
        {"fwd f32 q1 d1 scale=", "scale"},
        {"fwd f32 q1 d1 softcap=-2", "softcap"},
        {"fwd f32 q1 d1 softcap=inf", "softcap"},
        {"fwd f32 q1 d1 window=3", "window"},
        {"fwd f32 q1 d1 window=3,", "window"},
        {"fwd f32 q1 d1 window=-3,1", "window"},
        {"fwd f32 q1 d1 window=1,2,3", "window"},
        {"fwd f32 q1 d1 q=bhs", "q=bhs"},
        {"fwd f32 q1 d1 q=1.2.3", "q=1.2.3"},
        {"fwd f32 q1 d1 k=1.2.3.4.5", "k=1.2.3.4.5"},
        {"fwd f32 b2 q1 d1 o=0.1.1.1", "o"},
        {"fwd f32 q1 d1 bias=qk", "bias"},
        {"fwd f32 q1 d1 bias=f64:qk", "bias"},
        {"fwd f32 q1 d1 bias=f32:", "bias"},
        {"fwd f32 q1 d1 bias=f32:kq", "bias"},
        {"fwd f32 q1 d1 mask=", "mask"},
        {"fwd f32 q1 d1 mask=xyz", "mask"},
        {"fwd f32 q1 d1 scores=none", "scores"},
        {"fwd f32 q1 d1 scores=all", "scores"},
        {"fwd f32 q1 d1 alibi=1", "alibi"},
        {"fwd f32 q1 d1 symmetric", "alibi_symmetric is given, but there is no alibi"},
        {"proj f32 q1 d1 symmetric", "'symmetric' is not a word of projections"},
        {"fwd f32 q1 d1 lse lse", "lse"},
        {"fwd f32 q1 d1 something", "something"},
    };

    problem_texts_refused(cases, sizeof cases / sizeof *cases);
}

/* Words of others reach no terminal as they are: not even an escape sequence, C1 in UTF-8, or a mark that turns
 * the direction of writing. */
Test(problem_text, reasons_are_printable) {
    clattn_problem p;
    char reason[256];

    cr_assert(clattn_problem_parse("fwd f32 q1 d1 x\033[31m\xc2\x9b\u202e\xff|", &p, reason,
                                   sizeof reason) == CLATTN_INVALID_PROBLEM);
    cr_expect(strstr(reason, "'x?[31m??????|'") != NULL, "%s", reason);
}

/* Without an overflow, as sanitizers see. */
Test(problem_text, unknown_enumerators_are_printed) {
    clattn_problem p = fixture_problem("fwd f32 q1 d1");

    p.dtype = (clattn_dtype)INT32_MAX;
    p.k_cache = (clattn_cache)INT32_MIN;
    p.v_cache = (clattn_cache)INT32_MAX;
    cr_expect_str_eq(problem_printed(&p), "fwd ? b1 h1 q1 k1 d1 kcache=? vcache=?");
}

Test(problem_text, nulls_and_short_buffers) {
    const clattn_problem p = fixture_problem("fwd f32 q3 d4 causal=br");
    clattn_problem parsed;
    const char *whole = "fwd f32 b1 h1 q3 k3 d4 causal=br";
    char text[64];
    size_t needed = 0;

    cr_expect(clattn_problem_parse(NULL, &parsed, NULL, 0) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_problem_parse("fwd f32 q1 d1", NULL, NULL, 0) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_problem_print(NULL, text, sizeof text, &needed) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_problem_print(&p, NULL, 5, &needed) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_problem_print(&p, NULL, 0, &needed) == CLATTN_BUFFER_TOO_SMALL);
    cr_expect(needed == strlen(whole) + 1);
    for (size_t bytes = 1; bytes <= strlen(whole) + 1; bytes++) {
        memset(text, 'x', sizeof text);
        const clattn_status status = clattn_problem_print(&p, text, bytes, NULL);
        cr_expect(status == (bytes > strlen(whole) ? CLATTN_SUCCESS : CLATTN_BUFFER_TOO_SMALL));
        cr_expect(strlen(text) == bytes - 1 && strncmp(text, whole, bytes - 1) == 0);
        cr_expect(text[bytes] == 'x');
    }
    clattn_problem wrong = p;
    wrong.struct_size = 1;
    cr_expect(clattn_problem_print(&wrong, text, sizeof text, NULL) == CLATTN_INVALID_ARGUMENT);
}

/* Arbitrary bytes are refused or taken, but nothing else happens: for the sanitizers. */
Test(problem_text, noise) {
    static const char letters[] = "fwd32b16hqk0149=./,*:-causl tbrdiopnsxe";
    struct rng r = rng_seed(5);

    for (int n = 0; n < 20000; n++) {
        char text[64] = "fwd f32 q3 d4 ";
        const size_t start = rng_one_in(&r, 2) ? 0 : 14, length = start + rng_below(&r, 40);
        for (size_t c = start; c < length; c++)
            text[c] = letters[rng_below(&r, sizeof letters - 1)];
        text[length] = 0;
        clattn_problem p;
        if (clattn_problem_parse(text, &p, NULL, 0) == CLATTN_SUCCESS)
            cr_assert(clattn_problem_check(&p, NULL, 0) == CLATTN_SUCCESS, "'%s'", text);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Layers on paper: rules, text form, operations. */
#include "tests/support/fixture.h"
#include "tests/support/rng.h"
#include "tests/trials/multihead_case.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

TestSuite(multihead_text, .timeout = 60);

static const char *printed(const clattn_multihead *layer)
{
    static char text[512];
    size_t needed;

    cr_assert(clattn_multihead_print(layer, text, sizeof text, &needed) == CLATTN_SUCCESS);
    cr_assert(needed == strlen(text) + 1);
    return text;
}

/* ---- text form ------------------------------------------------------------------------------- */

Test(multihead_text, what_is_printed) {
    const char *canonical[] = {
        "layer fwd f32 b2 h12 q128 k128 d64 causal=tl model=768 packed biases obias training",
        "layer bwd f16 b2 h8/2 q5 k9 d64/32 bias=f32:qk dbias model=512 cross=25 output=9 io obias",
        "layer fwd bf16 b3 h1 q0 k4 d1 model=1 separate=2,3 seqfirst weights=mean",
        "layer fwd f32 b1 h2 q4 k4 d8 dropout=0.5 model=16 weights=heads",
    };

    for (size_t n = 0; n < sizeof canonical / sizeof *canonical; n++) {
        const clattn_multihead layer = layer_parsed(canonical[n]);
        cr_expect_str_eq(printed(&layer), canonical[n]);
    }
    clattn_multihead layer = layer_parsed("\tlayer model=8  obias d4 q3 f32\nh2 fwd ");
    cr_expect_str_eq(printed(&layer), "layer fwd f32 b1 h2 q3 k3 d4 model=8 obias");
    cr_expect(layer.context_model == 8 && layer.values_model == 8 && layer.output == 8);
    clattn_multihead_init(&layer);
    cr_expect_str_eq(printed(&layer), "layer fwd f32 b1 h1 q1 k1 d1 model=1");
}

static int same(const clattn_multihead *a, const clattn_multihead *b)
{
    return a->source == b->source && a->model == b->model && a->context_model == b->context_model &&
           a->values_model == b->values_model && a->output == b->output && a->order == b->order &&
           a->packed == b->packed && a->qkv_biases == b->qkv_biases &&
           a->output_bias == b->output_bias && a->seq_first == b->seq_first &&
           a->training == b->training && a->weights == b->weights &&
           a->attention.operation == b->attention.operation &&
           a->attention.dtype == b->attention.dtype && a->attention.batch == b->attention.batch &&
           a->attention.heads == b->attention.heads && a->attention.seq_q == b->attention.seq_q &&
           a->attention.seq_kv == b->attention.seq_kv && a->attention.causal == b->attention.causal;
}

static clattn_multihead draw(struct rng *r)
{
    clattn_multihead layer;
    clattn_problem *p = &layer.attention;

    clattn_multihead_init(&layer);
    p->operation = (clattn_operation)rng_below(r, 2);
    p->dtype = (clattn_dtype)rng_below(r, 3);
    p->batch = rng_below(r, 9);
    p->heads = p->kv_heads = 1 + rng_below(r, 9);
    p->seq_q = p->seq_kv = rng_below(r, 99);
    p->causal = rng_one_in(r, 2);
    layer.source = (clattn_source)rng_below(r, 3);
    layer.packed = rng_one_in(r, 2);
    layer.model = layer.context_model = layer.values_model = 1 + rng_below(r, 99);
    if (layer.source != CLATTN_SELF) {
        p->seq_kv = rng_below(r, 99);
        if (!layer.packed)
            layer.context_model = layer.values_model = 1 + rng_below(r, 99);
    }
    if (layer.source == CLATTN_SEPARATE && !layer.packed)
        layer.values_model = 1 + rng_below(r, 99);
    layer.output = rng_one_in(r, 2) ? layer.model : 1 + rng_below(r, 99);
    layer.order = (clattn_weight_order)rng_below(r, 2);
    layer.qkv_biases = rng_one_in(r, 2);
    layer.output_bias = rng_one_in(r, 2);
    layer.seq_first = rng_one_in(r, 2);
    layer.training = rng_one_in(r, 2);
    if (p->operation == CLATTN_FORWARD)
        layer.weights = (clattn_weights_out)rng_below(r, 3);
    return layer;
}

Test(multihead_text, random_layers_come_back_equal) {
    struct rng r = rng_seed(17);

    for (int n = 0; n < 2000; n++) {
        const clattn_multihead layer = draw(&r);
        char text[512], reason[256];
        cr_assert(clattn_multihead_check(&layer, reason, sizeof reason) == CLATTN_SUCCESS, "%s",
                  reason);
        strcpy(text, printed(&layer));
        const clattn_multihead back = layer_parsed(text);
        cr_assert(same(&layer, &back), "'%s' came back as '%s'", text, printed(&back));
        cr_assert_str_eq(printed(&back), text);
    }
}

/* Every cut keeps what fits, ends with a 0 and tells what is needed. */
Test(multihead_text, cut_texts) {
    const clattn_multihead layer = layer_parsed("layer fwd f32 q3 d4 model=8 packed");
    char whole[512], cut[512];
    size_t needed;

    strcpy(whole, printed(&layer));
    for (size_t bytes = 0; bytes <= strlen(whole); bytes++) {
        memset(cut, 'x', sizeof cut);
        cr_expect(clattn_multihead_print(&layer, bytes ? cut : NULL, bytes, &needed) ==
                  CLATTN_BUFFER_TOO_SMALL);
        cr_expect(needed == strlen(whole) + 1);
        cr_expect(bytes == 0 || (strlen(cut) == bytes - 1 && !strncmp(cut, whole, bytes - 1)),
                  "%zu bytes: '%s'", bytes, cut);
        cr_expect(cut[bytes] == 'x');
    }
    cr_expect(clattn_multihead_print(NULL, cut, sizeof cut, &needed) == CLATTN_INVALID_ARGUMENT);
    cr_expect(cut[0] == '\0' && needed == 0);
    cr_expect(clattn_multihead_print(&layer, NULL, 1, NULL) == CLATTN_INVALID_ARGUMENT);
    clattn_multihead wrong = layer;
    wrong.struct_size--;
    cr_expect(clattn_multihead_print(&wrong, cut, sizeof cut, NULL) == CLATTN_INVALID_ARGUMENT);
    wrong = layer;
    wrong.attention.struct_size--;
    cr_expect(clattn_multihead_print(&wrong, cut, sizeof cut, NULL) == CLATTN_INVALID_ARGUMENT);
}

Test(multihead_text, refusals) {
    const struct {
        const char *text, *named;
    } cases[] = {
        {"", "layer"},
        {"fwd f32 q1 d1 model=1", "layer"},
        {"fwd layer f32 q1 d1 model=1", "layer"},
        {"layer fwd f32 q1 d1", "model"},
        {"layer fwd f32 d1 model=1", "q"},
        {"layer f32 q1 d1 model=1", "operation"},
        {"layer fwd f32 q1 d1 model=1 model=1", "model="},
        {"layer layer fwd f32 q1 d1 model=1", "layer"},
        {"layer fwd f32 q1 d1 model=", "model="},
        {"layer fwd f32 q1 d1 model=-1", "model=-1"},
        {"layer fwd f32 q1 d1 model=1x", "model=1x"},
        {"layer fwd f32 q1 d1 model=99999999999999999999999", "cannot be read"},
        {"layer fwd f32 q1 d1 model=1 cross", "cross"},
        {"layer fwd f32 q1 d1 model=1 separate=1", "separate=1"},
        {"layer fwd f32 q1 d1 model=1 separate=1,2,3", "separate=1,2,3"},
        {"layer fwd f32 q1 d1 model=1 cross=1 separate=1,1", "exclude"},
        {"layer fwd f32 q1 d1 model=1 weights=none", "weights=none"},
        {"layer fwd f32 q1 d1 model=1 weights=all", "weights=all"},
        {"layer fwd f32 q1 d1 model=1 sideways", "sideways"},
        {"layer fwd f32 q1 d1 model=0", "model"},
        {"layer fwd f32 q1 k2 d1 model=1", "seq_kv"},
        {"layer fwd f32 q1 d1 model=1 lse", "lse"},
        {"layer fwd f32 q1 d1 model=1 q=bshd", "layouts"},
        {"layer fwd f32 q1 d1 model=1 keysums", "key_sums"},
        {"layer bwd f32 q1 d1 model=1 dlse", "dlse"},
        {"layer proj f32 q1 d1 model=1", "operation"},
    };
    char reason[256], endless[5000];
    clattn_multihead layer;

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        memset(&layer, 0x5a, sizeof layer);
        cr_expect(clattn_multihead_parse(cases[n].text, &layer, reason, sizeof reason) ==
                      CLATTN_INVALID_PROBLEM,
                  "'%s'", cases[n].text);
        cr_expect(strstr(reason, cases[n].named), "'%s': %s", cases[n].text, reason);
        cr_expect_str_eq(printed(&layer), "layer fwd f32 b1 h1 q1 k1 d1 model=1");
    }
    memset(endless, 'y', sizeof endless);
    for (size_t n = 0; n < sizeof endless; n += 50)
        endless[n] = ' ';
    memcpy(endless, "layer ", 6);
    endless[sizeof endless - 1] = '\0';
    cr_expect(clattn_multihead_parse(endless, &layer, reason, sizeof reason) ==
              CLATTN_INVALID_PROBLEM);
    cr_expect(strstr(reason, "longer"), "%s", reason);
    cr_expect(clattn_multihead_parse(NULL, &layer, reason, sizeof reason) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_multihead_parse("layer", NULL, NULL, 0) == CLATTN_INVALID_ARGUMENT);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static clattn_multihead base(void)
{
    return layer_parsed("layer fwd f32 b2 h4/2 q3 k5 d8 model=6 cross=6");
}

static void refused(const clattn_multihead *layer, const clattn_status want, const char *words)
{
    char reason[512];

    cr_expect(clattn_multihead_check(layer, reason, sizeof reason) == want, "%s", words);
    cr_expect(strstr(reason, words), "'%s', not '%s'", reason, words);
    cr_expect(clattn_multihead_flops(layer) == 0.0);
}

Test(multihead_text, rules) {
    struct {
        clattn_multihead layer;
        const char *words;
    } cases[32];
    size_t count = 0;

#define SPOIL(assignment, said)                                                                    \
    cases[count].layer = base();                                                                   \
    cases[count].layer.assignment;                                                                 \
    cases[count++].words = said
    SPOIL(attention.operation = CLATTN_PROJECTION, "operation is 2");
    SPOIL(source = (clattn_source)3, "source is 3");
    SPOIL(order = (clattn_weight_order)2, "order is 2");
    SPOIL(weights = (clattn_weights_out)-1, "weights is -1");
    SPOIL(attention.q.stride[3] = 1, "layouts");
    SPOIL(attention.dv.stride[0] = 1, "layouts");
    SPOIL(attention.lse = 1, "lse");
    SPOIL(attention.k_cache = CLATTN_CACHE_F16, "k_cache");
    SPOIL(attention.v_cache = CLATTN_CACHE_BF16, "v_cache");
    SPOIL(attention.o_f32 = 1, "o_f32");
    SPOIL(attention.int8 = 1, "int8");
    SPOIL(attention.scores = CLATTN_SCORES_RAW, "scores");
    SPOIL(attention.heads = 3, "heads (3)");
    SPOIL(attention.merge.accumulate = 1, "members of other operations");
    SPOIL(source = CLATTN_SELF, "seq_kv must be seq_q");
    SPOIL(model = 0, "model must be");
    SPOIL(output = 0, "output must be");
    SPOIL(values_model = 7, "values_model must be context_model");
    SPOIL(model = (size_t)1 << 49, "model must be");
    SPOIL(output = SIZE_MAX, "output must be");
#undef SPOIL
    for (size_t n = 0; n < count; n++)
        refused(&cases[n].layer, CLATTN_INVALID_PROBLEM, cases[n].words);

    clattn_multihead layer = base();
    layer.packed = 1;
    layer.context_model = layer.values_model = 7;
    refused(&layer, CLATTN_INVALID_PROBLEM, "packed");
    layer = base();
    layer.source = CLATTN_SELF;
    layer.attention.seq_kv = 3;
    layer.context_model = layer.values_model = 7;
    refused(&layer, CLATTN_INVALID_PROBLEM, "context_model must be model");
    layer = base();
    layer.attention.operation = CLATTN_BACKWARD;
    layer.weights = CLATTN_WEIGHTS_MEAN;
    refused(&layer, CLATTN_INVALID_PROBLEM, "forward only");
    layer.weights = CLATTN_WEIGHTS_NONE;
    cr_expect(clattn_multihead_check(&layer, NULL, 0) == CLATTN_SUCCESS);
}

/* Products of sizes, and tensors that would reach too far, in any of the steps. */
Test(multihead_text, sizes_that_are_too_large) {
    const size_t large = (size_t)1 << 40;
    clattn_multihead layer = base();

    layer.attention.batch = (size_t)1 << 30;
    layer.attention.seq_q = (size_t)1 << 20;
    refused(&layer, CLATTN_INVALID_PROBLEM, "batch * seq_q");
    layer = base();
    layer.attention.heads = layer.attention.kv_heads = layer.attention.dim_qk = large;
    layer.attention.batch = 0;
    refused(&layer, CLATTN_INVALID_PROBLEM, "heads * dim_qk");
    layer = base();
    layer.attention.batch = 0;
    layer.attention.seq_q = layer.attention.seq_kv = large;
    layer.weights = CLATTN_WEIGHTS_MEAN;
    refused(&layer, CLATTN_INVALID_PROBLEM, "seq_q * seq_kv");
    layer = base();
    layer.model = large;
    layer.attention.seq_q = large;
    refused(&layer, CLATTN_INVALID_PROBLEM, "in step 'q'");
    layer = base();
    layer.output = (size_t)1 << 47;
    layer.attention.seq_q = (size_t)1 << 20;
    refused(&layer, CLATTN_INVALID_PROBLEM, "in step 'y'");
}

Test(multihead_text, struct_sizes_and_nulls) {
    clattn_multihead layer = base();
    char reason[256];

    cr_expect(clattn_multihead_check(NULL, reason, sizeof reason) == CLATTN_INVALID_ARGUMENT);
    cr_expect(strstr(reason, "null") != NULL);
    layer.struct_size++;
    refused(&layer, CLATTN_INVALID_ARGUMENT, "struct_size");
    layer = base();
    layer.attention.struct_size = 0;
    refused(&layer, CLATTN_INVALID_ARGUMENT, "struct_size");
}

/* ---- operations ------------------------------------------------------------------------------ */

Test(multihead_text, operations) {
    const clattn_multihead self = layer_parsed("layer fwd f32 b2 h3 q5 d4 model=7 output=11");
    const clattn_multihead cross =
        layer_parsed("layer bwd f32 b1 h2/1 q3 k5 d4/6 model=7 separate=8,9 output=10");
    const double attention = 2.0 * (4 + 4) * 2 * 3 * 5 * 5;
    const double gradients = (6 * 4 + 4 * 6) * 2 * 3 * 5;

    cr_expect(clattn_multihead_flops(&self) ==
              attention + 2.0 * 10 * 7 * (3 * 12) + 2.0 * 10 * 12 * 11);
    cr_expect(clattn_multihead_flops(&cross) ==
              gradients + 2 * 2.0 * (3 * 7 * 8 + 5 * 8 * 4 + 5 * 9 * 6 + 3 * 12 * 10));
}

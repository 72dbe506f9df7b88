/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout in parts of a larger attention (clattn_dropout_place): they drop what the whole drops. That every
 * family counts places as the reference does, with every option, the sweep shows, whose trials draw places. */
#include "context/context.h"
#include "families/family.h"
#include "families/registry.h"
#include "tests/support/families.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(dropout_place, .init = unoptimised, .timeout = 300);

enum { SEED = 77, STREAM = 5 };

/* Sizes of the whole, of a part, and where the part lies. */
enum { BATCH = 3, HEADS = 5, QUERIES = 40, KEYS = 64 };
enum { PART_BATCH = 2, PART_HEADS = 2, PART_QUERIES = 17, PART_KEYS = 21 };
static const clattn_dropout_place part_place = {
    .query = 13, .key = 24, .batch = 1, .head = 2, .heads = HEADS};

/* The part's mask, read from o. With queries of 0 all weights are alike. Values that are 1 in
 * one column of each key make o the weights after dropout. */
static void check_part(struct fixture *f, const char *family, const unsigned char *whole)
{
    enum { ROWS = PART_BATCH * PART_HEADS * PART_QUERIES };
    static float q[ROWS], k[PART_BATCH * PART_HEADS * PART_KEYS];
    static float v[PART_BATCH * PART_HEADS * PART_KEYS * PART_KEYS], o[ROWS * PART_KEYS];
    const clattn_problem p = fixture_problem("fwd f32 b2 h2 q17 k21 d1/21 dropout=0.5");
    const clattn_plan_options options = {.struct_size = sizeof options, .family = family};
    const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = q,
                                                 .k = k,
                                                 .v = v,
                                                 .o = o,
                                                 .dropout_seed = SEED,
                                                 .dropout_offset = STREAM,
                                                 .dropout_place = part_place};

    for (size_t n = 0; n < sizeof v / sizeof *v; n++)
        v[n] = n / PART_KEYS % PART_KEYS == n % PART_KEYS;
    cr_assert(clattn_attention_forward_host(f->context, &p, &options, &tensors) == CLATTN_SUCCESS,
              "%s: %s", family, f->log.last);
    for (size_t n = 0; n < sizeof o / sizeof *o; n++) {
        const size_t j = n % PART_KEYS + part_place.key;
        const size_t i = n / PART_KEYS % PART_QUERIES + part_place.query;
        const size_t bh = n / PART_KEYS / PART_QUERIES;
        const size_t b = bh / PART_HEADS + part_place.batch, h = bh % PART_HEADS + part_place.head;
        const int kept = whole[((b * HEADS + h) * QUERIES + i) * KEYS + j];
        cr_assert((o[n] > 0.0f) == kept, "%s: (%zu, %zu, %zu, %zu)", family, b, h, i, j);
    }
}

DeviceTest(dropout_place, part_of_the_mask)
{
    static unsigned char whole[BATCH * HEADS * QUERIES * KEYS];
    const clattn_problem p = fixture_problem("fwd f32 b3 h5 q40 k64 d1 dropout=0.5");

    cr_assert(clattn_dropout_mask_host(&p, SEED, STREAM, 0, BATCH * HEADS * QUERIES, whole) ==
              CLATTN_SUCCESS);
    for (size_t n = 0; ca_family_at(n); n++) {
        const struct ca_family *family = ca_family_at(n);
        const int fits = f->context->device.max_work_group_size > 1 ||
                         !fixture_has_groups(family, &f->context->device);
        if (family->operation == CLATTN_FORWARD && family_takes_f32(family->full_name) && fits)
            check_part(f, family->full_name, whole);
    }
}

/* ---- keys in two parts ------------------------------------------------------------------------ */

enum { H = 2, Q = 20, K = 70, D = 12, FIRST = 28, ROWS = H * Q };

/* The parts' keys lie where the whole's do. The last queries see nothing of the first part. */
#define OPTIONS "window=40,* alibi dropout=0.3"
#define ROWS_OF(x) " " x "=1680.840.12.1"
static const char *const whole_text = "f32 h2 q20 k70 d12 causal=50 " OPTIONS;
static const struct {
    const char *text;
    size_t key;
} parts_of[] = {{"f32 h2 q20 k28 d12 causal=50 " OPTIONS ROWS_OF("k") ROWS_OF("v"), 0},
                {"f32 h2 q20 k42 d12 causal=22 " OPTIONS ROWS_OF("k") ROWS_OF("v"), FIRST}};

static float q[ROWS * D], k[H * K * D], v[H * K * D], d_o[ROWS * D];
static const float slopes[H] = {0.25f, 0.0625f}, sinks[H] = {1.5f, -0.5f};

static void fill(float *x, const size_t count, struct rng *r)
{
    for (size_t n = 0; n < count; n++)
        x[n] = (float)rng_uniform(r, -2, 2);
}

static void fill_inputs(void)
{
    struct rng r = rng_seed(3);

    fill(q, ROWS * D, &r);
    fill(k, H * K * D, &r);
    fill(v, H * K * D, &r);
    fill(d_o, ROWS * D, &r);
}

/* Sinks are the whole's, and the merge's. */
static void forward(struct fixture *f, const char *of, const size_t key, float *o, float *lse)
{
    const int is_whole = of == whole_text;
    const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = q,
                                                 .k = k + key * D,
                                                 .v = v + key * D,
                                                 .o = o,
                                                 .lse = lse,
                                                 .slopes = slopes,
                                                 .sinks = is_whole ? sinks : NULL,
                                                 .dropout_seed = SEED,
                                                 .dropout_offset = STREAM,
                                                 .dropout_place = {.key = (cl_uint)key}};
    char text[256];

    snprintf(text, sizeof text, "fwd %s lse%s", of, is_whole ? " sinks" : "");
    const clattn_problem p = fixture_problem(text);
    cr_assert(clattn_attention_forward_host(f->context, &p, NULL, &tensors) == CLATTN_SUCCESS, "%s",
              f->log.last);
}

/* o and lse are of the whole. dsinks: NULL, or wanted. */
static void backward(struct fixture *f, const char *of, const size_t key, const float *o,
                     const float *lse, float *dq, float *dk, float *dv, float *dsinks)
{
    const clattn_host_backward_tensors tensors = {.struct_size = sizeof tensors,
                                                  .q = q,
                                                  .k = k + key * D,
                                                  .v = v + key * D,
                                                  .o = o,
                                                  .lse = lse,
                                                  .d_o = d_o,
                                                  .slopes = slopes,
                                                  .sinks = dsinks ? sinks : NULL,
                                                  .dsinks = dsinks,
                                                  .dq = dq,
                                                  .dk = dk + key * D,
                                                  .dv = dv + key * D,
                                                  .dropout_seed = SEED,
                                                  .dropout_offset = STREAM,
                                                  .dropout_place = {.key = (cl_uint)key}};
    char text[256];

    snprintf(text, sizeof text, "bwd %s" ROWS_OF("dk") ROWS_OF("dv") "%s", of,
             dsinks ? " sinks dsinks" : "");
    const clattn_problem p = fixture_problem(text);
    cr_assert(clattn_attention_backward_host(f->context, &p, NULL, &tensors) == CLATTN_SUCCESS,
              "%s", f->log.last);
}

static void compare(const char *name, const float *got, const float *want, const size_t count)
{
    for (size_t n = 0; n < count; n++)
        cr_assert(fabs((double)got[n] - (double)want[n]) <= 2e-5, "%s %zu: %g, not %g", name, n,
                  (double)got[n], (double)want[n]);
}

/* Each with the diagonal of its places: what a caller does whose keys lie on several devices. */
DeviceTest(dropout_place, merged_parts_are_the_whole)
{
    static float parts[2][ROWS * D], parts_lse[2][ROWS], want[ROWS * D], want_lse[ROWS];
    static float got[ROWS * D], got_lse[ROWS];
    const clattn_problem merge = fixture_problem("merge f32 h2 q20 d12 n2 sinks");
    const clattn_host_merge_tensors merged = {.struct_size = sizeof merged,
                                              .parts = parts,
                                              .parts_lse = parts_lse[0],
                                              .sinks = sinks,
                                              .o = got,
                                              .lse = got_lse};

    fill_inputs();
    forward(f, whole_text, 0, want, want_lse);
    for (int n = 0; n < 2; n++)
        forward(f, parts_of[n].text, parts_of[n].key, parts[n], parts_lse[n]);
    cr_assert(clattn_merge_host(f->context, &merge, NULL, &merged) == CLATTN_SUCCESS, "%s",
              f->log.last);
    compare("lse", got_lse, want_lse, ROWS);
    compare("o", got, want, ROWS * D);
}

/* With o and lse of the whole, dk and dv of a part are those of its keys, and dq is the parts'
 * sum. dsinks are those of any part, though queries see nothing of its keys. */
DeviceTest(dropout_place, gradients_of_parts_are_the_wholes)
{
    static float o[ROWS * D], lse[ROWS], want_q[ROWS * D], want_k[H * K * D], want_v[H * K * D];
    static float part_q[2][ROWS * D], got_k[H * K * D], got_v[H * K * D];
    float want_sinks[H], got_sinks[H];

    fill_inputs();
    forward(f, whole_text, 0, o, lse);
    backward(f, whole_text, 0, o, lse, want_q, want_k, want_v, want_sinks);
    for (int n = 0; n < 2; n++)
        backward(f, parts_of[n].text, parts_of[n].key, o, lse, part_q[n], got_k, got_v,
                 n == 0 ? got_sinks : NULL);
    for (size_t n = 0; n < ROWS * D; n++)
        part_q[0][n] += part_q[1][n];
    compare("dq", part_q[0], want_q, ROWS * D);
    compare("dk", got_k, want_k, H * K * D);
    compare("dv", got_v, want_v, H * K * D);
    compare("dsinks", got_sinks, want_sinks, H);
}

DeviceTest(dropout_place, refused)
{
    static const struct {
        clattn_dropout_place place;
        const char *words;
    } cases[] = {{{.key = 6}, "dropout_place.key is 6, not a multiple of 4"},
                 {{.head = 3, .heads = 4}, "2 heads from head 3 on are not among 4"},
                 {{.head = 5, .heads = 4}, "2 heads from head 5 on are not among 4"},
                 {{.head = UINT32_MAX, .heads = 1}, "are not among 1"}};
    const clattn_problem p = fixture_problem("fwd f32 h2 q2 k3 d4 dropout=0.5");
    float x[2 * 3 * 4] = {0}, o[2 * 2 * 4];

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                     .q = x,
                                                     .k = x,
                                                     .v = x,
                                                     .o = o,
                                                     .dropout_place = cases[n].place};
        cr_assert(clattn_attention_forward_host(f->context, &p, NULL, &tensors) ==
                  CLATTN_INVALID_ARGUMENT);
        cr_assert(strstr(f->log.last, cases[n].words), "%s", f->log.last);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout's random numbers and its mask: known answers, the device against the host and the host
 * against the reference, statistics, and everything that a caller can do wrong. */
#include "bench/judge/dropout.h"
#include "problem/philox.h"
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/rng.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(dropout_mask, .timeout = 300);

static size_t rows_of(const clattn_problem *p)
{
    return p->batch * p->heads * p->seq_q;
}

/* The whole mask, by the host; the caller frees it. */
static unsigned char *host_mask(const clattn_problem *p, const cl_ulong seed, const cl_uint offset)
{
    unsigned char *mask = malloc(rows_of(p) * p->seq_kv + 1);

    cr_assert(mask != NULL);
    cr_assert(clattn_dropout_mask_host(p, seed, offset, 0, rows_of(p), mask) == CLATTN_SUCCESS);
    return mask;
}

/* ---- the generator -------------------------------------------------------------------------- */

/* Published with the generator (Random123's kat_vectors). */
Test(dropout_mask, known_answers) {
    static const struct {
        uint32_t counter[4], key[2], words[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (size_t n = 0; n < sizeof known / sizeof *known; n++) {
        uint32_t words[4];
        ca_philox(known[n].key, known[n].counter, words);
        cr_assert(memcmp(words, known[n].words, sizeof words) == 0, "the library's, vector %zu", n);
        reference_philox(known[n].key, known[n].counter, words);
        cr_assert(memcmp(words, known[n].words, sizeof words) == 0, "the reference's, vector %zu",
                  n);
    }
}

/* ---- what it is ------------------------------------------------------------------------------ */

static const struct mask_case {
    const char *problem;
    cl_ulong seed;
    cl_uint offset;
} cases[] = {
    {"fwd f32 q1 k1 d1 dropout=0.5", 0, 0},
    {"fwd f32 b2 h3 q5 k63 d8 dropout=0.1", 1, 1},
    {"fwd f16 h2 q9 k64 d8 dropout=0.25", 0xffffffffffffffff, 0xffffffff},
    {"fwd f32 b3 h4/2 q7 k65 d8 dropout=0.9 causal=tl klen", 0x123456789abcdef0, 0x89abcdef},
    {"bwd f32 h2 q3 k130 d8 dropout=0.999999", (cl_ulong)1 << 32, 3},
    {"fwd f32 h2 q3 k259 d8 dropout=1e-9", 5, 3},
    {"fwd f32 h2 q3 k17 d8", 5, 3},
};

Test(dropout_mask, host_is_reference) {
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const clattn_problem p = fixture_problem(cases[c].problem);
        const struct tensor_view view = {.dropout_seed = cases[c].seed,
                                         .dropout_offset = cases[c].offset};
        unsigned char *mask = host_mask(&p, cases[c].seed, cases[c].offset);
        for (size_t row = 0, n = 0; row < rows_of(&p); row++)
            for (size_t j = 0; j < p.seq_kv; j++, n++)
                cr_assert(mask[n] == reference_dropout_keeps(&p, &view, row / p.seq_q / p.heads,
                                                             row / p.seq_q % p.heads, row % p.seq_q,
                                                             j),
                          "'%s': row %zu, key %zu", cases[c].problem, row, j);
        free(mask);
    }
}

/* Any rows, and no byte besides them. */
Test(dropout_mask, rows) {
    const clattn_problem p = fixture_problem("fwd f32 b2 h3 q5 k21 d8 dropout=0.4");
    unsigned char *all = host_mask(&p, 7, 9), some[30 * 21 + 2];

    for (size_t first = 0; first <= 30; first++)
        for (size_t count = 0; first + count <= 30; count++) {
            memset(some, 0xee, sizeof some);
            cr_assert(clattn_dropout_mask_host(&p, 7, 9, first, count, some + 1) == CLATTN_SUCCESS);
            cr_assert(memcmp(some + 1, all + first * 21, count * 21) == 0);
            cr_assert(some[0] == 0xee && some[1 + count * 21] == 0xee);
        }
    free(all);
}

/* A longer or larger problem has the same mask where both have a weight, if heads agree. */
Test(dropout_mask, sizes_do_not_matter) {
    const clattn_problem small = fixture_problem("fwd f32 b1 h3 q5 k21 d8 dropout=0.4");
    const clattn_problem large = fixture_problem("fwd bf16 b2 h3 q9 k50 d80 dropout=0.4 causal=br");
    unsigned char *few = host_mask(&small, 7, 9), *many = host_mask(&large, 7, 9);

    for (size_t h = 0; h < 3; h++)
        for (size_t i = 0; i < 5; i++)
            cr_assert(memcmp(few + (h * 5 + i) * 21, many + (h * 9 + i) * 50, 21) == 0);
    free(few);
    free(many);
}

static void compare_with_host(struct fixture *f, cl_command_queue queue, const struct mask_case *c)
{
    enum { GUARD = 37 };
    const clattn_problem p = fixture_problem(c->problem);
    const size_t bytes = rows_of(&p) * p.seq_kv;
    unsigned char *want = host_mask(&p, c->seed, c->offset), *got = malloc(bytes + 2 * GUARD);
    cl_event done;

    cr_assert(got != NULL);
    memset(got, 0xee, bytes + 2 * GUARD);
    const clattn_buffer mask = {.buffer = fixture_buffer(f, bytes + 2 * GUARD, got),
                                .offset = GUARD};
    const clattn_status status =
        clattn_dropout_mask(f->context, &p, c->seed, c->offset, queue, &mask, 0, NULL, &done);
    cr_assert(status == CLATTN_SUCCESS, "%s, %s", clattn_status_string(status), f->log.last);
    cr_assert(clWaitForEvents(1, &done) == CL_SUCCESS);
    clReleaseEvent(done);
    fixture_read(f, mask.buffer, bytes + 2 * GUARD, got);
    cr_assert(memcmp(got + GUARD, want, bytes) == 0, "'%s'", c->problem);
    for (size_t n = 0; n < GUARD; n++)
        cr_assert(got[n] == 0xee && got[GUARD + bytes + n] == 0xee, "'%s'", c->problem);
    clReleaseMemObject(mask.buffer);
    free(got);
    free(want);
}

/* All of them by one program. */
Test(dropout_mask, device_is_host) {
    struct fixture f;
    cl_int err;

    fixture_open_checked(&f, "");
    cl_command_queue free_order =
        clCreateCommandQueue(f.opencl, f.device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &err);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        compare_with_host(&f, f.queue, &cases[c]);
        if (free_order)
            compare_with_host(&f, free_order, &cases[c]);
    }
    cr_assert(clattn_context_builds(f.context) == 1);
    if (free_order)
        clReleaseCommandQueue(free_order);
    fixture_close(&f);
}

/* Random sizes, seeds and probabilities. */
Test(dropout_mask, random_cases) {
    struct rng r = rng_seed(31);
    struct fixture f;

    fixture_open(&f);
    for (int n = 0; n < 60; n++) {
        char text[128];
        snprintf(text, sizeof text, "fwd f32 b%zu h%zu q%zu k%zu d8 dropout=%.9g",
                 1 + rng_below(&r, 3), 1 + rng_below(&r, 5), 1 + rng_below(&r, 20),
                 1 + rng_below(&r, 300), rng_uniform(&r, 0, 0.99));
        compare_with_host(&f, f.queue,
                          &(struct mask_case){text, rng_next(&r), (cl_uint)rng_next(&r)});
    }
    fixture_close(&f);
}

/* Nothing is written and the event still comes. */
Test(dropout_mask, empty) {
    static const char *const texts[] = {"fwd f32 b0 q3 k3 d8 dropout=0.5",
                                        "fwd f32 q0 k3 d8 dropout=0.5",
                                        "fwd f32 q3 k0 d8 dropout=0.5"};
    const clattn_buffer none = {.buffer = NULL};
    struct fixture f;

    fixture_open(&f);
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        const clattn_problem p = fixture_problem(texts[n]);
        cl_event done = NULL;
        cr_assert(clattn_dropout_mask(f.context, &p, 1, 2, f.queue, &none, 0, NULL, &done) ==
                  CLATTN_SUCCESS);
        cr_assert(done && clWaitForEvents(1, &done) == CL_SUCCESS);
        clReleaseEvent(done);
        cr_assert(clattn_dropout_mask_host(&p, 1, 2, 0, rows_of(&p), NULL) == CLATTN_SUCCESS);
    }
    fixture_close(&f);
}

/* ---- statistics ------------------------------------------------------------------------------ */

/* 2^20 weights, with as many drops as binomial chance gives, up to 5 standard deviations. */
Test(dropout_mask, fraction) {
    static const double rates[] = {1e-4, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999};
    clattn_problem p = fixture_problem("fwd f32 b2 h4 q128 k1024 d8");

    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++)
        for (cl_ulong seed = 0; seed < 3; seed++) {
            const double n = 0x1p20;
            double dropped = 0.0;
            p.dropout = (float)rates[r];
            unsigned char *mask = host_mask(&p, seed, 11);
            for (size_t k = 0; k < (size_t)n; k++)
                dropped += !mask[k];
            cr_assert(fabs(dropped - n * rates[r]) <= 5.0 * sqrt(n * rates[r] * (1 - rates[r])),
                      "rate %g, seed %llu: %g", rates[r], (unsigned long long)seed, dropped / n);
            free(mask);
        }
}

/* Chi-square, 3 degrees of freedom, of the four outcomes of a pair, whose chances are known if its
 * weights are dropped independently. It exceeds 37 once in 2e7 times. */
static double chi_square(const unsigned char *x, const unsigned char *y, const size_t count,
                         const double rate)
{
    const double chance[4] = {rate * rate, rate * (1 - rate), (1 - rate) * rate,
                              (1 - rate) * (1 - rate)};
    double seen[4] = {0, 0, 0, 0}, sum = 0.0;

    for (size_t n = 0; n < count; n++)
        seen[2 * x[n] + y[n]]++;
    for (int n = 0; n < 4; n++) {
        const double want = (double)count * chance[n];
        sum += (seen[n] - want) * (seen[n] - want) / want;
    }
    return sum;
}

/* Decisions are independent of their neighbours in every direction, also of those four keys
 * apart (the next counter). They are independent of masks with the next offset, the next seed
 * and the next upper half of it. */
Test(dropout_mask, independence) {
    static const double rates[] = {0.1, 0.5, 0.8};
    enum { K = 256, Q = 64, H = 8, B = 8, ALL = K * Q * H * B };
    static const struct {
        const char *name;
        size_t distance;
        cl_ulong seed;
        cl_uint offset;
    } neighbours[] = {
        {"j + 1", 1, 0, 0},      {"j + 2", 2, 0, 0},
        {"j + 4", 4, 0, 0},      {"j + 16", 16, 0, 0},
        {"i + 1", K, 0, 0},      {"i + 1, j + 1", K + 1, 0, 0},
        {"h + 1", K * Q, 0, 0},  {"b + 1", K * Q * H, 0, 0},
        {"offset + 1", 0, 0, 1}, {"offset + 2^31", 0, 0, (cl_uint)1 << 31},
        {"seed + 1", 0, 1, 0},   {"seed + 2^32", 0, (cl_ulong)1 << 32, 0},
    };
    clattn_problem p = fixture_problem("fwd f32 b8 h8 q64 k256 d8");

    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        p.dropout = (float)rates[r];
        unsigned char *mask = host_mask(&p, 20, 30);
        for (size_t n = 0; n < sizeof neighbours / sizeof *neighbours; n++) {
            const size_t distance = neighbours[n].distance;
            unsigned char *other =
                host_mask(&p, 20 + neighbours[n].seed, 30 + neighbours[n].offset);
            const double chi = chi_square(mask, other + distance, ALL - distance, rates[r]);
            cr_assert(chi < 37.0, "rate %g, %s: %g", rates[r], neighbours[n].name, chi);
            free(other);
        }
        free(mask);
    }
}

/* ---- mistakes -------------------------------------------------------------------------------- */

Test(dropout_mask, host_mistakes) {
    unsigned char mask[64] = {0xee};
    clattn_problem p = fixture_problem("fwd f32 h2 q3 k5 d8 dropout=0.5"), wrong = p;

    cr_assert(clattn_dropout_mask_host(NULL, 0, 0, 0, 1, mask) == CLATTN_INVALID_ARGUMENT);
    wrong.struct_size--;
    cr_assert(clattn_dropout_mask_host(&wrong, 0, 0, 0, 1, mask) == CLATTN_INVALID_ARGUMENT);
    wrong = p;
    wrong.dropout = 1.0f;
    cr_assert(clattn_dropout_mask_host(&wrong, 0, 0, 0, 1, mask) == CLATTN_INVALID_PROBLEM);
    cr_assert(clattn_dropout_mask_host(&p, 0, 0, 0, 1, NULL) == CLATTN_INVALID_ARGUMENT);
    cr_assert(clattn_dropout_mask_host(&p, 0, 0, 0, 7, mask) == CLATTN_INVALID_ARGUMENT);
    cr_assert(clattn_dropout_mask_host(&p, 0, 0, 7, 0, mask) == CLATTN_INVALID_ARGUMENT);
    cr_assert(clattn_dropout_mask_host(&p, 0, 0, 1, SIZE_MAX, mask) == CLATTN_INVALID_ARGUMENT);
    cr_assert(clattn_dropout_mask_host(&p, 0, 0, 6, 0, NULL) == CLATTN_SUCCESS);
    const clattn_problem projection = fixture_problem("proj f32 q3 d8");
    cr_assert(clattn_dropout_mask_host(&projection, 0, 0, 0, 1, mask) == CLATTN_UNSUPPORTED);
    cr_assert(mask[0] == 0xee);
}

/* A mistake in the problem, which test_calls.c does not try for this call. */
DeviceTest(dropout_mask, mistakes)
{
    static const struct {
        const char *problem, *words;
        float dropout;
        clattn_status status;
    } wrong[] = {
        {"fwd f32 h2 q3 k5 d8", "dropout", -1.0f, CLATTN_INVALID_PROBLEM},
        {"proj f32 q3 d8", "only attention has dropout", 0.0f, CLATTN_UNSUPPORTED},
        {"fwd f32 h1024 q1048576 k281474976710656 d1 k=0.0.0.1 v=0.0.0.1", "2^63", 0.0f,
         CLATTN_BUFFER_TOO_SMALL},
    };
    const clattn_buffer mask = {.buffer = fixture_buffer(f, 32, NULL)};

    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        clattn_problem p = fixture_problem(wrong[n].problem);
        p.dropout = wrong[n].dropout;
        fixture_refused(f,
                        clattn_dropout_mask(f->context, &p, 1, 2, f->queue, &mask, 0, NULL, NULL),
                        wrong[n].status, wrong[n].words);
    }
    const clattn_problem p = fixture_problem("fwd f32 h2 q3 k5 d8");
    fixture_refused(f, clattn_dropout_mask(f->context, NULL, 1, 2, f->queue, &mask, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "problem");
    fixture_refused(f, clattn_dropout_mask(f->context, &p, 1, 2, f->queue, NULL, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "mask is null");
    clReleaseMemObject(mask.buffer);
}

static clattn_status write_mask(struct fixture *f, const clattn_buffer buffers[2], cl_event *done)
{
    const clattn_problem p = fixture_problem("fwd f32 h2 q3 k5 d8 dropout=0.5");

    return clattn_dropout_mask(f->context, &p, 1, 2, f->queue, &buffers[0], 0, NULL, done);
}

Test(dropout_mask, faults_and_compilers_that_err) {
    fixture_distrust((const size_t[]){30, 1}, write_mask);
}

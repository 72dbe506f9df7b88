/* SPDX-License-Identifier: Apache-2.0 */
/* Appends: each element against double precision, the bits of the quantizer, lists that hold anything. */
#include "tests/support/fixture.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(append, .timeout = 120, .init = unoptimised);

/* A run takes one in four of the bases, and of their problems. */
DeviceTest(append, random)
{
    static const struct trial_base bases[] = {
        {"append f32 q1 k1 d8 klen", NULL, NULL},
        {"append f16 q1 k1 d8 klen slots", NULL, NULL},
        {"append f32 q1 k1 d64 cache=f16 klen rope=halves:64:10000 queries", NULL, NULL},
        {"append f16 q1 k1 d64 cache=bf16 klen pos rope=pairs:20:500 queries=inplace", NULL, NULL},
        {"append bf16 q1 k1 d64 cache=f32 slots pos rope=halves:30:500 queries=inplace", NULL,
         NULL},
        {"append f32 q1 k1 d64 kcache=q8_0 vcache=q4_0 klen rope=pairs:64:tables:900 queries", NULL,
         NULL},
        {"append f16 q1 k1 d64 kcache=q4_0 vcache=q8_0 slots pos rope=halves:64:tables:900", NULL,
         NULL},
        {"append f16 q1 k1 d64 cache=f32 page=3 pages=1 klen rope=halves:64:10000 queries", NULL,
         NULL},
        {"append f32 q1 k1 d64 kcache=q8_0 vcache=q8_0 page=16 pages=1 klen slots", NULL, NULL},
        {"append f16 q1 k1 d64 kcache=e4m3 vcache=int8 page=3 pages=1 klen kscales vscales", NULL,
         NULL},
        {"append f32 q1 k1 d64 kcache=int8 vcache=e5m2 klen kscales rope=pairs:20:500", NULL, NULL},
    };

    trials_pass_of(f, bases, sizeof bases / sizeof *bases, 4, 24, 4);
}

/* As on GPUs: groups of several items, heads shared among them. */
DeviceTest(append, groups_of_items)
{
    struct trial t = {
        .problem = fixture_problem(
            "append f32 b2 h6/3 q5 k9 d96/70 cache=f16 klen rope=halves:50:10000 queries=inplace"),
        .family = "append_tokens",
        .tunables = "SIMD_WIDTH=4 GROUP_ITEMS=32 HEAD_GROUPS=2",
        .seed = 3};

    fixture_need_groups(f);
    trial_pass(f, &t);
}

/* ---- to the bit ----------------------------------------------------------------------------- */

/* A cache that is not rotated has the bits of clattn_quantize_host(), of all kinds of numbers. */
DeviceTest(append, blocks_are_those_of_the_quantizer)
{
    enum { ROWS = 40, DIM = 64 };
    static float k[ROWS * DIM];
    static unsigned char got[2][ROWS * DIM * 2], want[ROWS * DIM * 2];
    struct rng r = rng_seed(9);

    for (size_t n = 0; n < ROWS * DIM; n++)
        k[n] = (float)(rng_uniform(&r, -1, 1) * pow(2.0, (double)(n / DIM) - 20.0));
    for (size_t n = 0; n < DIM; n++) {
        k[DIM + n] = 0.0f;
        k[2 * DIM + n] = (float)n - 31.5f; /* ties */
        k[3 * DIM + n] = n == 5 ? NAN : 1.0f;
        k[4 * DIM + n] = n == 40 ? -INFINITY : 1.0f;
        k[5 * DIM + n] = (float)rng_uniform(&r, -1, 1) * 1e-37f;
        k[6 * DIM + n] = n % 2 ? 3e7f : -3e7f;
    }
    for (size_t n = 0; n < CA_NUM_BLOCK_FORMATS; n++) {
        const clattn_cache format = ca_block_caches[n];
        const char *name = ca_format_of(format)->name;
        char text[128];
        snprintf(text, sizeof text, "append f32 q%d k%d d%d kcache=%s vcache=%s", ROWS, ROWS, DIM,
                 name, name);
        const clattn_problem p = fixture_problem(text);
        const clattn_host_append_tensors tensors = {
            .struct_size = sizeof tensors, .k = k, .v = k, .k_cache = got[0], .v_cache = got[1]};
        const clattn_quantization q = {
            .struct_size = sizeof q, .from = CLATTN_F32, .to = format, .size = {1, 1, ROWS, DIM}};
        const size_t bytes = clattn_quantized_bytes(q.to, ROWS * DIM);
        cr_assert(clattn_append_host(f->context, &p, NULL, &tensors) == CLATTN_SUCCESS, "%s",
                  f->log.last);
        cr_assert(clattn_quantize_host(&q, k, want) == CLATTN_SUCCESS);
        for (size_t at = 0; at < bytes; at++)
            if (got[0][at] != want[at] || got[1][at] != want[at]) {
                cr_expect(0, "%s: byte %zu of block %zu differs", name, at % (bytes / (ROWS * 2)),
                          at / (bytes / (ROWS * 2)));
                break;
            }
    }
}

/* ---- angles --------------------------------------------------------------------------------- */

/* A million tokens away an angle is as exact as near; position 0 changes nothing. */
DeviceTest(append, far_positions)
{
    enum { TOKENS = 5, DIM = 128 };
    static const cl_int positions[TOKENS] = {0, 1, -100000, 1000000, 4194304};
    static float k[TOKENS * DIM], v[TOKENS * DIM], k_cache[TOKENS * DIM], v_cache[TOKENS * DIM];
    const clattn_problem p = fixture_problem("append f32 q5 k5 d128 pos rope=pairs:128:10000");
    const clattn_host_append_tensors tensors = {.struct_size = sizeof tensors,
                                                .k = k,
                                                .v = v,
                                                .k_cache = k_cache,
                                                .v_cache = v_cache,
                                                .positions = positions};

    for (size_t n = 0; n < TOKENS * DIM; n += 2)
        k[n] = 1.0f;
    cr_assert(clattn_append_host(f->context, &p, NULL, &tensors) == CLATTN_SUCCESS, "%s",
              f->log.last);
    cr_expect(memcmp(k, k_cache, DIM * sizeof(float)) == 0);
    for (size_t n = 0; n < TOKENS * DIM; n++) {
        const size_t d = n % DIM;
        const double angle = positions[n / DIM] * pow(10000.0, -(double)(d / 2 * 2) / DIM);
        const double want = d % 2 ? sin(angle) : cos(angle);
        cr_expect(fabs((double)k_cache[n] - want) < 2e-6, "token %zu, column %zu: %.9g, not %.9g",
                  n / DIM, d, (double)k_cache[n], want);
    }
}

/* Decoding with a cache that grows token by token is attention over all tokens at once. */
DeviceTest(append, a_cache_that_grows)
{
    enum { TOKENS = 6, HEADS = 2, DIM = 32 };
    static float k[HEADS * TOKENS * DIM], v[HEADS * TOKENS * DIM], k_cache[HEADS * TOKENS * DIM],
        v_cache[HEADS * TOKENS * DIM];
    const clattn_problem p = fixture_problem("append f32 h2 q1 k6 d32 k=384.192.32.1 "
                                             "v=384.192.32.1 klen");
    struct rng r = rng_seed(4);

    for (size_t n = 0; n < HEADS * TOKENS * DIM; n++)
        k[n] = v[n] = (float)rng_uniform(&r, -1, 1);
    for (cl_int i = 0; i < TOKENS + 2; i++) { /* two more than there is room for */
        const size_t at = (size_t)(i < TOKENS ? i : 0) * DIM;
        const clattn_host_append_tensors tensors = {.struct_size = sizeof tensors,
                                                    .k = k + at,
                                                    .v = v + at,
                                                    .k_cache = k_cache,
                                                    .v_cache = v_cache,
                                                    .kv_lengths = &i};
        cr_assert(clattn_append_host(f->context, &p, NULL, &tensors) == CLATTN_SUCCESS, "%s",
                  f->log.last);
    }
    cr_expect(memcmp(k, k_cache, sizeof k) == 0 && memcmp(v, v_cache, sizeof v) == 0);
}

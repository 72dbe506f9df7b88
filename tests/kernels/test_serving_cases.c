/* SPDX-License-Identifier: Apache-2.0 */
/* Serving as other libraries test it, rebuilt from their parameters on random data against double precision:
 *
 * - a cache that is appended to and attended to: test_flash_attn_kvcache of FlashAttention (tests/test_flash_attn.py), but
 *   for left padding and for caches of over 20000 keys. A page as long as a sequence is what its cache_batch_idx chooses.
 * - flashinfer-bench's definitions gqa_paged, gqa_ragged and mla_paged (flashinfer_trace/definitions), whose lengths are
 *   variables. Their lse has base 2, clattn's is natural.
 *
 * A run draws some of what they cross, and takes a part of their shapes (CLATTN_TEST_SEED; CLATTN_TEST_ALL=1: all shapes). */
#include "tests/support/fixture.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>

TestSuite(serving_cases, .init = unoptimised, .timeout = 600);

enum { TEXT = 512 };

static void pass(struct fixture *f, const char *text, uint64_t seed)
{
    struct trial t = {.problem = fixture_problem(text), .seed = seed};

    trial_pass(f, &t);
}

static size_t pages_of(size_t keys, size_t page)
{
    return (keys + page - 1) / page;
}

/* ---- FlashAttention's cache -------------------------------------------------------------------- */

static const struct lengths {
    size_t queries, keys;
} lengths[] = {{1, 128}, {1, 339},   {3, 1024},   {64, 800}, {64, 256},
               {3, 799}, {64, 2048}, {16, 20000}, {1, 1024}, {128, 128}};
enum { NUM_LENGTHS = sizeof lengths / sizeof *lengths };

/* Properties that all its cases share, drawn at random. */
struct cache {
    const char *dtype;
    size_t kv_heads, dim;
    char pages[64]; /* "" if it is contiguous */
};

static struct cache draw_cache(struct rng *r, const struct lengths *n)
{
    struct cache c = {.dtype = rng_one_in(r, 2) ? "f16" : "bf16",
                      .kv_heads = RNG_PICK(r, 6, 3, 1),
                      .dim = RNG_PICK(r, 32, 59, 64, 80, 128, 256)};
    const size_t page = RNG_PICK(r, 0, 16, 256, 512, n->keys);

    if (page)
        snprintf(c.pages, sizeof c.pages, " page=%zu pages=%zu", page,
                 3 * 2 * pages_of(n->keys, page));
    return c;
}

static void pass_attention(struct fixture *f, struct rng *r, const struct lengths *n)
{
    const struct cache c = draw_cache(r, n);
    const int causal = rng_one_in(r, 2), local = rng_one_in(r, 2), alibi = rng_one_in(r, 2);
    const size_t left = rng_below(r, n->keys), right = rng_below(r, n->keys);
    char text[TEXT], window[64] = "";

    if (local && causal)
        snprintf(window, sizeof window, " window=%zu,*", left);
    else if (local)
        snprintf(window, sizeof window, " window=%zu,%zu", left, right);
    snprintf(text, sizeof text, "fwd %s b2 h6/%zu q%zu k%zu d%zu layout=bshd klen lse%s%s%s%s",
             c.dtype, c.kv_heads, n->queries, n->keys, c.dim, c.pages, causal ? " causal=br" : "",
             window, alibi ? " alibi" : "");
    pass(f, text, rng_next(r));
}

static void pass_append(struct fixture *f, struct rng *r, const struct lengths *n)
{
    const struct cache c = draw_cache(r, n);
    const size_t tokens = rng_one_in(r, 2) ? n->queries : 1 + rng_below(r, n->queries);
    const size_t rotated = RNG_PICK(r, 0, c.dim / 2, c.dim) / 16 * 16; /* rotary_fraction */
    const char *order = rng_one_in(r, 2) ? "halves" : "pairs";
    char text[TEXT], rope[96] = "";

    if (rotated)
        snprintf(rope, sizeof rope, " rope=%s:%zu:tables:%zu queries", order, rotated, n->keys);
    snprintf(text, sizeof text, "append %s b2 h6/%zu q%zu k%zu d%zu klen%s%s", c.dtype, c.kv_heads,
             tokens, n->keys, c.dim, rope, c.pages);
    pass(f, text, rng_next(r));
}

ParameterizedTestParameters(serving_cases, cache_of_flash_attention) {
    static size_t numbers[NUM_LENGTHS];

    return cr_make_param_array(size_t, numbers, numbers_taken(NUM_LENGTHS, 0, 10, numbers));
}

ParameterizedTest(size_t *number, serving_cases, cache_of_flash_attention) {
    struct rng r = rng_seed(run_seed() * NUM_LENGTHS + *number);
    struct fixture f;

    fixture_open(&f);
    pass_attention(&f, &r, &lengths[*number]);
    pass_append(&f, &r, &lengths[*number]);
    fixture_close(&f);
}

/* ---- flashinfer-bench -------------------------------------------------------------------------- */

static const struct heads {
    size_t heads, kv_heads, dim;
} heads[] = {{16, 1, 128}, {16, 1, 64},   {16, 2, 128},  {16, 2, 64},  {20, 4, 128}, {24, 4, 128},
             {24, 8, 128}, {28, 4, 128},  {32, 16, 128}, {32, 2, 128}, {32, 4, 128}, {32, 8, 128},
             {32, 8, 64},  {40, 10, 128}, {48, 8, 128},  {5, 1, 128},  {6, 1, 128},  {8, 1, 128},
             {8, 1, 256},  {64, 8, 128},  {64, 8, 64}};
enum { NUM_HEADS = sizeof heads / sizeof *heads };

/* A page table, with pages that nobody uses. */
static void draw_pages(struct rng *r, size_t batch, size_t keys, char *text, size_t bytes)
{
    const size_t page = RNG_PICK(r, 1, 64);

    snprintf(text, bytes, "layout=bshd klen page=%zu pages=%zu", page,
             batch * pages_of(keys, page) + 5);
}

ParameterizedTestParameters(serving_cases, heads_of_flashinfer) {
    static size_t numbers[NUM_HEADS];

    return cr_make_param_array(size_t, numbers, numbers_taken(NUM_HEADS, 0, 7, numbers));
}

ParameterizedTest(size_t *number, serving_cases, heads_of_flashinfer) {
    const struct heads *h = &heads[*number];
    struct rng r = rng_seed(run_seed() * NUM_HEADS + *number);
    const size_t batch = 1 + rng_below(&r, 4), keys = 1 + rng_below(&r, 300);
    const size_t queries = 1 + rng_below(&r, 40), total = 1 + rng_below(&r, batch * queries);
    char shape[128], pages[96], text[TEXT];
    struct fixture f;

    fixture_open(&f);
    snprintf(shape, sizeof shape, "bf16 b%zu h%zu/%zu k%zu d%zu lse", batch, h->heads, h->kv_heads,
             keys, h->dim);
    draw_pages(&r, batch, keys, pages, sizeof pages);
    snprintf(text, sizeof text, "fwd %s q1 %s", shape, pages);
    pass(&f, text, rng_next(&r));
    snprintf(text, sizeof text, "fwd %s q%zu causal=br totalq=%zu %s", shape, queries, total,
             pages);
    pass(&f, text, rng_next(&r));
    snprintf(text, sizeof text, "fwd %s q%zu causal=br totalq=%zu totalkv=%zu", shape, queries,
             total, 1 + rng_below(&r, batch * keys));
    pass(&f, text, rng_next(&r));
    fixture_close(&f);
}

/* Absorbed: 512 latent dims and 64 rotated ones, scaled by those of a head before that, 128 + 64. */
Test(serving_cases, latent_attention_of_flashinfer) {
    struct rng r = rng_seed(run_seed());
    const size_t keys = 1 + rng_below(&r, 200), queries = 1 + rng_below(&r, 6);
    const size_t query_heads = RNG_PICK(&r, 8, 16);
    char pages[96], text[TEXT];
    struct fixture f;

    fixture_open(&f);
    draw_pages(&r, 2, keys, pages, sizeof pages);
    for (int prefill = 0; prefill < 2; prefill++) {
        char packed[64] = "q1";
        if (prefill)
            snprintf(packed, sizeof packed, "q%zu causal=br totalq=%zu", queries,
                     1 + rng_below(&r, 2 * queries));
        snprintf(text, sizeof text, "fwd bf16 b2 h%zu/1 k%zu d576/512 scale=0.0721688 lse %s %s",
                 query_heads, keys, packed, pages);
        pass(&f, text, rng_next(&r));
    }
    fixture_close(&f);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Indexers: lists against scores in double precision, ties, and what follows from the formula. */
#include "tests/support/fixture.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(indexer, .timeout = 120, .init = unoptimised);

/* Lists of random problems, half of them with many equal scores. */
DeviceTest(indexer, random)
{
    static const struct trial_base bases[] = {
        {"indexer f32 h3 q1 k1 d19 topk=1 causal=br qlen klen scores", NULL, NULL},
        {"indexer f32 h9 q1 k1 d8 topk=1 causal=3 page=5", "indexer",
         "UNIT=vector SIMD_WIDTH=8 REGISTER_VECTORS=2 REGISTER_ROWS=4 BLOCK_PANELS=2 QUERIES=4 "
         "SPLITS=4 GROUPS=2"},
        {"indexer f16 h2 q1 k1 d40 topk=1 totalq=1 totalkv=1 causal=br scores", NULL, NULL},
        {"indexer bf16 h5 q1 k1 d33 topk=1 klen page=16 scores", "indexer",
         "UNIT=pairs SIMD_WIDTH=16 REGISTER_VECTORS=3 REGISTER_ROWS=8 BLOCK_PANELS=1 QUERIES=2 "
         "SPLITS=1 GROUPS=1"},
        {"indexer bf16 h17 q1 k1 d34 topk=1 totalq=1 qlen klen causal=br", "indexer",
         "UNIT=amx SIMD_WIDTH=16 REGISTER_VECTORS=2 REGISTER_ROWS=16 BLOCK_PANELS=2 QUERIES=8 "
         "SPLITS=2 "
         "GROUPS=4"},
        {"indexer f16 h1 q1 k1 d64 topk=1 totalkv=1 klen causal=tl", "indexer",
         "UNIT=vector SIMD_WIDTH=16 REGISTER_VECTORS=4 REGISTER_ROWS=6 BLOCK_PANELS=4 QUERIES=1 "
         "SPLITS=8 GROUPS=8"},
        {"indexer f32 h9 q1 k1 d70 topk=1 causal=br qlen klen page=7 scores", "indexer",
         "UNIT=item ITEMS=32 KEYS=2 SPLITS=1 GROUPS=2"},
        {"indexer f16 h3 q1 k1 d20 topk=1 totalq=1 totalkv=1", "indexer",
         "UNIT=item ITEMS=64 KEYS=1 SPLITS=4 GROUPS=4"},
        {"indexer f32 h3 q1 k1 d19 topk=1 causal=br qlen klen gradients", "indexer_gradients",
         "SIMD_WIDTH=4 ITEMS=32 RANGES=64"},
        {"indexer bf16 h35 q1 k1 d40 topk=1 totalq=1 totalkv=1 klen gradients", "indexer_gradients",
         "SIMD_WIDTH=16 ITEMS=1 RANGES=2"},
    };

    trials_pass_of(f, bases, sizeof bases / sizeof *bases, 2, 24, 1);
}

DeviceTest(indexer, on_host_memory)
{
    struct trial t = {.problem = fixture_problem("indexer f32 b2 h4 q9 k130 d16 q=bshd w=bshd "
                                                 "topk=20 causal=br scores"),
                      .seed = 4};

    trial_pass_host(f, &t);
}

/* ---- exact lists -------------------------------------------------------------------------------- */

struct scored {
    float score;
    int32_t key;
};

static int by_score(const void *x, const void *y)
{
    const struct scored *a = x, *b = y;
    const float s = isnan(a->score) ? INFINITY : a->score,
                t = isnan(b->score) ? INFINITY : b->score;

    return s != t ? (s < t) - (s > t) : (a->key > b->key) - (a->key < b->key);
}

static int by_key(const void *x, const void *y)
{
    const int32_t *a = x, *b = y;

    return (*a > *b) - (*a < *b);
}

/* With one head and one dimension scores are products, here of small integers: lists are those of a sort to the last
 * entry, many equal scores, zeros of both signs and NaNs among them. Keys are many times what is kept at a time. */
DeviceTest(indexer, ties_go_to_lower_keys)
{
    enum { KEYS = 5000, TOPK = 300, QUERIES = 3 };
    static float k[KEYS], scores[QUERIES * TOPK];
    static int32_t lists[QUERIES * TOPK];
    static struct scored all[KEYS];
    const float q[QUERIES] = {1.0f, 0.0f, 2.0f}, w[QUERIES] = {1.0f, -1.0f, -1.0f};
    const clattn_problem p = fixture_problem("indexer f32 q3 k5000 d1 topk=300 scores");
    const clattn_host_indexer_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = q,
                                                 .k = k,
                                                 .w = w,
                                                 .topk_indices = lists,
                                                 .scores = scores};
    struct rng r = rng_seed(11);

    for (size_t n = 0; n < KEYS; n++)
        k[n] = n % 997 == 900 ? NAN : (float)rng_below(&r, 17) - 8.0f;
    cr_assert(clattn_indexer_host(f->context, &p, NULL, &tensors) == CLATTN_SUCCESS, "%s",
              f->log.last);
    for (size_t i = 0; i < QUERIES; i++) {
        int32_t want[TOPK];
        for (int32_t j = 0; j < KEYS; j++) {
            const float product = q[i] * k[j];
            all[j] = (struct scored){w[i] * (product < 0.0f ? 0.0f : product), j};
        }
        qsort(all, KEYS, sizeof *all, by_score);
        for (size_t n = 0; n < TOPK; n++)
            want[n] = all[n].key;
        qsort(want, TOPK, sizeof *want, by_key);
        for (size_t n = 0; n < TOPK; n++) {
            const float product = q[i] * k[want[n]];
            const float score = w[i] * (product < 0.0f ? 0.0f : product);
            cr_assert(lists[i * TOPK + n] == want[n], "query %zu, entry %zu: %d, not %d", i, n,
                      lists[i * TOPK + n], want[n]);
            cr_assert(scores[i * TOPK + n] == score ||
                      (isnan(scores[i * TOPK + n]) && isnan(score)));
        }
    }
}

/* Each query's list is what attention takes: with as many entries as keys, attention is that of all keys. */
DeviceTest(indexer, lists_of_all_keys_are_dense_attention)
{
    enum { QUERIES = 4, KEYS = 37, DIM = 8 };
    static float q[QUERIES * DIM], k[KEYS * DIM], v[KEYS * DIM], w[QUERIES];
    static float o[2][QUERIES * DIM];
    static int32_t lists[QUERIES * KEYS];
    const clattn_problem index = fixture_problem("indexer f32 q4 k37 d8 causal=br topk=37");
    const clattn_problem sparse = fixture_problem("fwd f32 q4 k37 d8 causal=br topk=37");
    const clattn_problem dense = fixture_problem("fwd f32 q4 k37 d8 causal=br");
    struct rng r = rng_seed(12);

    for (size_t n = 0; n < KEYS * DIM; n++) {
        q[n % (QUERIES * DIM)] = (float)rng_uniform(&r, -1, 1);
        k[n] = (float)rng_uniform(&r, -1, 1);
        v[n] = (float)rng_uniform(&r, -1, 1);
    }
    for (size_t n = 0; n < QUERIES; n++)
        w[n] = 1.0f;
    const clattn_host_indexer_tensors chosen = {
        .struct_size = sizeof chosen, .q = q, .k = k, .w = w, .topk_indices = lists};
    cr_assert(clattn_indexer_host(f->context, &index, NULL, &chosen) == CLATTN_SUCCESS, "%s",
              f->log.last);
    for (size_t i = 0; i < QUERIES; i++)
        for (size_t n = 0; n < KEYS; n++)
            cr_expect(lists[i * KEYS + n] == (n < KEYS - QUERIES + 1 + i ? (int32_t)n : -1));
    for (int n = 0; n < 2; n++) {
        const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                     .q = q,
                                                     .k = k,
                                                     .v = v,
                                                     .o = o[n],
                                                     .topk_indices = n ? NULL : lists};
        cr_assert(clattn_attention_forward_host(f->context, n ? &dense : &sparse, NULL, &tensors) ==
                      CLATTN_SUCCESS,
                  "%s", f->log.last);
    }
    for (size_t n = 0; n < QUERIES * DIM; n++)
        cr_expect(fabsf(o[0][n] - o[1][n]) < 1e-6f);
}

/* The same bits on every run, with any number of groups. */
DeviceTest(indexer, same_bits)
{
    struct trial t = {.problem = fixture_problem("indexer f16 b2 h4 q19 k900 d32 topk=30 causal=br "
                                                 "scores"),
                      .family = "indexer",
                      .seed = 8};
    static const char *const groups[] = {"UNIT=vector GROUPS=1", "UNIT=vector GROUPS=8"};
    unsigned char *first = NULL;

    for (size_t n = 0; n < 4; n++) {
        strcpy(t.tunables, groups[n % 2]);
        trial_fill(&t);
        trial_run(f, &t);
        const struct host_tensor *x = &t.tensor[INDEXER_SCORES];
        if (first)
            cr_expect(memcmp(first, x->got, x->num_bytes) == 0);
        else
            first = memcpy(malloc(x->num_bytes), x->got, x->num_bytes);
        trial_check(&t);
        trial_free(&t);
    }
    free(first);
}

/* ---- gradients ---------------------------------------------------------------------------------- */

enum { G_HEADS = 3, G_QUERIES = 4, G_KEYS = 9, G_DIM = 5 };
enum {
    Q_SIZE = G_HEADS * G_QUERIES * G_DIM,
    K_SIZE = G_KEYS * G_DIM,
    W_SIZE = G_HEADS * G_QUERIES
};

/* The sum of all keys' scores, each times its gradient. */
static double weighted_scores(struct fixture *f, const float *x, const float *gradients)
{
    static const char text[] = "indexer f32 h3 q4 k9 d5 topk=9 scores";
    const clattn_problem p = fixture_problem(text);
    int32_t lists[G_QUERIES * G_KEYS];
    float scores[G_QUERIES * G_KEYS];
    double sum = 0.0;
    const clattn_host_indexer_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = x,
                                                 .k = x + Q_SIZE,
                                                 .w = x + Q_SIZE + K_SIZE,
                                                 .topk_indices = lists,
                                                 .scores = scores};

    cr_assert(clattn_indexer_host(f->context, &p, NULL, &tensors) == CLATTN_SUCCESS, "%s",
              f->log.last);
    for (size_t n = 0; n < G_QUERIES * G_KEYS; n++)
        sum += (double)gradients[n] * (double)scores[n];
    return sum;
}

/* Scores are linear in each number but where a product changes its sign. */
DeviceTest(indexer, gradients_are_slopes_of_scores)
{
    static float x[Q_SIZE + K_SIZE + W_SIZE], got[Q_SIZE + K_SIZE + W_SIZE];
    const clattn_problem p = fixture_problem("indexer f32 h3 q4 k9 d5 topk=9 gradients");
    int32_t lists[G_QUERIES * G_KEYS];
    float gradients[G_QUERIES * G_KEYS];
    struct rng r = rng_seed(14);

    for (size_t n = 0; n < sizeof x / sizeof *x; n++)
        x[n] = (float)rng_uniform(&r, -1, 1);
    for (int32_t n = 0; n < G_QUERIES * G_KEYS; n++) {
        lists[n] = n % G_KEYS;
        gradients[n] = (float)rng_uniform(&r, -1, 1);
    }
    const clattn_host_indexer_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = x,
                                                 .k = x + Q_SIZE,
                                                 .w = x + Q_SIZE + K_SIZE,
                                                 .chosen = lists,
                                                 .dscores = gradients,
                                                 .dq = got,
                                                 .dk = got + Q_SIZE,
                                                 .dw = got + Q_SIZE + K_SIZE};
    cr_assert(clattn_indexer_host(f->context, &p, NULL, &tensors) == CLATTN_SUCCESS, "%s",
              f->log.last);
    for (size_t n = 0; n < sizeof x / sizeof *x; n += 5) {
        const float before = x[n], step = 0x1p-10f;
        x[n] = before + step;
        const double above = weighted_scores(f, x, gradients);
        x[n] = before - step;
        const double below = weighted_scores(f, x, gradients);
        x[n] = before;
        const double slope = (above - below) / (2.0 * (double)step);
        cr_expect(fabs(slope - (double)got[n]) < 2e-3, "element %zu: %g, slope %g", n,
                  (double)got[n], slope);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Batch invariance: the bits of a request alone, in pieces, with a larger cache, among other requests of a batch
 * or of a packed batch, with its keys in pages, and with other tunables. A run draws the request and its options
 * (CLATTN_TEST_SEED). */
#include "bench/judge/values.h"
#include "families/fragments.h"
#include "families/registry.h"
#include "problem/problem.h"
#include "tests/support/families.h"
#include "tests/support/fixture.h"
#include "tests/support/problems.h"
#include "tests/support/profiles.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include <clattn/function.h>
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(invariant, .init = unoptimised, .timeout = 600);

enum { BATCH = 3, HEADS = 4, KV_HEADS = 2, QUERIES = 70, CAPACITY = 800, DIM = 32, PAGE = 16 };
enum { PAGES = CAPACITY / PAGE, ROWS = BATCH * QUERIES };

/* A row of queries is DIM floats, or as many in 16 bits, and so is one of keys, which may be one block of q8_0, too. */
enum { MOST_ROW_BYTES = DIM * sizeof(float), BLOCK_BYTES = 34 };

static unsigned char q[BATCH * HEADS * QUERIES * MOST_ROW_BYTES],
    packed_q[HEADS * ROWS * MOST_ROW_BYTES];
static unsigned char k[BATCH * KV_HEADS * CAPACITY * MOST_ROW_BYTES], v[sizeof k];
static unsigned char pool_k[PAGES * KV_HEADS * PAGE * MOST_ROW_BYTES], pool_v[sizeof pool_k];

/* Of each batch, head, query and key, or of fewer of them. */
enum { PAIRS = BATCH * HEADS * QUERIES * CAPACITY };
static unsigned char bias[PAIRS * sizeof(float)], mask[PAIRS];
static const float slopes[HEADS] = {0.5f, 0.25f, 0.125f, 0.0625f}, sinks[HEADS] = {1, -1, 0, 2};

/* The request is batch 1: its queries are the last of its keys. */
struct request {
    struct fixture f;
    const char *family, *dtype;
    char options[400], tunables[80];
    size_t pair_stride[3]; /* of bias and mask, along batches, heads and queries */
    const char *bias_dtype;
    struct rng *tuning; /* NULL, or what draws the tunables that `tunables` does not name */
    size_t queries, keys, query_bytes, row_bytes;
};

struct results {
    float o[HEADS][QUERIES][DIM], lse[HEADS][QUERIES];
};

static unsigned char *row_of(unsigned char *rows, const struct request *r, size_t head, size_t key)
{
    return rows + (head * CAPACITY + key) * r->row_bytes;
}

/* Query i of a head of a batch. */
static unsigned char *query_of(const struct request *r, size_t b, size_t h, size_t i)
{
    return q + ((b * HEADS + h) * QUERIES + i) * r->query_bytes;
}

static void fill_row(struct rng *rng, const struct request *r, size_t bytes, unsigned char *row)
{
    if (bytes == BLOCK_BYTES) { /* a scale from 2^-7 on as f16, and the codes */
        const cl_half scale = (cl_half)(0x2000 + rng_below(rng, 1024));
        memcpy(row, &scale, sizeof scale);
        for (size_t n = sizeof scale; n < bytes; n++)
            row[n] = (unsigned char)rng_below(rng, 256);
        return;
    }
    const size_t element = bytes / DIM;
    for (size_t n = 0; n < DIM; n++) {
        /* from 2^-4 up to 2, of either sign */
        const uint16_t half =
            (uint16_t)(rng_below(rng, 2) << 15 | (0x2c00 + rng_below(rng, 0x1400)));
        if (strcmp(r->dtype, "f16") == 0) {
            memcpy(row + n * element, &half, sizeof half);
            continue;
        }
        const float x = (float)rng_uniform(rng, -2, 2);
        memcpy(row + n * element, (const char *)&x + sizeof x - element, element);
    }
}

static clattn_dtype bias_dtype_of(const struct request *r)
{
    return strcmp(r->bias_dtype, "f32") == 0   ? CLATTN_F32
           : strcmp(r->bias_dtype, "f16") == 0 ? CLATTN_F16
                                               : CLATTN_BF16;
}

static void fill(struct rng *rng, const struct request *r)
{
    memset(k, 0xff, sizeof k); /* keys that nobody has are NaN */
    memset(v, 0xff, sizeof v);
    for (size_t n = 0; n < (size_t)BATCH * HEADS * QUERIES; n++)
        fill_row(rng, r, r->query_bytes, q + n * r->query_bytes);
    for (size_t head = 0; head < (size_t)BATCH * KV_HEADS; head++) {
        for (size_t key = 0; key < (head / KV_HEADS == 1 ? r->keys : CAPACITY); key++) {
            fill_row(rng, r, r->row_bytes, row_of(k, r, head, key));
            fill_row(rng, r, r->row_bytes, row_of(v, r, head, key));
        }
    }
    /* A last value so large that the last query's weights of f16 may overflow. */
    const cl_half large = 0x7800;
    for (size_t head = KV_HEADS; head < 2 * KV_HEADS && r->row_bytes == BLOCK_BYTES; head++)
        memcpy(row_of(v, r, head, r->keys - 1), &large, sizeof large);
    for (size_t page = 0; page < PAGES; page++) { /* page n holds the keys of page PAGES - 1 - n */
        for (size_t head = 0; head < KV_HEADS; head++) {
            const size_t from = (PAGES - 1 - page) * PAGE,
                         to = (page * KV_HEADS + head) * PAGE * r->row_bytes;
            memcpy(pool_k + to, row_of(k, r, KV_HEADS + head, from), PAGE * r->row_bytes);
            memcpy(pool_v + to, row_of(v, r, KV_HEADS + head, from), PAGE * r->row_bytes);
        }
    }
}

/* A bias and a mask that hide some keys of batch 1, in most tiles or in all of some; what is of keys that it lacks is NaN. */
static void fill_pairs(struct rng *rng, const struct request *r)
{
    const clattn_dtype dtype = bias_dtype_of(r);
    const size_t run = RNG_PICK(rng, 1, 24, 200), fewest = rng_below(rng, 2);

    for (size_t n = 0; n < PAIRS; n++) {
        const size_t key = n % CAPACITY, batch = n / (HEADS * QUERIES * CAPACITY);
        const int lacks = batch == 1 && key >= r->keys;
        value_set(dtype, bias, n,
                  lacks                 ? NAN
                  : rng_one_in(rng, 12) ? -INFINITY
                                        : rng_uniform(rng, -2, 2));
        mask[n] = lacks || (n / run) % 3 > fewest ? 0 : 7;
    }
}

/* Changes each tunable that the request does not name, where the family takes it so. */
static void tune(const struct request *r, const clattn_problem *given, char text[CA_TUNABLES_TEXT])
{
    const clattn_device_info *const dev = clattn_context_device(r->f.context);
    const struct ca_family *const family = ca_family_find(r->family);
    const struct ca_problem p = ca_problem_own(given);
    char reason[CA_REASON_BYTES], named[64];
    size_t values[CA_MAX_TUNABLES];

    ca_family_suggest(family, &p, dev, values);
    cr_assert(ca_tunables_parse(family->tunables, family->num_tunables, r->tunables, values, reason,
                                sizeof reason),
              "%s", reason);
    for (size_t n = 0; n < family->num_tunables; n++) {
        const struct ca_tunable *const t = &family->tunables[n];
        const size_t before = values[n];
        snprintf(named, sizeof named, "%s=", t->name);
        if (strstr(r->tunables, named) || strcmp(t->name, "BYTES") == 0)
            continue;
        values[n] = t->candidates[rng_below(r->tuning, t->num_candidates)];
        if (ca_family_refusal(family, &p, dev, values, reason, sizeof reason))
            values[n] = before;
    }
    ca_tunables_print(family->tunables, family->num_tunables, values, text, CA_TUNABLES_TEXT);
}

/* Computes a problem of the request's options; `sizes` are the words of its text that differ. It begins with a batch and a
 * query. */
static void compute(struct request *r, const char *sizes, size_t batch, size_t query,
                    clattn_host_forward_tensors tensors)
{
    clattn_plan_options options = {
        .struct_size = sizeof options, .family = r->family, .tunables = r->tunables};
    const size_t pair = batch * r->pair_stride[0] + query * r->pair_stride[2];
    char text[1024], tuned[CA_TUNABLES_TEXT];

    snprintf(text, sizeof text, "fwd %s odtype=f32 h%d/%d d%d lse causal=br %s %s", r->dtype, HEADS,
             KV_HEADS, DIM, r->options, sizes);
    const clattn_problem p = fixture_problem(text);
    if (r->tuning) {
        tune(r, &p, tuned);
        options.tunables = tuned;
    }
    tensors.struct_size = sizeof tensors;
    tensors.slopes = p.alibi ? slopes : NULL;
    tensors.sinks = p.sinks ? sinks : NULL;
    tensors.bias = p.bias ? bias + pair * (p.bias_dtype == CLATTN_F32 ? 4 : 2) : NULL;
    tensors.mask = p.mask ? mask + pair : NULL;
    cr_assert(clattn_attention_forward_host(r->f.context, &p, &options, &tensors) == CLATTN_SUCCESS,
              "%s %s: '%s': %s", r->family, options.tunables, text, r->f.log.last);
}

/* Queries [first, end) of the request by a problem of their own, whose cache has room for `room` keys. */
static void compute_piece(struct request *r, size_t first, size_t end, size_t room,
                          struct results *results)
{
    const size_t rows = end - first, keys = r->keys - r->queries + end;
    const cl_int queries_in_use = (cl_int)rows, keys_in_use = (cl_int)keys;
    float lse[HEADS * QUERIES];
    char sizes[256];

    snprintf(sizes, sizeof sizes,
             "q%zu k%zu q=0.%d.%d.1 k=0.%d.%d.1 v=0.%d.%d.1 o=%d.%d.%d.1 qlen klen", rows,
             room ? room : keys, QUERIES * DIM, DIM, CAPACITY * DIM, DIM, CAPACITY * DIM, DIM,
             HEADS * QUERIES * DIM, QUERIES * DIM, DIM);
    compute(r, sizes, 1, first,
            (clattn_host_forward_tensors){.q = query_of(r, 1, 0, first),
                                          .k = row_of(k, r, KV_HEADS, 0),
                                          .v = row_of(v, r, KV_HEADS, 0),
                                          .o = results->o[0][first],
                                          .lse = lse,
                                          .q_lengths = &queries_in_use,
                                          .kv_lengths = &keys_in_use});
    for (size_t h = 0; h < HEADS; h++)
        memcpy(&results->lse[h][first], lse + h * rows, rows * sizeof(float));
}

static void compute_in_batch(struct request *r, struct results *results)
{
    static struct results all[BATCH];
    static float lse[BATCH][HEADS][QUERIES];
    const cl_int queries[BATCH] = {QUERIES, (cl_int)r->queries, 3},
                 keys[BATCH] = {CAPACITY, (cl_int)r->keys, 5};
    char sizes[64];

    snprintf(sizes, sizeof sizes, "b%d q%d k%d qlen klen", BATCH, QUERIES, CAPACITY);
    compute(r, sizes, 0, 0,
            (clattn_host_forward_tensors){.q = q,
                                          .k = k,
                                          .v = v,
                                          .o = memset(all, 0, sizeof all),
                                          .lse = &lse[0][0][0],
                                          .q_lengths = queries,
                                          .kv_lengths = keys});
    for (size_t h = 0; h < HEADS; h++) { /* o is packed: there is no lse between its batches */
        memcpy(results->o[h], (float *)all + (HEADS + h) * QUERIES * DIM,
               r->queries * sizeof *results->o[h]);
        memcpy(results->lse[h], lse[1][h], r->queries * sizeof(float));
    }
}

static void compute_packed(struct request *r, struct results *results)
{
    static float o[HEADS][ROWS][DIM], lse[HEADS][ROWS];
    const cl_int keys[BATCH] = {CAPACITY, (cl_int)r->keys, 5},
                 starts[BATCH + 1] = {0, 51, 51 + (cl_int)r->queries, 54 + (cl_int)r->queries};
    char sizes[64];

    for (size_t h = 0; h < HEADS; h++) {
        for (size_t b = 0; b < BATCH; b++)
            memcpy(packed_q + (h * ROWS + (size_t)starts[b]) * r->query_bytes, query_of(r, b, h, 0),
                   (size_t)(starts[b + 1] - starts[b]) * r->query_bytes);
    }
    snprintf(sizes, sizeof sizes, "b%d q%d k%d totalq=%d klen", BATCH, QUERIES, CAPACITY, ROWS);
    compute(r, sizes, 0, 0,
            (clattn_host_forward_tensors){.q = packed_q,
                                          .k = k,
                                          .v = v,
                                          .o = o,
                                          .lse = &lse[0][0],
                                          .kv_lengths = keys,
                                          .q_starts = starts});
    for (size_t h = 0; h < HEADS; h++) {
        memcpy(results->o[h], o[h][51], r->queries * sizeof *o[h]);
        memcpy(results->lse[h], &lse[h][51], r->queries * sizeof(float));
    }
}

static void compute_paged(struct request *r, struct results *results)
{
    cl_int table[PAGES], queries = (cl_int)r->queries, keys = (cl_int)r->keys;
    char sizes[256];

    for (int n = 0; n < PAGES; n++)
        table[n] = PAGES - 1 - n;
    snprintf(sizes, sizeof sizes, "q%d k%d q=0.%d.%d.1 page=%d pages=%d qlen klen", QUERIES,
             CAPACITY, QUERIES * DIM, DIM, PAGE, PAGES);
    compute(r, sizes, 1, 0,
            (clattn_host_forward_tensors){.q = query_of(r, 1, 0, 0),
                                          .k = pool_k,
                                          .v = pool_v,
                                          .o = results->o,
                                          .lse = &results->lse[0][0],
                                          .page_table = table,
                                          .q_lengths = &queries,
                                          .kv_lengths = &keys});
}

/* Compares the request's rows and clears them. */
static void expect_same(const struct request *r, const struct results *alone, struct results *other,
                        const char *how)
{
    for (size_t h = 0; h < HEADS; h++)
        cr_expect(memcmp(alone->o[h], other->o[h], r->queries * sizeof *alone->o[h]) == 0 &&
                      memcmp(alone->lse[h], other->lse[h], r->queries * sizeof(float)) == 0,
                  "%s %s: head %zu of %zu queries and %zu keys in %s with '%s' has other bits %s, "
                  "seed %llu",
                  r->family, r->tunables, h, r->queries, r->keys, r->dtype, r->options, how,
                  (unsigned long long)run_seed());
    memset(other, 0, sizeof *other);
}

/* Returns whether the family takes the request in this dtype, with caches or without. */
static int takes(const char *family, const char *dtype, const char *caches)
{
    char text[128];

    snprintf(text, sizeof text, "fwd %s b3 h4/2 q70 k800 d32 causal=br qlen klen lse invariant%s",
             dtype, caches);
    return family_takes(family, text);
}

/* Of an emulated unit the test names the instruction, whose layout decides which lane sums what, and how it reads bytes. */
static void draw_tunables(struct rng *rng, struct request *r, const int quantized)
{
    static const char *const of_bytes[] = {"", " BYTES=1 KV_PARTS=1",
                                           " BYTES=2 KV_PARTS=1 M_FRAGMENTS=1"};
    const int is_split = strcmp(r->family, "split_gpu UNIT=mma") == 0;
    const size_t bytes = rng_below(rng, 3), any = CA_MMA_SYNC + rng_below(rng, CA_DPAS_16),
                 instruction = bytes > 0 && quantized ? CA_MMA_SYNC : any;

    r->tunables[0] = '\0';
    if (!strstr(r->family, "UNIT=mma") ||
        ca_instruction_of(clattn_context_device(r->f.context)) != 0)
        return;
    snprintf(r->tunables, sizeof r->tunables, "INSTRUCTION=%zu%s", instruction,
             is_split && quantized ? of_bytes[bytes] : "");
}

static void draw_option(struct rng *rng, struct request *r, size_t one_in, const char *word)
{
    if (rng_one_in(rng, one_in))
        strcat(r->options, word);
}

/* A function of the request, by the word of its kind: pieces number queries anew, but a query's distance from the last key
 * stays. */
static void draw_function(struct rng *rng, struct request *r, const char *word,
                          const char *const sources[2])
{
    const clattn_function *function;

    if (!rng_one_in(rng, 3))
        return;
    cr_assert(clattn_function_create("of_request", sources[rng_below(rng, 2)], &function, NULL,
                                     0) == CLATTN_SUCCESS);
    strcat(strcat(r->options, word), clattn_function_name(function));
}

static void draw_functions(struct rng *rng, struct request *r)
{
    static const char *const scores[] = {
        "float score(float s, pair p, operands o) { return s + 0.05f * (float)(p.key % 7); }\n",
        "float score(float s, pair p, operands o)\n"
        "{ return s - 0.01f * (float)(p.query + p.keys - p.queries - p.key); }\n",
    };
    static const char *const masks[] = {
        "bool visible(pair p, operands o)\n"
        "{ return (p.query + p.keys - p.queries - p.key) % 3 != p.head % 2; }\n",
        "bool visible(pair p, operands o)\n"
        "{\n"
        "    const int i = p.query + p.keys - p.queries;\n"
        "    return (p.key / 60 + i / 25) % 3 != 0 || p.key == 7 * p.head;\n"
        "}\n",
    };

    draw_function(rng, r, " score=", scores);
    draw_function(rng, r, " visible=", masks);
}

/* A bias and a mask, of all heads and queries together or of each. */
static void draw_pairs(struct rng *rng, struct request *r)
{
    const size_t packed[] = {(size_t)HEADS * QUERIES * CAPACITY, (size_t)QUERIES * CAPACITY,
                             CAPACITY};
    char layout[64], word[96];

    for (int n = 0; n < 3; n++)
        r->pair_stride[n] = n > 0 && rng_one_in(rng, 3) ? 0 : packed[n];
    r->bias_dtype = rng_one_in(rng, 2) ? "f32" : r->dtype;
    snprintf(layout, sizeof layout, ":%zu.%zu.%zu.1", r->pair_stride[0], r->pair_stride[1],
             r->pair_stride[2]);
    snprintf(word, sizeof word, " bias=%s%s", r->bias_dtype, layout);
    draw_option(rng, r, 3, word);
    snprintf(word, sizeof word, " mask=%s", layout + 1);
    draw_option(rng, r, 3, word);
}

static void draw_request(struct rng *rng, struct request *r)
{
    static const char caches[] = " kcache=q8_0 vcache=q8_0";
    const int f32 = takes(r->family, "f32", ""), f16 = takes(r->family, "f16", "");

    r->dtype = f32 ? "f32" : f16 && rng_one_in(rng, 2) ? "f16" : "bf16";
    const int quantized = rng_one_in(rng, 3) && takes(r->family, r->dtype, caches);
    r->queries = 30 + rng_below(rng, QUERIES - 30);
    r->keys = 530 + rng_below(rng, CAPACITY - 530);
    r->query_bytes = DIM * (f32 ? sizeof(float) : sizeof(uint16_t));
    r->row_bytes = quantized ? BLOCK_BYTES : r->query_bytes;
    snprintf(r->options, sizeof r->options, "invariant%s", quantized ? caches : "");
    draw_option(rng, r, 2, " window=300,*");
    draw_option(rng, r, 2, " softcap=3");
    draw_option(rng, r, 2, " alibi sinks");
    draw_functions(rng, r);
    draw_pairs(rng, r);
    if (takes(r->family, r->dtype, " strict"))
        draw_option(rng, r, 3, " strict");
    draw_tunables(rng, r, quantized);
}

static int keeps_invariant(const char *family)
{
    return takes(family, "f32", "") || takes(family, "bf16", "");
}

FAMILY_TEST(invariant, bits_are_those_of_the_request_alone, CLATTN_FORWARD, keeps_invariant, 1)
{
    static struct results alone, other;
    struct request r = {.family = clattn_family_name(CLATTN_FORWARD, *family)};
    struct rng rng = rng_seed(run_seed());

    fixture_open(&r.f);
    fixture_need_groups_of(&r.f, r.family);
    draw_request(&rng, &r);
    fill(&rng, &r);
    fill_pairs(&rng, &r);
    compute_piece(&r, 0, r.queries, 0, &alone);
    compute_piece(&r, 0, r.queries, CAPACITY, &other);
    expect_same(&r, &alone, &other, "with a larger cache");
    compute_piece(&r, 0, 1, 0, &other);
    compute_piece(&r, 1, 20, CAPACITY, &other);
    compute_piece(&r, 20, r.queries, 0, &other);
    expect_same(&r, &alone, &other, "in pieces");
    compute_in_batch(&r, &other);
    expect_same(&r, &alone, &other, "in a batch");
    compute_packed(&r, &other);
    expect_same(&r, &alone, &other, "in a packed batch");
    compute_paged(&r, &other);
    expect_same(&r, &alone, &other, "in pages");
    r.tuning = &rng;
    compute_piece(&r, 0, r.queries, 0, &other);
    expect_same(&r, &alone, &other, "when tuned");
    compute_paged(&r, &other);
    expect_same(&r, &alone, &other, "in pages, when tuned");
    fixture_close(&r.f);
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* A plan's family, and its tunables that may decide bits. */
static void describe_plan(const char *text, const clattn_device_info *dev, char *said, size_t bytes)
{
    static const char *const deciding[] = {"INSTRUCTION", "BLOCK_N",    "BYTES",     "EXP",
                                           "THREADS_N",   "THREADS",    "THREADS_D", "THREAD_N",
                                           "SPLIT_K",     "SUB_GROUPS", "HALF_ROWS"};
    const clattn_problem given = fixture_problem(text);
    const struct ca_problem p = ca_problem_own(&given);
    const struct ca_family *family = ca_family_of_invariant(&p, dev);
    size_t values[CA_MAX_TUNABLES];
    char reason[256];

    cr_assert(family, "%s: '%s' has no family", dev->name, text);
    ca_family_suggest(family, &p, dev, values);
    cr_assert(!ca_family_refusal(family, &p, dev, values, reason, sizeof reason), "%s: '%s': %s",
              dev->name, text, reason);
    /* The last two decide bits where sub-groups share rows. */
    const size_t count =
        sizeof deciding / sizeof *deciding - (strcmp(family->name, "split_gpu") == 0 ? 0 : 2);
    size_t at = (size_t)snprintf(said, bytes, "%s", family->full_name);
    for (size_t n = 0; n < family->num_tunables; n++)
        for (size_t m = 0; m < count; m++)
            if (strcmp(family->tunables[n].name, deciding[m]) == 0)
                at += (size_t)snprintf(said + at, bytes - at, " %s=%zu", deciding[m], values[n]);
}

static const char *const options[] = {
    "f16 d128", "bf16 d64 softcap=30 alibi sinks",  "f32 d80 window=300,0",
    "f16 d256", "f16 d128 kcache=q8_0 vcache=q8_0", "bf16 d96 kcache=q4_0 vcache=q8_0"};

/* Batches, capacities and pages choose neither a family nor what decides bits; each GPU has families of its own for it. */
Test(invariant, gpus_choose_alike_whatever_stands_beside) {
    static const char *const queries[][2] = {{"q1", "q16"}, {"q17", "q3000"}};
    static struct profile profiles[MOST_PROFILES];
    const size_t count = profiles_read(profiles);
    char alone[256], other[256], text[256];

    for (size_t d = 0; d < count; d++)
        for (size_t n = 0; n < 2 * sizeof options / sizeof *options; n++) {
            const char *const *both = queries[n % 2];
            const int splits = n % 2 == 0;
            if (!(profiles[d].info.type & CL_DEVICE_TYPE_GPU))
                continue;
            snprintf(text, sizeof text, "fwd %s h16/4 %s k600 klen causal=br invariant",
                     options[n / 2], both[0]);
            describe_plan(text, &profiles[d].info, alone, sizeof alone);
            cr_expect(strncmp(alone, splits ? "split_gpu" : "fused_gpu", 9) == 0, "%s: '%s' by %s",
                      profiles[d].name, text, alone);
            snprintf(text, sizeof text,
                     "fwd %s b7 h16/4 %s k8000 page=16 pages=9000 klen causal=br invariant",
                     options[n / 2], both[1]);
            describe_plan(text, &profiles[d].info, other, sizeof other);
            cr_expect(strcmp(alone, other) == 0, "%s: '%s': %s, alone %s", profiles[d].name, text,
                      other, alone);
        }
}

/* A GPU decodes by the unit that it takes without the option. */
Test(invariant, gpus_decode_by_the_same_unit) {
    static const char *const groups[] = {"h16", "h16/4", "h64/4"};
    static struct profile profiles[MOST_PROFILES];
    const size_t count = profiles_read(profiles);
    char text[256], said[256];

    for (size_t d = 0; d < count; d++)
        for (size_t n = 0; n < 3 * sizeof options / sizeof *options; n++) {
            const clattn_device_info *const dev = &profiles[d].info;
            if (!(dev->type & CL_DEVICE_TYPE_GPU))
                continue;
            snprintf(text, sizeof text, "fwd %s %s q1 k4096 klen", options[n / 3], groups[n % 3]);
            const struct ca_problem plain = fixture_checked(text);
            const char *const unit = family_untuned(&plain, dev)->full_name;
            strcat(text, " invariant");
            describe_plan(text, dev, said, sizeof said);
            cr_expect(strncmp(said, unit, strlen(unit)) == 0, "%s: '%s': %s, without %s",
                      profiles[d].name, text, said, unit);
        }
}

/* A product and a sum stay apart: fused, the score of the only key would be 2^-24. */
DeviceTest(invariant, products_and_sums_are_not_fused)
{
    static const char source[] = "#pragma clattn parameter float a = 1.000244140625\n"
                                 "#pragma clattn parameter float b = 1.00048828125\n"
                                 "float score(float s, pair p, operands o)\n"
                                 "{ return s + (o.a * o.a - o.b); }\n";
    const float zeros[4] = {0.0f};
    float o[4], lse = 1.0f;
    clattn_problem p = fixture_problem("fwd f32 q1 k1 d4 lse invariant");
    const clattn_host_forward_tensors tensors = {
        .struct_size = sizeof tensors, .q = zeros, .k = zeros, .v = zeros, .o = o, .lse = &lse};

    cr_assert(clattn_function_create("apart", source, &p.score_function, NULL, 0) ==
              CLATTN_SUCCESS);
    cr_assert(clattn_attention_forward_host(f->context, &p, NULL, &tensors) == CLATTN_SUCCESS, "%s",
              f->log.last);
    cr_expect(lse == 0.0f, "%g", lse);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Paged caches: the bits of a contiguous one, whatever order the pages are in, and tables that hold
 * anything. The sweep draws pages with every other option. */
#include "device/facts.h"
#include "tests/support/families.h"
#include "tests/support/problems.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(pages, .timeout = 600);

/* ---- the same bits ---------------------------------------------------------------------------- */

enum { BATCH = 2, KV_HEADS = 2, HEADS = 4, KEYS = 157, DIM = 32, QUERIES = 5 };

static const size_t page_sizes[] = {1, 13, 16, 64, 256};

struct results {
    float o[BATCH * HEADS * QUERIES * DIM], lse[BATCH * HEADS * QUERIES];
};

static void attend(struct fixture *f, const char *family, const char *text, const float *q,
                   const float *k, const float *v, const cl_int *lengths, const cl_int *table,
                   struct results *results)
{
    const clattn_problem p = fixture_problem(text);
    const clattn_plan_options options = {.struct_size = sizeof options, .family = family};
    const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = q,
                                                 .k = k,
                                                 .v = v,
                                                 .o = results->o,
                                                 .lse = results->lse,
                                                 .kv_lengths = lengths,
                                                 .page_table = table};

    cr_assert(clattn_attention_forward_host(f->context, &p, &options, &tensors) == CLATTN_SUCCESS,
              "%s: %s", text, f->log.last);
}

/* Moves the rows of a contiguous (batch, kv_heads, keys, dim) tensor to pages in one of two
 * orders: (pages, kv_heads, page, dim), or by rows (pages, page, kv_heads, dim). */
static void scatter(const float *from, size_t page_size, int by_rows, const cl_int *table,
                    float *to)
{
    const size_t columns = (KEYS + page_size - 1) / page_size;

    for (size_t n = 0; n < (size_t)BATCH * KV_HEADS * KEYS; n++) {
        const size_t j = n % KEYS, h = n / KEYS % KV_HEADS, b = n / KEYS / KV_HEADS;
        const size_t page = (size_t)table[b * columns + j / page_size], row = j % page_size;
        const size_t place = by_rows ? (page * page_size + row) * KV_HEADS + h
                                     : (page * KV_HEADS + h) * page_size + row;
        memcpy(to + place * DIM, from + n * DIM, DIM * sizeof *to);
    }
}

/* Expects the same bits. Only fused_gpu UNIT=item, by another driver's compiler than PoCL's, may differ in roundings, which is
 * returned: Intel's does (not by contracting multiply-adds; exponentials of its own are the likely reason). */
static int differ_in_roundings(const struct fixture *f, const char *family, const char *text,
                               const struct results *want, const struct results *got)
{
    const float *a = (const float *)want, *b = (const float *)got;
    const size_t count = sizeof *want / sizeof *a;
    size_t first = count;
    int rounded = strcmp(family, "fused_gpu UNIT=item") == 0 &&
                  !ca_facts_of_pocl(clattn_context_device(f->context));

    for (size_t n = count; n-- > 0;)
        if (memcmp(a + n, b + n, sizeof *a) != 0) {
            first = n;
            rounded = rounded && fabsf(a[n] - b[n]) <= 0x1p-18f;
        }
    if (first < count && !rounded)
        cr_expect(0, "%s: '%s' has other bits at %zu: %a, not %a", family, text, first,
                  (double)b[first], (double)a[first]);
    return first < count && rounded;
}

static int differs(struct fixture *f, const char *family, size_t page_size, int by_rows,
                   const char *options)
{
    const size_t columns = (KEYS + page_size - 1) / page_size, entries = BATCH * columns;
    const size_t rows = entries * page_size * KV_HEADS;
    const cl_int lengths[BATCH] = {KEYS, KEYS - 30};
    static float q[BATCH * HEADS * QUERIES * DIM], k[BATCH * KV_HEADS * KEYS * DIM];
    static float v[BATCH * KV_HEADS * KEYS * DIM];
    static struct results want, got;
    struct rng r = rng_seed(page_size);
    cl_int *table = malloc(entries * sizeof *table);
    float *paged_k = malloc(rows * DIM * sizeof(float)),
          *paged_v = malloc(rows * DIM * sizeof(float));
    char text[256];

    cr_assert(table && paged_k && paged_v);
    for (size_t n = 0; n < sizeof q / sizeof *q; n++)
        q[n] = (float)rng_uniform(&r, -2, 2);
    for (size_t n = 0; n < sizeof k / sizeof *k; n++) {
        k[n] = (float)rng_uniform(&r, -2, 2);
        v[n] = (float)rng_uniform(&r, -2, 2);
    }
    for (size_t n = 0; n < entries; n++) { /* shuffled as it is made */
        const size_t other = rng_below(&r, n + 1);
        table[n] = table[other];
        table[other] = (cl_int)n;
    }
    memset(paged_k, 0xff, rows * DIM * sizeof(float)); /* NaN where no key is */
    memset(paged_v, 0xff, rows * DIM * sizeof(float));
    scatter(k, page_size, by_rows, table, paged_k);
    scatter(v, page_size, by_rows, table, paged_v);
    snprintf(text, sizeof text, "fwd f32 b2 h4/2 q5 k157 d32 klen lse %s", options);
    attend(f, family, text, q, k, v, lengths, NULL, &want);
    snprintf(text, sizeof text, "fwd f32 b2 h4/2 q5 k157 d32 klen lse page=%zu %s%s", page_size,
             by_rows ? "k=bshd v=bshd " : "", options);
    attend(f, family, text, q, paged_k, paged_v, lengths, table, &got);
    const int rounded = differ_in_roundings(f, family, text, &want, &got);
    free(paged_v);
    free(paged_k);
    free(table);
    return rounded;
}

static int takes_pages(const char *family)
{
    return family_takes(family, "fwd f32 b2 h4/2 q5 k157 d32 klen lse page=16 pages=20");
}

FAMILY_TEST(pages, have_the_bits_of_a_contiguous_cache, CLATTN_FORWARD, takes_pages, 5)
{
    const char *name = clattn_family_name(CLATTN_FORWARD, *family);
    struct fixture f;

    unoptimised();
    fixture_open(&f);
    fixture_need_groups_of(&f, name);
    int rounded = differs(&f, name, 16, 1, "causal=br window=40,*");
    for (size_t n = run_seed() % 2; n < sizeof page_sizes / sizeof *page_sizes; n += 2)
        rounded |= differs(&f, name, page_sizes[n], n % 2 == 0, "causal=br");
    fixture_close(&f);
    if (rounded)
        cr_skip_test("this driver's compiler rounds otherwise in the program for pages");
}

/* ---- tables that hold anything ---------------------------------------------------------------- */

/* Guard bands, NaN where nothing is seen, lengths, entries and lists of every kind: by trials (trial_data.c). The
 * first problem is one for all families. */
FAMILY_TEST(pages, tables_may_hold_anything, CLATTN_FORWARD, NULL, 6)
{
    static const char *const problems[] = {
        "fwd f32 b3 h4/2 q3 k100 d32 page=8 pages=9 causal=br klen sinks lse",
        "fwd f32 b2 h2/1 q1 k200 d64 kcache=q8_0 vcache=q4_0 page=16 pages=3 klen lse",
        "fwd f32 b2 h4/1 q3 k100 d32 page=8 pages=9 blocks=2x20:12 mask=qk klen lse",
        "fwd f32 b2 h2/1 q5 k70 d32 page=16 pages=6 window=20,* klen scores=bias",
    };

    unoptimised();
    trials_pass(clattn_family_name(CLATTN_FORWARD, *family), problems,
                sizeof problems / sizeof *problems, 1, 6);
}

/* ---- what a developer is told ------------------------------------------------------------------ */

static const struct fixture_lists pages = {
    {offsetof(clattn_forward_tensors, kv_lengths), offsetof(clattn_forward_tensors, page_table)},
    {2, 6}};

DeviceTest(pages, a_developer_is_told_what_is_wrong)
{
    clattn_plan *plan = fixture_plan(f, "fwd f32 b2 h1 q1 k40 d8 page=16 pages=5 klen", "naive");
    const cl_int lengths[] = {40, 17}, long_one[] = {40, 41}, negative[] = {-1, 0};
    const cl_int sound[] = {4, 0, 1, 3, 2, -7}, none[] = {0, 1, 2, 3, -1, 0},
                 far[] = {0, 1, 5, 3, 4, 0};
    const clattn_forward_tensors no_table = {.struct_size = sizeof no_table};

    fixture_expect_lists(f, plan, &pages, lengths, sound,
                         ""); /* what is not in use may hold anything */
    fixture_expect_lists(f, plan, &pages, (cl_int[]){32, 16}, (cl_int[]){4, 0, -9, 3, -1, 99}, "");
    fixture_expect_lists(f, plan, &pages, lengths, none,
                         "page_table[1][1] is -1 but must be from 0 to 4");
    fixture_expect_lists(f, plan, &pages, lengths, far,
                         "page_table[0][2] is 5 but must be from 0 to 4");
    fixture_expect_lists(f, plan, &pages, long_one, sound,
                         "kv_lengths[1] is 41 but must be from 0 to seq_kv, 40");
    fixture_expect_lists(f, plan, &pages, negative, sound, "kv_lengths[0] is -1");
    cr_expect(clattn_check_tables(plan, f->queue, &no_table) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_check_tables(plan, f->queue, NULL) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_check_tables(NULL, f->queue, &no_table) == CLATTN_INVALID_ARGUMENT);
    clattn_plan_release(plan);
}

static const struct fixture_lists blocks = {{offsetof(clattn_forward_tensors, block_offsets),
                                             offsetof(clattn_forward_tensors, block_entries)},
                                            {4, 5}};

DeviceTest(pages, a_developer_is_told_what_is_wrong_in_block_lists)
{
    clattn_plan *plan = fixture_plan(f, "fwd f32 q9 k20 d8 blocks=3x4:5", "naive");
    const cl_int sound[] = {0, 2, 2, 4}, falling[] = {0, 2, 1, 4}, far[] = {0, 2, 2, 6};
    const cl_int columns[] = {0, 4 | CLATTN_BLOCK_FULL, 1, 1, -9};

    fixture_expect_lists(f, plan, &blocks, sound, columns, ""); /* the fifth entry is in no row */
    fixture_expect_lists(f, plan, &blocks, falling, columns,
                         "block_offsets[0][2] is 1 but must be from 2 to max_blocks, 5");
    fixture_expect_lists(f, plan, &blocks, far, columns,
                         "block_offsets[0][3] is 6 but must be from 2");
    fixture_expect_lists(f, plan, &blocks, (cl_int[]){0, 2, 2, 5}, columns,
                         "block_entries[0][4] is -9 but must be a column from 0 to 4");
    fixture_expect_lists(f, plan, &blocks, sound, (cl_int[]){0, 5, 1, 1, 1},
                         "block_entries[0][1] is 5 but must be a column from 0 to 4");
    clattn_plan_release(plan);
}

/* ---- what is refused --------------------------------------------------------------------------- */

Test(pages, mistakes_are_named) {
    static const struct refused_text mistakes[] = {
        {"fwd f32 q1 k9 d8 page=4 pages=0", "pages is 0 but must be from 1 to 2147483647"},
        {"fwd f32 q1 k9 d8 pages=3", "pages is 3 but must be from 0 to 0"},
        {"fwd f32 q1 k9 d8 page=0", "page=0"},
        {"fwd f32 q1 k9 d8 page=4 pages=2147483648", "pages is 2147483648"},
        {"bwd f32 q1 k9 d8 page=4", "page_size is an option of forward only"},
        {"fwd f32 q1 k9 d8 page=4 dropout=0.5", "dropout and page_size exclude each other"},
    };

    problem_texts_refused(mistakes, sizeof mistakes / sizeof *mistakes);
}

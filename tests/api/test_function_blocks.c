/* SPDX-License-Identifier: Apache-2.0 */
/* Block lists of a mask function: those of the pairs that it shows, for each batch and head or for several together. */
#include "context/context.h"
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"

#include <clattn/blocks.h>
#include <clattn/function.h>
#include <criterion/criterion.h>
#include <string.h>

TestSuite(function_blocks, .init = unoptimised, .timeout = 120);

enum {
    BATCH = 2,
    HEADS = 4,
    SEQ_Q = 21,
    SEQ_KV = 50,
    BLOCK_Q = 4,
    BLOCK_KV = 8,
    REACH = 5,
    UNTOUCHED = -77
};
enum { ROWS = (SEQ_Q + BLOCK_Q - 1) / BLOCK_Q, COLUMNS = (SEQ_KV + BLOCK_KV - 1) / BLOCK_KV };

static const char source[] =
    "#pragma clattn operand int document[b][k]\n"
    "#pragma clattn parameter int reach = 1\n"
    "bool visible(pair p, operands o)\n"
    "{ return p.key < p.keys && p.key <= 2 * p.query + o.reach * p.head && "
    "document_of(o, p) != 1; }\n";
static const int32_t lengths[BATCH] = {SEQ_KV, 19};

struct lists {
    int32_t document[BATCH][SEQ_KV];
    int32_t offsets[BATCH * HEADS * (ROWS + 1)];
    int32_t entries[BATCH * HEADS * ROWS * COLUMNS + 1];
};

/* The function by its definition. */
static bool sees(const struct lists *x, int b, int h, int i, int j)
{
    return j < lengths[b] && j <= 2 * i + REACH * h && x->document[b][j] != 1;
}

/* 0: no pair of the batches and heads is visible, 2: all are, else 1. */
static int seen(const struct lists *x, const int of[4], int row, int column)
{
    bool some = false, all = true;

    for (int b = of[0]; b < of[1]; b++)
        for (int h = of[2]; h < of[3]; h++)
            for (int i = row * BLOCK_Q; i < (row + 1) * BLOCK_Q && i < SEQ_Q; i++)
                for (int j = column * BLOCK_KV; j < (column + 1) * BLOCK_KV && j < SEQ_KV; j++) {
                    some |= sees(x, b, h, i, j);
                    all &= sees(x, b, h, i, j);
                }
    return !some ? 0 : all ? 2 : 1;
}

/* Compares list number n, of which `room` entries were written. */
static size_t compare(const struct lists *x, const int of[4], size_t n, size_t room)
{
    size_t count = 0;

    for (int row = 0; row < ROWS; row++) {
        cr_expect_eq((size_t)x->offsets[n * (ROWS + 1) + (size_t)row], count < room ? count : room);
        for (int column = 0; column < COLUMNS; column++) {
            const int kind = seen(x, of, row, column);
            if (kind && count < room)
                cr_expect_eq(x->entries[n * room + count],
                             column | (kind == 2 ? CLATTN_BLOCK_FULL : 0),
                             "list %zu, row %d, column %d: %x", n, row, column,
                             (unsigned)x->entries[n * room + count]);
            count += kind != 0;
        }
    }
    cr_expect_eq((size_t)x->offsets[n * (ROWS + 1) + ROWS], count < room ? count : room);
    return count;
}

static clattn_problem problem_of(const char *text, const clattn_function *function)
{
    clattn_problem p = fixture_problem(text);

    p.mask_function = function;
    return p;
}

static const clattn_function *make(void)
{
    const clattn_function *function;

    cr_assert(clattn_function_create("reaches", source, &function, NULL, 0) == CLATTN_SUCCESS);
    return function;
}

static void fill(struct lists *x)
{
    for (int n = 0; n < BATCH * SEQ_KV; n++)
        x->document[n / SEQ_KV][n % SEQ_KV] = n % SEQ_KV / 9 % 3;
    for (size_t n = 0; n < sizeof x->entries / sizeof *x->entries; n++)
        x->entries[n] = UNTOUCHED;
}

DeviceTest(function_blocks, are_those_of_its_pairs)
{
    static const struct {
        const char *text;
        int batches, heads; /* of one list */
    } cases[] = {{"fwd f32 b2 h4/2 q21 k50 d8 klen blocks=4x8:1", BATCH, HEADS},
                 {"fwd f32 b2 h4/2 q21 k50 d8 klen blocks=4x8:1:b", 1, HEADS},
                 {"fwd f32 b2 h4/2 q21 k50 d8 klen blocks=4x8:1:h", BATCH, 1},
                 {"fwd f32 b2 h4/2 q21 k50 d8 klen blocks=4x8:1:bh", 1, 1}};
    const clattn_function_values values = {.ints = {REACH}};
    static struct lists x;

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        clattn_problem p = problem_of(cases[c].text, make());
        const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                     .function_0 = x.document,
                                                     .function_values = &values,
                                                     .kv_lengths = lengths};
        size_t needed = 0, most = 0, n;
        fill(&x);
        cr_assert(clattn_function_blocks(f->context, &p, &tensors, NULL, NULL, &needed) ==
                      CLATTN_SUCCESS,
                  "%s", f->log.last);
        for (int less = 1; less >= 0; less--) {
            fill(&x);
            p.max_blocks = needed - (size_t)less;
            const clattn_status status =
                clattn_function_blocks(f->context, &p, &tensors, x.offsets, x.entries, NULL);
            cr_expect(status == (less ? CLATTN_BUFFER_TOO_SMALL : CLATTN_SUCCESS), "%s",
                      f->log.last);
            n = 0;
            for (int b = 0; b < BATCH; b += cases[c].batches)
                for (int h = 0; h < HEADS; h += cases[c].heads, n++) {
                    const int of[] = {b, b + cases[c].batches, h, h + cases[c].heads};
                    const size_t count = compare(&x, of, n, p.max_blocks);
                    most = count > most ? count : most;
                }
            cr_expect_eq(x.entries[n * p.max_blocks], UNTOUCHED);
        }
        cr_expect_eq(needed, most, "%s: %zu, not %zu", cases[c].text, needed, most);
    }
}

DeviceTest(function_blocks, mistakes_are_named)
{
    static struct lists x;
    const clattn_problem good = problem_of("fwd f32 b2 h4/2 q21 k50 d8 klen blocks=4x8:40", make());
    const clattn_problem without =
        problem_of("fwd f32 b2 h4/2 q21 k50 d8 klen blocks=4x8:40", NULL);
    const clattn_problem whole = problem_of("fwd f32 b2 h4/2 q21 k50 d8 klen", make());
    const clattn_host_forward_tensors all = {
        .struct_size = sizeof all, .function_0 = x.document, .kv_lengths = lengths};
    const clattn_host_forward_tensors no_operand = {.struct_size = sizeof all,
                                                    .kv_lengths = lengths};
    const clattn_host_forward_tensors no_lengths = {.struct_size = sizeof all,
                                                    .function_0 = x.document};
    const struct {
        const clattn_problem *problem;
        const clattn_host_forward_tensors *tensors;
        int32_t *offsets, *entries;
        const char *words;
    } cases[] = {{&without, &all, x.offsets, x.entries, "no mask_function"},
                 {&whole, &all, x.offsets, x.entries, "no block lists"},
                 {&good, &all, NULL, x.entries, "only one of offsets and entries"},
                 {&good, &all, x.offsets, NULL, "only one of offsets and entries"},
                 {&good, &no_operand, x.offsets, x.entries, "is null"},
                 {&good, &no_lengths, x.offsets, x.entries, "is null"},
                 {&good, NULL, x.offsets, x.entries, "tensors"}};

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        size_t needed = 9;
        const clattn_status status =
            clattn_function_blocks(f->context, cases[n].problem, cases[n].tensors, cases[n].offsets,
                                   cases[n].entries, &needed);
        cr_expect(status == CLATTN_INVALID_ARGUMENT && strstr(f->log.last, cases[n].words),
                  "case %zu: %d, %s", n, (int)status, f->log.last);
    }
}

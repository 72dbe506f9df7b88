/* SPDX-License-Identifier: Apache-2.0 */
/* What candidates for appends and merges are judged by: right answers, and seeing what is wrong. No device. */
#include "bench/judge/append.h"
#include "bench/judge/merge.h"
#include "tests/support/judged_case.h"
#include "tests/support/storage.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(serving_trust, .timeout = 60);

static const char *const appends[] = {
    "append f32 b2 h4/2 q5 k20 d64/40 klen",
    "append f16 b2 h4/2 q5 k20 d48 cache=bf16 slots pos rope=halves:32:10000 queries",
    ("append f32 b3 h4/2 q7 k30 d64 cache=f16 page=4 pages=30 klen rope=pairs:64:500000 "
     "queries=inplace"),
    "append bf16 b2 h2/2 q5 k20 d33/7 page=8 pages=9 slots",
    "append f32 b2 h4/2 q5 k20 d64 pos klen rope=halves:64:tables:90 queries",
};

static const char *const merges[] = {
    "merge f32 b2 h3 q5 d20 n3",
    "merge f16 b2 h3 q5 d20 n3 accumulate",
    "merge bf16 b1 h2 q9 d40 n2 parts=bshd o=sbhd",
    "merge f32 b2 h3 q5 d20 n3 sinks accumulate",
};

static unsigned char *first(const struct ca_trust_case *c, unsigned argument)
{
    return c->bytes[argument] ? c->bytes[argument] + CA_TRUST_GUARD : NULL;
}

/* What is wrong with one element of a result, and beside all of them. */
static void expect_faults_found(struct ca_trust_case *c, unsigned output, clattn_dtype dtype,
                                size_t place, const char *text)
{
    unsigned char *y = first(c, output);
    const double value = value_get(dtype, y, place);

    value_set(dtype, y, place, value * 1.02 + 0.02);
    judged_wrong(c, text, "should be");
    value_set(dtype, y, place, NAN);
    judged_wrong(c, text, "");
    value_set(dtype, y, place, value);
    judged_right(c, text);
    y[-1] ^= 0x55;
    judged_wrong(c, text, "");
    y[-1] ^= 0x55;
    y[c->sizes[output] - 2 * CA_TRUST_GUARD] ^= 0x55;
    judged_wrong(c, text, "");
    y[c->sizes[output] - 2 * CA_TRUST_GUARD] ^= 0x55;
    judged_right(c, text);
}

/* ---- appends ---------------------------------------------------------------------------------- */

static const unsigned written[APPEND_KINDS] = {CA_APPEND_K_CACHE, CA_APPEND_V_CACHE,
                                               CA_APPEND_Q_OUT};

static clattn_dtype dtype_of(const clattn_append_problem *p, enum append_kind kind)
{
    return kind == APPEND_Q ? p->dtype : p->cache_dtype;
}

static struct append_view append_view(const struct ca_trust_case *c)
{
    const int in_place = c->problem.append.queries == CLATTN_QUERIES_IN_PLACE;

    return (struct append_view){.from = {first(c, CA_APPEND_K), first(c, CA_APPEND_V),
                                         first(c, in_place ? CA_APPEND_Q_OUT : CA_APPEND_Q)},
                                .kv_lengths = (const void *)first(c, CA_APPEND_KV_LENGTHS),
                                .positions = (const void *)first(c, CA_APPEND_POSITIONS),
                                .slots = (const void *)first(c, CA_APPEND_SLOTS),
                                .page_table = (const void *)first(c, CA_APPEND_PAGE_TABLE),
                                .cos = (const void *)first(c, CA_APPEND_COS),
                                .sin = (const void *)first(c, CA_APPEND_SIN)};
}

static size_t at(const size_t strides[4], size_t b, size_t h, size_t i, size_t d)
{
    return b * strides[0] + h * strides[1] + i * strides[2] + d * strides[3];
}

/* Whether the row from this element on is among those that are judged. */
static int is_judged(const struct ca_trust_case *c, unsigned argument, size_t first)
{
    for (size_t n = 0; n < c->num_answers; n++)
        if (c->answers[n].argument == argument && c->answers[n].first == first)
            return c->answers[n].want != NULL;
    return 0;
}

/* Writes a token's row of one head where a kernel would; *place is where its second element lies, if the row
 * is judged. */
static void append_row(struct ca_trust_case *c, const struct append_view *view,
                       enum append_kind kind, size_t b, size_t h, size_t i, size_t *place)
{
    const struct append_strides s = reference_append_strides(&c->problem.append, kind);
    const int64_t slot = kind == APPEND_Q ? (int64_t)(b * s.rows + i)
                                          : reference_append_place(&c->problem.append, view, b, i);
    struct bounded row[256];

    cr_assert(s.dim <= sizeof row / sizeof *row);
    reference_append(&c->problem.append, view, kind, b, h, i, row);
    for (size_t d = 0; d < s.dim && slot >= 0; d++) {
        const size_t to = at(s.to, (size_t)slot / s.rows, h, (size_t)slot % s.rows, d);
        value_set(dtype_of(&c->problem.append, kind), first(c, written[kind]), to, row[d].value);
        if (d == 1 && is_judged(c, written[kind], to - s.to[3]))
            *place = to;
    }
}

/* What is read in place is read from a copy. */
static size_t append_all(struct ca_trust_case *c, enum append_kind kind)
{
    const clattn_append_problem *p = &c->problem.append;
    const size_t bytes = kind == APPEND_Q ? c->sizes[CA_APPEND_Q_OUT] : 0;
    unsigned char *before = malloc(bytes + 1);
    struct append_view view = append_view(c);
    size_t place = 0;

    cr_assert(before != NULL);
    if (bytes > 0 && p->queries == CLATTN_QUERIES_IN_PLACE)
        view.from[APPEND_Q] =
            (unsigned char *)memcpy(before, c->bytes[CA_APPEND_Q_OUT], bytes) + CA_TRUST_GUARD;
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < (kind == APPEND_Q ? p->heads : p->kv_heads); h++)
            for (size_t i = 0; i < p->tokens; i++)
                append_row(c, &view, kind, b, h, i, &place);
    free(before);
    return place;
}

static void expect_appends(const char *text, int hostile)
{
    struct ca_trust_case c = judged_case(text, hostile);
    size_t places[APPEND_KINDS];

    for (int kind = 0; kind < APPEND_KINDS; kind++)
        if (c.bytes[written[kind]])
            places[kind] = append_all(&c, (enum append_kind)kind);
    judged_right(&c, text);
    for (int kind = 0; kind < APPEND_KINDS; kind++)
        if (c.bytes[written[kind]])
            expect_faults_found(&c, written[kind],
                                dtype_of(&c.problem.append, (enum append_kind)kind), places[kind],
                                text);
    ca_trust_case_free(&c);
}

Test(serving_trust, appends) {
    for (size_t n = 0; n < sizeof appends / sizeof *appends; n++) {
        expect_appends(appends[n], 0);
        expect_appends(appends[n], 1);
    }
}

/* ---- merges ----------------------------------------------------------------------------------- */

static void expect_merges(const char *text, int hostile)
{
    struct ca_trust_case c = judged_case(text, hostile);
    const clattn_merge_problem *p = &c.problem.merge;
    const struct merge_strides s = reference_merge_strides(p);
    unsigned char *o = malloc(c.sizes[CA_MERGE_O]), *lse = malloc(c.sizes[CA_MERGE_LSE]);
    struct bounded row[1024], lse_row;
    size_t finite = 0;

    cr_assert(o && lse && p->dim <= sizeof row / sizeof *row);
    memcpy(o, c.bytes[CA_MERGE_O], c.sizes[CA_MERGE_O]);
    memcpy(lse, c.bytes[CA_MERGE_LSE], c.sizes[CA_MERGE_LSE]);
    const struct merge_view view = {.parts = first(&c, CA_MERGE_PARTS),
                                    .parts_lse = (const void *)first(&c, CA_MERGE_PARTS_LSE),
                                    .sinks =
                                        p->sinks ? (const void *)first(&c, CA_MERGE_SINKS) : NULL,
                                    .o = o + CA_TRUST_GUARD,
                                    .lse = (const void *)(lse + CA_TRUST_GUARD)};
    for (size_t n = 0; n < p->batch * p->heads * p->seq_q; n++) {
        const size_t i = n % p->seq_q, h = n / p->seq_q % p->heads, b = n / p->seq_q / p->heads;
        reference_merge(p, &view, b, h, i, row, &lse_row);
        for (size_t d = 0; d < p->dim; d++)
            value_set(p->dtype, first(&c, CA_MERGE_O), at(s.o, b, h, i, d), row[d].value);
        value_set(CLATTN_F32, first(&c, CA_MERGE_LSE), n, lse_row.value);
        if (isfinite(lse_row.value) && n > 0) /* of a row that is judged, in either case */
            finite = at(s.o, b, h, i, 1);
    }
    judged_right(&c, text);
    expect_faults_found(&c, CA_MERGE_O, p->dtype, finite, text);
    expect_faults_found(&c, CA_MERGE_LSE, CLATTN_F32, 0, text);
    free(lse);
    free(o);
    ca_trust_case_free(&c);
}

Test(serving_trust, merges) {
    for (size_t n = 0; n < sizeof merges / sizeof *merges; n++) {
        expect_merges(merges[n], 0);
        expect_merges(merges[n], 1);
    }
}

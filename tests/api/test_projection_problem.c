/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of projections: their text form, what is refused, operations, classes. No device. */
#include "bench/judge/tensors.h"
#include "problem/problem.h"
#include "tests/support/fixture.h"
#include "tests/support/problems.h"
#include "tests/trials/random_projection.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* ---- text ------------------------------------------------------------------------------------ */

Test(projection_problem, what_is_printed) {
    static const char *const canonical[] = {
        "proj f32 b2 h12/1 q2048 d768/64 w=oi bias=f32",
        "proj f16 b1 h1 q5 d7 x=bhds y=90.90.10.1 accumulate",
        "proj bf16 b2 h3/5 q0 d7/4 x=bshd y=sbhd w=0.0.9.2 bias=bf16 accumulate",
    };

    problem_texts_canonical(canonical, sizeof canonical / sizeof *canonical);
    const clattn_problem io = fixture_problem("w=io d8/5 bias=f16\tf32 h2/3 proj q3");
    cr_expect_str_eq(problem_printed(&io), "proj f32 b1 h2/3 q3 d8/5 bias=f16");
}

/* The letters of w stand for these strides. */
Test(projection_problem, layouts_of_w) {
    const clattn_problem io = fixture_problem("proj f32 h2/3 q1 d5/7 w=io");
    const clattn_problem oi = fixture_problem("proj f32 h2/3 q1 d5/7 w=oi");

    cr_expect(memcmp(io.projection.w.stride, (size_t[]){70, 14, 7, 1},
                     sizeof io.projection.w.stride) == 0);
    cr_expect(memcmp(oi.projection.w.stride, (size_t[]){5, 1, 105, 15},
                     sizeof oi.projection.w.stride) == 0);
}

static int same(const clattn_problem *one, const clattn_problem *other)
{
    const clattn_projection_problem *a = &one->projection, *b = &other->projection;
    int alike = 1;

    for (int id = 0; id < NUM_PROJECTION_TENSORS; id++) {
        const struct tensor_shape x = tensor_shape_of(one, id), y = tensor_shape_of(other, id);
        alike &= memcmp(x.stride, y.stride, sizeof x.stride) == 0;
    }

    return one->operation == other->operation && a->dtype == b->dtype && a->batch == b->batch &&
           a->y_heads == b->y_heads && a->x_heads == b->x_heads && a->rows == b->rows &&
           a->x_dim == b->x_dim && a->y_dim == b->y_dim && alike && a->bias == b->bias &&
           (!a->bias || a->bias_dtype == b->bias_dtype) && a->accumulate == b->accumulate;
}

static clattn_problem random_projection(struct rng *r)
{
    const struct projection_kind kind = random_projection_kind(r, NULL, NULL);
    clattn_problem p = random_projection_shape(r, &kind);

    if (rng_one_in(r, 4))
        p.projection.x = (clattn_layout){{0}};
    if (rng_one_in(r, 4))
        p.projection.w = (clattn_layout){{0}};
    if (rng_one_in(r, 4))
        p.projection.y = (clattn_layout){{0}};
    return p;
}

Test(projection_problem, random_problems_come_back_equal) {
    struct rng r = rng_seed(13);

    for (int n = 0; n < 2000; n++) {
        const clattn_problem p = random_projection(&r);
        problem_must_come_back(&p, same);
    }
}

Test(projection_problem, texts_that_are_refused) {
    static const struct refused_text cases[] = {
        {"proj f32 q1", "dN"},
        {"proj f32 d1", "qN"},
        {"proj fwd f32 q1 d1", "two operations"},
        {"proj bwd f32 q1 d1", "two operations"},
        {"proj f32 q1 d1 k1", "'k'"},
        {"proj f32 q1 d1 q=bhsd", "'q='"},
        {"proj f32 q1 d1 o=bhsd", "'o='"},
        {"proj f32 q1 d1 scale=1", "'scale='"},
        {"proj f32 q1 d1 causal=tl", "'causal='"},
        {"proj f32 q1 d1 lse", "'lse'"},
        {"proj f32 q1 d1 dropout=0.5", "'dropout='"},
        {"proj f32 q1 d1 w=ii", "w=ii"},
        {"proj f32 q1 d1 w=bhsd", "w=bhsd"},
        {"proj f32 q1 d1 w=1.2.3", "w=1.2.3"},
        {"proj f32 q1 d1 x=io", "x=io"},
        {"proj f32 q1 d1 bias=f32:qk", "bias"},
        {"proj f32 q1 d1 bias=f64", "bias"},
        {"proj f32 q1 d1 accumulate accumulate", "accumulate"},
        {"proj f32 q2 d1 y=0.1.0.1", "y"},
        {"fwd f32 q1 d1 accumulate", "'accumulate'"},
        {"fwd f32 q1 d1 x=bhsd", "'x='"},
        {"bwd f32 q1 d1 w=oi", "'w='"},
        {"bwd f32 q1 d1 y=bhsd", "'y='"},
        {"fwd f32 q1 d1 bias=f32", "bias"},
    };

    problem_texts_refused(cases, sizeof cases / sizeof *cases);
}

/* ---- checks ---------------------------------------------------------------------------------- */

#define REFUSED(change, words) PROBLEM_REFUSED("proj f32 b2 h3/2 q5 d4 bias=f32", change, words)

Test(projection_problem, fields_that_are_refused) {
    REFUSED(p.scale = 1.0f, "scale");
    REFUSED(p.softcap = 2.0f, "softcap");
    REFUSED(p.causal = 1, "causal");
    REFUSED(p.diagonal = CLATTN_BOTTOM_RIGHT, "diagonal");
    REFUSED(p.window_left = 3, "window");
    REFUSED(p.window_right = 0, "window");
    REFUSED(p.mask = 1, "mask");
    REFUSED(p.alibi = 1, "alibi");
    REFUSED(p.sinks = 1, "sinks");
    REFUSED(p.q_lengths = 1, "q_lengths");
    REFUSED(p.kv_lengths = 1, "kv_lengths");
    REFUSED(p.lse = 1, "lse");
    REFUSED(p.scores = CLATTN_SCORES_RAW, "scores");
    REFUSED(p.dropout = 0.5f, "dropout");
    REFUSED(p.dbias = 1, "dbias");
    REFUSED(p.bias_layout.stride[3] = 1, "bias_layout");
    REFUSED(p.seq_kv = 2, "seq_kv");
    REFUSED(p.heads = 3, "heads");
    REFUSED(p.q.stride[3] = 1, "q");
    REFUSED(p.projection.x_dim = 0, "x_dim");
    REFUSED(p.projection.x_heads = 0, "x_heads");
    REFUSED(p.projection.bias_dtype = (clattn_dtype)3, "bias_dtype is 3");
    REFUSED(p.projection.y.stride[3] = 1, "y");
    REFUSED((p.projection.x.stride[0] = p.projection.x.stride[3] = 1, p.projection.w.stride[3] = 1,
             p.projection.x_dim = (size_t)1 << 48),
            "x_heads * x_dim");
    REFUSED(p.projection.x.stride[0] = (size_t)1 << 60, "x");
    REFUSED(p.projection.w.stride[0] = (size_t)1 << 60, "w");
    REFUSED(p.operation = (clattn_operation)99, "operation");
    REFUSED(p.operation = CLATTN_FORWARD, "attention has no members of other operations");
}

Test(projection_problem, operations) {
    const clattn_problem p = fixture_problem("proj f32 b2 h3/5 q7 d11/13");
    const clattn_problem none = fixture_problem("proj f32 b0 h3/5 q7 d11/13");

    cr_expect(clattn_problem_flops(&p) == 2.0 * 2 * 3 * 5 * 7 * 11 * 13);
    cr_expect(clattn_problem_flops(&none) == 0.0);
}

/* ---- the normal form ------------------------------------------------------------------------- */

static void expect_merged(const char *text, const char *wanted)
{
    const clattn_problem p = fixture_problem(text), normal = ca_problem_normal(&p);
    const clattn_problem want = fixture_problem(wanted);

    cr_expect(normal.projection.batch == want.projection.batch &&
                  normal.projection.y_heads == want.projection.y_heads &&
                  normal.projection.x_heads == want.projection.x_heads &&
                  normal.projection.rows == want.projection.rows &&
                  normal.projection.x_dim == want.projection.x_dim &&
                  normal.projection.y_dim == want.projection.y_dim,
              "'%s' became '%s'", text, problem_printed(&normal));
}

/* Axes become one where strides go on in both tensors that have them. */
Test(projection_problem, axes_that_merge) {
    expect_merged("proj f32 b2 h3/1 q5 d7/4", "proj f32 b2 h3/1 q5 d7/4");
    expect_merged("proj f32 b2 h3/1 q5 d7/4 y=bshd", "proj f32 q10 d7/12");
    expect_merged("proj f32 b2 h1/3 q5 d7/4 x=bshd", "proj f32 q10 d21/4");
    expect_merged("proj f32 b2 h1/3 q5 d7/4 x=bshd w=oi", "proj f32 q10 d21/4");
    expect_merged("proj f32 b2 h1/3 q5 d7/4", "proj f32 b2 h1/3 q5 d7/4");
    expect_merged("proj f32 b2 h1/3 q5 d1/4", "proj f32 b2 q5 d3/4");
    expect_merged("proj f32 b2 h3/1 q1 d7/4", "proj f32 q2 d7/12");
    expect_merged("proj f32 b2 q5 d7 x=0.35.7.1", "proj f32 b2 q5 d7");
    expect_merged("proj f32 b2 q5 d7 y=50.50.8.1", "proj f32 b2 q5 d7");
    expect_merged("proj f32 b2 h3/1 q5 d7/4 y=bshd w=84.12.0.1", "proj f32 h3/1 q10 d7/4");
}

/* The same elements, in whichever form. */
Test(projection_problem, the_normal_form_computes_the_same) {
    struct rng r = rng_seed(15);

    for (int n = 0; n < 2000; n++) {
        const clattn_problem p = random_projection(&r), normal = ca_problem_normal(&p);
        const clattn_problem again = ca_problem_normal(&normal);
        struct ca_tensor before[CA_WORKSPACE], after[CA_WORKSPACE];
        char reason[256];
        cr_assert(clattn_problem_check(&normal, reason, sizeof reason) == CLATTN_SUCCESS, "%s",
                  reason);
        cr_assert(memcmp(&normal, &again, sizeof normal) == 0, "'%s'", problem_printed(&p));
        cr_assert(clattn_problem_flops(&p) == clattn_problem_flops(&normal));
        ca_problem_tensors(&p, before);
        ca_problem_tensors(&normal, after);
        for (size_t t = 0; t < CA_WORKSPACE; t++) {
            size_t sums[2] = {0, 0}; /* of all elements' places */
            for (int form = 0; form < 2 && before[t].present; form++) {
                const struct ca_tensor *x = form ? &after[t] : &before[t];
                const size_t all = x->sizes[0] * x->sizes[1] * x->sizes[2] * x->sizes[3];
                for (int axis = 0; axis < 4 && all; axis++)
                    sums[form] += all / x->sizes[axis] * x->layout.stride[axis] *
                                  (x->sizes[axis] * (x->sizes[axis] - 1) / 2);
            }
            cr_assert(sums[0] == sums[1], "%s of '%s'", before[t].name, problem_printed(&p));
        }
    }
}

/* ---- classes --------------------------------------------------------------------------------- */

/* The conditions of a program, counted here anew from the kernels' sources. */
enum { NUM_DEFINES = 9 };

static void defines_of(const clattn_problem *problem, int defines[NUM_DEFINES])
{
    const clattn_projection_problem p = ca_problem_normal(problem).projection;
    const int all[NUM_DEFINES] = {
        (int)p.dtype,       p.bias ? (int)p.bias_dtype : 0,
        p.bias != 0,        p.accumulate != 0,
        p.x.stride[3] == 1, p.x.stride[3] != 1 && p.x.stride[2] == 1,
        p.w.stride[3] == 1, p.w.stride[3] != 1 && p.w.stride[1] == 1,
        p.y.stride[3] == 1,
    };

    memcpy(defines, all, sizeof all);
}

static int same_defines(const clattn_problem *a, const clattn_problem *b)
{
    int of_a[NUM_DEFINES], of_b[NUM_DEFINES];

    defines_of(a, of_a);
    defines_of(b, of_b);
    return memcmp(of_a, of_b, sizeof of_a) == 0;
}

/* Sizes over all magnitudes, which pass the check. */
static clattn_problem extreme_projection(struct rng *r)
{
    clattn_problem made;
    clattn_projection_problem *p = &made.projection;

    do {
        size_t *const sizes[] = {&p->batch, &p->y_heads, &p->x_heads,
                                 &p->rows,  &p->x_dim,   &p->y_dim};
        made = random_projection_kind(r, NULL, NULL).base;
        for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
            *sizes[n] = (size_t)exp2(rng_uniform(r, 0, rng_one_in(r, 4) ? 48 : 9));
        if (rng_one_in(r, 2))
            clattn_layout_packed("bhds", (size_t[]){p->batch, p->x_heads, p->rows, p->x_dim},
                                 &p->x);
        if (rng_one_in(r, 2))
            clattn_layout_packed("bshd", (size_t[]){p->batch, p->y_heads, p->rows, p->y_dim},
                                 &p->y);
    } while (clattn_problem_check(&made, NULL, 0) != CLATTN_SUCCESS);
    return made;
}

Test(projection_problem, classes_of_random_problems) {
    struct rng r = rng_seed(16);

    for (int n = 0; n < 3000; n++) {
        const clattn_problem p = random_projection(&r), q = random_projection(&r);
        const clattn_problem a = problem_representative(&p), b = problem_representative(&q);
        const clattn_problem extreme = extreme_projection(&r);
        problem_class_check(&p, same_defines);
        problem_class_check(&extreme, same_defines);
        cr_assert(ca_classes_alike(&a, &b) == same_defines(&a, &b));
        const double distance = ca_class_distance(&a, &b);
        cr_assert(distance >= 0.0 && distance < INFINITY && distance == ca_class_distance(&b, &a));
    }
}

Test(projection_problem, what_is_rounded) {
    static const struct problem_and_class cases[] = {
        {"proj f32 b1 h1 q2048 d1024 w=oi bias=f32", "proj f32 b1 h1 q2048 d1024 w=oi bias=f32"},
        {"proj f32 b2 h12/1 q1000 d768/64", "proj f32 b1 h16/1 q2048 d1024/64"},
        {"proj f32 b2 h12/1 q1000 d768/64 y=bshd", "proj f32 b1 h1 q2048 d1024"},
        {"proj f32 b2 h1/12 q1000 d64/768", "proj f32 b1 h1/16 q2048 d64/1024"},
        {"proj f32 b2 h1/12 q1000 d64/768 x=bshd", "proj f32 b1 h1 q2048 d1024"},
        {"proj f32 h3/1 q64 d96", "proj f32 b1 h2/1 q64 d128"},
        {"proj f32 q1 d100000/200000", "proj f32 b1 h1 q1 d65536"},
        {"proj f32 q64 d32 x=bhds y=80.80.1.70", "proj f32 b1 h1 q64 d32 x=bhds y=4096.4096.64.2"},
        {"proj f32 q1 d1 x=9.9.1.9 w=9.1.9.9", "proj f32 b1 h1 q1 d1 x=2.2.1.2 w=2.1.2.2"},
        {"proj f32 b0 h3/2 q5 d4", "proj f32 b1 h1 q1 d8/16"},
        {"proj f32 q3 d4 x=0.0.1.0 w=9.9.9.9", "proj f32 b1 h1 q4 d4 x=bhds w=32.8.8.2"},
    };

    problem_classes_check(cases, sizeof cases / sizeof *cases, same_defines);
}

Test(projection_problem, distances) {
    static const char one[] = "proj f32 q1024 d1024";

    cr_expect(problem_class_distance(one, "proj f32 q2048 d1024") == 1.0);
    cr_expect(problem_class_distance(one, "proj f32 q1024 d1024/2048") == 1.0);
    cr_expect(problem_class_distance(one, "proj f32 q1024 d2048/1024") == 0.5);
    cr_expect(problem_class_distance(one, "proj f32 q1024 d1024 w=oi") > 0.5);
    cr_expect(problem_class_distance(one, "proj f16 q1024 d1024") > CA_CLASS_NEAR);
    cr_expect(problem_class_distance(one, "fwd f32 q1024 d1024") == INFINITY);
    cr_expect(problem_class_distance("bwd f32 q1024 d1024", one) == INFINITY);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Projections: a randomised sweep over layouts, options, families and tunables, the ends of every
 * size, and what layers use them for. CLATTN_TEST_SCALE=10 makes the sweep ten times as long,
 * CLATTN_TEST_SEED=2 another one. */
#include "families/candidate.h"
#include "families/registry.h"
#include "problem/problem.h"
#include "tests/faults/faults.h"
#include "tests/support/families.h"
#include "tests/support/profiles.h"
#include "tests/support/storage.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/random_projection.h"
#include "tests/trials/trial.h"
#include "tune/measurer.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(projection, .timeout = 300);

/* ---- the sweep ----------------------------------------------------------------------------- */

enum { PARTS_PER_FAMILY = 2, KINDS = 1, SHAPES = 12, EMULATED_SHAPES = 4 };

struct part {
    size_t family, number;
};

ParameterizedTestParameters(projection, sweep) {
    static struct part parts[32];
    const char *only = getenv("CLATTN_TEST_FAMILY");
    size_t count = 0;

    for (size_t n = 0; ca_family_at(n); n++)
        for (size_t number = 0; number < PARTS_PER_FAMILY; number++)
            if (ca_family_at(n)->operation == CLATTN_PROJECTION &&
                family_takes_any_dims(ca_family_at(n)->full_name) &&
                (only ? strcmp(only, ca_family_at(n)->full_name) == 0 : run_takes(n + number, 2)))
                parts[count++] = (struct part){n, number};
    return cr_make_param_array(struct part, parts, count);
}

/* Some ways of sharing the work want long sums. */
static int draw_problem(struct rng *r, struct fixture *f, const struct projection_kind *kind,
                        clattn_problem *p)
{
    const clattn_plan_options options = {.struct_size = sizeof options,
                                         .family = kind->family->full_name,
                                         .tunables = kind->tunables};

    for (int attempt = 0; attempt < 60; attempt++) {
        *p = random_projection_shape(r, kind);
        if (clattn_plan_supports(f->context, p, &options) == CLATTN_SUCCESS)
            return 1;
    }
    return 0;
}

ParameterizedTest(struct part *part, projection, sweep) {
    const uint64_t base = run_seed();
    const uint64_t kinds = KINDS * run_number("CLATTN_TEST_SCALE", 1);
    struct rng r = rng_seed(base * 1000003 + part->number * 101 + 17 * part->family);
    struct fixture f;
    size_t passed = 0;

    const int emulates = !family_takes_f32(ca_family_at(part->family)->full_name);
    const uint64_t shapes = emulates ? EMULATED_SHAPES : SHAPES; /* emulated ones take long */

    if (!emulates)
        mostly_unoptimised(part->family + part->number, 4);
    else if (!family_is_slow(ca_family_at(part->family)->full_name))
        unoptimised();
    fixture_open(&f);
    fixture_need_groups_of(&f, ca_family_at(part->family)->full_name);
    if (!family_projects_on(ca_family_at(part->family)->full_name,
                            clattn_context_device(f.context)))
        cr_skip_test("a family for CPUs, on a GPU");
    for (uint64_t k = 0; k < kinds; k++) {
        const struct projection_kind kind = random_projection_kind(
            &r, ca_family_at(part->family), clattn_context_device(f.context));
        for (uint64_t n = 0; n < shapes; n++) {
            struct trial t = {.family = kind.family->full_name};
            memcpy(t.tunables, kind.tunables, sizeof t.tunables);
            if (!draw_problem(&r, &f, &kind, &t.problem))
                continue;
            t.seed = rng_next(&r);
            t.poisoned = rng_one_in(&r, 4);
            trial_pass(&f, &t);
            passed++;
        }
    }
    cr_assert(passed >= kinds * shapes / 2, "only %zu of %zu problems were taken", passed,
              (size_t)(kinds * shapes));
    fixture_close(&f);
}

/* One problem of the user's, or of a failure's message. */
Test(projection, one) {
    const char *text = getenv("CLATTN_TEST_PROBLEM"), *family = getenv("CLATTN_TEST_FAMILY");
    const char *tunables = getenv("CLATTN_TEST_TUNABLES");
    struct trial t = {
        .family = family && family[0] ? family : NULL, .seed = run_seed(), .poisoned = 1};
    struct fixture f;

    t.problem = fixture_problem(text ? text : "proj f32 b2 h3/2 q33 d40/24 w=oi bias=f32");
    if (tunables && strlen(tunables) < sizeof t.tunables)
        memcpy(t.tunables, tunables, strlen(tunables) + 1);
    fixture_open(&f);
    trial_pass(&f, &t);
    fixture_close(&f);
}

/* ---- the ends of every size, each family as it comes ---------------------------------------- */

static const char *const ends[] = {
    "proj f32 q1 d1",
    "proj f32 q1 d300/1",
    "proj f32 q1 d1/300",
    "proj f32 q300 d1",
    "proj f32 q1 d300",
    "proj f32 b300 q1 d5/7",
    "proj f32 h7/300 q3 d1",
    "proj f32 h300/5 q2 d3/1",
    "proj f32 b3 h5/1 q70 d64/17",
    "proj f32 b3 h1/5 q70 d17/64",
    "proj f32 b0 q3 d4",
    "proj f32 b3 h2 q0 d4",
    "proj f32 q19 d2000/21",
    "proj f32 b2 h3/2 q17 d33/65 x=bshd y=bshd",
    "proj f32 b2 h3/2 q17 d33/65 x=bhds y=bhds",
    "proj f32 b2 h3/2 q17 d33/65 x=0.0.33.1",
    "proj f32 b2 h3/2 q17 d33/65 x=66.0.0.1 w=0.0.65.1",
    "proj f32 h5/3 q5 d1/65 w=0.1.0.0",
    "proj f32 h5/2 q3 d70/1 w=0.0.0.2",
    "proj f32 b2 h3/2 q17 d33/65 x=0.0.0.1 w=0.0.0.7",
};

ParameterizedTestParameters(projection, ends) {
    static struct part parts[16];
    size_t count = 0;

    for (size_t n = 0; ca_family_at(n); n++)
        if (ca_family_at(n)->operation == CLATTN_PROJECTION &&
            family_takes_any_dims(ca_family_at(n)->full_name))
            parts[count++] = (struct part){n, 0};
    return cr_make_param_array(struct part, parts, count);
}

ParameterizedTest(struct part *part, projection, ends) {
    struct fixture f;

    unoptimised();
    fixture_open(&f);
    if (!family_projects_on(ca_family_at(part->family)->full_name,
                            clattn_context_device(f.context)))
        cr_skip_test("a family for CPUs, on a GPU");
    for (size_t n = 0; n < sizeof ends / sizeof *ends; n++) {
        if (!run_takes_of(n + part->family, sizeof ends / sizeof *ends, 20))
            continue; /* the others in the next runs */
        const char *family = ca_family_at(part->family)->full_name;
        struct trial t = {
            .problem = fixture_problem(family_text(family, ends[n])), .family = family, .seed = n};
        trial_pass(&f, &t);
    }
    fixture_close(&f);
}

/* Whatever a family suggests for a problem, it takes: on this device and on others. */
Test(projection, suggestions_fit) {
    static clattn_device_info devices[1 + MOST_DESCRIBED];
    const size_t count = 1 + devices_described(&devices[1]);
    struct rng r = rng_seed(8);
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups(&f);
    devices[0] = *clattn_context_device(f.context);
    for (size_t n = 0; n < 4000; n++) {
        const struct projection_kind kind = random_projection_kind(&r, NULL, NULL);
        const clattn_problem p = random_projection_shape(&r, &kind);
        const struct ca_problem made = ca_problem_own(&p);
        clattn_device_info device = devices[n % count];
        const struct ca_family *family;
        if (n % count > 0)
            device.compute_units = (cl_uint)(1 + rng_below(&r, 150));
        if (n % 4 == 3)
            device.local_memory_bytes = 16384;
        for (size_t i = 0; (family = ca_family_at(i)) != NULL; i++) {
            size_t values[CA_MAX_TUNABLES];
            char reason[256], text[512];
            if (family->operation != CLATTN_PROJECTION || family->unsupported(&made, &device))
                continue;
            ca_family_suggest(family, &made, &device, values);
            clattn_problem_print(&p, text, sizeof text, NULL);
            const char *why =
                ca_family_refusal(family, &made, &device, values, reason, sizeof reason);
            cr_assert(why == NULL, "%s on '%s', '%s': %s", family->full_name, device.name, text,
                      why);
        }
    }
    fixture_close(&f);
}

/* The largest f32 rounds to an infinite bf16, so its parts (cl/mma/f32_parts.h) need care; and parts of one w may have both
 * signs, which makes a NaN of an infinity in x. Rows without such elements, and one with elements just below, must not
 * change. */
Test(projection, large_elements_of_parts) {
    static const char *const families[] = {"projection_gpu UNIT=mma",
                                           "projection_gpu UNIT=warpgroup"};
    static const double large[] = {FLT_MAX, -FLT_MAX, INFINITY, 0x1.8p62, 0x1.fffffep62, 0x1p127};
    struct fixture f;

    unoptimised();
    fixture_open(&f);
    for (size_t n = 0; n < 2; n++)
        for (int updated = 0; updated < 2; updated++) {
            struct trial t = {.family = families[n], .seed = 3, .tunables = "EMULATE=1"};
            t.problem = fixture_problem(updated ? "proj f32 q9 d20/7 w=oi accumulate"
                                                : "proj f32 q9 d20/7");
            fixture_need_groups_of(&f, families[n]);
            if (!trial_is_supported(&f, &t))
                continue;
            trial_fill(&t);
            for (size_t i = 0; i < sizeof large / sizeof *large; i++)
                trial_set_nth(&t, PROJECTION_X, 20 * i + 3 * i, large[i]);
            trial_run(&f, &t);
            trial_check(&t);
            trial_free(&t);
        }
    fixture_close(&f);
}

static size_t num_families(void)
{
    size_t count = 0;

    while (clattn_family_name(CLATTN_PROJECTION, count))
        count++;
    return count;
}

/* The same inputs give the same bits, every time. */
Test(projection, repeats_give_the_same_bits) {
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups(&f);
    for (size_t n = 0; clattn_family_name(CLATTN_PROJECTION, n); n++) {
        const char *family = clattn_family_name(CLATTN_PROJECTION, n);
        if (!run_takes_of(n, num_families(), 4) ||
            !family_projects_on(family, clattn_context_device(f.context)))
            continue; /* the others in the next run */
        const char *text = family_text(family, "proj f32 b2 h3/1 q40 d700/50 w=oi bias=f32");
        struct trial t = {.problem = fixture_problem(text), .seed = 5};
        struct host_tensor *y = &t.tensor[PROJECTION_Y];
        clattn_plan *plan = fixture_plan(&f, text, family);
        trial_fill(&t);
        unsigned char *first = malloc(y->num_bytes);
        const int runs = family_is_slow(family) && !run_takes(n, 8) ? 3 : 8;
        cr_assert(first != NULL);
        for (int run = 0; run < runs; run++) {
            struct tensor_arguments tensors = trial_send(&f, &t);
            cr_assert(tensor_execute(CLATTN_PROJECTION, plan, f.queue, &tensors, 0, NULL, NULL) ==
                      CLATTN_SUCCESS);
            trial_receive(&f, &t, &tensors);
            if (run == 0)
                memcpy(first, y->got, y->num_bytes);
            cr_assert(memcmp(first, y->got, y->num_bytes) == 0, "run %d differs", run);
        }
        free(first);
        clattn_plan_release(plan);
        trial_free(&t);
    }
    fixture_close(&f);
}

/* ---- host memory --------------------------------------------------------------------------- */

Test(projection, host_memory) {
    static const char *const texts[] = {
        "proj f32 b2 h3/2 q5 d4/6 w=oi bias=f16",
        "proj f16 b2 h3/2 q5 d4/6 y=300.80.9.1 accumulate",
        "proj bf16 q5 d4/6 x=bhds y=30.30.6.1 accumulate",
        "proj f32 b0 q5 d4",
    };
    struct fixture f;

    fixture_open(&f);
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        struct trial t = {.problem = fixture_problem(texts[n]), .seed = n + 1};
        trial_pass_host(&f, &t);
    }
    fixture_close(&f);
}

/* ---- what layers use them for ---------------------------------------------------------------- */

enum { BATCH = 3, TOKENS = 21, INPUTS = 26, HEADS = 4, DIM = 10, OUTPUTS = HEADS * DIM };

struct layer {
    struct fixture f;
    float x[BATCH * TOKENS * INPUTS];   /* (batch, tokens, inputs) */
    float dy[BATCH * OUTPUTS * TOKENS]; /* (batch, heads, tokens, dim) */
    float result[BATCH * OUTPUTS * INPUTS];
};

static void open_layer(struct layer *l)
{
    struct rng r = rng_seed(77);

    fixture_open(&l->f);
    for (size_t n = 0; n < sizeof l->x / sizeof *l->x; n++)
        l->x[n] = (float)rng_uniform(&r, -1, 1);
    for (size_t n = 0; n < sizeof l->dy / sizeof *l->dy; n++)
        l->dy[n] = (float)rng_uniform(&r, -1, 1);
    for (size_t n = 0; n < sizeof l->result / sizeof *l->result; n++)
        l->result[n] = NAN;
}

static void project(struct layer *l, const clattn_problem *p, const float *x, const float *w)
{
    const clattn_host_projection_tensors tensors = {
        .struct_size = sizeof tensors, .x = x, .w = w, .y = l->result};

    cr_assert(clattn_project_host(l->f.context, p, NULL, &tensors) == CLATTN_SUCCESS, "%s",
              l->f.log.last);
}

static double dy_of(const struct layer *l, size_t b, size_t t, size_t out)
{
    return l->dy[((b * HEADS + out / DIM) * TOKENS + t) * DIM + out % DIM];
}

/* dW[out][in] = sum_{b,t} dy[b,out,t] x[b,t,in]: heads of y become batches, batches become heads of
 * x, columns of a head its rows. */
Test(projection, gradient_of_weights) {
    struct layer l;
    clattn_problem problem = fixture_problem("proj f32 q1 d1");
    clattn_projection_problem *p = &problem.projection;

    open_layer(&l);
    p->batch = HEADS;
    p->x_heads = BATCH;
    p->rows = DIM;
    p->x_dim = TOKENS;
    p->y_dim = INPUTS;
    p->x = (clattn_layout){{TOKENS * DIM, HEADS * TOKENS * DIM, 1, DIM}};
    p->w = (clattn_layout){{TOKENS * INPUTS, INPUTS, 0, 1}};
    p->y = (clattn_layout){{DIM * INPUTS, 0, INPUTS, 1}};
    project(&l, &problem, l.dy, l.x);
    for (size_t out = 0; out < OUTPUTS; out++)
        for (size_t in = 0; in < INPUTS; in++) {
            double want = 0.0;
            for (size_t t = 0; t < BATCH * TOKENS; t++)
                want += dy_of(&l, t / TOKENS, t % TOKENS, out) * (double)l.x[t * INPUTS + in];
            cr_assert(fabs((double)l.result[out * INPUTS + in] - want) < 2e-5, "dW[%zu, %zu]", out,
                      in);
        }
    fixture_close(&l.f);
}

/* db[out] = sum_{b,t} dy[b,out,t]: a product with a 1 that broadcasts. */
Test(projection, gradient_of_bias) {
    static const float one = 1.0f;
    struct layer l;
    clattn_problem problem = fixture_problem("proj f32 q1 d1");
    clattn_projection_problem *p = &problem.projection;

    open_layer(&l);
    p->y_heads = HEADS;
    p->x_heads = BATCH;
    p->x_dim = TOKENS;
    p->y_dim = DIM;
    p->x = (clattn_layout){{1, 0, 0, 0}}; /* all zeros would be the packed layout */
    p->w = (clattn_layout){{HEADS * TOKENS * DIM, DIM, TOKENS * DIM, 1}};
    project(&l, &problem, &one, l.dy);
    for (size_t out = 0; out < OUTPUTS; out++) {
        double want = 0.0;
        for (size_t t = 0; t < BATCH * TOKENS; t++)
            want += dy_of(&l, t / TOKENS, t % TOKENS, out);
        cr_assert(fabs((double)l.result[out] - want) < 2e-5, "db[%zu]", out);
    }
    fixture_close(&l.f);
}

/* The mean over heads: a product with 1 / HEADS, which broadcasts. */
Test(projection, mean_over_heads) {
    static const float share = 1.0f / HEADS;
    struct layer l;
    clattn_problem problem = fixture_problem("proj f32 q1 d1");
    clattn_projection_problem *p = &problem.projection;

    open_layer(&l);
    p->batch = BATCH;
    p->x_heads = HEADS;
    p->rows = TOKENS * DIM;
    p->x = (clattn_layout){{HEADS * TOKENS * DIM, TOKENS * DIM, 1, 0}};
    p->w = (clattn_layout){{0, 1, 0, 0}};
    project(&l, &problem, l.dy, &share);
    for (size_t n = 0; n < BATCH * TOKENS * DIM; n++) {
        double want = 0.0;
        for (size_t h = 0; h < HEADS; h++)
            want += dy_of(&l, n / DIM / TOKENS, n / DIM % TOKENS, h * DIM + n % DIM) / HEADS;
        cr_assert(fabs((double)l.result[n] - want) < 1e-6, "mean %zu", n);
    }
    fixture_close(&l.f);
}

/* ---- self-checks and measuring --------------------------------------------------------------- */

static clattn_status plan_of(struct fixture *f, const char *text, const char *family)
{
    const clattn_plan_options options = {.struct_size = sizeof options, .family = family};
    const clattn_problem problem = fixture_problem(text);
    clattn_plan *plan;

    const clattn_status status = clattn_plan_create(f->context, &problem, &options, &plan);
    clattn_plan_release(plan);
    return status;
}

/* The self-check's results are read back: a lie there stands for a miscompiled kernel. */
Test(projection, a_miscompiled_family_is_refused) {
    static const char text[] = "proj f16 h2 q9 d64/20 w=oi bias=f32 accumulate";
    struct fixture f;

    unoptimised();
    for (size_t n = 0; clattn_family_name(CLATTN_PROJECTION, n); n++) {
        const char *family = clattn_family_name(CLATTN_PROJECTION, n);
        if (!run_takes_of(n, num_families(), 4) || family_is_slow(family))
            continue; /* the others in the next runs */
        fixture_open_checked(&f, "");
        if (!family_projects_on(family, clattn_context_device(f.context))) {
            fixture_close(&f);
            continue;
        }
        fixture_need_groups(&f);
        faults_arm(FAULT_LIE, 0, 0);
        const clattn_status lied = plan_of(&f, family_text(family, text), family);
        cr_assert(faults_disarm() != NULL, "%s was not checked", family);
        cr_assert(lied == CLATTN_MISCOMPILED, "%s: %s", family, clattn_status_string(lied));
        fixture_close(&f);
    }
}

/* Right kernels pass both checks; an execution that adds is judged although it was repeated. */
Test(projection, is_measured) {
    static const char *const texts[] = {"proj bf16 b2 h3 q20 d64/16 accumulate",
                                        "proj f32 b2 h3 q20 d30/16 w=oi bias=f32 accumulate"};
    struct fixture f;

    unoptimised();
    fixture_open_checked(&f, "");
    fixture_need_groups(&f);
    for (size_t n = 0; clattn_family_name(CLATTN_PROJECTION, n); n++) {
        const char *family = clattn_family_name(CLATTN_PROJECTION, n);
        if (!run_takes_of(n, num_families(), 2) || family_is_slow(family) ||
            !family_projects_on(family, clattn_context_device(f.context)))
            continue;
        const struct ca_problem problem = fixture_checked(family_text(family, texts[n % 2]));
        struct ca_candidate candidate = {.family = ca_family_find(family)};
        struct ca_reading reading;
        struct ca_measurer m;
        ca_family_suggest(candidate.family, &problem, clattn_context_device(f.context),
                          candidate.values);
        cr_assert(ca_measurer_create(f.context, &problem, 1, &m) == CLATTN_SUCCESS, "%s",
                  f.log.last);
        m.build(m.user, &candidate, &reading);
        cr_assert(reading.outcome == CA_CORRECT, "%s", reading.reason);
        m.measure(m.user, 0, &candidate, 0.0, &reading);
        cr_assert(reading.outcome == CA_CORRECT && reading.num_times >= 3, "%s", reading.reason);
        cr_assert(reading.error <= 1.0);
        m.close(m.user);
    }
    fixture_close(&f);
}

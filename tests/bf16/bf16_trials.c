/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bf16/bf16_trials.h"
#include "create/choose.h"
#include "device/capacity.h"
#include "families/registry.h"
#include "tests/support/unoptimised.h"
#include "tune/measurer.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void bf16_open(struct fixture *f, int emulated)
{
    fixture_open(f);
    if (!emulated)
        return;
    clattn_device_info lacking = f->context->device;
    lacking.architecture[0] = '\0';
    fixture_close(f);
    fixture_open_narrowed(f, &lacking);
}

struct criterion_test_params bf16_parts(size_t count)
{
    static struct bf16_part parts[32];
    size_t number = 0;

    for (size_t n = 0; n < count; n++) {
        if (run_takes(n, 3))
            parts[number++] = (struct bf16_part){n, 0};
        if (run_takes(n, 5))
            parts[number++] = (struct bf16_part){n, 1};
    }
    return cr_make_param_array(struct bf16_part, parts, number);
}

/* ---- forward ---------------------------------------------------------------------------------- */

static const char *const shapes[] = {"b2 h4/2 q70 k91", "q1 k1", "b3 h2/1 q33 k17", "h2 q97 k140"};
enum { NUM_SHAPES = sizeof shapes / sizeof *shapes };

static struct trial make(const char *family, const struct bf16_program *program, uint64_t seed,
                         const char *shape)
{
    char text[256];
    struct trial t = {.family = family, .seed = seed};

    snprintf(text, sizeof text, "fwd bf16 %s %s", program->options, shape);
    t.problem = fixture_problem(text);
    snprintf(t.tunables, sizeof t.tunables, "%s", program->tunables);
    return t;
}

/* Whether batch and row say where a key lies. */
static int has_plain_rows(const struct trial *t)
{
    return !t->problem.total_kv && !t->problem.page_size;
}

/* Inf and NaN in V, also beside values that are seen, which the second time around is for. */
static void set_infinities(struct trial *t)
{
    for (size_t h = 0; h < t->problem.kv_heads && has_plain_rows(t); h++) {
        trial_set(t, TENSOR_V, 0, h, 11, 3, INFINITY);
        trial_set(t, TENSOR_V, 0, h, 36, 5, NAN);
        trial_set(t, TENSOR_V, 1, h, 23, 4, -INFINITY);
    }
}

/* What no instruction for bf16 multiplies as IEEE does: subnormal operands, whose products may be 0. */
static void set_subnormals(struct trial *t)
{
    for (size_t n = 0; n < 8 && has_plain_rows(t); n++) {
        trial_set(t, TENSOR_Q, 0, 0, n, n, 0x1p-130);
        trial_set(t, TENSOR_K, 0, 0, n, n, 16.0);
        trial_set(t, TENSOR_V, 0, 0, n, n, -0x1p-128);
    }
}

/* Scores of all keys far below 0: a 0 among them, of a key that is not there, would leave no weight. */
static void set_low_scores(struct trial *t)
{
    for (size_t b = 0; b < t->problem.batch && has_plain_rows(t); b++) {
        for (size_t h = 0; h < t->problem.heads && !t->problem.total_q; h++)
            for (size_t i = 0; i < t->problem.seq_q; i++)
                trial_set(t, TENSOR_Q, b, h, i, 0, 64.0);
        for (size_t h = 0; h < t->problem.kv_heads; h++)
            for (size_t j = 0; j < t->problem.seq_kv; j++)
                trial_set(t, TENSOR_K, b, h, j, 0, -64.0);
    }
}

void bf16_pass_program(struct fixture *f, const char *family, const struct bf16_program *program,
                       uint64_t seed)
{
    static void (*const change[])(struct trial *) = {set_infinities, set_subnormals,
                                                     set_low_scores};

    for (size_t n = 0; n < NUM_SHAPES; n++) {
        struct trial t = make(family, program, seed, shapes[n]);
        const clattn_plan_options options = {
            .struct_size = sizeof options, .family = family, .tunables = t.tunables};
        const clattn_status status = clattn_plan_supports(f->context, &t.problem, &options);
        if (n > 0 && n < NUM_SHAPES - 1 && status == CLATTN_UNSUPPORTED) /* too few keys to split */
            continue;
        trial_pass(f, &t);
    }
    for (size_t n = 0; n < sizeof change / sizeof *change; n++) {
        struct trial t = make(family, program, seed, shapes[0]);
        trial_fill(&t);
        change[n](&t);
        trial_run(f, &t);
        trial_check(&t);
        trial_free(&t);
    }
}

static void run(struct trial *t, const char *family, const struct bf16_program *program,
                int emulated)
{
    struct fixture f;

    bf16_open(&f, emulated);
    *t = make(family, program, 5, shapes[NUM_SHAPES - 1]);
    trial_fill(t);
    for (size_t n = 0; n < 16; n++)
        trial_set(t, TENSOR_K, 0, 0, n, n, n % 2 ? ldexp(1.0, (int)n - 127) : ldexp(1.0, (int)n));
    trial_run(&f, t);
    fixture_close(&f);
}

void bf16_compare_with_emulation(const char *family, const struct bf16_program *program)
{
    struct trial one, other;

    run(&one, family, program, 0);
    run(&other, family, program, 1);
    cr_expect(memcmp(one.tensor[TENSOR_O].got, other.tensor[TENSOR_O].got,
                     one.tensor[TENSOR_O].num_bytes) == 0);
    cr_expect(memcmp(one.tensor[TENSOR_LSE].got, other.tensor[TENSOR_LSE].got,
                     one.tensor[TENSOR_LSE].num_bytes) == 0);
    trial_free(&one);
    trial_free(&other);
}

/* ---- what every family promises --------------------------------------------------------------- */

void bf16_expect_judged_right(const char *family, const char *problem)
{
    const clattn_problem p = fixture_problem(problem);
    struct ca_candidate candidate = {.family = ca_family_find(family)};
    struct ca_reading reading;
    struct ca_measurer m;
    struct fixture f;

    fixture_open_checked(&f, "");
    ca_family_suggest(candidate.family, &p, clattn_context_device(f.context), candidate.values);
    cr_assert(ca_measurer_create(f.context, &p, 1, &m) == CLATTN_SUCCESS, "%s", f.log.last);
    m.build(m.user, &candidate, &reading);
    cr_assert(reading.outcome == CA_CORRECT, "%s", reading.reason);
    m.measure(m.user, 0, &candidate, 0.0, &reading);
    cr_assert(reading.outcome == CA_CORRECT, "%s", reading.reason);
    cr_expect(reading.error <= 1.0 && reading.error > 0.0);
    m.close(m.user);
    fixture_close(&f);
}

static void need(int (*has)(const clattn_device_info *dev), const char *reason)
{
    struct fixture f;

    fixture_open(&f);
    const int there = has(&f.context->device);
    fixture_close(&f);
    if (!there)
        cr_skip_test("%s", reason);
}

void bf16_need_tiles(void)
{
    need(ca_multiplies_bf16_tiles,
         "the processor has no matrix unit for bf16, or the system keeps no tiles");
}

void bf16_need_pairs(void)
{
    need(ca_multiplies_bf16_pairs, "the processor has no instruction for pairs of bf16");
}

/* ---- choosing --------------------------------------------------------------------------------- */

const char *bf16_choice(struct fixture *f, const char *problem, const char *architecture)
{
    const clattn_plan_options untuned = {.struct_size = sizeof untuned,
                                         .flags = CLATTN_PLAN_UNTUNED};
    const clattn_problem p = fixture_problem(problem);
    const struct ca_problem made = ca_problem_own(&p);
    clattn_device_info *dev = &f->context->device;
    const clattn_device_info before = *dev;
    static struct ca_choices choices;
    char reason[512];

    dev->type = CL_DEVICE_TYPE_CPU;
    dev->vector_width_float = 16;
    snprintf(dev->architecture, sizeof dev->architecture, "%s", architecture);
    const clattn_status status =
        ca_choose(f->context, &made, &untuned, &choices, reason, sizeof reason);
    *dev = before;
    cr_assert(status == CLATTN_SUCCESS, "%s", reason);
    return choices.list[0].candidate.family->full_name;
}

void bf16_expect_forward_refusals(const char *family)
{
    static const struct family_refusal refused[] = {
        {"fwd f32 q3 k5 d8", NULL, "bf16 alone"},
        {"fwd f16 q3 k5 d8", NULL, "bf16 alone"},
        {"fwd bf16 q3 k5 d8 strict", NULL, "strict"},
        {"fwd bf16 q3 k5 d32 kcache=q8_0", NULL, "stored otherwise"},
        {"fwd bf16 q3 k5 d32 vcache=f32", NULL, "stored otherwise"},
        {"fwd bf16 q3 k5 d32 mask=qk maskkeys=2", NULL, "columns of a mask"},
        {"fwd bf16 q3 k5 d8 scores=raw", NULL, "score matrix"}};

    families_expect_refusals(family, refused, sizeof refused / sizeof *refused);
}

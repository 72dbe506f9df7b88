/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that are wrong in each way that a compiler can make them so: none is taken for right. */
#include "cl/common/arguments.h"
#include "families/candidate.h"
#include "tests/support/fixture.h"
#include "tune/measurer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void make_source(void);

TestSuite(broken_kernels, .timeout = 120, .init = make_source);

/* With one key o is v, so the right kernel is short. */
static const char problem_text[] = "fwd f32 h2 q9 k1 d8";
enum { ELEMENTS = 2 * 9 * 8 };

enum breakage { RIGHT, UNWRITTEN, NOT_A_NUMBER, WRONG, BEFORE, BEHIND, NOT_C, NUM_BREAKAGES };

/* Only the host's compiler knows the sizes of the structs; q, k, v and o have strides. */
static const char source_format[] =
    "struct shape { long words[%zu]; };\n"
    "struct offsets { long v, o, others[%zu]; };\n"
    "__kernel void broken(const struct shape a, const struct offsets at,\n"
    "                     const __global float *v, __global float *o)\n"
    "{\n"
    "    const size_t n = get_global_id(0);\n"
    "    float right = v[at.v + n / 72 * 8 + n %% 8];\n"
    "#if BREAKAGE == 1\n"
    "    if (n == 100)\n"
    "        return;\n"
    "#elif BREAKAGE == 2\n"
    "    if (n == 100)\n"
    "        right = nan(0u);\n"
    "#elif BREAKAGE == 3\n"
    "    if (n == 100)\n"
    "        right += 1e-4f;\n"
    "#elif BREAKAGE == 4\n"
    "    if (n == 0)\n"
    "        o[at.o - 5] = 0.0f;\n"
    "#elif BREAKAGE == 5\n"
    "    if (n == 0)\n"
    "        o[at.o + 144] = 0.0f;\n"
    "#elif BREAKAGE == 6\n"
    "    this is not C;\n"
    "#endif\n"
    "    o[at.o + n] = right;\n"
    "}\n";
static char text[2048];
static const char *const source[] = {text, NULL};

static void make_source(void)
{
    snprintf(text, sizeof text, source_format,
             4 * 4 + sizeof(struct attention_shape) / sizeof(cl_long),
             sizeof(struct attention_call) / sizeof(cl_long));
}

static const struct ca_tunable tunables[] = {
    {"BREAKAGE", RIGHT, "what is wrong", {0, 1, 2, 3, 4, 5, 6}, NUM_BREAKAGES, NULL}};

static struct ca_ndrange ndrange(const struct ca_problem *p, const size_t *values)
{
    (void)values;
    return ca_groups(p->normal.heads * p->normal.seq_q, p->normal.dim_v);
}

static const char *fits(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    (void)dev;
    return NULL;
}

static const char *takes_all(const struct ca_problem *p, const clattn_device_info *dev,
                             const size_t *values)
{
    (void)values;
    return fits(p, dev);
}

static const struct ca_family broken = {
    CA_FAMILY("broken"),
    CA_TUNABLES(tunables),
    CA_STAGES({"broken", CA_BIT(CA_V) | CA_BIT(CA_O), ndrange}),
    .source = source,
    .unsupported = fits,
    .reject = takes_all,
};

Test(broken_kernels, none_is_taken_for_right) {
    static const struct {
        enum ca_outcome outcome;
        const char *reason;
    } wanted[NUM_BREAKAGES] = {
        [RIGHT] = {CA_CORRECT, ""},
        [UNWRITTEN] = {CA_WRONG, "o(0, 1, 3, 4) is NaN"},
        [NOT_A_NUMBER] = {CA_WRONG, "o(0, 1, 3, 4) is NaN"},
        [WRONG] = {CA_WRONG, "should be"},
        [BEFORE] = {CA_WRONG, "outside"},
        [BEHIND] = {CA_WRONG, "outside"},
        [NOT_C] = {CA_COMPILE_FAILED, "error"},
    };
    const struct ca_problem problem = fixture_checked(problem_text);
    struct ca_measurer m;
    struct fixture f;

    fixture_open(&f); /* without self-checks, which would see them first */
    fixture_need_groups(&f);
    cr_assert(ca_measurer_create(f.context, &problem, 1, &m) == CLATTN_SUCCESS, "%s", f.log.last);
    for (size_t n = 0; n < NUM_BREAKAGES; n++) {
        const struct ca_candidate candidate = {&broken, {n}};
        struct ca_reading reading;
        m.build(m.user, &candidate, &reading);
        if (reading.outcome == CA_CORRECT)
            m.measure(m.user, 0, &candidate, 0.0, &reading);
        cr_expect(reading.outcome == wanted[n].outcome, "breakage %zu: outcome %d, %s", n,
                  (int)reading.outcome, reading.reason);
        cr_expect(strstr(reading.reason, wanted[n].reason) != NULL, "breakage %zu: '%s'", n,
                  reading.reason);
        cr_expect((reading.num_times > 0) == (n == RIGHT));
        cr_expect((reading.error > 1.0) == (n >= UNWRITTEN && n <= WRONG), "breakage %zu: %g", n,
                  reading.error);
    }
    cr_expect(f.log.errors == 0, "%s", f.log.last);
    m.close(m.user);
    fixture_close(&f);
}

/* The self-check has more keys. */
Test(broken_kernels, self_checks_refuse) {
    const struct ca_problem problem = fixture_checked(problem_text);
    const struct ca_candidate candidate = {&broken, {RIGHT}};
    struct ca_reading reading;
    struct ca_measurer m;
    struct fixture f;

    fixture_open_checked(&f, "");
    fixture_need_groups(&f);
    cr_assert(ca_measurer_create(f.context, &problem, 1, &m) == CLATTN_SUCCESS, "%s", f.log.last);
    m.build(m.user, &candidate, &reading);
    cr_assert(reading.outcome == CA_WRONG && strstr(reading.reason, "broken is miscompiled"), "%s",
              reading.reason);
    m.close(m.user);
    fixture_close(&f);
}

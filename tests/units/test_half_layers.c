/* SPDX-License-Identifier: Apache-2.0 */
/* Layers in f16 and bf16, forward and backward, against double precision. In some, families of
 * one kind of instruction compute all steps, emulated where the device has it not. In the
 * others, the library chooses for the device. */
#include "context/context.h"
#include "problem/classes/problem_class.h"
#include "store/store.h"
#include "tests/support/tables.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/multihead_case.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

TestSuite(half_layers, .init = unoptimised, .timeout = 300);

/* A way to compute: the family of forward attention, whose device and unit the other families have; "" leaves the
 * choice to the device. No pointers: it crosses processes. */
struct way {
    char layer[160], forward[16], unit[16];
};

#define ROUND "h4/2 q37 d40/24 causal=br model=72 packed io biases obias training"
#define CROSS "b2 h4 q9 k70 d64 window=24,8 sinks model=33 cross=48 output=40 seqfirst training"
#define ROWS "b2 h8/2 q3 k90 d32 causal=br klen model=64 cross=48 training"

static struct way ways[] = {
    {"layer fwd f16 " ROUND, "", ""},
    {"layer fwd f16 " CROSS, "", ""},
    {"layer fwd bf16 " ROUND, "", ""},
    {"layer fwd bf16 " CROSS, "", ""},
    {"layer fwd bf16 " ROWS, "", ""},
    {"layer fwd bf16 " ROUND, "fused_cpu", "UNIT=amx"},
    {"layer fwd bf16 " CROSS, "fused_cpu", "UNIT=amx"},
    {"layer fwd bf16 " ROWS, "split_cpu", "UNIT=amx"},
    {"layer fwd bf16 " ROUND, "fused_cpu", "UNIT=pairs"},
    {"layer fwd bf16 " CROSS, "fused_cpu", "UNIT=pairs"},
    {"layer fwd bf16 " ROWS, "split_cpu", "UNIT=pairs"},
    {"layer fwd f16 " ROUND, "fused_gpu", "UNIT=mma"},
    {"layer fwd f16 " CROSS, "fused_gpu", "UNIT=mma"},
    {"layer fwd bf16 " ROUND, "fused_gpu", "UNIT=mma"},
    {"layer fwd bf16 " CROSS, "fused_gpu", "UNIT=mma"},
    {"layer fwd f16 " ROWS, "split_gpu", "UNIT=mma"},
    {"layer fwd bf16 " ROWS, "split_gpu", "UNIT=mma"},
};

/* The family of an operation; "": any. */
static const char *wanted_for(const struct way *way, clattn_operation operation)
{
    static char family[64];
    static const char *const names[] = {
        [CLATTN_BACKWARD] = "backward", [CLATTN_PROJECTION] = "projection"};

    if (!way->unit[0])
        return "";
    if (operation == CLATTN_FORWARD)
        snprintf(family, sizeof family, "%s %s", way->forward, way->unit);
    else
        snprintf(family, sizeof family, "%s%s %s", names[operation], strchr(way->forward, '_'),
                 way->unit);
    return family;
}

/* Calls back with each step of the layer's plan: the family and the problem. */
static void each_step(struct fixture *f, const struct way *way, const clattn_multihead *layer,
                      void (*step)(struct fixture *f, const char *family,
                                   const clattn_problem *problem, const char *wanted))
{
    clattn_multihead_plan *plan = layer_plan(f, layer);
    clattn_multihead_info info = {.struct_size = sizeof info};
    char name[32], unit[32], family[64], problem_text[1024];

    clattn_multihead_plan_describe(plan, &info);
    for (const char *line = info.steps; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        clattn_problem problem;
        cr_assert(sscanf(line, "%*[^:]: %31s (%31s%*[^)]): %1023[^\n]", name, unit, problem_text) ==
                      3,
                  "%s", line);
        snprintf(family, sizeof family, "%s %s", name, unit);
        cr_assert(clattn_problem_parse(problem_text, &problem, NULL, 0) == CLATTN_SUCCESS);
        if (problem.operation <= CLATTN_PROJECTION)
            step(f, family, &problem, wanted_for(way, problem.operation));
    }
    clattn_multihead_plan_release(plan);
}

static void force(struct fixture *f, const char *family, const clattn_problem *problem,
                  const char *wanted)
{
    struct made_entry made;
    char text[CA_CLASS_TEXT];

    (void)family;
    if (!wanted[0])
        return;
    const struct ca_candidate c = table_candidate(wanted, problem, &f->context->device);
    clattn_problem_class(problem, text, sizeof text, NULL);
    cr_assert(ca_store_put(f->context->store, text, table_entry_of(&made, &c, 1.0), 1) ==
              CLATTN_SUCCESS);
}

static void expect(struct fixture *f, const char *family, const clattn_problem *problem,
                   const char *wanted)
{
    (void)f;
    (void)problem;
    if (wanted[0])
        cr_expect(strcmp(family, wanted) == 0, "%s in place of %s", family, wanted);
}

ParameterizedTestParameters(half_layers, agree_with_double_precision) {
    static struct way taken[sizeof ways / sizeof *ways];
    size_t numbers[sizeof ways / sizeof *ways];
    const size_t count = numbers_taken(sizeof ways / sizeof *ways, 0, 8, numbers);

    for (size_t n = 0; n < count; n++)
        taken[n] = ways[numbers[n]];
    return cr_make_param_array(struct way, taken, count);
}

ParameterizedTest(struct way *way, half_layers, agree_with_double_precision) {
    clattn_multihead layer;
    struct fixture f;
    char reason[256];

    fixture_open(&f);
    for (int n = CLATTN_FORWARD; n <= CLATTN_PROJECTION; n++)
        fixture_need_groups_of(&f, wanted_for(way, (clattn_operation)n));
    cr_assert(clattn_multihead_parse(way->layer, &layer, reason, sizeof reason) == CLATTN_SUCCESS,
              "'%s': %s", way->layer, reason);
    const clattn_multihead gradients = layer_backward(&layer);
    each_step(&f, way, &layer, force);
    each_step(&f, way, &gradients, force);
    each_step(&f, way, &layer, expect);
    each_step(&f, way, &gradients, expect);
    layer_case_pass(&f, &layer, 19);
    fixture_close(&f);
}

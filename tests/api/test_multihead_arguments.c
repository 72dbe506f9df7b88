/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of layers: what is refused, and how they describe themselves. Mistakes in the tensors of their calls are those
 * of test_calls.c. */
#include "tests/support/unoptimised.h"
#include "tests/trials/multihead_case.h"
#include <criterion/criterion.h>
#include <string.h>

TestSuite(multihead_arguments, .init = unoptimised, .timeout = 180);

static const char plain[] = "layer fwd f32 b2 h2 q3 k3 d8 model=5 packed";
static const char trained[] = "layer fwd f32 b2 h2 q3 k3 d8 model=5 packed training";

DeviceTest(multihead_arguments, nulls_and_sizes)
{
    const clattn_multihead layer = layer_parsed(plain);
    clattn_multihead_forward_tensors forward = {.struct_size = sizeof forward};
    clattn_multihead_backward_tensors backward = {.struct_size = sizeof backward};
    clattn_multihead_plan *plan = layer_plan(f, &layer);
    cl_event done = (cl_event)(void *)f;

    cr_expect(clattn_multihead_forward(NULL, f->queue, &forward, 0, NULL, &done) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(done == NULL);
    done = (cl_event)(void *)f;
    cr_expect(clattn_multihead_backward(NULL, f->queue, &backward, 0, NULL, &done) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(done == NULL);
    fixture_refused(f, clattn_multihead_forward(plan, f->queue, NULL, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "tensors");
    forward.struct_size--;
    fixture_refused(f, clattn_multihead_forward(plan, f->queue, &forward, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "struct_size");
    fixture_refused(f, clattn_multihead_backward(plan, f->queue, &backward, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "not its gradients");
    backward.struct_size++;
    fixture_refused(f, clattn_multihead_backward(plan, f->queue, &backward, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "struct_size");
    clattn_multihead_plan_release(plan);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void no_plan(struct fixture *f, const clattn_multihead *layer, const unsigned flags,
                    const clattn_status want, const char *words)
{
    clattn_multihead_plan *plan = (clattn_multihead_plan *)(void *)f;
    const clattn_status status = clattn_multihead_plan_create(f->context, layer, flags, &plan);

    cr_expect(status == want && plan == NULL, "%s (%s)", clattn_status_string(status), words);
    cr_expect(fixture_said(f, words));
}

DeviceTest(multihead_arguments, plans)
{
    const clattn_multihead layer = layer_parsed(plain);
    clattn_multihead spoilt = layer;
    clattn_multihead_plan *plan;

    plan = (clattn_multihead_plan *)(void *)f;
    cr_expect(clattn_multihead_plan_create(NULL, &layer, 0, &plan) == CLATTN_INVALID_ARGUMENT);
    cr_expect(plan == NULL);
    cr_expect(clattn_multihead_plan_create(f->context, &layer, 0, NULL) == CLATTN_INVALID_ARGUMENT);
    no_plan(f, NULL, 0, CLATTN_INVALID_ARGUMENT, "null");
    no_plan(f, &layer, CLATTN_PLAN_MEASURE, CLATTN_INVALID_ARGUMENT, "flags");
    no_plan(f, &layer, 64, CLATTN_INVALID_ARGUMENT, "flags");
    no_plan(f, &layer, CLATTN_PLAN_KNOWN_ONLY | CLATTN_PLAN_UNTUNED, CLATTN_INVALID_ARGUMENT,
            "step 'qkv'");
    no_plan(f, &layer, CLATTN_PLAN_KNOWN_ONLY, CLATTN_NOT_TUNED, "step 'qkv'");
    spoilt.struct_size = 0;
    no_plan(f, &spoilt, 0, CLATTN_INVALID_ARGUMENT, "struct_size");
    spoilt = layer;
    spoilt.output = 0;
    no_plan(f, &spoilt, 0, CLATTN_INVALID_PROBLEM, "output");
    clattn_multihead_plan_release(NULL);
}

DeviceTest(multihead_arguments, descriptions)
{
    const clattn_multihead layer = layer_parsed(trained), gradients = layer_backward(&layer);
    clattn_multihead_info forward = {.struct_size = sizeof forward}, backward = forward;

    clattn_multihead_plan *plan = layer_plan(f, &layer), *other = layer_plan(f, &gradients);
    cr_assert(clattn_multihead_plan_describe(plan, &forward) == CLATTN_SUCCESS);
    cr_assert(clattn_multihead_plan_describe(other, &backward) == CLATTN_SUCCESS);
    cr_expect_str_eq(forward.layer, trained);
    cr_expect(forward.num_steps == 3 && backward.num_steps == 5);
    cr_expect(forward.reserve_bytes == backward.reserve_bytes && forward.reserve_bytes > 0);
    size_t lines = 0;
    for (const char *at = backward.steps; *at; at++)
        lines += *at == '\n';
    cr_expect(lines == backward.num_steps);
    cr_expect(strncmp(forward.steps, "qkv: ", 5) == 0, "%s", forward.steps);
    cr_expect(strstr(forward.steps, "proj f32 b1 h1 q6 d5/48 w=oi"), "%s", forward.steps);
    cr_expect(strstr(backward.steps, "\ndw_qkv: "), "%s", backward.steps);
    cr_expect(clattn_multihead_plan_describe(NULL, &forward) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_multihead_plan_describe(plan, NULL) == CLATTN_INVALID_ARGUMENT);
    forward.struct_size--;
    cr_expect(clattn_multihead_plan_describe(plan, &forward) == CLATTN_INVALID_ARGUMENT);
    clattn_multihead_plan_release(other);
    clattn_multihead_plan_release(plan);

    const clattn_multihead inference = layer_parsed(plain);
    forward.struct_size++;
    plan = layer_plan(f, &inference);
    cr_expect(clattn_multihead_plan_describe(plan, &forward) == CLATTN_SUCCESS);
    cr_expect(forward.reserve_bytes == 0);
    clattn_multihead_plan_release(plan);
}

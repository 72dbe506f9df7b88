/* SPDX-License-Identifier: Apache-2.0 */
/* Calls for gradients: the same bits on every run, and host pointers. */
#include "families/family.h"
#include "tests/support/families.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

TestSuite(gradient_calls, .init = unoptimised, .timeout = 300);

/* ---- the same bits on every run ------------------------------------------------------------- */

/* No pointers: it crosses processes. */
struct mix {
    size_t family;
    char problem[200];
};

ParameterizedTestParameters(gradient_calls, same_bits_on_every_run) {
    static const char *const problems[] = {
        "bwd f32 h4/2 q40 k70 d24 causal=br",
        ("bwd f32 h2 q40 k70 d24/20 bias=f16:hqk mask=qk alibi sinks klen softcap=3 window=50,* "
         "dropout=0.3 dbias dslopes dsinks"),
        "bwd f16 b2 h4/2 q40 k70 d16 bias=f32:qk dbias sinks dsinks dlse score=t5 dfunction",
    };
    static const char of_dim_64[] = "bwd f16 h4/2 q70 k90 d64 causal=br sinks dsinks";
    static struct mix mixes[48];
    size_t count = 0;

    for (size_t n = 0; clattn_family_name(CLATTN_BACKWARD, n) && count + 3 <= 48; n++)
        for (size_t c = 0; c < 3; c++) {
            const char *family = clattn_family_name(CLATTN_BACKWARD, n);
            const bool any_dims = family_takes_any_dims(family);
            const char *text = family_text(family, any_dims ? problems[c] : of_dim_64);
            if (!any_dims && c > 0)
                break;
            if (!run_takes(2 * n + c, 6)) /* the others in the next runs */
                continue;
            mixes[count].family = n;
            memcpy(mixes[count++].problem, text, strlen(text) + 1);
        }
    return cr_make_param_array(struct mix, mixes, count);
}

/* Fills the workspace and all results with one byte. */
static void spoil(struct fixture *f, const struct trial *t, const struct tensor_arguments *tensors,
                  const size_t workspace_bytes, const unsigned char byte)
{
    for (int id = 0; id < NUM_TENSORS; id++)
        if (t->tensor[id].bytes && t->tensor[id].shape.written)
            clEnqueueFillBuffer(f->queue, tensors->at[id].buffer, &byte, 1, 0,
                                t->tensor[id].num_bytes, 0, NULL, NULL);
    clEnqueueFillBuffer(f->queue, tensors->workspace.buffer, &byte, 1, 0, workspace_bytes, 0, NULL,
                        NULL);
    cr_assert(clFinish(f->queue) == CL_SUCCESS);
}

enum { RUNS = 8 };

/* Several runs, every other one on an out-of-order queue, after other results and another content of
 * the workspace each time: 37 seeds in a row go through all bytes. */
ParameterizedTest(struct mix *mix, gradient_calls, same_bits_on_every_run) {
    struct trial t = {.problem = fixture_problem(mix->problem),
                      .family = clattn_family_name(CLATTN_BACKWARD, mix->family),
                      .seed = 12};
    const clattn_plan_options options = {.struct_size = sizeof options, .family = t.family};
    clattn_plan_info info = {.struct_size = sizeof info};
    struct fixture f;
    clattn_plan *plan;
    cl_int err;

    fixture_open(&f);
    fixture_need_groups_of(&f, t.family);
    cl_command_queue free_order =
        clCreateCommandQueue(f.opencl, f.device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &err);
    cl_command_queue queues[] = {f.queue, err == CL_SUCCESS ? free_order : f.queue};
    trial_fill(&t);
    struct tensor_arguments tensors = trial_send(&f, &t);
    cr_assert(clattn_plan_create(f.context, &t.problem, &options, &plan) == CLATTN_SUCCESS, "%s",
              f.log.last);
    cr_assert(clattn_plan_describe(plan, &info) == CLATTN_SUCCESS && info.workspace_bytes > 0);
    tensors.workspace.buffer = fixture_buffer(&f, info.workspace_bytes, NULL);
    for (size_t run = 0; run < RUNS; run++) {
        spoil(&f, &t, &tensors, info.workspace_bytes,
              (unsigned char)(0xff - run_seed() * (RUNS - 1) - run));
        cr_assert(tensor_execute(CLATTN_BACKWARD, plan, queues[run % 2], &tensors, 0, NULL, NULL) ==
                      CLATTN_SUCCESS,
                  "%s", f.log.last);
        cr_assert(clFinish(queues[run % 2]) == CL_SUCCESS);
        for (int id = TENSOR_DQ; id < NUM_TENSORS; id++) {
            struct host_tensor *x = &t.tensor[id];
            const size_t start = x->offset * x->shape.element_bytes;
            unsigned char *now = x->bytes ? malloc(x->num_bytes) : NULL;
            if (!x->bytes)
                continue;
            cr_assert(now != NULL);
            fixture_read(&f, tensors.at[id].buffer, x->num_bytes, now);
            cr_assert(run == 0 || memcmp(now + start, x->got + start,
                                         x->shape.extent * x->shape.element_bytes) == 0,
                      "%s differs in run %zu", x->shape.name, run);
            free(x->got);
            x->got = now;
        }
    }
    clReleaseMemObject(tensors.workspace.buffer);
    tensors.workspace.buffer = NULL;
    trial_receive(&f, &t, &tensors);
    clattn_plan_release(plan);
    if (free_order)
        clReleaseCommandQueue(free_order);
    trial_free(&t);
    fixture_close(&f);
}

/* ---- the call with host pointers ------------------------------------------------------------ */

Test(gradient_calls, host_results) {
    static const char *const problems[] = {
        "bwd f32 h4/2 q40 k70 d24 causal=br",
        ("bwd f32 h2 q40 k70 d24/20 bias=f16:hqk mask=qk alibi sinks klen softcap=3 window=50,* "
         "dropout=0.3 dbias dslopes dsinks"),
        "bwd f32 h4/2 q40 k70 d24 causal=br q=bshd do=0.0.24.1 dq=sbhd dk=9000.2500.30.1",
        "bwd f32 b2 h2 q3 k0 d8 alibi sinks dslopes dsinks",
        "bwd f32 b0 q3 k4 d8 alibi sinks dslopes dsinks",
        "bwd f32 b2 h2 q0 k50 d32 bias=f32:k dbias",
        "bwd f32 b0 h2 q3 k5 d8 bias=f32:0.64.10.2 dbias",
        "bwd f32 b2 h2 q3 k0 d8 score=t5 dfunction",
        "bwd f32 b0 h2 q3 k4 d8 score=t5 dfunction",
        "bwd f32 b2 h2 q0 k4 d8 score=t5 dfunction",
    };
    struct fixture f;

    fixture_open(&f);
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct trial t = {.problem = fixture_problem(problems[n]), .seed = n + 1};
        trial_pass_host(&f, &t);
    }
    fixture_close(&f);
}

/* do may be the buffer of o: both are only read. */
DeviceTest(gradient_calls, what_is_read_may_be_one_buffer)
{
    struct trial t = {.problem = fixture_problem("bwd f32 h4/2 q40 k70 d24 causal=br"), .seed = 3};

    trial_fill(&t);
    struct tensor_arguments tensors = trial_send(f, &t);
    clattn_plan *plan = fixture_plan(f, "bwd f32 h4/2 q40 k70 d24 causal=br", NULL);
    const clattn_buffer d_o = tensors.at[TENSOR_DO];
    tensors.at[TENSOR_DO] = tensors.at[TENSOR_O];
    cr_expect(tensor_execute(CLATTN_BACKWARD, plan, f->queue, &tensors, 0, NULL, NULL) ==
                  CLATTN_SUCCESS,
              "%s", f->log.last);
    tensors.at[TENSOR_DO] = d_o;
    trial_receive(f, &t, &tensors);
    clattn_plan_release(plan);
    trial_free(&t);
}

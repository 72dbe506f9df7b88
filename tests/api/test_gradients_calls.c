/* SPDX-License-Identifier: Apache-2.0 */
/* Calls for gradients: the same bits on every run, host pointers, and every mistake in the arguments
 * of clattn_attention_backward(). */
#include "families/family.h"
#include "tests/faults/faults.h"
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
        "bwd f16 b2 h4/2 q40 k70 d16 bias=f32:qk dbias sinks dsinks",
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
            if (!run_takes(n + c, 3)) /* the others in the next two runs */
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

enum { RUNS = 20 };

/* Several runs, every other one on an out-of-order queue, after other results and another content of
 * the workspace each time: fourteen seeds in a row go through all bytes. */
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

/* Results go to copies of what was sent, so that what lies between them is checked too. */
static struct tensor_view prepare(struct trial *t)
{
    trial_fill(t);
    for (int id = 0; id < NUM_TENSORS; id++) {
        struct host_tensor *x = &t->tensor[id];
        if (!x->bytes)
            continue;
        x->got = malloc(x->num_bytes);
        cr_assert(x->got != NULL);
        memcpy(x->got, x->bytes, x->num_bytes);
    }
    return trial_got(t);
}

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
    };
    struct fixture f;

    fixture_open(&f);
    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct trial t = {.problem = fixture_problem(problems[n]), .seed = n + 1};
        const struct tensor_view view = prepare(&t);
        cr_assert(tensor_execute_host(f.context, &t.problem, NULL, &view) == CLATTN_SUCCESS, "%s",
                  f.log.last);
        trial_check(&t);
        trial_free(&t);
    }
    fixture_close(&f);
}

static void refused_host(struct fixture *f, const clattn_problem *problem,
                         const clattn_host_backward_tensors *tensors, const char *words)
{
    cr_expect(clattn_attention_backward_host(f->context, problem, NULL, tensors) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(fixture_said(f, words));
}

Test(gradient_calls, host_refusals) {
    struct trial t = {.problem = fixture_problem("bwd f32 h4/2 q40 k70 d24 causal=br"), .seed = 1};
    const clattn_problem forward = fixture_problem("fwd f32 h4/2 q40 k70 d24 causal=br");
    float extra[4];
    struct fixture f;

    fixture_open(&f);
    const struct tensor_view view = prepare(&t);
    const clattn_host_backward_tensors sound = tensor_host_backward(&view);
    clattn_host_backward_tensors h = sound;
    cr_expect(clattn_attention_backward_host(NULL, &t.problem, NULL, &h) ==
              CLATTN_INVALID_ARGUMENT);
    refused_host(&f, NULL, &h, "problem");
    refused_host(&f, &t.problem, NULL, "tensors");
    refused_host(&f, &forward, &h, "not the operation that is called");
    h.struct_size = 4;
    refused_host(&f, &t.problem, &h, "struct_size");
    h = sound, h.o = NULL;
    refused_host(&f, &t.problem, &h, "o must not be null");
    h = sound, h.lse = NULL;
    refused_host(&f, &t.problem, &h, "lse must not be null");
    h = sound, h.d_o = NULL;
    refused_host(&f, &t.problem, &h, "do must not be null");
    h = sound, h.dq = NULL;
    refused_host(&f, &t.problem, &h, "dq must not be null");
    h = sound, h.dk = NULL;
    refused_host(&f, &t.problem, &h, "dk must not be null");
    h = sound, h.dv = NULL;
    refused_host(&f, &t.problem, &h, "dv must not be null");
    h = sound, h.dbias = extra;
    refused_host(&f, &t.problem, &h, "dbias is given");
    h = sound, h.dslopes = extra;
    refused_host(&f, &t.problem, &h, "dslopes is given");
    h = sound, h.dsinks = extra;
    refused_host(&f, &t.problem, &h, "dsinks is given");
    h = sound, h.dq = h.dk;
    refused_host(&f, &t.problem, &h, "overlaps");
    h = sound, h.dv = (void *)h.q;
    refused_host(&f, &t.problem, &h, "overlaps");

    const clattn_host_forward_tensors mistaken = tensor_host_forward(&view);
    cr_expect(clattn_attention_forward_host(f.context, &t.problem, NULL, &mistaken) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(fixture_said(&f, "not the operation that is called"));
    trial_free(&t);
    fixture_close(&f);
}

/* ---- mistakes in the arguments -------------------------------------------------------------- */

/* A sound call, which each test spoils in one place. */
struct call {
    struct fixture f;
    clattn_problem problem;
    clattn_plan *plan;
    clattn_backward_tensors tensors;
    long commands; /* enqueued before the call under test */
};

static const char everything[] = "bwd f32 h2 q40 k70 d24/20 bias=f16:hqk mask=qk alibi sinks qlen "
                                 "klen blocks=9x9:30 dbias dslopes dsinks";
static const char plain[] = "bwd f32 h4/2 q40 k70 d24 causal=br";

static void open(struct call *c, const char *problem)
{
    memset(c, 0, sizeof *c);
    fixture_open(&c->f);
    c->problem = fixture_problem(problem);
    c->plan = fixture_plan(&c->f, problem, "backward_cpu UNIT=vector");
    c->tensors.struct_size = sizeof c->tensors;
    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(&c->problem, (enum tensor_id)id);
        if (s.present)
            tensor_backward_buffer(&c->tensors, (enum tensor_id)id)->buffer =
                fixture_buffer(&c->f, s.extent * s.element_bytes, NULL);
    }
    c->commands = faults_commands();
}

static void close(struct call *c)
{
    for (int id = 0; id < NUM_TENSORS; id++) {
        const clattn_buffer *b = tensor_backward_buffer(&c->tensors, (enum tensor_id)id);
        if (b && b->buffer)
            clReleaseMemObject(b->buffer);
    }
    clattn_plan_release(c->plan);
    fixture_close(&c->f);
}

/* The event must come back as NULL, the sentence must hold words, nothing may be enqueued. */
static void refused(struct call *c, const clattn_backward_tensors *tensors,
                    const clattn_status want, const char *words)
{
    cl_event done = (cl_event)(void *)c;
    const clattn_status status =
        clattn_attention_backward(c->plan, c->f.queue, tensors, 0, NULL, &done);

    cr_expect(status == want, "%s instead of %s (%s)", clattn_status_string(status),
              clattn_status_string(want), words);
    cr_expect(done == NULL, "done is left behind (%s)", words);
    cr_expect(fixture_said(&c->f, words));
    cr_expect(faults_commands() == c->commands, "something was enqueued (%s)", words);
}

Test(gradient_calls, nulls_and_sizes) {
    struct call c;
    cl_event done;

    open(&c, plain);
    done = (cl_event)(void *)&c;
    cr_expect(clattn_attention_backward(NULL, c.f.queue, &c.tensors, 0, NULL, &done) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(done == NULL);
    done = (cl_event)(void *)&c;
    cr_expect(clattn_attention_backward(c.plan, NULL, &c.tensors, 0, NULL, &done) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(done == NULL && fixture_said(&c.f, "queue"));
    refused(&c, NULL, CLATTN_INVALID_ARGUMENT, "tensors");
    clattn_backward_tensors t = c.tensors;
    t.struct_size--;
    refused(&c, &t, CLATTN_INVALID_ARGUMENT, "struct_size");
    close(&c);
}

/* A plan of one direction, given to the call of the other. */
Test(gradient_calls, plan_of_another_operation) {
    const clattn_forward_tensors forward = {.struct_size = sizeof forward};
    struct call c;

    open(&c, plain);
    cr_expect(clattn_attention_forward(c.plan, c.f.queue, &forward, 0, NULL, NULL) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(fixture_said(&c.f, "not attention"));
    clattn_plan *backward = c.plan;
    c.plan = fixture_plan(&c.f, "fwd f32 h4/2 q40 k70 d24 causal=br", NULL);
    refused(&c, &c.tensors, CLATTN_INVALID_ARGUMENT, "not gradients");
    clattn_plan_release(c.plan);
    c.plan = backward;
    close(&c);
}

/* The buffer of a tensor that the problem has; NULL of others. */
static clattn_buffer *given(const struct call *c, clattn_backward_tensors *tensors, int id)
{
    return tensor_shape_of(&c->problem, (enum tensor_id)id).present
               ? tensor_backward_buffer(tensors, (enum tensor_id)id)
               : NULL;
}

/* Each tensor left out where the problem has it, and given where it has not. */
Test(gradient_calls, missing_and_superfluous_tensors) {
    struct call c;

    open(&c, everything);
    for (int id = 0; id < NUM_TENSORS; id++) {
        clattn_backward_tensors t = c.tensors;
        if (!given(&c, &t, id))
            continue;
        given(&c, &t, id)->buffer = NULL;
        refused(&c, &t, CLATTN_INVALID_ARGUMENT,
                tensor_shape_of(&c.problem, (enum tensor_id)id).name);
    }
    close(&c);
    open(&c, plain);
    cl_mem extra = fixture_buffer(&c.f, 64, NULL);
    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(&c.problem, (enum tensor_id)id);
        clattn_backward_tensors t = c.tensors;
        if (s.present || !tensor_backward_buffer(&t, (enum tensor_id)id))
            continue;
        tensor_backward_buffer(&t, (enum tensor_id)id)->buffer = extra;
        refused(&c, &t, CLATTN_INVALID_ARGUMENT, s.name);
    }
    clReleaseMemObject(extra);
    close(&c);
}

Test(gradient_calls, short_buffers) {
    clattn_plan_info info = {.struct_size = sizeof info};
    struct call c;

    open(&c, everything);
    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(&c.problem, (enum tensor_id)id);
        clattn_backward_tensors t = c.tensors;
        clattn_buffer *b = given(&c, &t, id);
        if (!b)
            continue;
        b->offset = 1;
        refused(&c, &t, CLATTN_BUFFER_TOO_SMALL, s.name);
        b->offset = SIZE_MAX / s.element_bytes; /* its bytes overflow */
        refused(&c, &t, CLATTN_BUFFER_TOO_SMALL, "reaches");
        b->offset = 0;
        b->buffer = fixture_buffer(&c.f, s.extent * s.element_bytes - 1, NULL);
        refused(&c, &t, CLATTN_BUFFER_TOO_SMALL, "reaches");
        clReleaseMemObject(b->buffer);
    }
    cr_assert(clattn_plan_describe(c.plan, &info) == CLATTN_SUCCESS && info.workspace_bytes > 0);
    clattn_backward_tensors t = c.tensors;
    t.workspace.buffer = fixture_buffer(&c.f, info.workspace_bytes - 1, NULL);
    refused(&c, &t, CLATTN_BUFFER_TOO_SMALL, "workspace");
    clReleaseMemObject(t.workspace.buffer);
    close(&c);
}

/* One buffer for two tensors: allowed for those that are read, never with one that is written. */
Test(gradient_calls, overlaps) {
    struct call c;

    open(&c, everything);
    for (int written = TENSOR_DQ; written < NUM_TENSORS; written++)
        for (int other = 0; other < NUM_TENSORS; other++) {
            clattn_backward_tensors t = c.tensors;
            clattn_buffer *place = given(&c, &t, other);
            if (!place || other == written)
                continue;
            cl_mem big = fixture_buffer(&c.f, 1 << 16, NULL);
            *place = (clattn_buffer){.buffer = big};
            *tensor_backward_buffer(&t, (enum tensor_id)written) = (clattn_buffer){.buffer = big};
            refused(&c, &t, CLATTN_INVALID_ARGUMENT, "overlaps");
            clReleaseMemObject(big);
        }
    clattn_backward_tensors t = c.tensors;
    t.d_o = t.o;
    cr_expect(clattn_attention_backward(c.plan, c.f.queue, &t, 0, NULL, NULL) == CLATTN_SUCCESS,
              "%s", c.f.log.last);
    close(&c);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "selfcheck/selfcheck.h"
#include "context/in_flight.h"
#include "execute/execute.h"
#include "execute/plan.h"
#include "families/candidate.h"
#include "os/clock.h"
#include "selfcheck/case.h"

static clattn_status run(clattn_context *ctx, const clattn_plan *plan, struct ca_trust_case *c,
                         double *launch_seconds)
{
    cl_mem buffers[CA_WORKSPACE] = {NULL};
    cl_int err;

    cl_command_queue queue = clCreateCommandQueue(ctx->cl, ctx->device.device, 0, &err);
    if (err != CL_SUCCESS)
        return ca_fail_cl(&ctx->log, err, "clCreateCommandQueue for a self-check");
    clattn_status status = ca_trust_case_upload(ctx, c, buffers);
    if (status == CLATTN_SUCCESS) {
        const struct ca_tensors tensors = ca_trust_case_tensors(c, buffers);
        const double begin = ca_stopwatch_now();
        status = ca_execute(plan, queue, &tensors, 0, NULL, NULL);
        if (status == CLATTN_SUCCESS && (err = clFinish(queue)) != CL_SUCCESS)
            status = ca_fail_cl(&ctx->log, err, "clFinish for a self-check");
        *launch_seconds += ca_stopwatch_now() - begin;
    }
    if (status == CLATTN_SUCCESS)
        status = ca_trust_case_download(ctx, c, queue, buffers);
    ca_finish(ctx, queue); /* after a failure too: kernels may still use the buffers */
    ca_trust_case_release(buffers);
    clReleaseCommandQueue(queue);
    return status;
}

/* The hostile case, which is freed. made: whether it was. */
static clattn_status judge(clattn_context *ctx, const struct ca_candidate *candidate,
                           struct ca_trust_case *c, int made, cl_program program,
                           double *launch_seconds, char why[CA_REASON_BYTES])
{
    clattn_plan *plan;
    char wrong[CA_REASON_BYTES];
    double error;

    if (!made && c->failure != CLATTN_SUCCESS)
        return c->failure;
    if (!made)
        return ca_fail(&ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for a self-check");
    const struct ca_problem problem = ca_problem_own(&c->problem);
    clattn_status status = ca_plan_make(ctx, candidate, "self-check", &problem, program, 0, &plan);
    if (status == CLATTN_SUCCESS) {
        status = run(ctx, plan, c, launch_seconds);
        clattn_plan_release(plan);
    }
    if (status == CLATTN_SUCCESS && ca_trust_case_judge(c, &error, wrong, sizeof wrong)) {
        char text[512];
        clattn_problem_print(&c->problem, text, sizeof text, NULL);
        ca_reason(why, CA_REASON_BYTES, "%s, in its self-check '%s'", wrong, text);
        status = CLATTN_MISCOMPILED;
    }
    ca_trust_case_free(c);
    return status;
}

clattn_status ca_trust_check(clattn_context *ctx, const struct ca_candidate *candidate,
                             const struct ca_problem *p, cl_program program, double *launch_seconds,
                             char why[CA_REASON_BYTES])
{
    struct ca_trust_case c;
    int made = ca_trust_case_make(&c, ctx, &p->normal, candidate, program);
    clattn_status status = judge(ctx, candidate, &c, made, program, launch_seconds, why);

    if (status == CLATTN_SUCCESS && candidate->family->copies_pieces &&
        ca_trust_has_pieces(&p->normal)) {
        made = ca_trust_case_make_in_pieces(&c, &p->normal);
        status = judge(ctx, candidate, &c, made, program, launch_seconds, why);
    }
    return status;
}

clattn_status ca_trust_check_weight_sums(clattn_context *ctx, const struct ca_candidate *candidate,
                                         const struct ca_problem *p, cl_program program,
                                         double *launch_seconds, char why[CA_REASON_BYTES])
{
    struct ca_trust_case c;
    const int made = ca_trust_case_make(&c, ctx, &p->normal, candidate, program);

    if (made)
        ca_trust_case_give(&c);
    return judge(ctx, candidate, &c, made, program, launch_seconds, why);
}

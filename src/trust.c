#include "trust.h"
#include "plan.h"
#include "trust_case.h"
#include <clattn/attention.h>

/* Copies the case's blocks to the device; outputs too, for their guard bands. */
static clattn_status upload(clattn_context *ctx, struct ca_trust_case *c, cl_mem *buffers)
{
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        cl_int err = CL_SUCCESS;
        if (c->bytes[n])
            buffers[n] = clCreateBuffer(ctx->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                        c->sizes[n], c->bytes[n], &err);
        if (err != CL_SUCCESS) {
            buffers[n] = NULL;
            return ca_fail_cl(&ctx->log, err, "clCreateBuffer for a self-check");
        }
    }
    return CLATTN_SUCCESS;
}

static clattn_status download(clattn_context *ctx, cl_command_queue queue, struct ca_trust_case *c,
                              cl_mem *buffers)
{
    static const enum ca_argument outputs[] = {CA_O, CA_LSE, CA_SCORES};

    for (size_t n = 0; n < sizeof outputs / sizeof *outputs; n++) {
        const enum ca_argument out = outputs[n];
        const cl_int err = c->bytes[out]
                               ? clEnqueueReadBuffer(queue, buffers[out], CL_TRUE, 0, c->sizes[out],
                                                     c->bytes[out], 0, NULL, NULL)
                               : CL_SUCCESS;
        if (err != CL_SUCCESS)
            return ca_fail_cl(&ctx->log, err, "clEnqueueReadBuffer for a self-check");
    }
    return CLATTN_SUCCESS;
}

static clattn_status run(clattn_context *ctx, const clattn_plan *plan, struct ca_trust_case *c)
{
    const size_t bytes = ca_dtype_bytes(c->problem.dtype);
    const size_t bias_bytes = ca_dtype_bytes(c->problem.bias_dtype);
    cl_mem buffers[CA_WORKSPACE] = {NULL};
    cl_int err;

    cl_command_queue queue = clCreateCommandQueue(ctx->cl, ctx->device.device, 0, &err);
    if (err != CL_SUCCESS)
        return ca_fail_cl(&ctx->log, err, "clCreateCommandQueue for a self-check");
    clattn_status status = upload(ctx, c, buffers);
    if (status == CLATTN_SUCCESS) {
        const clattn_forward tensors = {
            .struct_size = sizeof tensors,
            .q = {buffers[CA_Q], CA_TRUST_GUARD / bytes},
            .k = {buffers[CA_K], CA_TRUST_GUARD / bytes},
            .v = {buffers[CA_V], CA_TRUST_GUARD / bytes},
            .o = {buffers[CA_O], CA_TRUST_GUARD / bytes},
            .bias = {buffers[CA_BIAS], CA_TRUST_GUARD / bias_bytes},
            .mask = {buffers[CA_MASK], CA_TRUST_GUARD},
            .slopes = {buffers[CA_SLOPES], CA_TRUST_GUARD / 4},
            .sinks = {buffers[CA_SINKS], CA_TRUST_GUARD / 4},
            .q_lengths = {buffers[CA_Q_LENGTHS], CA_TRUST_GUARD / 4},
            .kv_lengths = {buffers[CA_KV_LENGTHS], CA_TRUST_GUARD / 4},
            .lse = {buffers[CA_LSE], CA_TRUST_GUARD / 4},
            .scores = {buffers[CA_SCORES], CA_TRUST_GUARD / 4},
        };
        status = clattn_attention_forward(plan, queue, &tensors, 0, NULL, NULL);
    }
    if (status == CLATTN_SUCCESS)
        status = download(ctx, queue, c, buffers);
    clFinish(queue); /* after a failure too: kernels may still use the buffers */
    for (size_t n = 0; n < CA_WORKSPACE; n++)
        if (buffers[n])
            clReleaseMemObject(buffers[n]);
    clReleaseCommandQueue(queue);
    return status;
}

clattn_status ca_trust_check(clattn_context *ctx, const struct ca_candidate *candidate,
                             const clattn_problem *p, cl_program program)
{
    struct ca_trust_case c;
    clattn_plan *plan;
    char why[CA_REASON_BYTES];

    if (!ca_trust_case_make(&c, p))
        return ca_fail(&ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for a self-check");
    clattn_status status = ca_plan_make(ctx, candidate, "self-check", &c.problem, program, &plan);
    if (status == CLATTN_SUCCESS) {
        status = run(ctx, plan, &c);
        clattn_plan_release(plan);
    }
    if (status == CLATTN_SUCCESS && ca_trust_case_judge(&c, why, sizeof why)) {
        char problem[512];
        clattn_problem_print(&c.problem, problem, sizeof problem, NULL);
        ca_warn(&ctx->log,
                "%s is miscompiled on '%s' (driver %s) and is not used: in its self-check '%s' %s",
                candidate->family->name, ctx->device.name, ctx->device.driver_version, problem, why);
        status = CLATTN_MISCOMPILED;
    }
    ca_trust_case_free(&c);
    return status;
}

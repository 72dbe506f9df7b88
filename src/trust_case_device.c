/* A case's blocks on the device. */
#include "problem.h"
#include "trust_case.h"

static const enum ca_argument outputs[] = {CA_O, CA_LSE, CA_SCORES};
enum { NUM_OUTPUTS = sizeof outputs / sizeof *outputs };

clattn_status ca_trust_case_upload(const clattn_context *ctx, const struct ca_trust_case *c,
                                   cl_mem buffers[CA_WORKSPACE])
{
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        cl_int err = CL_SUCCESS;
        buffers[n] = NULL;
        if (c->bytes[n]) /* outputs too, for their guard bands */
            buffers[n] = clCreateBuffer(ctx->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                        c->sizes[n], c->bytes[n], &err);
        if (err != CL_SUCCESS) {
            for (; n < CA_WORKSPACE; n++)
                buffers[n] = NULL;
            return ca_fail_cl(&ctx->log, err, "clCreateBuffer for a check");
        }
    }
    return CLATTN_SUCCESS;
}

clattn_status ca_trust_case_clear(const clattn_context *ctx, const struct ca_trust_case *c,
                                  cl_command_queue queue, const cl_mem buffers[CA_WORKSPACE])
{
    static const unsigned char fill[2] = {CA_TRUST_FILL, CA_TRUST_FILL};

    for (size_t n = 0; n < NUM_OUTPUTS; n++) {
        const enum ca_argument out = outputs[n];
        const cl_int err = buffers[out]
                               ? clEnqueueFillBuffer(queue, buffers[out], fill, sizeof fill, 0,
                                                     c->sizes[out], 0, NULL, NULL)
                               : CL_SUCCESS;
        if (err != CL_SUCCESS)
            return ca_fail_cl(&ctx->log, err, "clEnqueueFillBuffer for a check");
    }
    return CLATTN_SUCCESS;
}

clattn_status ca_trust_case_download(const clattn_context *ctx, struct ca_trust_case *c,
                                     cl_command_queue queue, const cl_mem buffers[CA_WORKSPACE])
{
    for (size_t n = 0; n < NUM_OUTPUTS; n++) {
        const enum ca_argument out = outputs[n];
        const cl_int err = buffers[out]
                               ? clEnqueueReadBuffer(queue, buffers[out], CL_TRUE, 0, c->sizes[out],
                                                     c->bytes[out], 0, NULL, NULL)
                               : CL_SUCCESS;
        if (err != CL_SUCCESS)
            return ca_fail_cl(&ctx->log, err, "clEnqueueReadBuffer for a check");
    }
    return CLATTN_SUCCESS;
}

clattn_forward ca_trust_case_tensors(const struct ca_trust_case *c,
                                     const cl_mem buffers[CA_WORKSPACE])
{
    const size_t first = CA_TRUST_GUARD / ca_dtype_bytes(c->problem.dtype);

    return (clattn_forward){
        .struct_size = sizeof(clattn_forward),
        .q = {buffers[CA_Q], first},
        .k = {buffers[CA_K], first},
        .v = {buffers[CA_V], first},
        .o = {buffers[CA_O], first},
        .bias = {buffers[CA_BIAS], CA_TRUST_GUARD / ca_dtype_bytes(c->problem.bias_dtype)},
        .mask = {buffers[CA_MASK], CA_TRUST_GUARD},
        .slopes = {buffers[CA_SLOPES], CA_TRUST_GUARD / 4},
        .sinks = {buffers[CA_SINKS], CA_TRUST_GUARD / 4},
        .q_lengths = {buffers[CA_Q_LENGTHS], CA_TRUST_GUARD / 4},
        .kv_lengths = {buffers[CA_KV_LENGTHS], CA_TRUST_GUARD / 4},
        .lse = {buffers[CA_LSE], CA_TRUST_GUARD / 4},
        .scores = {buffers[CA_SCORES], CA_TRUST_GUARD / 4},
    };
}

void ca_trust_case_release(cl_mem buffers[CA_WORKSPACE])
{
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        if (buffers[n])
            clReleaseMemObject(buffers[n]);
        buffers[n] = NULL;
    }
}

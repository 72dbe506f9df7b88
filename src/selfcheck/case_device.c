/* SPDX-License-Identifier: Apache-2.0 */
/* A case's blocks on the device. */
#include "execute/execute.h"
#include "problem/problem.h"
#include "selfcheck/case.h"

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
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(&c->problem, tensors);
    for (unsigned out = 0; out < CA_WORKSPACE; out++) {
        cl_int err = CL_SUCCESS;
        if (!buffers[out] || !tensors[out].written)
            continue;
        if (c->before[out])
            err = clEnqueueWriteBuffer(queue, buffers[out], CL_TRUE, 0, c->sizes[out],
                                       c->before[out], 0, NULL, NULL);
        else
            err = clEnqueueFillBuffer(queue, buffers[out], fill, sizeof fill, 0, c->sizes[out], 0,
                                      NULL, NULL);
        if (err != CL_SUCCESS)
            return ca_fail_cl(&ctx->log, err, "filling an output for a check");
    }
    return CLATTN_SUCCESS;
}

clattn_status ca_trust_case_download(const clattn_context *ctx, struct ca_trust_case *c,
                                     cl_command_queue queue, const cl_mem buffers[CA_WORKSPACE])
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(&c->problem, tensors);
    for (unsigned out = 0; out < CA_WORKSPACE; out++) {
        const cl_int err = buffers[out] && tensors[out].written
                               ? clEnqueueReadBuffer(queue, buffers[out], CL_TRUE, 0, c->sizes[out],
                                                     c->bytes[out], 0, NULL, NULL)
                               : CL_SUCCESS;
        if (err != CL_SUCCESS)
            return ca_fail_cl(&ctx->log, err, "clEnqueueReadBuffer for a check");
    }
    return CLATTN_SUCCESS;
}

struct ca_tensors ca_trust_case_tensors(const struct ca_trust_case *c,
                                        const cl_mem buffers[CA_WORKSPACE])
{
    struct ca_tensor shapes[CA_WORKSPACE];
    struct ca_tensors tensors = {.seed = CA_TRUST_SEED, .stream = CA_TRUST_STREAM};

    ca_problem_tensors(&c->problem, shapes);
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        const int plain = ca_problem_cache(&c->problem, (unsigned)n) == CLATTN_CACHE_PLAIN;
        const size_t guard = ca_trust_guard(&c->problem, n);
        if (buffers[n])
            tensors.at[n] =
                (clattn_buffer){.buffer = buffers[n],
                                .offset = guard / shapes[n].element_bytes * (plain ? 1 : CA_BLOCK)};
    }
    return tensors;
}

void ca_trust_case_release(cl_mem buffers[CA_WORKSPACE])
{
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        if (buffers[n])
            clReleaseMemObject(buffers[n]);
        buffers[n] = NULL;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* 21: tensors by their address. A program that computes on the host between its calls allocates shared
 * virtual memory (OpenCL 2.0) and hands out pointers: on CPUs and integrated GPUs nothing is copied. */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 200 /* for clSVMAlloc() */
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "example.h"

#include <math.h>
#include <string.h>

enum {
    HEADS = 2,
    QUERIES = 3,
    KEYS = 5,
    DIM = 4,
    Q = HEADS * QUERIES * DIM,
    K = HEADS * KEYS * DIM
};

/* Returns whether the host may use the memory without mapping it. */
static int has_fine_grains(const struct device *d, cl_device_svm_capabilities *capabilities)
{
    *capabilities = 0;
    clGetDeviceInfo(clattn_context_device(d->context)->device, CL_DEVICE_SVM_CAPABILITIES,
                    sizeof *capabilities, capabilities, NULL);
    return (*capabilities & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0;
}

static clattn_buffer tensor(float *memory, size_t count)
{
    return (clattn_buffer){.pointer = memory, .bytes = count * sizeof *memory};
}

/* The mean of a head's values, which queries of zeros get. */
static int is_mean(const float *o, const float *v)
{
    for (int n = 0; n < Q; n++) {
        const int head = n / (QUERIES * DIM), d = n % DIM;
        float mean = 0.0f;
        for (int j = 0; j < KEYS; j++)
            mean += v[(head * KEYS + j) * DIM + d] / KEYS;
        if (!(fabsf(o[n] - mean) < 1e-5f))
            return 0;
    }
    return 1;
}

int main(void)
{
    struct device d = open_device();
    cl_device_svm_capabilities capabilities;

    if (!has_fine_grains(&d, &capabilities)) {
        printf("the device has no fine-grained shared memory: buffers are for it\n");
        close_device(&d);
        return 0;
    }
    float *memory = clSVMAlloc(d.opencl, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER,
                               (2 * Q + 2 * K) * sizeof *memory, 0);
    check(memory != NULL, "clSVMAlloc");
    float *q = memory, *k = q + Q, *v = k + K, *o = v + K;
    memset(q, 0, Q * sizeof *q);
    for (int n = 0; n < K; n++) {
        k[n] = (float)(n % 7);
        v[n] = (float)(n * n % 11);
    }

    clattn_problem problem;
    clattn_plan *plan;
    clattn_problem_init(&problem);
    problem.heads = problem.kv_heads = HEADS;
    problem.seq_q = QUERIES;
    problem.seq_kv = KEYS;
    problem.dim_qk = problem.dim_v = DIM;
    check(clattn_plan_create(d.context, &problem, NULL, &plan) == CLATTN_SUCCESS, "plan");
    const clattn_forward_tensors tensors = {.struct_size = sizeof tensors,
                                            .q = tensor(q, Q),
                                            .k = tensor(k, K),
                                            .v = tensor(v, K),
                                            .o = tensor(o, Q)};
    check(clattn_attention_forward(plan, d.queue, &tensors, 0, NULL, NULL) == CLATTN_SUCCESS,
          "attention");
    check_opencl(clFinish(d.queue), "clFinish"); /* then the host sees o */
    const int right = is_mean(o, v);
    printf("o, where the host has it: %.3f %.3f %.3f %.3f\n", o[0], o[1], o[2], o[3]);

    clattn_plan_release(plan);
    clSVMFree(d.opencl, memory);
    close_device(&d);
    return right ? 0 : 1;
}

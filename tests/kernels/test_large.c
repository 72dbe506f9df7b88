/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets beyond 32 bits: a few rows of one tensor after the other lie as far apart as the device
 * allocates. Nothing touches what lies between them, so that an allocation which the system
 * backs page by page costs little. */
#include "families/family.h"
#include "families/registry.h"
#include "tests/support/families.h"
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

TestSuite(large, .init = unoptimised, .timeout = 300);

/* By operation. */
static const char *const problem_texts[] = {
    "fwd f16 b2 h2 q3 k5 d8 bias=f16:bhqk mask=bhqk",
    "bwd f16 b2 h2 q3 k5 d8 bias=f16:bhqk mask=bhqk dbias",
};

/* More than 2^32 bytes and 2^31 elements of two bytes, where the device gives so much. */
static size_t most_bytes(const struct fixture *f)
{
    const cl_ulong device = clattn_context_device(f->context)->max_allocation_bytes;
    const cl_ulong wanted = ((cl_ulong)1 << 32) + ((cl_ulong)1 << 30);

    return (size_t)(device < wanted ? device : wanted);
}

/* Stretches one axis so far that the last element of the tensor is the last of the buffer. */
static void stretch(clattn_layout *layout, const struct tensor_shape *s, const int axis,
                    const size_t elements)
{
    size_t others = 0;

    for (int n = 0; n < 4; n++)
        others += n == axis ? 0 : (s->size[n] - 1) * s->stride[n];
    memcpy(layout->stride, s->stride, sizeof s->stride);
    layout->stride[axis] = (elements - 1 - others) / (s->size[axis] - 1);
}

static clattn_layout *layout_of(clattn_problem *p, const enum tensor_id id)
{
    clattn_layout *const layouts[NUM_TENSORS] = {
        [TENSOR_Q] = &p->q,
        [TENSOR_K] = &p->k,
        [TENSOR_V] = &p->v,
        [TENSOR_O] = &p->o,
        [TENSOR_BIAS] = &p->bias_layout,
        [TENSOR_MASK] = &p->mask_layout,
        [TENSOR_DO] = &p->d_o,
        [TENSOR_DQ] = &p->dq,
        [TENSOR_DK] = &p->dk,
        [TENSOR_DV] = &p->dv,
    };

    return layouts[id];
}

/* Copies every row between the small host tensor and its places in the large buffer. */
static void copy_rows(struct fixture *f, struct host_tensor *x, const struct tensor_shape *large,
                      cl_mem buffer, const int to_device)
{
    const size_t bytes = x->shape.element_bytes, row = x->shape.size[3] * bytes;

    for (size_t b = 0; b < x->shape.size[0]; b++)
        for (size_t h = 0; h < x->shape.size[1]; h++)
            for (size_t i = 0; i < x->shape.size[2]; i++) {
                const size_t there = tensor_index(large, b, h, i, 0) * bytes;
                const size_t here = (x->offset + tensor_index(&x->shape, b, h, i, 0)) * bytes;
                const cl_int err = to_device
                                       ? clEnqueueWriteBuffer(f->queue, buffer, CL_TRUE, there, row,
                                                              x->bytes + here, 0, NULL, NULL)
                                       : clEnqueueReadBuffer(f->queue, buffer, CL_TRUE, there, row,
                                                             x->got + here, 0, NULL, NULL);
                cr_assert(err == CL_SUCCESS, "%d at byte %zu", err, there);
            }
}

/* Returns whether the operation has the tensor, and with strides of its own. */
static int has_layout(const clattn_operation operation, const enum tensor_id id)
{
    clattn_problem p = fixture_problem(problem_texts[operation]);

    return layout_of(&p, id) && tensor_shape_of(&p, id).present;
}

/* The bias's gradient has the bias's layout. */
static int is_large(const enum tensor_id stretched, const int id)
{
    return id == (int)stretched || (stretched == TENSOR_BIAS && id == TENSOR_DBIAS);
}

/* Stretches a tensor along an axis; buffers has room for it, and for the bias's gradient. */
static void run(struct fixture *f, const struct ca_family *family, const enum tensor_id id,
                const int axis, const cl_mem buffers[2], const size_t bytes)
{
    const clattn_plan_options options = {.struct_size = sizeof options,
                                         .family = family->full_name};
    struct trial t = {.problem = fixture_problem(problem_texts[family->operation]),
                      .family = family->full_name,
                      .seed = 3};
    struct tensor_arguments tensors = {.dropout_seed = 0};
    clattn_problem problem = t.problem;
    clattn_plan *plan;

    trial_fill(&t);
    stretch(layout_of(&problem, id), &t.tensor[id].shape, axis,
            bytes / t.tensor[id].shape.element_bytes);
    const struct tensor_shape large = tensor_shape_of(&problem, id);
    trial_copy(&t);
    for (int n = 0; n < NUM_TENSORS; n++) {
        struct host_tensor *x = &t.tensor[n];
        if (!x->bytes)
            continue;
        if (is_large(id, n)) {
            tensors.at[n].buffer = buffers[n == TENSOR_DBIAS];
            copy_rows(f, x, &large, tensors.at[n].buffer, 1);
        } else {
            tensors.at[n] = (clattn_buffer){.buffer = fixture_buffer(f, x->num_bytes, x->bytes),
                                            .offset = x->offset};
        }
    }
    fixture_need_groups_of(f, options.family);
    cr_assert(clattn_plan_create(f->context, &problem, &options, &plan) == CLATTN_SUCCESS, "%s",
              f->log.last);
    cr_assert(tensor_execute(problem.operation, plan, f->queue, &tensors, 0, NULL, NULL) ==
                  CLATTN_SUCCESS,
              "%s", f->log.last);
    cr_assert(clFinish(f->queue) == CL_SUCCESS);
    for (int n = 0; n < NUM_TENSORS; n++) {
        struct host_tensor *x = &t.tensor[n];
        if (!x->bytes)
            continue;
        if (is_large(id, n)) {
            copy_rows(f, x, &large, tensors.at[n].buffer, 0);
        } else {
            fixture_read(f, tensors.at[n].buffer, x->num_bytes, x->got);
            clReleaseMemObject(tensors.at[n].buffer);
        }
    }
    trial_check(&t);
    clattn_plan_release(plan);
    trial_free(&t);
}

static void run_operation(const clattn_operation operation)
{
    size_t families[MOST_FAMILIES];
    struct fixture f;
    cl_int errors[2];
    cl_mem buffers[2];

    fixture_open(&f);
    const size_t bytes = most_bytes(&f);
    for (int n = 0; n < 2; n++)
        buffers[n] = clCreateBuffer(f.opencl, CL_MEM_READ_WRITE, bytes, NULL, &errors[n]);
    if (errors[0] != CL_SUCCESS || errors[1] != CL_SUCCESS || bytes < (size_t)1 << 31)
        cr_skip_test("the device gives no buffers of %zu bytes (error %d)", bytes, errors[0]);
    const size_t count = families_taken(operation, family_takes_f32, 0, 5, families);
    for (size_t n = 0; n < count; n++)
        for (int id = 0; id < NUM_TENSORS; id++)
            for (int axis = 0; has_layout(operation, (enum tensor_id)id) && axis < 3; axis++)
                run(&f, ca_family_find(clattn_family_name(operation, families[n])),
                    (enum tensor_id)id, axis, buffers, bytes);
    clReleaseMemObject(buffers[1]);
    clReleaseMemObject(buffers[0]);
    fixture_close(&f);
}

Test(large, offsets_beyond_32_bits) {
    run_operation(CLATTN_FORWARD);
}

Test(large, offsets_of_gradients_beyond_32_bits) {
    run_operation(CLATTN_BACKWARD);
}

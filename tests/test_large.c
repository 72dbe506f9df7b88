/* Offsets beyond 32 bits: a few rows of one tensor after the other lie as far apart as the device
 * allocates. Nothing touches what lies between them, so that an allocation which the system
 * backs page by page costs little. */
#include "fixture.h"
#include "trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

TestSuite(large, .timeout = 300);

static const char problem_text[] = "fwd f16 b2 h2 q3 k5 d8 bias=f16:bhqk mask=bhqk";

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
    clattn_layout *const layouts[] = {&p->q, &p->k, &p->v, &p->o, &p->bias_layout, &p->mask_layout};

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

static void run(struct fixture *f, const char *family, const enum tensor_id id, const int axis,
                cl_mem buffer, const size_t bytes)
{
    const clattn_plan_options options = {.struct_size = sizeof options, .family = family};
    struct trial t = {.problem = fixture_problem(problem_text), .family = family, .seed = 3};
    clattn_forward tensors = {.struct_size = sizeof tensors};
    clattn_problem problem = t.problem;
    clattn_plan *plan;

    trial_fill(&t);
    stretch(layout_of(&problem, id), &t.tensor[id].shape, axis,
            bytes / t.tensor[id].shape.element_bytes);
    const struct tensor_shape large = tensor_shape_of(&problem, id);
    for (int n = 0; n < NUM_TENSORS; n++) {
        struct host_tensor *x = &t.tensor[n];
        if (!x->bytes)
            continue;
        x->got = malloc(x->num_bytes);
        cr_assert(x->got != NULL);
        memcpy(x->got, x->bytes, x->num_bytes);
        *tensor_buffer(&tensors, (enum tensor_id)n) =
            n == (int)id ? (clattn_buffer){buffer, 0}
                         : (clattn_buffer){fixture_buffer(f, x->num_bytes, x->bytes), x->offset};
    }
    copy_rows(f, &t.tensor[id], &large, buffer, 1);
    cr_assert(clattn_plan_create(f->context, &problem, &options, &plan) == CLATTN_SUCCESS, "%s",
              f->log.last);
    cr_assert(clattn_attention_forward(plan, f->queue, &tensors, 0, NULL, NULL) == CLATTN_SUCCESS,
              "%s", f->log.last);
    cr_assert(clFinish(f->queue) == CL_SUCCESS);
    copy_rows(f, &t.tensor[id], &large, buffer, 0);
    for (int n = 0; n < NUM_TENSORS; n++) {
        struct host_tensor *x = &t.tensor[n];
        cl_mem own = tensor_buffer(&tensors, (enum tensor_id)n)->buffer;
        if (!x->bytes || n == (int)id)
            continue;
        fixture_read(f, own, x->num_bytes, x->got);
        clReleaseMemObject(own);
    }
    trial_check(&t);
    clattn_plan_release(plan);
    trial_free(&t);
}

Test(large, offsets_beyond_32_bits) {
    struct fixture f;
    cl_int err;

    fixture_open(&f);
    const size_t bytes = most_bytes(&f);
    cl_mem buffer = clCreateBuffer(f.opencl, CL_MEM_READ_WRITE, bytes, NULL, &err);
    if (err != CL_SUCCESS || bytes < (size_t)1 << 31)
        cr_skip_test("the device gives no buffer of %zu bytes (error %d)", bytes, err);
    for (size_t family = 0; clattn_family_name(CLATTN_FORWARD, family); family++)
        for (int id = TENSOR_Q; id <= TENSOR_MASK; id++)
            for (int axis = 0; axis < 3; axis++)
                run(&f, clattn_family_name(CLATTN_FORWARD, family), (enum tensor_id)id, axis,
                    buffer, bytes);
    clReleaseMemObject(buffer);
    fixture_close(&f);
}

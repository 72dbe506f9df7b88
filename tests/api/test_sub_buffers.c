/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradients with all tensors and the workspace in sub-buffers of one buffer.
 * The sub-buffers have origins other than zero, and the tensors offsets within them. */
#include "families/family.h"
#include "families/registry.h"
#include "tests/support/families.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

TestSuite(sub_buffers, .init = unoptimised, .timeout = 300);

enum { WORKSPACE = NUM_TENSORS, NUM_PLACES, WORKSPACE_OFFSET = 37 };

/* The buffer around them; whatever is nobody's is 0xff. */
struct yard {
    cl_mem buffer;
    unsigned char *image; /* what it holds */
    size_t bytes;
    size_t origin[NUM_PLACES], length[NUM_PLACES]; /* of the sub-buffers */
};

static void plan_yard(const struct fixture *f, const struct trial *t, size_t workspace_bytes,
                      struct yard *yard)
{
    cl_uint align = 0; /* in bits */

    clGetDeviceInfo(f->device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof align, &align, NULL);
    const size_t step = align > 8 ? align / 8 : 1;
    memset(yard, 0, sizeof *yard);
    for (int id = 0; id < NUM_TENSORS; id++)
        yard->length[id] = t->tensor[id].num_bytes;
    yard->length[WORKSPACE] = 4 * (WORKSPACE_OFFSET + (workspace_bytes + 3) / 4);
    for (int id = 0; id < NUM_PLACES; id++) {
        yard->origin[id] = yard->bytes + step;
        yard->bytes = yard->origin[id] + (yard->length[id] + step - 1) / step * step;
    }
    yard->bytes += step;
}

static cl_mem sub_buffer(const struct yard *yard, int id)
{
    const cl_buffer_region region = {yard->origin[id], yard->length[id]};
    cl_int err;
    cl_mem buffer = clCreateSubBuffer(yard->buffer, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION,
                                      &region, &err);

    cr_assert(err == CL_SUCCESS, "clCreateSubBuffer at %zu: %d", region.origin, err);
    return buffer;
}

static struct tensor_arguments send(struct fixture *f, const struct trial *t, struct yard *yard)
{
    struct tensor_arguments tensors = {.at = {{.buffer = NULL}}};

    yard->image = malloc(yard->bytes);
    cr_assert(yard->image != NULL);
    memset(yard->image, 0xff, yard->bytes);
    for (int id = 0; id < NUM_TENSORS; id++)
        if (t->tensor[id].bytes)
            memcpy(yard->image + yard->origin[id], t->tensor[id].bytes, yard->length[id]);
    yard->buffer = fixture_buffer(f, yard->bytes, yard->image);
    for (int id = 0; id < NUM_TENSORS; id++)
        if (t->tensor[id].bytes)
            tensors.at[id] =
                (clattn_buffer){.buffer = sub_buffer(yard, id), .offset = t->tensor[id].offset};
    tensors.workspace =
        (clattn_buffer){.buffer = sub_buffer(yard, WORKSPACE), .offset = WORKSPACE_OFFSET};
    return tensors;
}

/* Nothing was written between the sub-buffers, nor before the workspace in its own. */
static void check_yard(struct fixture *f, const struct yard *yard)
{
    size_t end = 0;

    fixture_read(f, yard->buffer, yard->bytes, yard->image);
    for (int id = 0; id <= NUM_PLACES; id++) {
        const size_t next = id == NUM_PLACES  ? yard->bytes
                            : id == WORKSPACE ? yard->origin[id] + 4 * WORKSPACE_OFFSET
                                              : yard->origin[id];
        for (; end < next; end++)
            cr_assert(yard->image[end] == 0xff, "byte %zu, before sub-buffer %d, was written", end,
                      id);
        end = id == NUM_PLACES ? end : yard->origin[id] + yard->length[id];
    }
}

static struct criterion_test_params all_families(void)
{
    enum { MOST = 64 };
    static size_t families[MOST];
    size_t count = 0;

    for (size_t n = 0; ca_family_at(n) && count < MOST; n++)
        if (ca_family_at(n)->operation <= CLATTN_BACKWARD && run_takes(n, 6))
            families[count++] = n; /* the others in the next runs */
    return cr_make_param_array(size_t, families, count);
}

ParameterizedTestParameters(sub_buffers, every_family) {
    return all_families();
}

ParameterizedTest(size_t *family, sub_buffers, every_family) {
    static const char *const texts[] = {/* by operation */
                                        "fwd f16 b2 h4/2 q37 k70 d24 bias=f32:hqk causal=br lse",
                                        "bwd f32 b2 h4/2 q37 k70 d24 causal=br bias=f16:hqk sinks "
                                        "dbias dsinks"};
    static const char *const of_dim_64[] = {"fwd f16 b2 h4/2 q70 k70 d64 causal=br lse",
                                            "bwd f16 b2 h4/2 q70 k70 d64 causal=br sinks dsinks"};
    const struct ca_family *of = ca_family_at(*family);
    const char *const any =
        (family_takes_any_dims(of->full_name) ? texts : of_dim_64)[of->operation];
    const char *text = family_text(of->full_name, any);
    struct trial t = {.problem = fixture_problem(text), .family = of->full_name, .seed = 5};
    clattn_plan_info info = {.struct_size = sizeof info};
    struct fixture f;
    struct yard yard;

    fixture_open(&f);
    clattn_plan *plan = fixture_plan(&f, text, of->full_name);
    cr_assert(clattn_plan_describe(plan, &info) == CLATTN_SUCCESS);
    trial_fill(&t);
    plan_yard(&f, &t, info.workspace_bytes, &yard);
    struct tensor_arguments tensors = send(&f, &t, &yard);
    cr_assert(tensor_execute(of->operation, plan, f.queue, &tensors, 0, NULL, NULL) ==
                  CLATTN_SUCCESS,
              "%s", f.log.last);
    check_yard(&f, &yard);
    trial_receive(&f, &t, &tensors); /* releases what it reads */
    trial_check(&t);
    clReleaseMemObject(tensors.workspace.buffer);
    clReleaseMemObject(yard.buffer);
    free(yard.image);
    clattn_plan_release(plan);
    trial_free(&t);
    fixture_close(&f);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/part_plan.h"

#include <stdlib.h>
#include <string.h>

clattn_problem part_problem(const clattn_mpi_plan *plan, const struct part *part)
{
    clattn_problem p = part_shape(&plan->whole, plan->heads, plan->kv_heads, part);

    p.bias_layout = plan->local.bias_layout;
    p.mask_layout = plan->local.mask_layout;
    p.lse = 1;
    p.o_f32 = p.dtype != CLATTN_F32;
    return p;
}

clattn_layout layout_of(const struct tensor tensor)
{
    return (clattn_layout){{tensor.stride[0], tensor.stride[1], tensor.stride[2], 1}};
}

/* The oldest plan is dropped: lengths that differ from call to call would need more and more plans.
 * */
static struct part_plan *new_entry(clattn_mpi_plan *plan)
{
    if (plan->num_plans < PART_PLANS)
        return &plan->plans[plan->num_plans++];
    clattn_plan_release(plan->plans[0].plan);
    free(plan->plans[0].text);
    memmove(plan->plans, plan->plans + 1, (PART_PLANS - 1) * sizeof *plan->plans);
    return &plan->plans[PART_PLANS - 1];
}

const clattn_plan *part_plan(clattn_mpi_plan *plan, const clattn_problem *p)
{
    size_t bytes = 0;
    clattn_plan *made = NULL;

    if (!fault_none(&plan->fault))
        return NULL;
    (void)clattn_problem_print(p, NULL, 0, &bytes);
    char *text = malloc(bytes + 1);
    if (!text) {
        fault_set(&plan->fault, CLATTN_OUT_OF_MEMORY, "no host memory for a plan's text");
        return NULL;
    }
    (void)clattn_problem_print(p, text, bytes + 1, NULL);
    for (size_t n = 0; n < plan->num_plans; n++)
        if (strcmp(plan->plans[n].text, text) == 0) {
            free(text);
            return plan->plans[n].plan;
        }
    const clattn_status status = clattn_plan_create(plan->context, p, plan->options, &made);
    if (status != CLATTN_SUCCESS) {
        fault_set(&plan->fault, status, "no plan for its part %.160s: %s", text,
                  clattn_status_string(status));
        free(text);
        return NULL;
    }
    *new_entry(plan) = (struct part_plan){text, made};
    return made;
}

void part_plans_release(clattn_mpi_plan *plan)
{
    for (size_t n = 0; n < plan->num_plans; n++) {
        clattn_plan_release(plan->plans[n].plan);
        free(plan->plans[n].text);
    }
    plan->num_plans = 0;
}

clattn_buffer part_workspace(clattn_mpi_plan *plan, const clattn_plan *of)
{
    clattn_plan_info info = {.struct_size = sizeof info};

    if (!of || clattn_plan_describe(of, &info) != CLATTN_SUCCESS || info.workspace_bytes == 0)
        return (clattn_buffer){.buffer = NULL};
    return (clattn_buffer){.buffer = pool_take(plan, POOL_WORKSPACE, info.workspace_bytes)};
}

/* ---- lengths and starts ----------------------------------------------------------------------- */

static cl_int within_range(const size_t x, const struct span range)
{
    if (x <= range.first)
        return 0;
    return (cl_int)(x < span_end(range) ? x - range.first : range.count);
}

/* Allocates a separate buffer, which lives until its readers have finished. */
static cl_mem ints_of(clattn_mpi_plan *plan, const size_t count)
{
    cl_int error;

    if (!fault_none(&plan->fault))
        return NULL;
    cl_mem buffer = clCreateBuffer(clattn_context_opencl(plan->context),
                                   CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                   (count ? count : 1) * sizeof *plan->ints, plan->ints, &error);
    return fault_cl(&plan->fault, error, "clCreateBuffer") ? buffer : NULL;
}

static cl_mem lengths_of(clattn_mpi_plan *plan, const struct part *part, const cl_int *lengths,
                         const struct span range)
{
    for (size_t n = 0; n < part->batches; n++) {
        const cl_int length = lengths[part->batch + n];
        plan->ints[n] = within_range(length < 0 ? 0 : (size_t)length, range);
    }
    return ints_of(plan, part->batches);
}

static cl_mem starts_of(clattn_mpi_plan *plan, const struct part *part, const cl_int *starts,
                        const struct span range)
{
    for (size_t n = 0; n <= part->batches; n++)
        plan->ints[n] = within_range((size_t)starts[n], range);
    return ints_of(plan, part->batches + 1);
}

void part_ints_make(clattn_mpi_plan *plan, const struct lengths *lengths, const struct part *part,
                    const clattn_problem *p, struct part_ints *ints)
{
    *ints = (struct part_ints){{NULL}};
    if (plan->dry)
        return;
    if (p->q_lengths)
        ints->at[0] = lengths_of(plan, part, lengths->q_lengths, part->q);
    if (p->kv_lengths)
        ints->at[1] = lengths_of(plan, part, lengths->kv_lengths, part->kv);
    if (p->total_q)
        ints->at[2] = starts_of(plan, part, lengths->q_starts, part->q);
    if (p->total_kv)
        ints->at[3] = starts_of(plan, part, lengths->kv_starts, part->kv);
}

void part_ints_release(struct part_ints *ints)
{
    for (size_t n = 0; n < sizeof ints->at / sizeof *ints->at; n++)
        if (ints->at[n])
            clReleaseMemObject(ints->at[n]);
}

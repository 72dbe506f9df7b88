/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/plan.h"
#include "base/structs.h"
#include "execute/kept_marks.h"
#include "execute/launch.h"
#include "families/candidate.h"
#include "families/limits.h"
#include "problem/layout.h"
#include "program/program.h"

#include <stdlib.h>
#include <string.h>

/* ---- kernels --------------------------------------------------------------------------------- */

struct ca_kernels *ca_kernels_take(const clattn_plan *plan)
{
    for (;;) {
        for (size_t n = 0; n < CA_KERNEL_COPIES; n++)
            if (!atomic_flag_test_and_set_explicit(&plan->kernels[n].taken, memory_order_acquire))
                return &plan->kernels[n];
        ca_yield();
    }
}

void ca_kernels_give_back(struct ca_kernels *kernels)
{
    atomic_flag_clear_explicit(&kernels->taken, memory_order_release);
}

static clattn_status create_kernels(clattn_plan *plan, cl_program program)
{
    const struct ca_family *family = plan->candidate.family;
    union ca_shape shape;
    const size_t shape_bytes = ca_shape_of(&plan->problem.normal, &plan->problem.normal, &shape);
    const struct ca_log *log = &plan->context->log;
    cl_int err;

    if (!program)
        return CLATTN_SUCCESS;
    plan->kernels = calloc(CA_KERNEL_COPIES, sizeof *plan->kernels);
    if (!plan->kernels)
        return ca_fail(log, CLATTN_OUT_OF_MEMORY, "no host memory for a plan");
    for (size_t n = 0; n < CA_KERNEL_COPIES; n++) {
        atomic_flag_clear(&plan->kernels[n].taken);
        for (size_t s = 0; s < family->num_stages; s++) {
            cl_kernel *kernel = &plan->kernels[n].stage[s];
            if (!plan->runs[s])
                continue;
            *kernel = clCreateKernel(program, family->stages[s].kernel, &err);
            if (err != CL_SUCCESS) {
                *kernel = NULL;
                return ca_fail_cl(log, err, "clCreateKernel(%s)", family->stages[s].kernel);
            }
            err = clSetKernelArg(*kernel, 0, shape_bytes, &shape);
            if (err != CL_SUCCESS)
                return ca_fail_cl(log, err, "clSetKernelArg(%s, shape)", family->stages[s].kernel);
        }
    }
    return CLATTN_SUCCESS;
}

/* ---- making and releasing -------------------------------------------------------------------- */

static void describe_operands(clattn_plan *plan)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(&plan->problem.normal, tensors);
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        struct ca_operand *operand = &plan->operands[n];
        *operand =
            (struct ca_operand){.name = tensors[n].name,
                                .present = tensors[n].present,
                                .written = tensors[n].written,
                                .element_bytes = tensors[n].element_bytes,
                                .cache = ca_problem_cache(&plan->problem.normal, (unsigned)n),
                                .layout = tensors[n].layout};
        memcpy(operand->sizes, tensors[n].sizes, sizeof operand->sizes);
        ca_layout_span(&tensors[n].layout, tensors[n].sizes, &operand->span); /* was checked */
    }
    for (size_t s = 0; s < plan->candidate.family->num_stages; s++)
        plan->takes[s] =
            ca_stage_takes(&plan->candidate.family->stages[s], &plan->problem, tensors);
    plan->operands[CA_WORKSPACE] = (struct ca_operand){
        .name = "workspace",
        .present = 1, /* a memory that is retained once too often does no harm */
        .written = 1,
        .element_bytes = sizeof(cl_float),
        .span = (plan->workspace_bytes + sizeof(cl_float) - 1) / sizeof(cl_float),
        .optional = 1};
}

static void size_stages(clattn_plan *plan)
{
    const struct ca_family *family = plan->candidate.family;

    plan->empty = 1;
    if (ca_problem_empty(&plan->problem.normal))
        return;
    if (family->workspace_bytes)
        plan->workspace_bytes = family->workspace_bytes(&plan->problem, plan->candidate.values);
    for (size_t s = 0; s < family->num_stages; s++) {
        const struct ca_ndrange range = ca_stage_range(
            &family->stages[s], &plan->problem, plan->candidate.values, &plan->context->device);
        plan->range[s] = range;
        plan->runs[s] = range.global[0] && range.global[1] && range.global[2];
        plan->empty = plan->empty && !plan->runs[s];
    }
}

static clattn_status print_texts(clattn_plan *plan, const char *why)
{
    const clattn_problem *problem = &plan->problem.given;
    const struct ca_family *family = plan->candidate.family;
    size_t bytes = 0;

    ca_tunables_print(family->tunables, family->num_tunables, plan->candidate.values,
                      plan->tunables_text, sizeof plan->tunables_text);
    clattn_problem_print(problem, NULL, 0, &bytes);
    plan->problem_text = malloc(bytes);
    plan->why = malloc(strlen(why) + 1);
    if (plan->why)
        strcpy(plan->why, why);
    if (!plan->problem_text || !plan->why)
        return ca_fail(&plan->context->log, CLATTN_OUT_OF_MEMORY, "no host memory for a plan");
    return clattn_problem_print(problem, plan->problem_text, bytes, NULL);
}

clattn_status ca_plan_make(clattn_context *context, const struct ca_candidate *candidate,
                           const char *why, const struct ca_problem *problem, cl_program program,
                           int keep, clattn_plan **plan)
{
    clattn_plan *made = calloc(1, sizeof *made);

    *plan = NULL;
    if (!made && keep)
        ca_program_put_back(context, program);
    if (!made)
        return ca_fail(&context->log, CLATTN_OUT_OF_MEMORY, "no host memory for a plan");
    ca_context_retain(context);
    made->context = context;
    made->candidate = *candidate;
    made->program = keep ? program : NULL;
    made->problem = *problem;
    size_stages(made);
    describe_operands(made);
    clattn_status status = print_texts(made, why);
    if (status == CLATTN_SUCCESS)
        status = create_kernels(made, program);
    if (status == CLATTN_SUCCESS)
        made->kept =
            ca_kept_marks_make(context->cl, candidate, &made->problem, made->workspace_bytes);
    if (status != CLATTN_SUCCESS) {
        clattn_plan_release(made);
        return status;
    }
    *plan = made;
    return CLATTN_SUCCESS;
}

void clattn_plan_release(clattn_plan *plan)
{
    /* a forked child releases nothing, as in clattn_context_release() */
    if (!plan || plan->context->forks != ca_forks())
        return;
    clattn_plan_release(plan->then);
    clattn_plan_release(plan->lists);
    clattn_plan_release(plan->copies);
    for (size_t n = 0; plan->kernels && n < CA_KERNEL_COPIES; n++)
        for (size_t s = 0; s < CA_MAX_STAGES; s++)
            if (plan->kernels[n].stage[s])
                clReleaseKernel(plan->kernels[n].stage[s]);
    free(plan->kernels);
    ca_kept_marks_release(plan->kept);
    free(plan->problem_text);
    free(plan->why);
    ca_program_put_back(plan->context, plan->program);
    clattn_context_release(plan->context);
    free(plan);
}

clattn_status clattn_plan_describe(const clattn_plan *plan, clattn_plan_info *info)
{
    char why[CA_REASON_BYTES];

    if (!plan)
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "plan is null");
    if (!CA_FILLABLE(clattn_plan_info, "info", info, why))
        return ca_fail(&plan->context->log, CLATTN_INVALID_ARGUMENT, "%s", why);
    const struct ca_family *family = plan->candidate.family;
    const struct ca_problem *p = &plan->problem;
    const size_t *values = plan->candidate.values;
    clattn_plan_info known = {.family = family->name,
                              .tunables = plan->tunables_text,
                              .reason = plan->why,
                              .problem = ca_plan_whole(plan)->problem_text,
                              .workspace_bytes = plan->workspace_bytes};
    for (size_t s = 0; s < family->num_stages; s++) {
        const size_t *local = plan->range[s].local;
        const size_t items = plan->runs[s] ? local[0] * local[1] * local[2] : 0;
        if (items > known.work_group_size)
            known.work_group_size = items;
    }
    if (!plan->empty && family->local_bytes)
        known.local_bytes = family->local_bytes(p, values);
    if (!plan->empty && family->private_bytes)
        known.private_bytes = family->private_bytes(p, values);
    ca_struct_fill(info, &known, sizeof known);
    return CLATTN_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/structs.h"
#include "context/context.h"
#include "multihead/multihead.h"
#include "selfcheck/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- steps ----------------------------------------------------------------------------------- */

static clattn_status plan_step(clattn_multihead_plan *made, const struct ca_step *step,
                               unsigned flags)
{
    const clattn_plan_options options = {.struct_size = sizeof options, .flags = flags};
    struct ca_ready_step *ready = &made->steps[made->num_steps];
    clattn_plan *plan;

    const clattn_status status = clattn_plan_create(made->context, &step->problem, &options, &plan);
    if (status != CLATTN_SUCCESS)
        return ca_fail(&made->context->log, status, "no plan for step '%s' of '%s'", step->name,
                       made->layer_text);
    if (plan->empty) {
        clattn_plan_release(plan);
        return CLATTN_SUCCESS;
    }
    *ready = (struct ca_ready_step){.step = *step, .plan = plan};
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        const struct ca_operand *operand = &plan->operands[n];
        const uint64_t place = CA_PLACE(step->at[n].place);
        if (operand->present && operand->written)
            ready->writes |= place;
        if (operand->present && operand->written != 1)
            ready->reads |= place;
    }
    for (size_t n = 0; n < made->num_steps; n++)
        if (made->steps[n].writes & ready->reads)
            ready->after |= 1u << n;
    ready->workspace = made->workspace_bytes;
    made->workspace_bytes +=
        (plan->workspace_bytes + CA_REGION_ALIGN - 1) / CA_REGION_ALIGN * CA_REGION_ALIGN;
    made->num_steps++;
    return CLATTN_SUCCESS;
}

static clattn_status make_constants(clattn_multihead_plan *made)
{
    const size_t heads = made->layer.attention.heads;
    const size_t bytes = CA_MEAN_BYTES + heads * sizeof(cl_float);
    uint64_t needed = 0;
    cl_int err;

    for (size_t n = 0; n < made->num_steps; n++)
        needed |= made->steps[n].reads;
    if (!(needed & CA_PLACE(CA_AT_CONSTANTS)) || !made->context->cl)
        return CLATTN_SUCCESS;
    cl_float *values = calloc(1, bytes);
    if (!values)
        return ca_fail(&made->context->log, CLATTN_OUT_OF_MEMORY, "no host memory for a plan");
    ca_value_store((unsigned char *)values, made->layer.attention.dtype, 0, 1.0f);
    for (size_t h = 0; h < heads; h++)
        values[CA_MEAN_BYTES / sizeof *values + h] = 1.0f / (float)heads;
    made->constants = clCreateBuffer(made->context->cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                     bytes, values, &err);
    free(values);
    if (err == CL_SUCCESS)
        return CLATTN_SUCCESS;
    made->constants = NULL;
    return ca_fail_cl(&made->context->log, err, "clCreateBuffer for a layer's constants");
}

/* ---- texts ----------------------------------------------------------------------------------- */

static clattn_status print_layer(clattn_multihead_plan *made)
{
    size_t bytes = 0;

    clattn_multihead_print(&made->layer, NULL, 0, &bytes);
    made->layer_text = malloc(bytes);
    if (!made->layer_text)
        return ca_fail(&made->context->log, CLATTN_OUT_OF_MEMORY, "no host memory for a plan");
    return clattn_multihead_print(&made->layer, made->layer_text, bytes, NULL);
}

static size_t print_steps(const clattn_multihead_plan *made, char *text, size_t text_bytes)
{
    size_t length = 0;

    for (size_t n = 0; n < made->num_steps; n++) {
        const clattn_plan *plan = made->steps[n].plan;
        const int more =
            snprintf(text_bytes ? text + length : NULL, text_bytes ? text_bytes - length : 0,
                     "%s: %s (%s): %s\n", made->steps[n].step.name, plan->candidate.family->name,
                     plan->tunables_text, plan->problem_text);
        length += more > 0 ? (size_t)more : 0;
    }
    return length;
}

static clattn_status describe_steps(clattn_multihead_plan *made)
{
    const size_t bytes = print_steps(made, NULL, 0) + 1;

    made->steps_text = calloc(1, bytes);
    if (!made->steps_text)
        return ca_fail(&made->context->log, CLATTN_OUT_OF_MEMORY, "no host memory for a plan");
    print_steps(made, made->steps_text, bytes);
    return CLATTN_SUCCESS;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static clattn_status make(clattn_multihead_plan *made, unsigned flags)
{
    struct ca_steps steps;
    clattn_status status = print_layer(made);

    if (status != CLATTN_SUCCESS)
        return status;
    ca_layer_steps(&made->layer, &steps);
    memcpy(made->regions, steps.regions, sizeof made->regions);
    made->workspace_bytes = steps.workspace_bytes;
    made->reserve_bytes = steps.reserve_bytes;
    ca_layer_operands(&made->layer, &steps, made->operands);
    for (size_t n = 0; n < steps.count; n++)
        if ((status = plan_step(made, &steps.list[n], flags)) != CLATTN_SUCCESS)
            return status;
    made->operands[CA_AT_WORKSPACE].span = made->workspace_bytes / sizeof(cl_float);
    if ((status = make_constants(made)) != CLATTN_SUCCESS)
        return status;
    return describe_steps(made);
}

clattn_status clattn_multihead_plan_create(clattn_context *context, const clattn_multihead *layer,
                                           unsigned flags, clattn_multihead_plan **plan)
{
    char reason[2 * CA_REASON_BYTES];

    if (plan)
        *plan = NULL;
    if (ca_context_check(context) != CLATTN_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    if (!plan)
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT, "plan is null");
    if (flags & ~(unsigned)(CLATTN_PLAN_KNOWN_ONLY | CLATTN_PLAN_UNTUNED))
        return ca_fail(&context->log, CLATTN_INVALID_ARGUMENT,
                       "flags is %#x but a layer's plan knows only known-only and untuned", flags);
    clattn_status status = clattn_multihead_check(layer, reason, sizeof reason);
    if (status != CLATTN_SUCCESS)
        return ca_fail(&context->log, status, "%s", reason);
    clattn_multihead_plan *made = calloc(1, sizeof *made);
    if (!made)
        return ca_fail(&context->log, CLATTN_OUT_OF_MEMORY, "no host memory for a plan");
    ca_context_retain(context);
    made->context = context;
    made->layer = *layer;
    status = make(made, flags);
    if (status != CLATTN_SUCCESS) {
        clattn_multihead_plan_release(made);
        return status;
    }
    *plan = made;
    return CLATTN_SUCCESS;
}

void clattn_multihead_plan_release(clattn_multihead_plan *plan)
{
    /* a forked child releases nothing, as in clattn_context_release() */
    if (!plan || plan->context->forks != ca_forks())
        return;
    for (size_t n = 0; n < plan->num_steps; n++)
        clattn_plan_release(plan->steps[n].plan);
    if (plan->constants)
        clReleaseMemObject(plan->constants);
    free(plan->steps_text);
    free(plan->layer_text);
    clattn_context_release(plan->context);
    free(plan);
}

clattn_status clattn_multihead_plan_describe(const clattn_multihead_plan *plan,
                                             clattn_multihead_info *info)
{
    char why[CA_REASON_BYTES];

    if (!plan)
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "plan is null");
    if (!CA_FILLABLE(clattn_multihead_info, "info", info, why))
        return ca_fail(&plan->context->log, CLATTN_INVALID_ARGUMENT, "%s", why);
    const clattn_multihead_info known = {.layer = plan->layer_text,
                                         .steps = plan->steps_text,
                                         .num_steps = plan->num_steps,
                                         .workspace_bytes = plan->workspace_bytes,
                                         .reserve_bytes = plan->reserve_bytes};
    ca_struct_fill(info, &known, sizeof known);
    return CLATTN_SUCCESS;
}

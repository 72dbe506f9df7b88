/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/timing/engine.h"

#include <clattn/clattn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fail(const struct target *target, const char *what, clattn_status status,
                 struct message *why)
{
    return message_set(why, "%s: %s: %s", what, clattn_status_string(status), target->log.text);
}

/* ---- executing ------------------------------------------------------------------------------- */

/* The buffer of an operand that the call reads, or writes. */
#define SET(role, ID) SET_OF(role, ID)
#define SET_OF(role, ID) SET_##role(ID)
#define SET_input(ID) set->in[INPUT_##ID]
#define SET_output(ID) set->out[OUTPUT_##ID]

/* The rest of the arguments if a layer passes the operand through: as an input, or as a gradient. */
#define IF_INPUT_INPUT(...) __VA_ARGS__
#define IF_INPUT_LAST(...)
#define IF_INPUT_GRADIENT(...)
#define IF_INPUT_OWN(...)
#define IF_LAST_INPUT(...)
#define IF_LAST_LAST(...) __VA_ARGS__
#define IF_LAST_GRADIENT(...)
#define IF_LAST_OWN(...)
#define IF_GRADIENT_INPUT(...)
#define IF_GRADIENT_LAST(...)
#define IF_GRADIENT_GRADIENT(...) __VA_ARGS__
#define IF_GRADIENT_OWN(...)

/* What a mask function's operands and the lengths hold does not change from one execution to the next. */
enum { UNCHANGED = 1 };

clattn_forward_tensors engine_forward(const struct tensor_set *set)
{
    return (clattn_forward_tensors){
        .struct_size = sizeof(clattn_forward_tensors),
#define OPERAND(ID, member, GIVEN, WRITER, ...)                                                    \
    CA_OF_FORWARD(GIVEN, .member = SET(CA_FORWARD_ROLE_##WRITER, ID), )
        CA_OPERANDS(OPERAND)
#undef OPERAND
            .workspace = set->workspace,
        .dropout_seed = CASE_DROPOUT_SEED,
        .function_version = UNCHANGED,
    };
}

static clattn_status run_forward(const struct engine *e, const struct tensor_set *set,
                                 cl_event *done)
{
    const clattn_forward_tensors tensors = engine_forward(set);

    return clattn_attention_forward(e->plan, e->target->queue, &tensors, 0, NULL, done);
}

clattn_backward_tensors engine_backward(const struct tensor_set *set)
{
    return (clattn_backward_tensors){
        .struct_size = sizeof(clattn_backward_tensors),
#define OPERAND(ID, member, GIVEN, WRITER, ...)                                                    \
    CA_OF_BACKWARD(GIVEN, .member = SET(CA_BACKWARD_ROLE_##WRITER, ID), )
        CA_OPERANDS(OPERAND)
#undef OPERAND
            .workspace = set->workspace,
        .dropout_seed = CASE_DROPOUT_SEED,
        .function_version = UNCHANGED,
    };
}

static clattn_status run_backward(const struct engine *e, const struct tensor_set *set,
                                  cl_event *done)
{
    const clattn_backward_tensors tensors = engine_backward(set);

    return clattn_attention_backward(e->plan, e->target->queue, &tensors, 0, NULL, done);
}

/* Executes an operation besides attention. */
static clattn_status run_own(const struct engine *e, const struct tensor_set *set, cl_event *done)
{
    cl_command_queue queue = e->target->queue;

    switch (e->kind) {
#define OPERAND(OF, ID, member, LAYOUT, role, ...) .member = SET(role, OF##_##ID),
#define OPERATION(ID, name, word, noun, call, execute, ...)                                        \
    case JOB_##ID: {                                                                               \
        const clattn_##name##_tensors tensors = {.struct_size = sizeof tensors,                    \
                                                 .workspace = set->workspace,                      \
                                                 CA_##ID##_OPERANDS(OPERAND, ID)};                 \
        return execute(e->plan, queue, &tensors, 0, NULL, done);                                   \
    }
        CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
#undef OPERAND
    default:
        return CLATTN_INVALID_ARGUMENT;
    }
}

static clattn_multihead_inputs layer_inputs(const struct tensor_set *set)
{
    return (clattn_multihead_inputs){
        .x = set->in[INPUT_X],
        .context = set->in[INPUT_CONTEXT],
        .values = set->in[INPUT_VALUES],
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, ...)                                             \
    IF_INPUT_##LAYER(.member = set->in[INPUT_##ID], )
        CA_OPERANDS(OPERAND)
#undef OPERAND
            .dropout_seed = CASE_DROPOUT_SEED,
    };
}

/* The parameters from W_Q, or its gradient, on. */
static clattn_multihead_parameters layer_parameters(const clattn_buffer *first)
{
    return (clattn_multihead_parameters){
        .w_q = first[INPUT_W_Q - INPUT_W_Q],
        .w_k = first[INPUT_W_K - INPUT_W_Q],
        .w_v = first[INPUT_W_V - INPUT_W_Q],
        .w_o = first[INPUT_W_O - INPUT_W_Q],
        .b_q = first[INPUT_B_Q - INPUT_W_Q],
        .b_k = first[INPUT_B_K - INPUT_W_Q],
        .b_v = first[INPUT_B_V - INPUT_W_Q],
        .b_o = first[INPUT_B_O - INPUT_W_Q],
    };
}

static clattn_status run_layer_forward(const struct engine *e, const struct tensor_set *set,
                                       cl_event *done)
{
    const clattn_multihead_forward_tensors tensors = {
        .struct_size = sizeof tensors,
        .in = layer_inputs(set),
        .parameters = layer_parameters(&set->in[INPUT_W_Q]),
        .y = set->out[OUTPUT_Y],
        .reserve = set->out[OUTPUT_RESERVE],
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, ...)                                             \
    IF_LAST_##LAYER(.member = set->in[INPUT_##ID], )
        CA_OPERANDS(OPERAND)
#undef OPERAND
            .workspace = set->workspace,
        .function_version = UNCHANGED,
    };

    return clattn_multihead_forward(e->layer, e->target->queue, &tensors, 0, NULL, done);
}

static clattn_status run_layer_backward(const struct engine *e, const struct tensor_set *set,
                                        cl_event *done)
{
    const clattn_multihead_backward_tensors tensors = {
        .struct_size = sizeof tensors,
        .in = layer_inputs(set),
        .parameters = layer_parameters(&set->in[INPUT_W_Q]),
        .reserve = set->in[INPUT_RESERVE],
        .dy = set->in[INPUT_DY],
        .dx = set->out[OUTPUT_DX],
        .dcontext = set->out[OUTPUT_DCONTEXT],
        .dvalues = set->out[OUTPUT_DVALUES],
        .gradients = layer_parameters(&set->out[OUTPUT_DW_Q]),
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, ...)                                             \
    IF_GRADIENT_##LAYER(.member = set->out[OUTPUT_##ID], )                                         \
        IF_LAST_##LAYER(.member = set->in[INPUT_##ID], )
        CA_OPERANDS(OPERAND)
#undef OPERAND
            .workspace = set->workspace,
        .function_version = UNCHANGED,
    };

    return clattn_multihead_backward(e->layer, e->target->queue, &tensors, 0, NULL, done);
}

static const struct {
    const char *call;
    clattn_status (*run)(const struct engine *e, const struct tensor_set *set, cl_event *done);
} kinds[JOB_KINDS] = {
    [JOB_FORWARD] = {"clattn_attention_forward", run_forward},
    [JOB_BACKWARD] = {"clattn_attention_backward", run_backward},
#define OPERATION(ID, name, word, noun, call, execute, ...) [JOB_##ID] = {#execute, run_own},
    CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
        [JOB_LAYER_FORWARD] = {"clattn_multihead_forward", run_layer_forward},
    [JOB_LAYER_BACKWARD] = {"clattn_multihead_backward", run_layer_backward},
};

bool engine_run(const struct engine *e, const struct tensor_set *set, cl_event *done,
                struct message *why)
{
    const clattn_status status = kinds[e->kind].run(e, set, done);

    return status == CLATTN_SUCCESS || fail(e->target, kinds[e->kind].call, status, why);
}

/* ---- planning -------------------------------------------------------------------------------- */

static const char forced_layer[] = "a family is forced for a problem, not for a layer of several";

bool engine_supports(const struct target *target, const struct job *job,
                     const clattn_plan_options *options, struct message *why)
{
    if (!job->is_layer)
        return clattn_plan_supports(target->context, &job->problem, options) !=
                   CLATTN_UNSUPPORTED ||
               message_set(why, "%s", clattn_context_last_error(target->context));
    if (options != NULL && options->family != NULL)
        return message_set(why, "%s", forced_layer);
    return true; /* making its plan tells */
}

static bool open_plan(struct engine *e, const struct job *job, const clattn_plan_options *options,
                      struct message *why)
{
    clattn_plan_info info = {.struct_size = sizeof info};
    clattn_status status = clattn_plan_create(e->target->context, &job->problem, options, &e->plan);

    if (status == CLATTN_SUCCESS)
        status = clattn_plan_describe(e->plan, &info);
    if (status != CLATTN_SUCCESS)
        return fail(e->target, "clattn_plan_create", status, why);
    const size_t bytes = strlen(info.family) + strlen(info.tunables) + 2;
    e->configuration = malloc(bytes);
    if (e->configuration == NULL)
        return message_set(why, "no memory for the name of a configuration");
    snprintf(e->configuration, bytes, "%s%s%s", info.family, info.tunables[0] != '\0' ? " " : "",
             info.tunables);
    e->job = info.problem;
    e->reason = info.reason;
    e->workspace_bytes = info.workspace_bytes;
    return true;
}

/* "layer of 6 steps: " and what each is, without its problem. */
static bool name_layer(struct engine *e, const clattn_multihead_info *info, struct message *why)
{
    const size_t bytes = strlen(info->steps) + 64;
    size_t length;

    e->configuration = malloc(bytes);
    if (e->configuration == NULL)
        return message_set(why, "no memory for the name of a configuration");
    length = (size_t)snprintf(e->configuration, bytes, "layer of %zu steps:", info->num_steps);
    for (const char *line = info->steps; *line != '\0'; line += strcspn(line, "\n") + 1) {
        const char *end = strstr(line, "): ");
        const int count = end != NULL ? (int)(end - line) + 1 : (int)strcspn(line, "\n");
        length +=
            (size_t)snprintf(e->configuration + length, bytes - length, " %.*s;", count, line);
    }
    e->configuration[length - 1] = '\0';
    return true;
}

static bool open_layer(struct engine *e, const struct job *job, const clattn_plan_options *options,
                       struct message *why)
{
    clattn_multihead_info info = {.struct_size = sizeof info};

    if (options != NULL && options->family != NULL)
        return message_set(why, "%s", forced_layer);
    clattn_status status = clattn_multihead_plan_create(
        e->target->context, &job->layer, options != NULL ? options->flags : 0, &e->layer);
    if (status == CLATTN_SUCCESS)
        status = clattn_multihead_plan_describe(e->layer, &info);
    if (status != CLATTN_SUCCESS)
        return fail(e->target, "clattn_multihead_plan_create", status, why);
    e->job = info.layer;
    e->reason = "each step by a choice of its own";
    e->workspace_bytes = info.workspace_bytes;
    e->reserve_bytes = info.reserve_bytes;
    return name_layer(e, &info, why);
}

bool engine_open(struct engine *engine, const struct target *target, const struct job *job,
                 const clattn_plan_options *options, struct message *why)
{
    *engine = (struct engine){.target = target, .kind = job_kind(job)};
    if (job->is_layer ? open_layer(engine, job, options, why)
                      : open_plan(engine, job, options, why))
        return true;
    engine_close(engine);
    return false;
}

void engine_close(struct engine *engine)
{
    if (engine->target != NULL)
        clFinish(engine->target->queue); /* after a failure too: kernels may still run */
    free(engine->configuration);
    clattn_plan_release(engine->plan);
    clattn_multihead_plan_release(engine->layer);
    memset(engine, 0, sizeof *engine);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/cases/case.h"
#include "bench/cases/case_layer.h"

#include <stdlib.h>
#include <string.h>

/* ---- operands of problems -------------------------------------------------------------------- */

enum layout { STRIDED, BROADCAST, OF_BIAS, PACKED };

/* An operand as the lists in src/problem describe it. */
struct operand {
    clattn_operation owner; /* Attention's are forward's. */
    unsigned argument;
    enum layout layout;
    bool passed; /* The caller passes it through a layer, which makes the others. */
};

#define PASSED_INPUT true
#define PASSED_LAST true
#define PASSED_GRADIENT true
#define PASSED_OWN false

static const struct operand inputs[INPUT_X] = {
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, LAYOUT, layout, ...)                             \
    CASE_IF_READ(WRITER, GIVEN, [INPUT_##ID] = {CLATTN_FORWARD, CA_##ID, LAYOUT, PASSED_##LAYER}, )
    CA_OPERANDS(OPERAND)
#undef OPERAND
#define OPERAND(OF, ID, member, LAYOUT, role, ...)                                                 \
    CASE_IF_INPUT(role, [INPUT_##OF##_##ID] = {CLATTN_##OF, CA_##OF##_##ID, LAYOUT, false}, )
#define OPERATION(ID, ...) CA_##ID##_OPERANDS(OPERAND, ID)
        CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
#undef OPERAND
};

static const struct operand outputs[OUTPUT_Y] = {
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, LAYOUT, layout, ...)                             \
    CASE_IF_WRITTEN(WRITER, [OUTPUT_##ID] = {CLATTN_FORWARD, CA_##ID, LAYOUT, PASSED_##LAYER}, )
    CA_OPERANDS(OPERAND)
#undef OPERAND
#define OPERAND(OF, ID, member, LAYOUT, role, ...)                                                 \
    CASE_IF_OUTPUT(role, [OUTPUT_##OF##_##ID] = {CLATTN_##OF, CA_##OF##_##ID, LAYOUT, false}, )
#define OPERATION(ID, ...) CA_##ID##_OPERANDS(OPERAND, ID)
        CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
#undef OPERAND
};

static clattn_operation owner_of(const clattn_problem *p)
{
    return p->operation == CLATTN_BACKWARD ? CLATTN_FORWARD : p->operation;
}

static bool has_operand(const struct job *job, const struct operand *operand, bool written)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(&job->problem, tensors);
    const struct ca_tensor *tensor = &tensors[operand->argument];
    return operand->owner == owner_of(&job->problem) && tensor->present &&
           (tensor->written != 0) == written && (!job->is_layer || operand->passed);
}

/* Returns whether it is an lse, whose rows may come behind a 1. */
static bool is_lse(const struct operand *operand)
{
    return (operand->owner == CLATTN_FORWARD && operand->argument == CA_LSE) ||
           (operand->owner == CLATTN_MERGE && operand->argument == CA_MERGE_PARTS_LSE);
}

/* Returns whether it is a float a head, or a number a batch. */
static bool is_few(const struct operand *operand)
{
    switch (operand->owner) {
    case CLATTN_FORWARD:
        return operand->layout == PACKED && !is_lse(operand) && operand->argument != CA_SCORES;
    case CLATTN_PROJECTION:
        return false;
    case CLATTN_MERGE:
        return operand->argument == CA_MERGE_SINKS;
    case CLATTN_APPEND:
        return operand->layout == PACKED && operand->argument != CA_APPEND_POSITIONS;
    default:
        return operand->layout == PACKED;
    }
}

static struct view operand_view(const clattn_problem *p, const struct operand *operand)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(p, tensors);
    const struct ca_tensor *tensor = &tensors[operand->argument];
    /* The bias's gradient has the bias's sizes here, and no steps where that broadcasts. */
    const struct ca_tensor *sized = operand->layout == OF_BIAS ? &tensors[CA_BIAS] : tensor;
    struct view view = {
        .dtype = ca_problem_dtype(p, operand->argument),
        .cache = ca_problem_cache(p, operand->argument),
        .element = tensor->element_bytes,
        .few = is_few(operand),
    };
    /* lse has its size of 1 behind the rows, not before them */
    const int first = is_lse(operand) ? 1 : 0;
    for (int n = 0; n < 4; n++) {
        view.size[n] = sized->sizes[(n + first) % 4];
        view.stride[n] = tensor->layout.stride[(n + first) % 4];
    }
    view_find_extent(&view);
    /* the bias has an element even where the size that it broadcasts over is 0 */
    if (tensor != sized) {
        struct view own = view;
        memcpy(own.size, tensor->sizes, sizeof own.size);
        view_find_extent(&own);
        view.extent = own.extent;
    }
    return view;
}

bool case_holds(const struct job *job)
{
    return ca_problem_accumulates(&job->problem) || job_kind(job) == JOB_APPEND;
}

/* The dimensions that a tensor without a layout has. */
static const char *packed_dimensions(enum input input)
{
    switch (input) {
    case INPUT_LSE:
    case INPUT_MERGE_PARTS_LSE:
        return "012";
    case INPUT_PROJECTION_BIAS:
        return "13";
    case INPUT_PAGE_TABLE:
        return "23";
    case INPUT_BLOCK_OFFSETS:
    case INPUT_BLOCK_ENTRIES:
        return "013";
    case INPUT_TOPK_INDICES:
        return "0123";
    default:
        return "3";
    }
}

clattn_function_operand case_function_operand(const struct job *job, enum input input)
{
    const clattn_function *const functions[] = {job->problem.score_function,
                                                job->problem.mask_function};
    clattn_function_operand operand = {.struct_size = sizeof operand};
    size_t left = (size_t)(input - INPUT_FUNCTION_0);

    for (int n = 0; n < 2; n++)
        for (size_t m = 0; functions[n] != NULL; m++) {
            clattn_function_get_operand(functions[n], m, &operand);
            if (operand.name == NULL)
                break;
            if (left-- == 0)
                return operand;
        }
    return operand;
}

struct case_words case_input_words(const struct job *job, enum input input)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(&job->problem, tensors);
    return (struct case_words){
        .name = tensors[inputs[input].argument].name,
        .dimensions = inputs[input].layout == PACKED ? packed_dimensions(input) : "0123"};
}

bool case_input_is_ints(const struct job *job, enum input input)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(&job->problem, tensors);
    return strcmp(tensors[inputs[input].argument].type, "int") == 0;
}

bool case_has_input(const struct job *job, enum input input)
{
    return input < INPUT_X ? has_operand(job, &inputs[input], false)
                           : job->is_layer && layer_has_input(&job->layer, input);
}

bool case_has_output(const struct job *job, enum output output)
{
    return output < OUTPUT_Y ? has_operand(job, &outputs[output], true)
                             : job->is_layer && layer_has_output(&job->layer, output);
}

struct view case_input_view(const struct job *job, enum input input)
{
    if (!case_has_input(job, input))
        return (struct view){.extent = 0};
    return input < INPUT_X ? operand_view(&job->problem, &inputs[input])
                           : layer_view(&job->layer, input);
}

/* The input that a layer's output has the shape and strides of. */
static enum input twin_of(enum output output)
{
    return output == OUTPUT_Y ? INPUT_DY : (enum input)(output - OUTPUT_DX + INPUT_X);
}

struct view case_output_view(const struct job *job, enum output output)
{
    if (!case_has_output(job, output) || output == OUTPUT_RESERVE)
        return (struct view){.extent = 0};
    return output < OUTPUT_Y ? operand_view(&job->problem, &outputs[output])
                             : layer_view(&job->layer, twin_of(output));
}

void *case_allocate(size_t count, size_t size, struct message *why)
{
    void *data = count < (SIZE_MAX - 1) / size ? malloc(count * size + 1) : NULL;

    if (data == NULL)
        message_set(why, "no memory for %zu elements of %zu bytes", count, size);
    return data;
}

void case_free(struct attention_case *attention)
{
    for (int n = 0; n < INPUT_COUNT; n++)
        free(attention->in[n].data);
    free(attention->o.data);
    free(attention->scores.data);
    for (int n = 0; attention->answers != NULL && n < PRECISION_COUNT; n++)
        free(attention->answers[n].list);
    free(attention->answers);
    memset(attention, 0, sizeof *attention);
}

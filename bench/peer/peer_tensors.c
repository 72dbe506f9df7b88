/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peer/peer_tensors.h"
#include "bench/cases/case_layer.h"
#include "bench/judge/values.h"

#include <string.h>

static const char *const stored_names[] = {
    [CLATTN_F32] = "F32", [CLATTN_F16] = "F16", [CLATTN_BF16] = "BF16"};

/* ---- what is sent ---------------------------------------------------------------------------- */

/* A layer's tensors in peers/README.md's words. `dimensions` are those of the view that count. */
static const struct case_words layer_words[INPUT_COUNT] = {
    [INPUT_X] = {"x", "023"},           [INPUT_CONTEXT] = {"context", "023"},
    [INPUT_VALUES] = {"values", "023"}, [INPUT_W_Q] = {"w_q", "23"},
    [INPUT_W_K] = {"w_k", "23"},        [INPUT_W_V] = {"w_v", "23"},
    [INPUT_W_O] = {"w_o", "23"},        [INPUT_B_Q] = {"b_q", "2"},
    [INPUT_B_K] = {"b_k", "2"},         [INPUT_B_V] = {"b_v", "2"},
    [INPUT_B_O] = {"b_o", "2"},         [INPUT_DY] = {"dy", "023"},
    [INPUT_RESERVE] = {NULL, ""},
};

static const char *function_type(const struct job *job, enum input input)
{
    static const char *const names[] = {"F32", "F16", "BF16", "I32", "I8", "U8"};

    return names[case_function_operand(job, input).type];
}

/* Bytes are those of quantized blocks. */
static const char *stored_name(const struct job *job, enum input input, const struct view *view)
{
    switch (input) {
    case INPUT_FUNCTION_0:
    case INPUT_FUNCTION_1:
    case INPUT_FUNCTION_2:
    case INPUT_FUNCTION_3:
    case INPUT_FUNCTION_4:
    case INPUT_FUNCTION_5:
        return function_type(job, input);
    case INPUT_MASK:
        return "BOOL";
    default:
        if (input < INPUT_X && case_input_is_ints(job, input))
            return "I32";
        return view->cache != CLATTN_CACHE_PLAIN ? "U8" : stored_names[view->dtype];
    }
}

/* A view whose elements are quantized blocks, which lie side by side along the last dimension. */
static struct view view_of_blocks(struct view view)
{
    if (view.cache == CLATTN_CACHE_PLAIN)
        return view;
    for (int n = 0; n < 3; n++)
        view.stride[n] /= VALUE_BLOCK;
    view.size[3] /= VALUE_BLOCK;
    return view;
}

static bool is_parameter(enum input input)
{
    return input >= INPUT_W_Q && input <= INPUT_B_O;
}

/* Returns false if the job has no such tensor, or keeps it to itself. */
static bool describe(const struct job *job, enum input input, struct peer_tensor *t)
{
    const struct case_words words =
        input < INPUT_X ? case_input_words(job, input) : layer_words[input];
    const bool broadcasts = input == INPUT_BIAS || input == INPUT_MASK;

    *t = (struct peer_tensor){.name = words.name, .input = input};
    if (job->is_layer && is_parameter(input)) {
        const struct parameter parameter = layer_parameter(&job->layer, input);
        t->input = parameter.input;
        t->view = parameter.view;
        t->offset = parameter.offset;
        if (t->view.extent == 0)
            return false;
    } else {
        t->view = view_of_blocks(case_input_view(job, input));
        if (!case_has_input(job, input) || words.name == NULL)
            return false;
    }
    for (int n = 0; n < 4; n++)
        if (broadcasts && t->view.extent > 0 && t->view.stride[n] == 0)
            t->view.size[n] = 1;
    t->dtype = stored_name(job, input, &t->view);
    t->bytes = t->view.element;
    for (const char *n = words.dimensions; *n != '\0'; n++)
        t->bytes *= t->shape[t->rank++] = t->view.size[*n - '0'];
    if (t->view.cache != CLATTN_CACHE_PLAIN)
        t->shape[t->rank - 1] *= t->view.element;
    return true;
}

/* The alignment of an element; of a quantized block, that of its scale. */
size_t peer_tensor_alignment(const struct peer_tensor *tensor)
{
    return tensor->view.cache != CLATTN_CACHE_PLAIN ? 2 : tensor->view.element;
}

size_t peer_tensors_list(const struct job *job, struct peer_tensor tensors[PEER_MOST_TENSORS])
{
    size_t count = 0;

    for (size_t alignment = 4; alignment > 0; alignment /= 2)
        for (int input = 0; input < INPUT_COUNT; input++)
            if (describe(job, (enum input)input, &tensors[count]) &&
                peer_tensor_alignment(&tensors[count]) == alignment)
                count++;
    return count;
}

/* ---- what is asked for ----------------------------------------------------------------------- */

/* Gradients of parameters come one by one, wherever they lie. */
static bool find_result(const struct job *job, enum output output, struct peer_result *result)
{
    if (output < OUTPUT_DW_Q) {
        *result = (struct peer_result){.output = output, .view = case_output_view(job, output)};
        return case_has_output(job, output);
    }
    const enum input input = (enum input)(output - OUTPUT_DX + INPUT_X);
    const struct parameter parameter = layer_parameter(&job->layer, input);
    *result = (struct peer_result){.output = layer_gradient(parameter.input),
                                   .view = parameter.view,
                                   .offset = parameter.offset};
    return parameter.view.extent > 0;
}

size_t peer_result_bytes(const struct peer_result *result)
{
    const struct view *view = &result->view;

    return view->size[0] * view->size[1] * view->size[2] * view->size[3] * view->element;
}

size_t peer_results_list(const struct job *job, struct peer_result results[PEER_MOST_RESULTS])
{
    static const struct {
        enum output first, last;
    } asked[JOB_KINDS] = {[JOB_FORWARD] = {OUTPUT_O, OUTPUT_O},
                          [JOB_BACKWARD] = {OUTPUT_DQ, OUTPUT_DV},
                          [JOB_LAYER_FORWARD] = {OUTPUT_Y, OUTPUT_Y},
                          [JOB_LAYER_BACKWARD] = {OUTPUT_DX, OUTPUT_DB_O},
#define OPERATION(ID, ...) [JOB_##ID] = {0, OUTPUT_Y - 1}, /* all that it has */
                          CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
    };
    const enum job_kind kind = job_kind(job);
    size_t count = 0;

    for (int output = asked[kind].first; output <= (int)asked[kind].last; output++)
        if (find_result(job, (enum output)output, &results[count]))
            count++;
    return count;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/verify/sample.h"

#include <string.h>

struct tensor_view sample_inputs(const struct attention_case *attention)
{
    struct tensor_view view = {.dropout_seed = CASE_DROPOUT_SEED};

#define OPERAND(ID, member, GIVEN, WRITER, ...)                                                    \
    CASE_IF_READ(WRITER, GIVEN, view.at[TENSOR_##ID] = attention->in[INPUT_##ID].data;)
    CA_OPERANDS(OPERAND)
#undef OPERAND
    return view;
}

bool sample_held(const struct attention_case *attention, enum output output, void **held,
                 struct message *why)
{
    const struct view view = case_output_view(&attention->job, output);

    *held = NULL;
    if (!case_holds(&attention->job) || !case_has_output(&attention->job, output))
        return true;
    *held = case_allocate(view_extent_bytes(&view), 1, why);
    if (*held != NULL)
        memset(*held, CASE_HELD, view_extent_bytes(&view));
    return *held != NULL;
}

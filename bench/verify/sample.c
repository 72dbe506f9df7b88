/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/verify/sample.h"

#include <stdlib.h>
#include <string.h>

struct tensor_view sample_inputs(const struct attention_case *attention)
{
    struct tensor_view view = {.dropout_seed = CASE_DROPOUT_SEED};

    switch (attention->job.problem.operation) {
#define TENSOR(ID, member, role, ...)                                                              \
    TENSOR_IF_IN(role, view.at[ID] = attention->in[INPUT_##ID].data;)
#define JUDGED(ID, ...)                                                                            \
    case CLATTN_##ID:                                                                              \
        ID##_TENSORS(TENSOR) break;
        JUDGED_OPERATIONS(JUDGED)
#undef JUDGED
#undef TENSOR
    default:
#define OPERAND(ID, member, GIVEN, WRITER, ...)                                                    \
    CASE_IF_READ(WRITER, GIVEN, view.at[TENSOR_##ID] = attention->in[INPUT_##ID].data;)
        CA_OPERANDS(OPERAND)
#undef OPERAND
        break;
    }
    return view;
}

enum output sample_output(clattn_operation operation, int id)
{
    static const enum output of[][NUM_TENSORS] = {
#define TENSOR(ID, member, role, ...) TENSOR_IF_OUT(role, [ID] = OUTPUT_##ID, )
#define JUDGED(ID, ...) [CLATTN_##ID] = {ID##_TENSORS(TENSOR)},
        JUDGED_OPERATIONS(JUDGED)
#undef JUDGED
#undef TENSOR
#define OPERAND(ID, member, GIVEN, WRITER, ...)                                                    \
    CASE_IF_WRITTEN(WRITER, [TENSOR_##ID] = OUTPUT_##ID, )
            [CLATTN_FORWARD] = {CA_OPERANDS(OPERAND)},
        [CLATTN_BACKWARD] = {CA_OPERANDS(OPERAND)},
#undef OPERAND
    };

    return of[operation][id];
}

bool sample_held(const struct attention_case *attention, const struct tensor_shape *shape, int id,
                 const unsigned char **held, struct message *why)
{
    const bool of_cache = attention->job.problem.operation == CLATTN_APPEND && id != APPEND_Q_OUT;

    if (!case_holds(&attention->job) || !shape->present || !shape->written || of_cache)
        return true;
    const size_t bytes = tensor_bytes(shape, shape->extent);
    unsigned char *made = case_allocate(bytes, 1, why);
    if (made != NULL)
        memset(made, CASE_HELD, bytes);
    *held = made;
    return made != NULL;
}

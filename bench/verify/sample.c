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
    case CLATTN_PROJECTION:
        PROJECTION_TENSORS(TENSOR)
        break;
    case CLATTN_MERGE:
        MERGE_TENSORS(TENSOR)
        break;
    case CLATTN_APPEND:
        APPEND_TENSORS(TENSOR)
        break;
    case CLATTN_DOUBLE_BACKWARD:
        DOUBLE_BACKWARD_TENSORS(TENSOR)
        break;
    case CLATTN_INDEXER:
        INDEXER_TENSORS(TENSOR)
        break;
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
    static const enum output projected[] = {
#define TENSOR(ID, member, role, ...) TENSOR_IF_OUT(role, [ID] = OUTPUT_##ID, )
        PROJECTION_TENSORS(TENSOR)};
    static const enum output merged[] = {MERGE_TENSORS(TENSOR)};
    static const enum output appended[] = {APPEND_TENSORS(TENSOR)};
    static const enum output derived[] = {DOUBLE_BACKWARD_TENSORS(TENSOR)};
    static const enum output chosen[] = {INDEXER_TENSORS(TENSOR)};
#undef TENSOR
    static const enum output attended[] = {
#define OPERAND(ID, member, GIVEN, WRITER, ...)                                                    \
    CASE_IF_WRITTEN(WRITER, [TENSOR_##ID] = OUTPUT_##ID, )
        CA_OPERANDS(OPERAND)
#undef OPERAND
    };

    return operation == CLATTN_PROJECTION        ? projected[id]
           : operation == CLATTN_MERGE           ? merged[id]
           : operation == CLATTN_APPEND          ? appended[id]
           : operation == CLATTN_DOUBLE_BACKWARD ? derived[id]
           : operation == CLATTN_INDEXER         ? chosen[id]
                                                 : attended[id];
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

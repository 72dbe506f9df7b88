/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/launch.h"
#include "families/registry.h"
#include "problem/function.h"
#include "problem/operations.h"
#include "problem/philox.h"

#include <string.h>

static void copy_strides(cl_long *to, const clattn_layout *layout)
{
    for (int n = 0; n < 4; n++)
        to[n] = (cl_long)layout->stride[n];
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Writes the strides of the tensors that the program has, and returns how many numbers they are. */
static size_t put_strides(const clattn_problem *p, const clattn_problem *program, cl_long *to)
{
    struct ca_tensor own[CA_WORKSPACE], present[CA_WORKSPACE];
    size_t count = 0;

    ca_problem_tensors(p, own);
    ca_problem_tensors(program, present);
    for (unsigned n = 0; n < CA_WORKSPACE; n++) {
        if (!ca_takes_strides(present, n))
            continue;
        if (present[n].present)
            copy_strides(to + count, &own[n].layout);
        else
            memset(to + count, 0, 4 * sizeof *to);
        /* The sequences of a packed batch are rows of one batch, which kernels add themselves. */
        if (own[n].sizes[0] == 1)
            to[count] = 0;
        count += 4;
    }
    return count;
}

static size_t attention_shape_of(const clattn_problem *p, const clattn_problem *program,
                                 union ca_shape *shape)
{
    const size_t strides = put_strides(p, program, shape->attention);
    const struct attention_shape a = {
        .batch = (cl_long)p->batch,
        .heads = (cl_long)p->heads,
        .seq_q = (cl_long)p->seq_q,
        .seq_kv = (cl_long)p->seq_kv,
        .kv_heads = (cl_long)p->kv_heads,
        .pages = (cl_long)p->pages,
        .longest_q = (cl_long)p->seq_q,
        .longest_kv = (cl_long)p->seq_kv,
        .group = (cl_long)(p->heads / p->kv_heads),
        .diagonal = ca_problem_diagonal(p),
        .window_left = p->window_left,
        .window_right = p->window_right,
        .max_blocks = (cl_long)p->max_blocks,
        .list_of_batch = p->block_batches ? (p->block_heads ? (cl_long)p->heads : 1) : 0,
        .list_of_head = p->block_heads != 0,
        .scale = p->scale,
        .softcap = p->softcap,
        .keep = 1.0f / (1.0f - p->dropout),
        .drop_below = ca_drop_below(p),
#define SIZE(ID, member, word, OF, difference) .member = (cl_long)p->member,
        CA_SIZES(SIZE)
#undef SIZE
    };
    memcpy(shape->attention + strides, &a, sizeof a);
    return strides * sizeof(cl_long) + sizeof a;
}

size_t ca_shape_of(const clattn_problem *p, const clattn_problem *program, union ca_shape *shape)
{
    switch (p->operation) {
#define OPERATION(ID, name, ...)                                                                   \
    case CLATTN_##ID:                                                                              \
        shape->name = ca_##name##_shape(&p->name);                                                 \
        return sizeof shape->name;
        CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
    default:
        return attention_shape_of(p, program, shape);
    }
}

/* ---- offsets --------------------------------------------------------------------------------- */

static size_t attention_offsets_of(const clattn_problem *p, uint64_t taken,
                                   const struct ca_tensors *tensors, cl_long *to)
{
    const clattn_dropout_place *place = &tensors->place;
    const cl_ulong heads = place->heads > 0 ? place->heads : p->heads;
    const clattn_function_values values = ca_function_values(p, tensors->function_values);
    struct attention_call call = {
        .seed = tensors->seed,
        .stream = tensors->stream,
        .dropout_i = place->query,
        .dropout_j = place->key,
        .dropout_bh = place->batch * heads + place->head,
        .dropout_heads = heads,
        .whole_queries = (cl_int)(tensors->whole_queries ? tensors->whole_queries : p->whole_q),
        .whole_keys = (cl_int)(tensors->whole_keys ? tensors->whole_keys : p->whole_kv),
    };
    size_t count = 0;

    for (unsigned n = 0; n <= CA_WORKSPACE; n++)
        if (taken & CA_BIT(n))
            to[count++] = (cl_long)tensors->at[n].offset;
    memcpy(call.function_ints, values.ints, sizeof values.ints);
    memcpy(call.function_floats, values.floats, sizeof values.floats);
    memcpy(to + count, &call, sizeof call);
    return count * sizeof *to + sizeof call;
}

/* Stores the offsets of all operands. If the struct (of `bytes` bytes) has room for one more, that is the workspace's. */
static size_t own_offsets_of(const clattn_buffer *at, size_t operands, size_t bytes, cl_long *to)
{
    for (size_t n = 0; n < operands; n++)
        to[n] = (cl_long)at[n].offset;
    if (bytes > operands * sizeof *to)
        to[operands] = (cl_long)at[CA_WORKSPACE].offset;
    return bytes;
}

size_t ca_offsets_of(const clattn_problem *p, uint64_t taken, const struct ca_tensors *tensors,
                     cl_long offsets[CA_MOST_OFFSETS])
{
    switch (p->operation) {
#define OPERATION(ID, name, ...)                                                                   \
    case CLATTN_##ID:                                                                              \
        return own_offsets_of(tensors->at, CA_##ID##_COUNT, sizeof(struct name##_offsets), offsets);
        CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
    default:
        return attention_offsets_of(p, taken, tensors, offsets);
    }
}

/* ---- their sizes ----------------------------------------------------------------------------- */

/* The CA_BIT()s of all operands of forward or backward. Packed batches have no block lists: of the two starts and
 * the two arrays of lists there are two. */
static uint64_t operands_of(clattn_operation operation)
{
    uint64_t forward = 0, backward = 0;

#define FORWARD_OPERAND(ID, member, GIVEN, ...) CA_OF_FORWARD(GIVEN, forward |= CA_BIT(CA_##ID);)
#define BACKWARD_OPERAND(ID, member, GIVEN, ...) CA_OF_BACKWARD(GIVEN, backward |= CA_BIT(CA_##ID);)
    CA_OPERANDS(FORWARD_OPERAND)
    CA_OPERANDS(BACKWARD_OPERAND)
#undef FORWARD_OPERAND
#undef BACKWARD_OPERAND
    return (operation == CLATTN_FORWARD ? forward : backward) & ~CA_STARTS;
}

/* Bytes of a kernel's shape and offsets but for those of attention's operands. */
static size_t struct_bytes(clattn_operation operation)
{
    static const size_t bytes[] = {
        [CLATTN_FORWARD] = sizeof(struct attention_shape) + sizeof(struct attention_call),
        [CLATTN_BACKWARD] = sizeof(struct attention_shape) + sizeof(struct attention_call),
#define OPERATION(ID, name, ...)                                                                   \
    [CLATTN_##ID] = sizeof(struct name##_shape) + sizeof(struct name##_offsets),
        CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
    };

    return bytes[operation];
}

size_t ca_most_argument_bytes(void)
{
    size_t most = 0;

    for (size_t f = 0; ca_family_at(f); f++) {
        const struct ca_family *family = ca_family_at(f);
        const int attention =
            family->operation == CLATTN_FORWARD || family->operation == CLATTN_BACKWARD;
        const uint64_t operands = attention ? operands_of(family->operation) : 0;
        for (size_t s = 0; s < family->num_stages; s++) {
            const uint64_t taken = family->stages[s].arguments & ~CA_STARTS;
            size_t bytes = struct_bytes(family->operation);
            for (unsigned n = 0; n <= CA_WORKSPACE; n++) {
                if ((operands & CA_BIT(n)) && ca_has_strides(n))
                    bytes += 4 * sizeof(cl_long);
                if (taken & CA_BIT(n)) /* a pointer, and attention's offset */
                    bytes += sizeof(cl_ulong) + (attention ? sizeof(cl_long) : 0);
            }
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

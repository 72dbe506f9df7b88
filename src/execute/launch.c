/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/launch.h"
#include "families/registry.h"
#include "problem/function.h"
#include "problem/operations.h"
#include "problem/philox.h"
#include "problem/problem_append.h"

#include <string.h>

static void copy_strides(cl_long *to, const clattn_layout *layout)
{
    for (int n = 0; n < 4; n++)
        to[n] = (cl_long)layout->stride[n];
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Returns whether all sequences of a packed batch follow each other in the tensor. */
static int is_packed(const clattn_problem *p, unsigned argument)
{
    switch (argument) {
    case CA_Q:
    case CA_O:
    case CA_DO:
    case CA_DQ:
        return p->total_q != 0;
    case CA_K:
    case CA_V:
    case CA_DK:
    case CA_DV:
        return p->total_kv != 0;
    default:
        return 0;
    }
}

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
        /* sequences are rows of one batch, which kernels add themselves */
        if (is_packed(p, n))
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

/* The strides of operations whose layouts are members of the operands' names. */
#define STRIDES_STRIDED(member) copy_strides(a->member##_stride, &p->member);
#define STRIDES_PACKED(member)
#define OPERAND(ID, member, LAYOUT, ...) STRIDES_##LAYOUT(member)

static size_t projection_shape_of(const clattn_problem *problem, const clattn_problem *program,
                                  union ca_shape *shape)
{
    const clattn_projection_problem *p = &problem->projection;
    struct projection_shape *a = &shape->projection;

    (void)program;
    *a = (struct projection_shape){
        .batch = (cl_long)p->batch,
        .rows = (cl_long)p->rows,
        .x_heads = (cl_long)p->x_heads,
        .x_dim = (cl_long)p->x_dim,
        .y_heads = (cl_long)p->y_heads,
        .y_dim = (cl_long)p->y_dim,
    };
    CA_PROJECTION_OPERANDS(OPERAND)
    return sizeof *a;
}

static size_t merge_shape_of(const clattn_problem *problem, const clattn_problem *program,
                             union ca_shape *shape)
{
    const clattn_merge_problem *p = &problem->merge;
    struct merge_shape *a = &shape->merge;

    (void)program;
    *a = (struct merge_shape){
        .states = (cl_long)p->states,
        .batch = (cl_long)p->batch,
        .heads = (cl_long)p->heads,
        .seq_q = (cl_long)p->seq_q,
        .dim = (cl_long)p->dim,
    };
    CA_MERGE_OPERANDS(OPERAND)
    return sizeof *a;
}

static size_t append_shape_of(const clattn_problem *problem, const clattn_problem *program,
                              union ca_shape *shape)
{
    const clattn_append_problem *p = &problem->append;
    struct append_shape *a = &shape->append;

    (void)program;
    *a = (struct append_shape){
        .batch = (cl_long)p->batch,
        .heads = (cl_long)p->heads,
        .kv_heads = (cl_long)p->kv_heads,
        .tokens = (cl_long)p->tokens,
        .capacity = (cl_long)p->capacity,
        .dim_qk = (cl_long)p->dim_qk,
        .dim_v = (cl_long)p->dim_v,
        .pages = (cl_long)p->pages,
        .rotary_length = (cl_long)p->rotary_length,
    };
    ca_append_rotation(p, &a->power_high, &a->power_low);
    CA_APPEND_OPERANDS(OPERAND)
    return sizeof *a;
}

static size_t double_backward_shape_of(const clattn_problem *problem, const clattn_problem *program,
                                       union ca_shape *shape)
{
    const clattn_double_backward_problem *p = &problem->double_backward;
    struct double_backward_shape *a = &shape->double_backward;

    (void)program;
    *a = (struct double_backward_shape){
        .batch = (cl_long)p->batch,
        .heads = (cl_long)p->heads,
        .kv_heads = (cl_long)p->kv_heads,
        .seq_q = (cl_long)p->seq_q,
        .seq_kv = (cl_long)p->seq_kv,
        .diagonal = ca_double_backward_diagonal(p),
        .window_left = p->window_left,
        .window_right = p->window_right,
        .group = (cl_int)(p->heads / p->kv_heads),
        .scale = p->scale,
    };
    CA_DOUBLE_BACKWARD_OPERANDS(OPERAND)
    return sizeof *a;
}

static size_t indexer_shape_of(const clattn_problem *problem, const clattn_problem *program,
                               union ca_shape *shape)
{
    const clattn_indexer_problem *p = &problem->indexer;
    struct indexer_shape *a = &shape->indexer;

    (void)program;
    *a = (struct indexer_shape){
        .batch = (cl_long)p->batch,
        .seq_q = (cl_long)p->seq_q,
        .seq_kv = (cl_long)p->seq_kv,
        .total_q = (cl_long)p->total_q,
        .total_kv = (cl_long)p->total_kv,
        .topk = (cl_long)p->topk,
        .pages = (cl_long)p->pages,
        .diagonal = ca_indexer_diagonal(p),
    };
    CA_INDEXER_OPERANDS(OPERAND)
    return sizeof *a;
}
#undef OPERAND

size_t ca_shape_of(const clattn_problem *p, const clattn_problem *program, union ca_shape *shape)
{
    static size_t (*const of[])(const clattn_problem *, const clattn_problem *,
                                union ca_shape *) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = name##_shape_of,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    return of[p->operation](p, program, shape);
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

size_t ca_offsets_of(const clattn_problem *p, uint64_t taken, const struct ca_tensors *tensors,
                     union ca_offsets *offsets)
{
    const clattn_buffer *at = tensors->at;

    switch (p->operation) {
    case CLATTN_PROJECTION:
        offsets->projection = (struct projection_offsets){
#define OPERAND(ID, member, ...) .member = (cl_long)at[CA_PROJECTION_##ID].offset,
            CA_PROJECTION_OPERANDS(OPERAND)
#undef OPERAND
                .workspace = (cl_long)at[CA_WORKSPACE].offset,
        };
        return sizeof offsets->projection;
    case CLATTN_MERGE:
        offsets->merge = (struct merge_offsets){
#define OPERAND(ID, member, ...) .member = (cl_long)at[CA_MERGE_##ID].offset,
            CA_MERGE_OPERANDS(OPERAND)
#undef OPERAND
        };
        return sizeof offsets->merge;
    case CLATTN_APPEND:
        offsets->append = (struct append_offsets){
#define OPERAND(ID, member, ...) .member = (cl_long)at[CA_APPEND_##ID].offset,
            CA_APPEND_OPERANDS(OPERAND)
#undef OPERAND
        };
        return sizeof offsets->append;
    case CLATTN_DOUBLE_BACKWARD:
        offsets->double_backward = (struct double_backward_offsets){
#define OPERAND(ID, member, ...) .member = (cl_long)at[CA_DOUBLE_BACKWARD_##ID].offset,
            CA_DOUBLE_BACKWARD_OPERANDS(OPERAND)
#undef OPERAND
                .workspace = (cl_long)at[CA_WORKSPACE].offset,
        };
        return sizeof offsets->double_backward;
    case CLATTN_INDEXER:
        offsets->indexer = (struct indexer_offsets){
#define OPERAND(ID, member, ...) .member = (cl_long)at[CA_INDEXER_##ID].offset,
            CA_INDEXER_OPERANDS(OPERAND)
#undef OPERAND
                .workspace = (cl_long)at[CA_WORKSPACE].offset,
        };
        return sizeof offsets->indexer;
    default:
        return attention_offsets_of(p, taken, tensors, offsets->attention);
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
        [CLATTN_PROJECTION] = sizeof(struct projection_shape) + sizeof(struct projection_offsets),
        [CLATTN_MERGE] = sizeof(struct merge_shape) + sizeof(struct merge_offsets),
        [CLATTN_APPEND] = sizeof(struct append_shape) + sizeof(struct append_offsets),
        [CLATTN_DOUBLE_BACKWARD] =
            sizeof(struct double_backward_shape) + sizeof(struct double_backward_offsets),
        [CLATTN_INDEXER] = sizeof(struct indexer_shape) + sizeof(struct indexer_offsets)};

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

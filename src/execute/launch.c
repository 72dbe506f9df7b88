/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/launch.h"
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

static size_t attention_shape_of(const clattn_problem *p, union ca_shape *shape)
{
    struct attention_shape *a = &shape->attention;

    *a = (struct attention_shape){
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
#define STRIDES_STRIDED(member, layout) copy_strides(a->member##_stride, &p->layout);
#define STRIDES_BROADCAST(member, layout) copy_strides(a->member##_stride, &p->layout);
#define STRIDES_OF_BIAS(member, layout)
#define STRIDES_PACKED(member, layout)
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, LAYOUT, layout, ...)                             \
    STRIDES_##LAYOUT(member, layout)
    CA_OPERANDS(OPERAND)
#undef OPERAND
#undef STRIDES_STRIDED
#undef STRIDES_PACKED
    if (p->total_q) /* sequences are rows of one batch, which kernels add themselves */
        a->q_stride[0] = a->o_stride[0] = a->d_o_stride[0] = a->dq_stride[0] = 0;
    if (p->total_kv)
        a->k_stride[0] = a->v_stride[0] = a->dk_stride[0] = a->dv_stride[0] = 0;
    return sizeof *a;
}

/* The strides of operations whose layouts are members of the operands' names. */
#define STRIDES_STRIDED(member) copy_strides(a->member##_stride, &p->member);
#define STRIDES_PACKED(member)
#define OPERAND(ID, member, LAYOUT, ...) STRIDES_##LAYOUT(member)

static size_t projection_shape_of(const clattn_problem *problem, union ca_shape *shape)
{
    const clattn_projection_problem *p = &problem->projection;
    struct projection_shape *a = &shape->projection;

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

static size_t merge_shape_of(const clattn_problem *problem, union ca_shape *shape)
{
    const clattn_merge_problem *p = &problem->merge;
    struct merge_shape *a = &shape->merge;

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

static size_t append_shape_of(const clattn_problem *problem, union ca_shape *shape)
{
    const clattn_append_problem *p = &problem->append;
    struct append_shape *a = &shape->append;

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

static size_t double_backward_shape_of(const clattn_problem *problem, union ca_shape *shape)
{
    const clattn_double_backward_problem *p = &problem->double_backward;
    struct double_backward_shape *a = &shape->double_backward;

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
#undef OPERAND

size_t ca_shape_of(const clattn_problem *p, union ca_shape *shape)
{
    static size_t (*const of[])(const clattn_problem *, union ca_shape *) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = name##_shape_of,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    return of[p->operation](p, shape);
}

/* ---- offsets --------------------------------------------------------------------------------- */

size_t ca_offsets_of(const clattn_problem *p, const struct ca_tensors *tensors,
                     union ca_offsets *offsets)
{
    const clattn_dropout_place *place = &tensors->place;
    const clattn_buffer *at = tensors->at;
    const cl_ulong heads = place->heads > 0 ? place->heads : p->heads;
    clattn_function_values values;

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
    default:
        values = ca_function_values(p, tensors->function_values);
        offsets->attention = (struct attention_offsets){
#define OPERAND(ID, member, ...) .member = (cl_long)at[CA_##ID].offset,
            CA_OPERANDS(OPERAND)
#undef OPERAND
                .workspace = (cl_long)at[CA_WORKSPACE].offset,
            .seed = tensors->seed,
            .stream = tensors->stream,
            .dropout_i = place->query,
            .dropout_j4 = place->key / 4,
            .dropout_bh = place->batch * heads + place->head,
            .dropout_heads = heads,
        };
        memcpy(offsets->attention.function_ints, values.ints, sizeof values.ints);
        memcpy(offsets->attention.function_floats, values.floats, sizeof values.floats);
        return sizeof offsets->attention;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/onednn/dnn_ops.h"

#include <stdio.h>
#include <string.h>

enum { RANK = 3 };

struct dnn_tensor dnn_tensor(dnnl_data_type_t type, size_t entries, size_t rows, size_t columns,
                             size_t entry_stride, size_t row_stride, size_t column_stride)
{
    return (struct dnn_tensor){
        .type = type,
        .size = {(dnnl_dim_t)entries, (dnnl_dim_t)rows, (dnnl_dim_t)columns},
        .stride = {(dnnl_dim_t)entry_stride, (dnnl_dim_t)row_stride, (dnnl_dim_t)column_stride}};
}

/* ---- what the versions call differently ------------------------------------------------------ */

#if DNNL_VERSION_MAJOR >= 3

typedef const_dnnl_memory_desc_t described;

static dnnl_status_t make_memory(dnnl_memory_t *memory, dnnl_engine_t engine,
                                 const struct dnn_tensor *tensor)
{
    dnnl_memory_desc_t description;
    dnnl_status_t status = dnnl_memory_desc_create_with_strides(&description, RANK, tensor->size,
                                                                tensor->type, tensor->stride);

    if (status != dnnl_success)
        return status;
    status = dnnl_memory_create(memory, description, engine, DNNL_MEMORY_NONE);
    dnnl_memory_desc_destroy(description);
    return status;
}

static dnnl_status_t append_linear(dnnl_post_ops_t list, float factor)
{
    return dnnl_post_ops_append_eltwise(list, dnnl_eltwise_linear, factor, 0.0f);
}

enum { TANH_POST_OPS = 2 };

static dnnl_status_t append_tanh(dnnl_post_ops_t list, float factor)
{
    const dnnl_status_t status = dnnl_post_ops_append_eltwise(list, dnnl_eltwise_tanh, 0.0f, 0.0f);

    return status == dnnl_success ? append_linear(list, factor) : status;
}

static dnnl_status_t plan_product(dnnl_primitive_desc_t *plan, dnnl_engine_t engine, described a,
                                  described b, described c, const_dnnl_primitive_attr_t attributes)
{
    return dnnl_matmul_primitive_desc_create(plan, engine, a, b, NULL, c, attributes);
}

static dnnl_status_t plan_softmax(dnnl_primitive_desc_t *plan, dnnl_engine_t engine, described from,
                                  described to)
{
    return dnnl_softmax_forward_primitive_desc_create(
        plan, engine, dnnl_forward_inference, dnnl_softmax_accurate, from, to, RANK - 1, NULL);
}

#else

typedef const dnnl_memory_desc_t *described;

static dnnl_status_t make_memory(dnnl_memory_t *memory, dnnl_engine_t engine,
                                 const struct dnn_tensor *tensor)
{
    dnnl_memory_desc_t description;
    const dnnl_status_t status = dnnl_memory_desc_init_by_strides(&description, RANK, tensor->size,
                                                                  tensor->type, tensor->stride);

    return status == dnnl_success
               ? dnnl_memory_create(memory, &description, engine, DNNL_MEMORY_NONE)
               : status;
}

static dnnl_status_t append_linear(dnnl_post_ops_t list, float factor)
{
    return dnnl_post_ops_append_eltwise(list, 1.0f, dnnl_eltwise_linear, factor, 0.0f);
}

/* Tanh and its factor in one post-op: 2.6.3 takes a second linear post-op for the first. */
enum { TANH_POST_OPS = 1 };

static dnnl_status_t append_tanh(dnnl_post_ops_t list, float factor)
{
    return dnnl_post_ops_append_eltwise(list, factor, dnnl_eltwise_tanh, 0.0f, 0.0f);
}

static dnnl_status_t plan_product(dnnl_primitive_desc_t *plan, dnnl_engine_t engine, described a,
                                  described b, described c, const_dnnl_primitive_attr_t attributes)
{
    dnnl_matmul_desc_t product;
    const dnnl_status_t status = dnnl_matmul_desc_init(&product, a, b, NULL, c);

    return status == dnnl_success
               ? dnnl_primitive_desc_create(plan, &product, attributes, engine, NULL)
               : status;
}

static dnnl_status_t plan_softmax(dnnl_primitive_desc_t *plan, dnnl_engine_t engine, described from,
                                  described to)
{
    dnnl_softmax_v2_desc_t softmax;
    const dnnl_status_t status = dnnl_softmax_v2_forward_desc_init(
        &softmax, dnnl_forward_inference, dnnl_softmax_accurate, from, to, RANK - 1);

    return status == dnnl_success ? dnnl_primitive_desc_create(plan, &softmax, NULL, engine, NULL)
                                  : status;
}

#endif

/* ---- primitives ------------------------------------------------------------------------------ */

static dnnl_status_t make_memories(struct dnn_op *op, dnnl_engine_t engine,
                                   const struct dnn_tensor *const tensors[DNN_MOST_ARGUMENTS])
{
    dnnl_status_t status = dnnl_success;

    memset(op, 0, sizeof *op);
    for (int n = 0; status == dnnl_success && n < DNN_MOST_ARGUMENTS; n++)
        if (tensors[n] != NULL)
            status = make_memory(&op->memory[n], engine, tensors[n]);
    return status;
}

/* NULL: it has no such argument. */
static described description_of(const struct dnn_op *op, int argument)
{
    described description = NULL;

    if (op->memory[argument] != NULL)
        dnnl_memory_get_memory_desc(op->memory[argument], &description);
    return description;
}

/* scale, softcap * tanh(x / softcap), addend: in this order. */
static dnnl_status_t append_all(struct dnn_op *op, dnnl_post_ops_t list, float scale, float softcap)
{
    const float factor = softcap > 0.0f ? scale / softcap : scale;
    const described addend = description_of(op, DNN_ADDEND);
    dnnl_status_t status = dnnl_success;

    op->addend_place = (factor != 1.0f) + (softcap > 0.0f ? TANH_POST_OPS : 0);
    if (factor != 1.0f)
        status = append_linear(list, factor);
    if (status == dnnl_success && softcap > 0.0f)
        status = append_tanh(list, softcap);
    if (status == dnnl_success && addend != NULL)
        status = dnnl_post_ops_append_binary(list, dnnl_binary_add, addend);
    return status;
}

static dnnl_status_t make_attributes(struct dnn_op *op, dnnl_primitive_attr_t *attributes,
                                     float scale, float softcap)
{
    dnnl_post_ops_t list = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attributes);

    if (status == dnnl_success)
        status = dnnl_post_ops_create(&list);
    if (status == dnnl_success)
        status = append_all(op, list, scale, softcap);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(*attributes, list);
    if (list != NULL)
        dnnl_post_ops_destroy(list);
    return status;
}

/* Makes the primitive and gives up the plan, which is NULL where planning failed. */
static dnnl_status_t finish_plan(struct dnn_op *op, dnnl_primitive_desc_t plan,
                                 dnnl_status_t status)
{
    const char *name = "";

    if (status == dnnl_success)
        status = dnnl_primitive_desc_query(plan, dnnl_query_impl_info_str, 0, (void *)&name);
    snprintf(op->name, sizeof op->name, "%s", name);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&op->primitive, plan);
    if (plan != NULL)
        dnnl_primitive_desc_destroy(plan);
    return status;
}

dnnl_status_t dnn_product_open(struct dnn_op *op, dnnl_engine_t engine,
                               const struct dnn_tensor *const tensors[DNN_MOST_ARGUMENTS],
                               float scale, float softcap)
{
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t plan = NULL;
    dnnl_status_t status = make_memories(op, engine, tensors);

    if (status == dnnl_success)
        status = make_attributes(op, &attributes, scale, softcap);
    if (status == dnnl_success)
        status =
            plan_product(&plan, engine, description_of(op, DNN_SOURCE),
                         description_of(op, DNN_OTHER), description_of(op, DNN_RESULT), attributes);
    if (attributes != NULL)
        dnnl_primitive_attr_destroy(attributes);
    return finish_plan(op, plan, status);
}

dnnl_status_t dnn_softmax_open(struct dnn_op *op, dnnl_engine_t engine,
                               const struct dnn_tensor *const tensors[DNN_MOST_ARGUMENTS])
{
    dnnl_primitive_desc_t plan = NULL;
    dnnl_status_t status = make_memories(op, engine, tensors);

    if (status == dnnl_success)
        status = plan_softmax(&plan, engine, description_of(op, DNN_SOURCE),
                              description_of(op, DNN_RESULT));
    return finish_plan(op, plan, status);
}

dnnl_status_t dnn_op_run(const struct dnn_op *op, dnnl_stream_t stream,
                         void *const memory[DNN_MOST_ARGUMENTS])
{
    const int addend = DNNL_ARG_ATTR_MULTIPLE_POST_OP(op->addend_place) | DNNL_ARG_SRC_1;
    const int numbers[DNN_MOST_ARGUMENTS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, addend, DNNL_ARG_DST};
    dnnl_exec_arg_t arguments[DNN_MOST_ARGUMENTS];
    dnnl_status_t status = dnnl_success;
    int count = 0;

    for (int n = 0; status == dnnl_success && n < DNN_MOST_ARGUMENTS; n++) {
        if (op->memory[n] == NULL)
            continue;
        status = dnnl_memory_set_data_handle(op->memory[n], memory[n]);
        arguments[count++] = (dnnl_exec_arg_t){numbers[n], op->memory[n]};
    }
    return status == dnnl_success ? dnnl_primitive_execute(op->primitive, stream, count, arguments)
                                  : status;
}

void dnn_op_close(struct dnn_op *op)
{
    if (op->primitive != NULL)
        dnnl_primitive_destroy(op->primitive);
    for (int n = 0; n < DNN_MOST_ARGUMENTS; n++)
        if (op->memory[n] != NULL)
            dnnl_memory_destroy(op->memory[n]);
    memset(op, 0, sizeof *op);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products and softmaxes of three-dimensional tensors by oneDNN 2.6 or 3. */
#ifndef CLATTN_BENCH_PEER_DNN_OPS_H
#define CLATTN_BENCH_PEER_DNN_OPS_H

#include "cli/message.h"

#include <oneapi/dnnl/dnnl.h>
#include <stddef.h>

/* A batch of matrices. */
struct dnn_tensor {
    dnnl_data_type_t type;
    dnnl_dims_t size, stride; /* The first three are used. */
};

struct dnn_tensor dnn_tensor(dnnl_data_type_t type, size_t entries, size_t rows, size_t columns,
                             size_t entry_stride, size_t row_stride, size_t column_stride);

enum { DNN_SOURCE, DNN_OTHER, DNN_ADDEND, DNN_RESULT, DNN_MOST_ARGUMENTS };

/* A primitive and the memory objects of its arguments, without memory of their own. */
struct dnn_op {
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[DNN_MOST_ARGUMENTS]; /* NULL: not an argument. */
    int addend_place; /* Index of the addend among the primitive's post-ops. */
    char name[32];    /* Name of the implementation. */
};

/* Open, for tensors in the order of the enumeration (NULL: not there), a product each of
 * whose elements becomes softcap * tanh(scale x / softcap), softcap 0: scale x, plus the addend; and
 * a softmax along the columns. dnnl_unimplemented if the library has no way to do it on this
 * processor. On failure what was made is for dnn_op_close() to release. */
dnnl_status_t dnn_product_open(struct dnn_op *op, dnnl_engine_t engine,
                               const struct dnn_tensor *const tensors[DNN_MOST_ARGUMENTS],
                               float scale, float softcap);
dnnl_status_t dnn_softmax_open(struct dnn_op *op, dnnl_engine_t engine,
                               const struct dnn_tensor *const tensors[DNN_MOST_ARGUMENTS]);

/* Enqueues it with memory for its arguments. */
dnnl_status_t dnn_op_run(const struct dnn_op *op, dnnl_stream_t stream,
                         void *const memory[DNN_MOST_ARGUMENTS]);

/* Allowed on one that is all zeros. */
void dnn_op_close(struct dnn_op *op);

#endif

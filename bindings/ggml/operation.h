/* SPDX-License-Identifier: Apache-2.0 */
/* GGML_OP_FLASH_ATTN_EXT in clattn's words: which problem it is, and where its tensors lie. */
#ifndef CLATTN_GGML_OPERATION_H
#define CLATTN_GGML_OPERATION_H

#include "host.h"

#include <clattn/clattn.h>

enum operand_name {
    OPERAND_Q,
    OPERAND_K,
    OPERAND_V,
    OPERAND_O,
    OPERAND_BIAS,
    OPERAND_SINKS,
    OPERANDS
};

/* The ways in which an operation's mask becomes a bias. */
enum mask_way {
    MASK_NONE,
    MASK_IN_PLACE, /* Of f16, added as it lies in memory. */
    MASK_COPIED,   /* Of f16, in rows as long as the cache: a longer mask is no other problem. */
    MASK_SLOPED    /* Of f32, multiplied with a slope for each head (ALiBi as ggml has it). */
};

/* The numbers that tell one plan from another. There are no gaps between them, since two are
 * compared as bytes. */
struct shape {
    size_t batch, heads, kv_heads, seq_q, seq_kv, dim_qk, dim_v;
    size_t stride[OPERAND_SINKS][4];
    size_t k_cache, v_cache; /* clattn_cache */
    size_t mask;             /* enum mask_way */
    size_t sinks, kv_lengths;
    float scale, softcap;
};

/* Memory from a tensor's first element to its last. */
struct operand {
    char *data;
    size_t bytes;
    size_t unit_bytes; /* Of unit_values neighbours: a block of a quantized tensor, or one value. */
    size_t unit_values;
};

struct operation {
    struct shape shape;
    struct operand
        operand[OPERANDS]; /* data is NULL where there is no such tensor, and while nothing has
                                         memory yet; that of a mask that is copied is the original. */
    size_t keys;           /* In use: at most shape.seq_kv. */
    size_t mask_stride[3]; /* Of the original: batch, head, query, in elements. */
    float max_bias;
};

/* Reads what the node asks for. Returns NULL, or why clattn does not compute it. */
const char *operation_read(const struct host *host, const struct ggml_tensor *node,
                           struct operation *operation);

/* The problem that a shape stands for. */
void operation_problem(const struct shape *shape, clattn_problem *problem);

/* Of both products, masked or not. */
double operation_multiply_adds(const struct operation *operation);

/* ggml's slope of a head: what its mask is multiplied with. */
float operation_slope(float max_bias, size_t heads, size_t head);

#endif

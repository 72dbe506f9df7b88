/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a problem as the public headers describe them: shape, steps and
 * element size of each, and where they lie in host memory. */
#ifndef CLATTN_REFERENCE_TENSORS_H
#define CLATTN_REFERENCE_TENSORS_H

#include "bench/judge/tensors.def"

#include <clattn/attention.h>
#include <clattn/problem.h>
#include <stdbool.h>
#include <stdint.h>

enum tensor_id {
#define TENSOR(ID, ...) TENSOR_##ID,
    TENSORS(TENSOR)
#undef TENSOR
        NUM_TENSORS,
    NUM_FORWARD_TENSORS = TENSOR_DO /* Tensors from here on are of backward alone. */
};

#define TENSOR(ID, ...) ID,
#define JUDGED(ID, name, ...) enum name##_tensor{ID##_TENSORS(TENSOR) NUM_##ID##_TENSORS};
JUDGED_OPERATIONS(JUDGED)
#undef JUDGED
#undef TENSOR

struct tensor_shape {
    const char *name;
    bool present;         /* The problem has it and it has elements. */
    bool written;         /* The problem's operation writes it. */
    size_t size[4];       /* 1-dimensional tensors use the last. */
    size_t stride[4];     /* Strides in elements; those of a packed layout are filled in. */
    size_t extent;        /* Elements from the first to the last used, both included; 0 if none. */
    size_t element_bytes; /* Bytes of an element; of a block of 32, if quantized. */
    clattn_cache cache;   /* How it is quantized, if it is. */
    clattn_dtype dtype;   /* Valid for q, k, v, o, bias, their gradients and the float tensors. */
    bool holds_ints;      /* Of results: elements are int32_t. */
};

/* Pointers to element (0, 0, 0, 0) of each tensor of the problem's operation, NULL where there is none; the other
 * operations have fewer than attention. Of one that is read and written, what it holds before. */
struct tensor_view {
    const unsigned char *at[NUM_TENSORS];
    uint64_t dropout_seed;
    uint32_t dropout_offset;
    clattn_dropout_place dropout_place;
    uint32_t whole_queries, whole_keys;
    const clattn_function_values *function_values; /* NULL: those of the sources */
    /* The lists that an indexer wrote, several of which are right where scores are equal within rounding; its scores
     * are then judged as those of the keys that are listed. NULL: right are the lists of double precision. */
    const unsigned char *chosen;
};

/* id: of the enum of the problem's operation; of a greater one there is no tensor. */
struct tensor_shape tensor_shape_of(const clattn_problem *p, int id);

/* One past the last place that is used: 0 without elements. */
size_t tensor_extent(const size_t sizes[4], const size_t strides[4]);

/* The position of an element, in elements. */
size_t tensor_index(const struct tensor_shape *s, size_t b, size_t h, size_t i, size_t d);

/* Returns how many elements it has, and where one of them comes in a list of all that has the order
 * of the sizes; where the tensor has one element for all along an axis, at that. */
size_t tensor_count(const struct tensor_shape *s);
size_t tensor_packed(const struct tensor_shape *s, size_t b, size_t h, size_t i, size_t d);

/* Batches, heads, kv heads, queries and keys that the functions' operands are of: those of the whole where the problem is a
 * part. */
void tensor_function_sizes(const clattn_problem *p, size_t sizes[5]);

/* The elements of dfunction before those of operand n of the score function; of all, if there are not so many. */
size_t tensor_function_gradient(const clattn_problem *p, size_t n);

/* The position of the element that is number n in the order of the sizes. */
size_t tensor_nth(const struct tensor_shape *s, size_t n);

/* Bytes of a number of elements, whole blocks of a quantized tensor; and the value of one of them, loaded or stored. */
size_t tensor_bytes(const struct tensor_shape *s, size_t elements);
double tensor_load(const struct tensor_shape *s, const void *base, size_t index);
void tensor_store(const struct tensor_shape *s, void *base, size_t index, double value);

/* Queries and keys that batch b has: those of the longest, or of its sequence in a packed batch. */
size_t tensor_queries(const clattn_problem *p, const struct tensor_view *view, size_t b);
size_t tensor_keys(const clattn_problem *p, const struct tensor_view *view, size_t b);

/* The batch and the row of q and o that hold query i of batch b; false if its sequence has none. */
bool tensor_locate_query(const clattn_problem *p, const struct tensor_view *view, size_t b,
                         size_t i, size_t *block, size_t *row);

/* The batch, or the page, and the row of k and v that hold key j of batch b; false if no page does. */
bool tensor_locate_key(const clattn_problem *p, const struct tensor_view *view, size_t b, size_t j,
                       size_t *block, size_t *row);

/* Returns whether a sequence has that row of o, lse, dq, dk or dv, counted along the axis of
 * queries or keys. A packed batch may have rows of no sequence, which nothing writes. Other
 * tensors have every row. */
bool tensor_has_row(const clattn_problem *p, const struct tensor_view *view, enum tensor_id id,
                    size_t row);

/* All elements along the last axis. */
void tensor_load_row(const struct tensor_shape *s, const void *base, size_t b, size_t h, size_t i,
                     double *values);

#endif

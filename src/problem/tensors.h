/* SPDX-License-Identifier: Apache-2.0 */
/* The operands of a problem and their layouts in memory. Each operation has operands of its own,
 * numbered from 0. */
#ifndef CA_TENSORS_H
#define CA_TENSORS_H

#include "problem/formats.h"
#include "problem/operands.h"
#include "problem/operations.def"
#include "problem/tensors.def"

#include <clattn/problem.h>
#include <stdint.h>

/* No size, window or offset exceeds this, so that sums of a few of them fit 64 bits. */
#define CA_MAX_SIZE ((size_t)1 << 48)

/* Buffers a kernel may take, in the order of its parameters (after shape and offsets). Those of
 * options that the problem has not are left out, on both sides. These are attention's; the workspace is
 * CA_WORKSPACE in every operation. */
enum ca_argument {
#define OPERAND(ID, ...) CA_##ID,
    CA_OPERANDS(OPERAND)
#undef OPERAND
        CA_WORKSPACE,
    CA_NUM_ARGUMENTS
};
#define OPERAND(OF, ID, ...) CA_##OF##_##ID,
#define OPERATION(ID, name, ...)                                                                   \
    enum ca_##name##_argument{CA_##ID##_OPERANDS(OPERAND, ID) CA_##ID##_COUNT};                    \
    _Static_assert((int)CA_##ID##_COUNT <= CA_WORKSPACE,                                           \
                   "the workspace comes behind the operands of every operation");
CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
#undef OPERAND
#define CA_BIT(argument) (UINT64_C(1) << (argument))
_Static_assert(CA_NUM_ARGUMENTS <= 56, "a set of arguments, with flags of a stage, is 64 bits");

/* The rest of the arguments if the structs of forward's, or of backward's, calls have an operand that is
 * GIVEN so; and ROLE, input or output, by whether that operation writes it. */
#define CA_OF_FORWARD(GIVEN, ...) CA_OF_FORWARD_##GIVEN(__VA_ARGS__)
#define CA_OF_FORWARD_BOTH(...) __VA_ARGS__
#define CA_OF_FORWARD_FORWARD(...) __VA_ARGS__
#define CA_OF_FORWARD_BACKWARD(...)
#define CA_OF_BACKWARD(GIVEN, ...) CA_OF_BACKWARD_##GIVEN(__VA_ARGS__)
#define CA_OF_BACKWARD_BOTH(...) __VA_ARGS__
#define CA_OF_BACKWARD_FORWARD(...)
#define CA_OF_BACKWARD_BACKWARD(...) __VA_ARGS__
#define CA_FORWARD_ROLE_NOBODY input
#define CA_FORWARD_ROLE_FORWARD output
#define CA_FORWARD_ROLE_BACKWARD output
#define CA_BACKWARD_ROLE_NOBODY input
#define CA_BACKWARD_ROLE_FORWARD input
#define CA_BACKWARD_ROLE_BACKWARD output

/* The value of `written` for tensors that are read before they are written. */
enum { CA_UPDATED = 2 };

/* One tensor of a problem as it lies in memory. */
struct ca_tensor {
    const char *name;   /* the name in messages and problem strings */
    const char *member; /* the member of the public structs of tensors; also the kernels' name */
    const char *type;   /* the element type in kernels */
    int present;
    int written;          /* 0, 1, or CA_UPDATED */
    size_t element_bytes; /* bytes of an element; of a block, if quantized */
    size_t sizes[4];
    clattn_layout layout; /* explicit strides */
    size_t held_at; /* byte of clattn_problem where the problem holds its layout; 0: nowhere */
};

/* Fills tensors[CA_WORKSPACE], all but the workspace, for a problem that passed
 * clattn_problem_check(), or whose layouts are still to be checked. Numbers that the operation does not use
 * are not present. */
void ca_problem_tensors(const clattn_problem *p, struct ca_tensor *tensors);

/* Returns whether kernels of attention take strides of tensor number `argument`, where it is present. */
int ca_has_strides(unsigned argument);

/* Returns whether a program whose problem has these tensors takes strides of number `argument`. It takes those of a bias and
 * a mask that it lacks as well, so that kernels can be written without asking for them. */
int ca_takes_strides(const struct ca_tensor *tensors, unsigned argument);

/* The layout of a tensor in its problem; NULL if the problem has none. Four zeros are the packed
 * layout: the bias's and the mask's are none. */
clattn_layout *ca_tensor_layout(clattn_problem *p, const struct ca_tensor *tensor);

/* Returns true if no output has an element. */
int ca_problem_empty(const clattn_problem *p);

/* Columns of the mask: seq_kv unless it is of the last mask_keys keys. */
size_t ca_mask_keys(const clattn_problem *p);

/* Heads of the score matrix that is handed out: one of means over heads. */
size_t ca_scores_heads(const clattn_problem *p);

/* Heads that have lists of chosen keys of their own. */
size_t ca_topk_heads(const clattn_problem *p);

/* Return how many blocks of rows q and o have, and the rows of each. Blocks are batches, or a
 * single one of all packed sequences. */
size_t ca_query_batch(const clattn_problem *p);
size_t ca_query_rows(const clattn_problem *p);

/* Batches and rows of k and v: of keys, of pages, or one batch of all sequences. */
size_t ca_cache_batch(const clattn_problem *p);
size_t ca_cache_rows(const clattn_problem *p);

/* Pages that a batch has in the table of pages; 0 without. */
size_t ca_table_pages(const clattn_problem *p);
/* For an append: the number of blocks of rows in its caches, batches or pages; the rows of each;
 * and the pages of a batch in the page table. */
size_t ca_append_blocks(const clattn_append_problem *p);
size_t ca_append_rows(const clattn_append_problem *p);
size_t ca_append_table_pages(const clattn_append_problem *p);
/* The same for the keys of an indexer. */
size_t ca_indexer_blocks(const clattn_indexer_problem *p);
size_t ca_indexer_rows(const clattn_indexer_problem *p);
size_t ca_indexer_table_pages(const clattn_indexer_problem *p);

/* Rows and columns of blocks; 0 without block lists. */
size_t ca_block_rows(const clattn_problem *p);
size_t ca_block_columns(const clattn_problem *p);

/* Bytes of an element. */
size_t ca_dtype_bytes(clattn_dtype dtype);

/* The dtype of the problem, by its operation. */
clattn_dtype ca_problem_own_dtype(const clattn_problem *p);

/* The dtype of tensor number `argument`, whose values are floating-point numbers; of a quantized one the
 * problem's. */
clattn_dtype ca_problem_dtype(const clattn_problem *p, unsigned argument);

/* Returns how tensor number `argument` is quantized. It is CLATTN_CACHE_PLAIN if it is not,
 * whatever its dtype. */
clattn_cache ca_problem_cache(const clattn_problem *p, unsigned argument);

/* Returns whether tensor number `argument` is quantized or of half precision, so that kernels for
 * f32 arithmetic convert it. */
int ca_problem_converts(const clattn_problem *p, unsigned argument);

/* CLATTN_CACHE_PLAIN for values of the problem's dtype, by either name. */
clattn_cache ca_cache_normal(clattn_cache cache, clattn_dtype dtype);

/* Bytes of an element of k or v, or of a block of a quantized one. */
size_t ca_cache_bytes(clattn_cache cache, clattn_dtype dtype);

/* Bytes of count elements of a tensor, whole blocks of a quantized one. */
size_t ca_elements_bytes(size_t count, size_t element_bytes, clattn_cache cache);

#endif

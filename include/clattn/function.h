/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file function.h  Functions of the caller's: a score of one's own, a mask of one's own.
 * @ingroup describing
 * A function is OpenCL C that every kernel of attention is compiled with. Its source defines one of
 *
 *     float score(float s, pair p, operands o)     a new score from the score of a pair
 *     bool visible(pair p, operands o)             whether the query of a pair sees its key
 *
 * and, beside score(), if gradients are wanted,
 *
 *     float score_derivative(float s, pair p, operands o)    d score / d s
 *
 * Where a source has no score_derivative() the library derives it. It can where score() has declarations of scalars,
 * assignments, if, for with an int, and return alone, with C's operators but [] and those of pointers. Of the built-in
 * functions exp exp2 log log2 log1p tanh sqrt rsqrt sin cos erf fabs fmin fmax min max clamp fma mad pow pown floor ceil trunc
 * rint round sign, and native_ forms of exponentials, logarithms and roots, take what depends on s; the exponents of pow() and
 * pown() may not. Other functions, also the source's own, take what does not. Steps have the derivative 0, fabs() has 0 at 0,
 * and fmin() and fmax() have that of the first of two equal arguments. Macros cannot be derived.
 *
 * Gradients of operands (dfunction in clattn/problem.h) need the elements of type float, half or bfloat that score() loads, and
 * its derivative by each. The library derives both under the same rules for up to 8 loads, if none is in a loop and no other
 * function of the source is given the operands. For an operand NAME that score() loads once a source may define them itself:
 *
 *     int NAME_index(float s, pair p, operands o)           the number of the element; outside of the operand: none
 *     float NAME_derivative(float s, pair p, operands o)    d score / d element
 *
 * score() is given scale * dot(q, k) after softcap, in f32. Bias, ALiBi, masks, windows and lengths apply to what it
 * returns. -INFINITY hides the pair: its weight is 0, but its value may be multiplied with that 0, so that a NaN there
 * may show; what visible() hides never reaches the output. Both are called for any pair of the problem, also for one that
 * another mask hides, in any order and any number of times, but never for a query or key that does not exist.
 *
 * `pair` has these members, of type int:
 *
 *     batch, head, kv_head    of the query; kv_head = head / (heads / kv_heads)
 *     query, key              positions: in the sequence of a packed batch, in the whole attention where the call
 *                             computes a part of one (clattn_dropout_place)
 *     queries, keys           how many of them are in use in the batch
 *     own_batch, own_head, own_kv_head, own_query, own_key    the same in the call's own tensors, as indices of operands
 *
 * Lines of the source declare operands and parameters, before they are used:
 *
 *     #pragma clattn operand float table[h][64]
 *     #pragma clattn operand half bias[h][q][k]
 *     #pragma clattn parameter int window = 512
 *     #pragma clattn parameter float slope = 0.5
 *
 * An operand is an array in device memory, packed, that each execution gives. Its elements are float, half, bfloat (the
 * upper half of a float), int, char or uchar. Its extents are numbers, or b, h, g, q and k: batch, heads, kv_heads, seq_q and
 * seq_kv of the problem. For an operand NAME the source may call
 *
 *     NAME_at(o, n)     element number n, a float, or an int where elements are integers
 *     NAME_of(o, p)     the element of a pair, where all extents are letters, each at most once
 *     NAME_place(o, p)  a long: the number of the pair's first element, where each letter is an extent at most once; those
 *                       that follow it are of the extents that are numbers
 *
 * and nothing checks n. A parameter is o.NAME. Its value may change with each execution, without a compilation. A self-check
 * calls a function with the source's own values, for problems of other lengths: with these, too, n must lie in the operand. A
 * source that takes an operand's sizes from parameters cannot promise that; NAME_place() knows them.
 *
 * Forward and backward find the tiles that a mask function leaves empty or full, in a first pass over all pairs, where there
 * are at least 32 queries and 128 keys, and no block lists, window to the left, or mask of the last
 * keys. Heads and batches share the pass unless the source or an extent names head, kv_head or batch, or batches have
 * lengths or are packed. Families that divide the keys, which decoding takes, call the function for a tile just before they
 * would read it instead, and skip it if it is empty. Its results lie in the workspace. A plan keeps copies of the last four, of
 * at most a byte for each 8 pairs, for executions on any queue with the same values of the function's parameters and the same
 * dropout_place. If the mask function has operands, or the problem lengths or packed batches, then also with the same
 * function_version (clattn_forward_tensors), not 0, and the same memories, of which buffers over one host memory are one: by an
 * equal number the caller says that these have the same contents. The plan does not notice if they have not; tiles may then be
 * skipped that should not be. Nothing is kept where the workspace is a pointer, with a mask or a bias besides, by the functions
 * on host memory, or if there is no memory for it: then each execution makes the pass.
 *
 * Parts. A call may compute a part of a larger attention, such as the queries and keys of one device. clattn_dropout_place says
 * where the part begins. With whole_batch, whole_heads, whole_q and whole_kv in the problem operands, and dfunction, are
 * those of the whole: letters of extents are its sizes, own_batch and the rest are its places, and queries and keys are
 * whole_queries and whole_keys of the call. The places of the part must lie in the whole, which is not checked. A part's
 * dfunction has zeros for what its pairs do not load, and the whole's is the sum of those of its parts. In attention of
 * several ranks (clattn/mpi.h) each rank gives the whole's operands.
 *
 * Names of a source's own helpers must not be those of OpenCL C or of clattn's kernels; a prefix avoids that. A source
 * may not include files.
 *
 * Order of the steps and signature as PyTorch's flex_attention has them (score_mod and mask_mod): J. Dong et al.,
 * "FlexAttention" (2024).
 */
#ifndef CLATTN_FUNCTION_H
#define CLATTN_FUNCTION_H

#include <clattn/export.h>
#include <clattn/status.h>
#include <stddef.h>
#include <stdint.h>

CLATTN_BEGIN

/** Most operands that the functions of one problem have together. */
#define CLATTN_FUNCTION_OPERANDS 6
/** Most parameters of each type that the functions of one problem have together. */
#define CLATTN_FUNCTION_PARAMETERS 4

/** A function of the caller's. Equal sources are one function: creating it again gives the same pointer. It lives as long as
 *  the process, so that problems, which are copied freely, may hold it. */
typedef struct clattn_function clattn_function;

/** What a function computes. */
typedef enum clattn_function_kind {
    CLATTN_SCORE_FUNCTION = 0, /**< score() */
    CLATTN_MASK_FUNCTION = 1   /**< visible() */
} clattn_function_kind;

/** Types of the elements of an operand. */
typedef enum clattn_function_type {
    CLATTN_FUNCTION_FLOAT = 0,
    CLATTN_FUNCTION_HALF = 1,
    CLATTN_FUNCTION_BFLOAT = 2,
    CLATTN_FUNCTION_INT = 3,
    CLATTN_FUNCTION_CHAR = 4,
    CLATTN_FUNCTION_UCHAR = 5
} clattn_function_type;

/** An operand of a function. */
typedef struct clattn_function_operand {
    size_t struct_size;        /**< sizeof(clattn_function_operand). */
    const char *name;          /**< NULL if there are not so many; lives as long as the function. */
    clattn_function_type type; /**< Type of its elements. */
    const char *extents;       /**< As the source has them: "[h][64]". */
} clattn_function_operand;

/** A parameter of a function. */
typedef struct clattn_function_parameter {
    size_t struct_size; /**< sizeof(clattn_function_parameter). */
    const char *name;   /**< NULL if there are not so many; lives as long as the function. */
    int is_float;       /**< Not 0: a float; 0: an int. */
    size_t number;      /**< Its number among the function's parameters of that type, from 0. */
    float float_value;  /**< The value that the source gives, of a float. */
    int32_t int_value;  /**< The value that the source gives, of an int. */
} clattn_function_parameter;

/**
 * The values of parameters for an execution. Those of the score function come first, in the order in which its
 * source declares them, then those of the mask function.
 */
typedef struct clattn_function_values {
    int32_t ints[CLATTN_FUNCTION_PARAMETERS]; /**< Those of type int. */
    float floats[CLATTN_FUNCTION_PARAMETERS]; /**< Those of type float. */
} clattn_function_values;

/**
 * Reads a source. It is compiled when a plan is made, whose failure has the compiler's sentence with the source's own
 * line numbers.
 *
 * @param name      Names the function in problem strings and messages; 1 to 200 letters, digits and "._-/", not null.
 * @param source    OpenCL C, as above; not null; copied.
 * @param function  Not null; receives the function, NULL on failure.
 * @param reason    NULL, or receives one sentence ("" on success), cut to @p reason_bytes.
 * @param reason_bytes  The size of @p reason.
 * @retval CLATTN_SUCCESS           Made, or found: the first name that a source was given stays.
 * @retval CLATTN_INVALID_ARGUMENT  A null, or a name that cannot be.
 * @retval CLATTN_INVALID_PROBLEM   The source defines none or both of score() and visible(), or with other parameters,
 *                                  or has a declaration that cannot be read; @p reason names the line.
 * @retval CLATTN_OUT_OF_MEMORY     No host memory.
 */
CLATTN_API clattn_status clattn_function_create(const char *name, const char *source,
                                                const clattn_function **function, char *reason,
                                                size_t reason_bytes);

/**
 * The same with the source in a file, whose path is the name, or with that of a function of the library (cl/functions):
 * alibi, dilated, documents, draft_tree, neighborhood, prefix_lm, sam, sliding_window, softcap, swin, t5, t5_decoder or
 * temperature.
 *
 * @retval CLATTN_FILE_ERROR  The file cannot be read; others as clattn_function_create().
 */
CLATTN_API clattn_status clattn_function_read(const char *path, const clattn_function **function,
                                              char *reason, size_t reason_bytes);

/** What it computes. @param function  Not null. */
CLATTN_API clattn_function_kind clattn_function_kind_of(const clattn_function *function);

/** "NAME:HASH", as in problem strings, with 16 hexadecimal digits of the source's hash; of the library's functions NAME.
 * @param function  Not null. */
CLATTN_API const char *clattn_function_name(const clattn_function *function);

/** The source. @param function  Not null. */
CLATTN_API const char *clattn_function_source(const clattn_function *function);

/**
 * Operand number n of a function.
 *
 * @param function  Not null.
 * @param n         From 0; beyond the last one the name is NULL.
 * @param operand   Not null; its struct_size is set by the caller.
 * @retval CLATTN_SUCCESS           Filled in.
 * @retval CLATTN_INVALID_ARGUMENT  A null, or a struct_size of none of this library's versions.
 */
CLATTN_API clattn_status clattn_function_get_operand(const clattn_function *function, size_t n,
                                                     clattn_function_operand *operand);

/** Parameter number n of a function; arguments and statuses as clattn_function_get_operand(). */
CLATTN_API clattn_status clattn_function_get_parameter(const clattn_function *function, size_t n,
                                                       clattn_function_parameter *parameter);

CLATTN_END

#endif

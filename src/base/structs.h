/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of callers whose headers have another version than this library. clattn/version.h states
 * the rule, and this is the one place that follows it. All functions are inline, so that
 * libclattn_mpi has them too. */
#ifndef CA_STRUCTS_H
#define CA_STRUCTS_H

#include "base/log.h"

#include <clattn/clattn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The structs that callers make, each with the last member that every version has. Members behind
 * it are options; 0, or the value of clattn_..._init(), means none. */
#define CA_STRUCTS(STRUCT)                                                                         \
    STRUCT(clattn_context_options, log_user_data)                                                  \
    STRUCT(clattn_device_info, little_endian)                                                      \
    STRUCT(clattn_plan_options, tunables)                                                          \
    STRUCT(clattn_plan_info, problem)                                                              \
    STRUCT(clattn_function_operand, extents)                                                       \
    STRUCT(clattn_function_parameter, int_value)                                                   \
    STRUCT(clattn_tensor, size)                                                                    \
    STRUCT(clattn_forward_tensors, o)                                                              \
    STRUCT(clattn_backward_tensors, dv)                                                            \
    STRUCT(clattn_host_forward_tensors, o)                                                         \
    STRUCT(clattn_host_backward_tensors, dv)                                                       \
    STRUCT(clattn_append_tensors, v_cache)                                                         \
    STRUCT(clattn_host_append_tensors, v_cache)                                                    \
    STRUCT(clattn_double_backward_tensors, gdo)                                                    \
    STRUCT(clattn_host_double_backward_tensors, gdo)                                               \
    STRUCT(clattn_indexer_tensors, scores)                                                         \
    STRUCT(clattn_host_indexer_tensors, scores)                                                    \
    STRUCT(clattn_merge_tensors, lse)                                                              \
    STRUCT(clattn_host_merge_tensors, lse)                                                         \
    STRUCT(clattn_projection_tensors, y)                                                           \
    STRUCT(clattn_host_projection_tensors, y)                                                      \
    STRUCT(clattn_quantization, cache)                                                             \
    STRUCT(clattn_multihead_info, num_steps)                                                       \
    STRUCT(clattn_multihead_forward_tensors, y)                                                    \
    STRUCT(clattn_multihead_backward_tensors, dy)                                                  \
    STRUCT(clattn_tuning_options, seconds)

/* The first of the `count` words reserved for later versions that is not 0; count if all are. */
static inline size_t ca_reserved_used(const size_t *reserved, size_t count)
{
    size_t n = 0;

    while (n < count && reserved[n] == 0)
        n++;
    return n;
}

/* Bytes of a struct up to the end of a member. */
#define CA_BYTES_TO(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

enum {
#define STRUCT(type, member) CA_LEAST_##type = CA_BYTES_TO(type, member),
    CA_STRUCTS(STRUCT)
#undef STRUCT
};

/* No version adds as much to a struct: a larger size means that struct_size was not set. */
enum { CA_MOST_NEW_BYTES = 4096 };

static inline size_t ca_struct_size(const void *given)
{
    size_t size;

    memcpy(&size, given, sizeof size);
    return size;
}

/* Copies the first `size` bytes of a struct to one of `bytes` bytes, as far as that has them; false if the others are not
 * all 0. */
static inline bool ca_struct_copy(void *to, size_t bytes, const void *from, size_t size)
{
    const char *more = from;

    memcpy(to, from, size < bytes ? size : bytes);
    for (size_t n = bytes; n < size; n++)
        if (more[n] != 0)
            return false;
    return true;
}

/* Returns whether a caller's struct, by the argument's name, can be filled in; if not, `why` has
 * one sentence. `bytes` is the size of this library's, `least` that of the first version. */
static inline bool ca_struct_fillable(const char *name, const void *given, size_t bytes,
                                      size_t least, char why[CA_REASON_BYTES])
{
    const size_t size = given ? ca_struct_size(given) : 0;

    if (!given)
        snprintf(why, CA_REASON_BYTES, "%s is null", name);
    else if (size < least || size > bytes + CA_MOST_NEW_BYTES || size % sizeof size != 0)
        snprintf(why, CA_REASON_BYTES,
                 "%s->struct_size is %zu, which no version has: sizeof *%s is %zu in clattn %s",
                 name, size, name, bytes, CLATTN_VERSION_STRING);
    else
        return true;
    return false;
}

/* Fills in a caller's struct that ca_struct_fillable() has accepted, from one of this library's of
 * `bytes` bytes: copies as many bytes as both have, clears the rest, and keeps the caller's
 * struct_size. */
static inline void ca_struct_fill(void *to, const void *from, size_t bytes)
{
    const size_t size = ca_struct_size(to), known = size < bytes ? size : bytes;

    memcpy((char *)to + sizeof size, (const char *)from + sizeof size, known - sizeof size);
    memset((char *)to + known, 0, size - known);
}

/* Reads a caller's struct as one of this library's version; `name` is the argument's name. A
 * struct of the same size is returned itself. Otherwise `own` is filled with what the struct
 * has, and where that is less with `defaults` (NULL: zeros). For a null, or for what the rule
 * refuses, it returns NULL and writes one sentence to `why`. */
static inline const void *ca_struct_read(const char *name, const void *given, size_t bytes,
                                         size_t least, const void *defaults, void *own,
                                         char why[CA_REASON_BYTES])
{
    if (given && ca_struct_size(given) == bytes)
        return given;
    if (!ca_struct_fillable(name, given, bytes, least, why))
        return NULL;
    if (defaults)
        memcpy(own, defaults, bytes);
    else
        memset(own, 0, bytes);
    if (!ca_struct_copy(own, bytes, given, ca_struct_size(given))) {
        snprintf(why, CA_REASON_BYTES,
                 "%s is of a newer version, and sets something behind its first %zu bytes that "
                 "clattn %s does not know",
                 name, bytes, CLATTN_VERSION_STRING);
        return NULL;
    }
    memcpy(own, &bytes, sizeof bytes);
    return own;
}

#define CA_READ(type, name, given, own, why)                                                       \
    ((const type *)ca_struct_read(name, given, sizeof(type), CA_LEAST_##type, NULL, own, why))
#define CA_FILLABLE(type, name, given, why)                                                        \
    ca_struct_fillable(name, given, sizeof(type), CA_LEAST_##type, why)

#endif

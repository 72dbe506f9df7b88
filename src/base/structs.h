/* Structs of callers whose headers are of another version than this library: the rule stands in
 * clattn/version.h, and this is the one place that follows it. */
#ifndef CA_STRUCTS_H
#define CA_STRUCTS_H

#include "base/log.h"

#include <clattn/append.h>
#include <clattn/attention.h>
#include <clattn/merge.h>
#include <clattn/multihead.h>
#include <clattn/projection.h>
#include <clattn/quantize.h>
#include <clattn/tensors.h>
#include <clattn/tuning.h>
#include <stddef.h>

/* The structs that callers make, each with the last member that every version has: the members behind it
 * are options, of which 0, or what clattn_..._init() sets, means none. */
#define CA_STRUCTS(STRUCT)                                                                         \
    STRUCT(clattn_context_options, log_user_data)                                                  \
    STRUCT(clattn_device_info, little_endian)                                                      \
    STRUCT(clattn_problem, o)                                                                      \
    STRUCT(clattn_plan_options, tunables)                                                          \
    STRUCT(clattn_plan_info, problem)                                                              \
    STRUCT(clattn_tensor, size)                                                                    \
    STRUCT(clattn_forward_tensors, o)                                                              \
    STRUCT(clattn_backward_tensors, dv)                                                            \
    STRUCT(clattn_host_forward_tensors, o)                                                         \
    STRUCT(clattn_host_backward_tensors, dv)                                                       \
    STRUCT(clattn_append_tensors, v_cache)                                                         \
    STRUCT(clattn_host_append_tensors, v_cache)                                                    \
    STRUCT(clattn_merge_tensors, lse)                                                              \
    STRUCT(clattn_host_merge_tensors, lse)                                                         \
    STRUCT(clattn_projection_tensors, y)                                                           \
    STRUCT(clattn_host_projection_tensors, y)                                                      \
    STRUCT(clattn_quantization, cache)                                                             \
    STRUCT(clattn_multihead_info, num_steps)                                                       \
    STRUCT(clattn_multihead_forward_tensors, y)                                                    \
    STRUCT(clattn_multihead_backward_tensors, dy)                                                  \
    STRUCT(clattn_tuning_options, seconds)

/* Bytes of a struct up to the end of a member. */
#define CA_BYTES_TO(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

enum {
#define STRUCT(type, member) CA_LEAST_##type = CA_BYTES_TO(type, member),
    CA_STRUCTS(STRUCT)
#undef STRUCT
};

/* What a caller gives, by the argument's name, as a struct of this library's version, of `bytes` bytes: itself
 * where it has this size, else `own`, filled with what it has and, where that is less, with `defaults` (NULL: zeros).
 * NULL, and one sentence in `why`, for a null and for what the rule refuses. */
const void *ca_struct_read(const char *name, const void *given, size_t bytes, size_t least,
                           const void *defaults, void *own, char why[CA_REASON_BYTES]);

#define CA_READ(type, name, given, own, why)                                                       \
    ((const type *)ca_struct_read(name, given, sizeof(type), CA_LEAST_##type, NULL, own, why))

/* Whether a caller's struct, by the argument's name, can be filled in; if not, `why` has one sentence. */
int ca_struct_fillable(const char *name, const void *given, size_t bytes, size_t least,
                       char why[CA_REASON_BYTES]);

#define CA_FILLABLE(type, name, given, why)                                                        \
    ca_struct_fillable(name, given, sizeof(type), CA_LEAST_##type, why)

/* Fills in a struct that ca_struct_fillable() has said yes to, from one of this library's of `bytes` bytes: of
 * these as many as it has; 0 behind them; its size stays. */
void ca_struct_fill(void *to, const void *from, size_t bytes);

#endif

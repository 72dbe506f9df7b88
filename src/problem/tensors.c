/* SPDX-License-Identifier: Apache-2.0 */
#include "problem/tensors.h"
#include "problem/function.h"
#include "problem/layout.h"
#include "problem/operations.h"

#include <stddef.h>
#include <string.h>

enum {
    HAS_OF_BIAS,
    HAS_PACKED = HAS_OF_BIAS,
    HAS_STRIDED,
    HAS_BROADCAST /* of options, which may be absent */
};

int ca_has_strides(unsigned argument)
{
    static const char has[CA_WORKSPACE] = {
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, LAYOUT, ...) [CA_##ID] = HAS_##LAYOUT,
        CA_OPERANDS(OPERAND)
#undef OPERAND
    };

    return has[argument];
}

int ca_takes_strides(const struct ca_tensor *tensors, unsigned argument)
{
    const int has = ca_has_strides(argument);

    return has == HAS_BROADCAST || (has && tensors[argument].present);
}

size_t ca_mask_keys(const clattn_problem *p)
{
    return p->mask_keys ? p->mask_keys : p->seq_kv;
}

size_t ca_dtype_bytes(clattn_dtype dtype)
{
    static const size_t bytes_of[CA_NUM_DTYPES] = {
#define DTYPE(ID, word, bytes) [CLATTN_##ID] = bytes,
        CA_DTYPES(DTYPE)
#undef DTYPE
    };

    /* an absent tensor may have no dtype */
    return bytes_of[(unsigned)dtype < CA_NUM_DTYPES ? dtype : CLATTN_F32];
}

/* The cache format as the problem gives it. */
static clattn_cache cache_of(const clattn_problem *p, unsigned argument)
{
    if (p->operation == CLATTN_APPEND)
        return argument == CA_APPEND_K_CACHE   ? p->append.k_format
               : argument == CA_APPEND_V_CACHE ? p->append.v_format
                                               : CLATTN_CACHE_PLAIN;
    if (!ca_is_attention(p))
        return CLATTN_CACHE_PLAIN;
    return argument == CA_K ? p->k_cache : argument == CA_V ? p->v_cache : CLATTN_CACHE_PLAIN;
}

clattn_cache ca_problem_cache(const clattn_problem *p, unsigned argument)
{
    const clattn_cache cache = cache_of(p, argument);

    return ca_format_of(cache)->is_blocks ? cache : CLATTN_CACHE_PLAIN;
}

clattn_cache ca_cache_normal(clattn_cache cache, clattn_dtype dtype)
{
    const struct ca_format *format = ca_format_of(cache);

    return format->is_dtype && format->dtype == dtype ? CLATTN_CACHE_PLAIN : cache;
}

clattn_dtype ca_problem_own_dtype(const clattn_problem *p)
{
    switch (p->operation) {
#define OPERATION(ID, name, ...)                                                                   \
    case CLATTN_##ID:                                                                              \
        return p->name.dtype;
        CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
    default:
        return p->dtype;
    }
}

clattn_dtype ca_problem_dtype(const clattn_problem *p, unsigned argument)
{
    static clattn_dtype (*const of[])(const clattn_problem *, unsigned) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = ca_##name##_dtype,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    return of[ca_operation(p)](p, argument);
}

clattn_dtype ca_attention_dtype(const clattn_problem *p, unsigned argument)
{
    const struct ca_format *format = ca_format_of(cache_of(p, argument));

    switch (argument) {
    case CA_BIAS:
    case CA_DBIAS:
        return p->bias_dtype;
    case CA_K:
    case CA_V:
        return format->is_dtype ? format->dtype : p->dtype;
    case CA_Q:
    case CA_DO:
        return p->dtype;
    case CA_O:
    case CA_DQ:
    case CA_DK:
    case CA_DV:
        return p->o_f32 ? CLATTN_F32 : p->dtype;
    default:
        return CLATTN_F32;
    }
}

int ca_problem_converts(const clattn_problem *p, unsigned argument)
{
    return ca_problem_cache(p, argument) != CLATTN_CACHE_PLAIN ||
           ca_problem_dtype(p, argument) != CLATTN_F32;
}

size_t ca_scores_heads(const clattn_problem *p)
{
    return p->scores == CLATTN_SCORES_MEAN ? 1 : p->heads;
}

size_t ca_topk_heads(const clattn_problem *p)
{
    return p->topk_heads ? p->kv_heads : 1;
}

size_t ca_query_batch(const clattn_problem *p)
{
    return p->total_q ? 1 : p->batch;
}

size_t ca_query_rows(const clattn_problem *p)
{
    return p->total_q ? p->total_q : p->seq_q;
}

size_t ca_cache_batch(const clattn_problem *p)
{
    return p->page_size ? p->pages : p->total_kv ? 1 : p->batch;
}

size_t ca_cache_rows(const clattn_problem *p)
{
    return p->page_size ? p->page_size : p->total_kv ? p->total_kv : p->seq_kv;
}

size_t ca_table_pages(const clattn_problem *p)
{
    return p->page_size ? (p->seq_kv + p->page_size - 1) / p->page_size : 0;
}

size_t ca_cache_bytes(clattn_cache cache, clattn_dtype dtype)
{
    const struct ca_format *format = ca_format_of(cache);

    return format->is_blocks ? format->bytes : ca_dtype_bytes(dtype);
}

size_t ca_elements_bytes(size_t count, size_t element_bytes, clattn_cache cache)
{
    return (cache == CLATTN_CACHE_PLAIN ? count : (count + CA_BLOCK - 1) / CA_BLOCK) *
           element_bytes;
}

static size_t divide_up(size_t n, size_t by)
{
    return by ? n / by + (n % by != 0) : 0;
}

size_t ca_block_rows(const clattn_problem *p)
{
    return divide_up(p->seq_q, p->block_q);
}

size_t ca_block_columns(const clattn_problem *p)
{
    return divide_up(p->seq_kv, p->block_kv);
}

/* The bias's gradient has one element where the bias broadcasts, even over nothing: then it is 0. */
static size_t unless_broadcast(const clattn_problem *p, int axis, size_t size)
{
    return p->bias_layout.stride[axis] == 0 ? 1 : size;
}

static void attention_tensors(const clattn_problem *p, struct ca_tensor *tensors)
{
    const size_t value_bytes = ca_dtype_bytes(p->dtype), bias_bytes = ca_dtype_bytes(p->bias_dtype);
    const size_t k_bytes = ca_cache_bytes(ca_problem_cache(p, CA_K), ca_problem_dtype(p, CA_K));
    const size_t v_bytes = ca_cache_bytes(ca_problem_cache(p, CA_V), ca_problem_dtype(p, CA_V));
    const size_t o_bytes = ca_dtype_bytes(ca_problem_dtype(p, CA_O));
    const size_t gradient_bytes = ca_dtype_bytes(ca_problem_dtype(p, CA_DQ));
    const int backward = p->operation == CLATTN_BACKWARD;
#define WRITTEN_NOBODY 0
#define WRITTEN_FORWARD !backward
#define WRITTEN_BACKWARD 1
#define LAYOUT_STRIDED(member) p->member
#define LAYOUT_BROADCAST(member) p->member
#define LAYOUT_OF_BIAS(member) p->member
#define LAYOUT_PACKED(member)                                                                      \
    {                                                                                              \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
#define PACKS_STRIDED 1 /* four zeros; elsewhere they broadcast one value */
#define PACKS_BROADCAST 0
#define PACKS_OF_BIAS 0
#define PACKS_PACKED 1
#define HELD_STRIDED(member) offsetof(clattn_problem, member)
#define HELD_BROADCAST(member) 0
#define HELD_OF_BIAS(member) 0
#define HELD_PACKED(member) 0
#define OPERAND(ID, member_name, GIVEN, WRITER, LAYER, LAYOUT, layout_member, text, type_name,     \
                has, bytes, s0, s1, s2, s3)                                                        \
    tensors[CA_##ID] = (struct ca_tensor){.name = text,                                            \
                                          .member = #member_name,                                  \
                                          .type = #type_name,                                      \
                                          .present = has,                                          \
                                          .written = WRITTEN_##WRITER,                             \
                                          .element_bytes = bytes,                                  \
                                          .sizes = {s0, s1, s2, s3},                               \
                                          .layout = LAYOUT_##LAYOUT(layout_member),                \
                                          .held_at = HELD_##LAYOUT(layout_member)};                \
    if (PACKS_##LAYOUT)                                                                            \
        tensors[CA_##ID].layout =                                                                  \
            ca_layout_explicit(&tensors[CA_##ID].layout, tensors[CA_##ID].sizes);
    CA_OPERANDS(OPERAND)
#undef OPERAND
    for (size_t n = 0; n < CLATTN_FUNCTION_OPERANDS; n++) {
        const struct ca_function_operand *o = ca_function_slot(p, n);
        if (o)
            tensors[CA_FUNCTION_0 + n].type = ca_function_type_of(o->type)->stored;
    }
}

/* The layout of a tensor. It is always packed; or that of p, where zeros stand for packed; or that of p, whose zeros mean
 * that the tensor broadcasts along the axis. */
#define TENSOR_PACKED(member) ca_layout_explicit(&(clattn_layout){{0}}, t->sizes)
#define TENSOR_STRIDED(member) ca_layout_explicit(&p->member, t->sizes)
#define TENSOR_BROADCAST(member) p->member
#define HELD_AT(member) (size_t)((const char *)&p->member - (const char *)problem)
#define HELD_AT_PACKED(member) 0
#define HELD_AT_STRIDED(member) HELD_AT(member)
#define HELD_AT_BROADCAST(member) 0 /* a layout for all tensors leaves out scales */
#define OPERAND(of, ID, member_name, LAYOUT, role, type_name, has, written_as, bytes, ...)         \
    *t = (struct ca_tensor){.name = #member_name,                                                  \
                            .member = #member_name,                                                \
                            .type = #type_name,                                                    \
                            .present = (has) != 0,                                                 \
                            .written = written_as,                                                 \
                            .element_bytes = bytes,                                                \
                            .sizes = {__VA_ARGS__},                                                \
                            .held_at = HELD_AT_##LAYOUT(member_name)};                             \
    t->layout = TENSOR_##LAYOUT(member_name);                                                      \
    t++;
#define OPERATION(ID, name, ...)                                                                   \
    static void name##_tensors(const clattn_problem *problem, struct ca_tensor *t)                 \
    {                                                                                              \
        const clattn_##name##_problem *p = &problem->name;                                         \
        CA_##ID##_OPERANDS(OPERAND, )                                                              \
    }
CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
#undef OPERAND

void ca_problem_tensors(const clattn_problem *p, struct ca_tensor *tensors)
{
    static void (*const of[])(const clattn_problem *, struct ca_tensor *) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = name##_tensors,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    for (size_t n = 0; n < CA_WORKSPACE && !ca_is_attention(p); n++)
        tensors[n] = (struct ca_tensor){.name = "none", .element_bytes = 1};
    of[ca_operation(p)](p, tensors);
}

clattn_layout *ca_tensor_layout(clattn_problem *p, const struct ca_tensor *tensor)
{
    return tensor->held_at ? (clattn_layout *)((char *)p + tensor->held_at) : NULL;
}

int ca_problem_empty(const clattn_problem *p)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(p, tensors);
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        const size_t *sizes = tensors[n].sizes;
        if (tensors[n].present && tensors[n].written && sizes[0] && sizes[1] && sizes[2] &&
            sizes[3])
            return 0;
    }
    return 1;
}

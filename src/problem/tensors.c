#include "problem/tensors.h"
#include "problem/layout.h"

size_t ca_dtype_bytes(clattn_dtype dtype)
{
    return dtype == CLATTN_F32 ? 4 : 2;
}

/* As the problem says it. */
static clattn_cache cache_of(const clattn_problem *p, unsigned argument)
{
    return argument == CA_K ? p->k_cache : argument == CA_V ? p->v_cache : CLATTN_CACHE_PLAIN;
}

clattn_cache ca_problem_cache(const clattn_problem *p, unsigned argument)
{
    const clattn_cache cache = cache_of(p, argument);

    return cache < CLATTN_CACHE_F32 ? cache : CLATTN_CACHE_PLAIN;
}

clattn_dtype ca_problem_dtype(const clattn_problem *p, unsigned argument)
{
    const clattn_cache cache = cache_of(p, argument);

    return cache < CLATTN_CACHE_F32 ? p->dtype : (clattn_dtype)(cache - CLATTN_CACHE_F32);
}

clattn_cache ca_cache_normal(clattn_cache cache, clattn_dtype dtype)
{
    return (int)cache == CLATTN_CACHE_F32 + (int)dtype ? CLATTN_CACHE_PLAIN : cache;
}

size_t ca_cache_bytes(clattn_cache cache, clattn_dtype dtype)
{
    switch (cache) {
    case CLATTN_CACHE_Q8_0:
        return 2 + CA_BLOCK;
    case CLATTN_CACHE_Q4_0:
        return 2 + CA_BLOCK / 2;
    default:
        return ca_dtype_bytes(dtype);
    }
}

size_t ca_elements_bytes(size_t count, size_t element_bytes, clattn_cache cache)
{
    return (cache == CLATTN_CACHE_PLAIN ? count : (count + CA_BLOCK - 1) / CA_BLOCK) *
           element_bytes;
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
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, LAYOUT, layout_member, text, type, has, bytes,   \
                s0, s1, s2, s3)                                                                    \
    tensors[CA_##ID] = (struct ca_tensor){.name = text,                                            \
                                          .present = has,                                          \
                                          .written = WRITTEN_##WRITER,                             \
                                          .element_bytes = bytes,                                  \
                                          .sizes = {s0, s1, s2, s3},                               \
                                          .layout = LAYOUT_##LAYOUT(layout_member)};               \
    if (PACKS_##LAYOUT)                                                                            \
        tensors[CA_##ID].layout =                                                                  \
            ca_layout_explicit(&tensors[CA_##ID].layout, tensors[CA_##ID].sizes);
    CA_OPERANDS(OPERAND)
#undef OPERAND
}

/* x, w, y and the bias in the places of q, k, o and the bias. */
static void projection_tensors(const clattn_problem *p, struct ca_tensor *tensors)
{
    const size_t bytes = ca_dtype_bytes(p->dtype);
    const struct ca_tensor x = {"x", 1, 0, bytes, {p->batch, p->kv_heads, p->seq_q, p->dim_qk},
                                p->q};
    const struct ca_tensor w = {"w", 1, 0, bytes, {p->kv_heads, p->dim_qk, p->heads, p->dim_v},
                                p->k};
    const struct ca_tensor y = {
        "y", 1, p->accumulate ? CA_UPDATED : 1, bytes, {p->batch, p->heads, p->seq_q, p->dim_v},
        p->o};
    const struct ca_tensor bias = {
        "bias", p->bias, 0, ca_dtype_bytes(p->bias_dtype), {1, p->heads, 1, p->dim_v}, {{0}}};

    for (size_t n = 0; n < CA_WORKSPACE; n++)
        tensors[n] = (struct ca_tensor){.name = "a tensor of attention", .element_bytes = 1};
    tensors[CA_Q] = x;
    tensors[CA_K] = w;
    tensors[CA_O] = y;
    tensors[CA_BIAS] = bias;
    for (size_t n = 0; n < CA_WORKSPACE; n++)
        tensors[n].layout = ca_layout_explicit(&tensors[n].layout, tensors[n].sizes);
}

void ca_problem_tensors(const clattn_problem *p, struct ca_tensor *tensors)
{
    if (p->operation == CLATTN_PROJECTION)
        projection_tensors(p, tensors);
    else
        attention_tensors(p, tensors);
}

clattn_layout *ca_problem_layout(clattn_problem *p, unsigned argument)
{
    if (p->operation == CLATTN_PROJECTION && argument != CA_Q && argument != CA_K &&
        argument != CA_O)
        return NULL;
    switch (argument) {
#define HOLDS_STRIDED(ID, member)                                                                  \
    case CA_##ID:                                                                                  \
        return &p->member;
#define HOLDS_BROADCAST(ID, member)
#define HOLDS_OF_BIAS(ID, member)
#define HOLDS_PACKED(ID, member)
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, LAYOUT, layout_member, ...)                      \
    HOLDS_##LAYOUT(ID, layout_member)
        CA_OPERANDS(OPERAND)
#undef OPERAND
    default:
        return NULL;
    }
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

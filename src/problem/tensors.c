#include "problem/tensors.h"
#include "problem/layout.h"
#include "problem/operations.h"

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

    /* what is absent may have none */
    return bytes_of[(unsigned)dtype < CA_NUM_DTYPES ? dtype : CLATTN_F32];
}

/* As the problem says it. */
static clattn_cache cache_of(const clattn_problem *p, unsigned argument)
{
    const int appends = p->operation == CLATTN_APPEND;

    return argument == (appends ? CA_DK : CA_K)   ? p->k_cache
           : argument == (appends ? CA_DV : CA_V) ? p->v_cache
                                                  : CLATTN_CACHE_PLAIN;
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

clattn_dtype ca_problem_dtype(const clattn_problem *p, unsigned argument)
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
        return p->o_f32 ? CLATTN_F32 : p->dtype;
    case CA_DK:
    case CA_DV:
        return p->operation == CLATTN_APPEND ? p->cache_dtype : p->o_f32 ? CLATTN_F32 : p->dtype;
    default:
        return CLATTN_F32;
    }
}

int ca_problem_converts(const clattn_problem *p, unsigned argument)
{
    return ca_problem_cache(p, argument) != CLATTN_CACHE_PLAIN ||
           ca_problem_dtype(p, argument) != CLATTN_F32;
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

/* None, for operations that put some of their own in the places of some. */
static void no_tensors(struct ca_tensor *tensors)
{
    for (size_t n = 0; n < CA_WORKSPACE; n++)
        tensors[n] = (struct ca_tensor){.name = "a tensor of attention", .element_bytes = 1};
}

static void place(struct ca_tensor *tensors, enum ca_argument argument, struct ca_tensor tensor)
{
    tensor.present = 1;
    tensor.layout = ca_layout_explicit(&tensor.layout, tensor.sizes);
    tensors[argument] = tensor;
}

/* x, w, y and the bias in the places of q, k, o and the bias. */
static void projection_tensors(const clattn_problem *p, struct ca_tensor *tensors)
{
    const size_t bytes = ca_dtype_bytes(p->dtype);

    no_tensors(tensors);
    place(tensors, CA_Q,
          (struct ca_tensor){.name = "x",
                             .element_bytes = bytes,
                             .sizes = {p->batch, p->kv_heads, p->seq_q, p->dim_qk},
                             .layout = p->q});
    place(tensors, CA_K,
          (struct ca_tensor){.name = "w",
                             .element_bytes = bytes,
                             .sizes = {p->kv_heads, p->dim_qk, p->heads, p->dim_v},
                             .layout = p->k});
    place(tensors, CA_O,
          (struct ca_tensor){.name = "y",
                             .written = p->accumulate ? CA_UPDATED : 1,
                             .element_bytes = bytes,
                             .sizes = {p->batch, p->heads, p->seq_q, p->dim_v},
                             .layout = p->o});
    tensors[CA_BIAS].name = "bias";
    if (p->bias)
        place(tensors, CA_BIAS,
              (struct ca_tensor){.name = "bias",
                                 .element_bytes = ca_dtype_bytes(p->bias_dtype),
                                 .sizes = {1, p->heads, 1, p->dim_v}});
}

/* The states in the places of q and lse, what they become in those of o and the scores. Where the states
 * are, "batch" counts all batches of the first, then those of the second. */
static void merge_tensors(const clattn_problem *p, struct ca_tensor *tensors)
{
    const size_t states = p->seq_kv * p->batch;
    const int written = p->accumulate ? CA_UPDATED : 1;

    no_tensors(tensors);
    place(tensors, CA_Q,
          (struct ca_tensor){.name = "parts",
                             .element_bytes = ca_dtype_bytes(p->dtype),
                             .sizes = {states, p->heads, p->seq_q, p->dim_v},
                             .layout = p->q});
    place(tensors, CA_LSE,
          (struct ca_tensor){.name = "parts_lse",
                             .element_bytes = sizeof(float),
                             .sizes = {1, states, p->heads, p->seq_q}});
    tensors[CA_SINKS].name = "sinks";
    if (p->sinks)
        place(tensors, CA_SINKS,
              (struct ca_tensor){
                  .name = "sinks", .element_bytes = sizeof(float), .sizes = {1, 1, 1, p->heads}});
    place(tensors, CA_O,
          (struct ca_tensor){.name = "o",
                             .written = written,
                             .element_bytes = ca_dtype_bytes(p->dtype),
                             .sizes = {p->batch, p->heads, p->seq_q, p->dim_v},
                             .layout = p->o});
    place(tensors, CA_SCORES,
          (struct ca_tensor){.name = "lse",
                             .written = written,
                             .element_bytes = sizeof(float),
                             .sizes = {p->batch, p->heads, p->seq_q, 1}});
}

/* Numbers of an append: whose place they are in, what they are called, their type and two sizes. */
static void place_list(struct ca_tensor *tensors, enum ca_argument argument, const char *name,
                       const char *type, int present, size_t rows, size_t columns)
{
    tensors[argument].name = name;
    if (present)
        place(tensors, argument,
              (struct ca_tensor){
                  .name = name, .type = type, .element_bytes = 4, .sizes = {1, 1, rows, columns}});
}

/* A cache in the place of a gradient: only some of its rows are written. */
static void place_cache(struct ca_tensor *tensors, enum ca_argument argument, const char *name,
                        const clattn_problem *p, size_t dim, const clattn_layout *layout)
{
    const clattn_cache cache = ca_problem_cache(p, argument);

    place(tensors, argument,
          (struct ca_tensor){.name = name,
                             .type = "void",
                             .written = CA_UPDATED,
                             .element_bytes = ca_cache_bytes(cache, p->cache_dtype),
                             .sizes = {ca_cache_batch(p), p->kv_heads, ca_cache_rows(p), dim},
                             .layout = *layout});
}

/* The new keys and values where attention has its own, the caches where it has their gradients. */
static void append_tensors(const clattn_problem *p, struct ca_tensor *tensors)
{
    const size_t bytes = ca_dtype_bytes(p->dtype);
    const struct ca_tensor q = {.name = "q",
                                .element_bytes = bytes,
                                .sizes = {p->batch, p->heads, p->seq_q, p->dim_qk},
                                .layout = p->q};
    struct ca_tensor q_out = q;

    no_tensors(tensors);
    tensors[CA_Q].name = "q";
    tensors[CA_O].name = q_out.name = "q_out";
    q_out.written = p->queries == CLATTN_QUERIES_IN_PLACE ? CA_UPDATED : 1;
    q_out.layout = p->o;
    if (p->queries == CLATTN_QUERIES_ROTATED)
        place(tensors, CA_Q, q);
    if (p->queries != CLATTN_QUERIES_NONE)
        place(tensors, CA_O, q_out);
    place(tensors, CA_K,
          (struct ca_tensor){.name = "k",
                             .type = "storage",
                             .element_bytes = bytes,
                             .sizes = {p->batch, p->kv_heads, p->seq_q, p->dim_qk},
                             .layout = p->k});
    place(tensors, CA_V,
          (struct ca_tensor){.name = "v",
                             .type = "storage",
                             .element_bytes = bytes,
                             .sizes = {p->batch, p->kv_heads, p->seq_q, p->dim_v},
                             .layout = p->v});
    place_cache(tensors, CA_DK, "k_cache", p, p->dim_qk, &p->dk);
    place_cache(tensors, CA_DV, "v_cache", p, p->dim_v, &p->dv);
    place_list(tensors, CA_KV_LENGTHS, "kv_lengths", "int", p->kv_lengths, 1, p->batch);
    place_list(tensors, CA_PAGE_TABLE, "page_table", "int", p->page_size && !p->slots, p->batch,
               ca_table_pages(p));
    place_list(tensors, CA_Q_LENGTHS, "slots", "int", p->slots, p->batch, p->seq_q);
    place_list(tensors, CA_MASK, "positions", "int", p->positions, p->batch, p->seq_q);
    place_list(tensors, CA_SLOPES, "cos", "float", p->rotary_length != 0, p->rotary_length,
               p->rotary_dim / 2);
    place_list(tensors, CA_SINKS, "sin", "float", p->rotary_length != 0, p->rotary_length,
               p->rotary_dim / 2);
}

void ca_problem_tensors(const clattn_problem *p, struct ca_tensor *tensors)
{
    static void (*const of[])(const clattn_problem *, struct ca_tensor *) = {
#define OPERATION(ID, word, noun, call, laid, tensors, ...) [CLATTN_##ID] = tensors,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    of[ca_operation(p)](p, tensors);
}

clattn_layout *ca_problem_layout(clattn_problem *p, unsigned argument)
{
    static const unsigned laid_operands[] = {
#define OPERATION(ID, word, noun, call, laid, ...) [CLATTN_##ID] = laid,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    if (!(laid_operands[ca_operation(p)] & CA_BIT(argument)))
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

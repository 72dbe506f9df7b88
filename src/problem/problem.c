/* SPDX-License-Identifier: Apache-2.0 */
#include "problem/problem.h"
#include "base/structs.h"
#include "problem/function.h"
#include "problem/layout.h"
#include "problem/operations.h"
#include "problem/tensors.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

void clattn_problem_init(clattn_problem *problem)
{
    memset(problem, 0, sizeof *problem);
    problem->struct_size = sizeof *problem;
    problem->batch = problem->heads = problem->kv_heads = 1;
    problem->seq_q = problem->seq_kv = problem->dim_qk = problem->dim_v = 1;
    problem->scale = NAN;
    problem->window_left = problem->window_right = CLATTN_UNLIMITED;
}

void clattn_problem_init_operation(clattn_problem *problem, clattn_operation operation)
{
    clattn_problem_init(problem);
    problem->operation = operation;
    switch (operation) {
#define OPERATION(ID, name, ...)                                                                   \
    case CLATTN_##ID:                                                                              \
        problem->name = ca_##name##_initial;                                                       \
        break;
        CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
    default:
        break;
    }
}

int64_t ca_diagonal(clattn_diagonal diagonal, int64_t offset, size_t seq_q, size_t seq_kv)
{
    switch (diagonal) {
    case CLATTN_BOTTOM_RIGHT:
        return (int64_t)seq_kv - (int64_t)seq_q;
    case CLATTN_OFFSET:
        return offset;
    default:
        return 0;
    }
}

int64_t ca_problem_diagonal(const clattn_problem *p)
{
    return ca_diagonal(p->diagonal, p->diagonal_offset, p->seq_q, p->seq_kv);
}

int ca_problem_accumulates(const clattn_problem *p)
{
    return (p->operation == CLATTN_PROJECTION && p->projection.accumulate) ||
           (p->operation == CLATTN_MERGE && p->merge.accumulate);
}

void ca_problem_simplify(clattn_problem *p)
{
    p->k_cache = ca_cache_normal(p->k_cache, p->dtype);
    p->v_cache = ca_cache_normal(p->v_cache, p->dtype);
    p->o_f32 = p->o_f32 && p->dtype != CLATTN_F32;
    p->strict = p->strict && p->dtype != CLATTN_F32;
    if (!p->k_scales)
        p->k_scales_layout = (clattn_layout){{0}};
    if (!p->v_scales)
        p->v_scales_layout = (clattn_layout){{0}};
}

clattn_problem ca_problem_normal(const clattn_problem *p)
{
    struct ca_tensor tensors[CA_WORKSPACE];
    clattn_problem normal = *p;

    ca_problem_tensors(p, tensors);
    for (unsigned n = 0; n < CA_WORKSPACE; n++) {
        clattn_layout *layout = ca_tensor_layout(&normal, &tensors[n]);
        if (layout && (tensors[n].present || ca_is_attention(p)))
            *layout = tensors[n].layout;
    }
    if (p->operation == CLATTN_PROJECTION)
        ca_projection_join_axes(&normal);
    if (p->operation == CLATTN_DOUBLE_BACKWARD)
        ca_double_backward_normal(&normal.double_backward);
    if (!ca_is_attention(p))
        return normal;
    ca_problem_simplify(&normal);
    if (isnan(p->scale))
        normal.scale = (float)(1.0 / sqrt((double)p->dim_qk));
    if (p->causal)
        normal.window_right = 0;
    return normal;
}

/* ---- checks ---------------------------------------------------------------------------------- */

clattn_status ca_keep_rules(const struct ca_rule *rules, size_t count, char *reason, size_t bytes)
{
    for (size_t n = 0; n < count; n++) {
        if (rules[n].broken)
            return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes, "%s", rules[n].sentence);
    }
    return CLATTN_SUCCESS;
}

static clattn_status check_size(const struct ca_size *size, size_t most, char *reason, size_t bytes)
{
    if (size->value >= size->least && size->value <= most)
        return CLATTN_SUCCESS;
    return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes,
                          "%s is %zu but must be from %zu to %zu", size->name, size->value,
                          size->least, most);
}

clattn_status ca_check_sizes(const struct ca_size *sizes, size_t count, char *reason, size_t bytes)
{
    clattn_status status = CLATTN_SUCCESS;

    for (size_t n = 0; n < count && status == CLATTN_SUCCESS; n++)
        status = check_size(&sizes[n], CA_MAX_SIZE, reason, bytes);
    return status;
}

clattn_status ca_check_choices(const struct ca_enum_value *choices, size_t count, char *reason,
                               size_t bytes)
{
    for (size_t n = 0; n < count; n++) {
        if (choices[n].value < 0 || choices[n].value > choices[n].last)
            return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes,
                                  "%s is %d but must be from 0 to %d", choices[n].name,
                                  choices[n].value, choices[n].last);
    }
    return CLATTN_SUCCESS;
}

clattn_status ca_check_members(const struct ca_enum_value *choices, size_t num_choices,
                               const struct ca_size *sizes, size_t num_sizes, char *reason,
                               size_t bytes)
{
    const clattn_status status = ca_check_choices(choices, num_choices, reason, bytes);

    return status == CLATTN_SUCCESS ? ca_check_sizes(sizes, num_sizes, reason, bytes) : status;
}

clattn_status ca_check_groups(size_t heads, size_t kv_heads, char *reason, size_t bytes)
{
    if (heads % kv_heads == 0)
        return CLATTN_SUCCESS;
    return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes,
                          "heads (%zu) must be a multiple of kv_heads (%zu)", heads, kv_heads);
}

clattn_status ca_check_pages(size_t pages, size_t page_size, char *reason, size_t bytes)
{
    const size_t least = page_size != 0, most = page_size ? INT32_MAX : 0;

    if (pages >= least && pages <= most)
        return CLATTN_SUCCESS;
    return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes,
                          "pages is %zu but must be from %zu to %zu with a page_size of %zu", pages,
                          least, most, page_size);
}

static clattn_status check_sizes(const clattn_problem *p, char *reason, size_t bytes)
{
    const struct ca_size sizes[] = {
        {"batch", p->batch, 0}, {"heads", p->heads, 1},         {"kv_heads", p->kv_heads, 1},
        {"seq_q", p->seq_q, 0}, {"seq_kv", p->seq_kv, 0},       {"dim_qk", p->dim_qk, 1},
        {"dim_v", p->dim_v, 1}, {"page_size", p->page_size, 0},
#define SIZE(ID, member, word, OF, difference) {#member, p->member, 0},
        CA_SIZES(SIZE)
#undef SIZE
    };

    return ca_check_sizes(sizes, sizeof sizes / sizeof *sizes, reason, bytes);
}

static clattn_status check_choices(const clattn_problem *p, char *reason, size_t bytes)
{
    const struct ca_enum_value choices[] = {
        {"dtype", (int)p->dtype, CA_NUM_DTYPES - 1},
        {"bias_dtype", p->bias ? (int)p->bias_dtype : 0, CA_NUM_DTYPES - 1},
        {"diagonal", (int)p->diagonal, CLATTN_OFFSET},
        {"scores", (int)p->scores, CLATTN_SCORES_MEAN},
        {"k_cache", (int)p->k_cache, CA_NUM_CACHES - 1},
        {"v_cache", (int)p->v_cache, CA_NUM_CACHES - 1},
    };

    return ca_check_choices(choices, sizeof choices / sizeof *choices, reason, bytes);
}

clattn_status ca_check_window(int64_t left, int64_t right, int64_t offset, char *reason,
                              size_t bytes)
{
    const int64_t most = (int64_t)CA_MAX_SIZE;
    const struct {
        const char *name;
        int64_t value, least;
    } steps[] = {
        {"window_left", left, CLATTN_UNLIMITED},
        {"window_right", right, CLATTN_UNLIMITED},
        {"diagonal_offset", offset, -most},
    };

    for (size_t n = 0; n < sizeof steps / sizeof *steps; n++) {
        if (steps[n].value < steps[n].least || steps[n].value > most)
            return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes,
                                  "%s is %lld but must be from %lld to %lld", steps[n].name,
                                  (long long)steps[n].value, (long long)steps[n].least,
                                  (long long)most);
    }
    return CLATTN_SUCCESS;
}

static clattn_status check_values(const clattn_problem *p, char *reason, size_t bytes)
{
    if (isinf(p->scale))
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes,
                              "scale must be finite, or NaN for the default");
    if (!(p->softcap >= 0.0f) || isinf(p->softcap)) {
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes,
                              "softcap is %g but must be finite and positive, or 0 for none",
                              (double)p->softcap);
    }
    if (!(p->dropout >= 0.0f && p->dropout < 1.0f))
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes,
                              "dropout is %g but must be from 0 to below 1", (double)p->dropout);
    return ca_check_window(p->window_left, p->window_right,
                           p->diagonal == CLATTN_OFFSET ? p->diagonal_offset : 0, reason, bytes);
}

static clattn_status check_blocks(const clattn_problem *p, char *reason, size_t bytes)
{
    const size_t most_columns = (size_t)1 << 30;
    const struct ca_size sizes[] = {{"block_q", p->block_q, 1}, {"block_kv", p->block_kv, 1}};
    const struct ca_size most_blocks = {"max_blocks", p->max_blocks, 1};

    if (!p->block_q && !p->block_kv && !p->max_blocks && !p->block_batches && !p->block_heads)
        return CLATTN_SUCCESS;
    if (!p->block_q)
        return ca_status_with(
            CLATTN_INVALID_PROBLEM, reason, bytes,
            "block_q is 0, for no block lists, but block_kv, max_blocks, block_batches or "
            "block_heads is not");
    clattn_status status = ca_check_sizes(sizes, sizeof sizes / sizeof *sizes, reason, bytes);
    if (status == CLATTN_SUCCESS)
        status = check_size(&most_blocks, INT32_MAX, reason, bytes);
    if (status != CLATTN_SUCCESS || ca_block_columns(p) <= most_columns)
        return status;
    return ca_status_with(
        CLATTN_INVALID_PROBLEM, reason, bytes,
        "block_kv is %zu, which makes %zu columns of blocks, but there may be %zu", p->block_kv,
        ca_block_columns(p), most_columns);
}

/* Refuses options that need another option, or that forward or backward does not have. */
static clattn_status check_options(const clattn_problem *p, char *reason, size_t bytes)
{
    const int backward = p->operation == CLATTN_BACKWARD;
    const struct ca_rule rules[] = {
        {"dbias, dslopes, dsinks and dfunction are outputs of backward only",
         !backward && (p->dbias || p->dslopes || p->dsinks || p->dfunction)},
        {"dlse is an input of backward only", !backward && p->dlse},
        {"k_cache and v_cache are options of forward only",
         backward &&
             (ca_cache_normal(p->k_cache, p->dtype) || ca_cache_normal(p->v_cache, p->dtype))},
        {"mask_keys is given, but there is no mask", p->mask_keys && !p->mask},
        {"mask_keys exceeds seq_kv", p->mask_keys > p->seq_kv},
        {"dropout and page_size exclude each other: keys in pages have no gradients",
         p->page_size && p->dropout > 0.0f && !backward},
        {"page_size is an option of forward only", p->page_size && backward},
        {"dbias excludes total_q and total_kv: it is a sum over batches that are padded",
         p->dbias && (p->total_q || p->total_kv)},
        {"total_q exceeds 2^31 - 1, the most that q_starts can say", p->total_q > INT32_MAX},
        {"total_kv exceeds 2^31 - 1, the most that kv_starts can say", p->total_kv > INT32_MAX},
        {"total_q is given, but batch or seq_q is 0", p->total_q && !(p->batch && p->seq_q)},
        {"total_kv is given, but batch or seq_kv is 0", p->total_kv && !(p->batch && p->seq_kv)},
        {"page_size and total_kv exclude each other: keys lie in pages or follow each other",
         p->page_size && p->total_kv},
        {"block_q excludes total_q and total_kv: block lists are of batches that are padded",
         p->block_q && (p->total_q || p->total_kv)},
        {"scores are handed out of batches that are padded only: give q without total_q and "
         "total_kv",
         p->scores != CLATTN_SCORES_NONE && (p->total_q || p->total_kv)},
    };

    return ca_keep_rules(rules, sizeof rules / sizeof *rules, reason, bytes);
}

static clattn_status check_outputs(const clattn_problem *p, char *reason, size_t bytes)
{
    const int backward = p->operation == CLATTN_BACKWARD;
    const struct ca_rule rules[] = {
        {"scores are an output of forward only", backward && p->scores != CLATTN_SCORES_NONE},
        {"key_sums are an output of forward only", backward && p->key_sums},
        {"key_sums and scores=mean need lse, from which weights are computed again",
         ca_has_weight_sums(p) && !p->lse},
        {"topk exceeds 2^31 - 1", p->topk > INT32_MAX},
        {"topk_heads is given, but there is no topk", p->topk_heads && !p->topk},
        {"topk excludes block lists: both say which keys a query sees", p->topk && p->block_q},
        {"topk excludes scores and key_sums, which are of all keys",
         p->topk && (p->scores != CLATTN_SCORES_NONE || p->key_sums)},
        {"topk excludes invariant: no tile of a list is one of the cache", p->topk && p->invariant},
        {"k_scales are of keys in a format of bytes: k_cache must be e4m3, e5m2 or int8",
         p->k_scales && !ca_has_scales(p->k_cache)},
        {"v_scales are of values in a format of bytes: v_cache must be e4m3, e5m2 or int8",
         p->v_scales && !ca_has_scales(p->v_cache)},
        {"dbias is wanted, but there is no bias", p->dbias && !p->bias},
        {"dslopes is wanted, but there is no alibi", p->dslopes && !p->alibi},
        {"alibi_symmetric is given, but there is no alibi", p->alibi_symmetric && !p->alibi},
        {"dsinks is wanted, but there are no sinks", p->dsinks && !p->sinks},
        {"precision=int8 is an option of forward only: gradients multiply q and k as they are "
         "stored",
         p->int8 && backward},
        {"precision=int8 excludes topk: the mean of keys is that of a cache, not of a list",
         p->int8 && p->topk},
        {"precision=int8 excludes scores and key_sums, which other programs compute",
         p->int8 && (p->scores != CLATTN_SCORES_NONE || p->key_sums)},
        {"precision=int8 excludes invariant: the mean of keys changes with each key",
         p->int8 && p->invariant},
        {"invariant is an option of forward only", p->invariant && backward},
        {"invariant excludes dropout, whose decisions follow a query's number in its batch",
         p->invariant && p->dropout > 0.0f},
        {"invariant excludes block lists and mask_keys, which divide the keys into other tiles",
         p->invariant && (p->block_q || p->mask_keys)},
        {"invariant excludes scores and key_sums, which other programs compute",
         p->invariant && (p->scores != CLATTN_SCORES_NONE || p->key_sums)},
    };

    const clattn_status status = ca_check_groups(p->heads, p->kv_heads, reason, bytes);

    return status == CLATTN_SUCCESS
               ? ca_keep_rules(rules, sizeof rules / sizeof *rules, reason, bytes)
               : status;
}

clattn_status ca_attention_check(const clattn_problem *p, char *reason, size_t bytes)
{
    clattn_status status;

    if ((status = check_choices(p, reason, bytes)) != CLATTN_SUCCESS ||
        (status = check_sizes(p, reason, bytes)) != CLATTN_SUCCESS ||
        (status = ca_check_pages(p->pages, p->page_size, reason, bytes)) != CLATTN_SUCCESS ||
        (status = check_values(p, reason, bytes)) != CLATTN_SUCCESS ||
        (status = check_options(p, reason, bytes)) != CLATTN_SUCCESS ||
        (status = check_blocks(p, reason, bytes)) != CLATTN_SUCCESS)
        return status;
    if ((status = check_outputs(p, reason, bytes)) != CLATTN_SUCCESS)
        return status;
    return ca_functions_check(p, reason, bytes);
}

/* ---- members of other operations ------------------------------------------------------------- */

/* The members of attention. */
static const struct {
    const char *name;
    size_t at, bytes;
} of_attention[] = {
#define MEMBER(name)                                                                               \
    {#name, offsetof(clattn_problem, name), sizeof(((const clattn_problem *)NULL)->name)},
    MEMBER(dtype) MEMBER(batch) MEMBER(heads) MEMBER(kv_heads) MEMBER(seq_q) MEMBER(seq_kv)
        MEMBER(dim_qk) MEMBER(dim_v) MEMBER(softcap) MEMBER(causal) MEMBER(diagonal)
            MEMBER(diagonal_offset) MEMBER(window_left) MEMBER(window_right) MEMBER(bias)
                MEMBER(bias_dtype) MEMBER(bias_layout) MEMBER(mask) MEMBER(mask_layout)
                    MEMBER(scores) MEMBER(dropout) MEMBER(k_cache) MEMBER(v_cache) MEMBER(page_size)
                        MEMBER(pages) MEMBER(block_q) MEMBER(block_kv) MEMBER(max_blocks)
                            MEMBER(block_batches) MEMBER(block_heads) MEMBER(score_function)
                                MEMBER(mask_function) MEMBER(k_scales_layout)
                                    MEMBER(v_scales_layout)
#define FLAG(ID, member, word, OF, difference) MEMBER(member)
                                        CA_FLAGS(FLAG) CA_SIZES(FLAG)
#undef FLAG
#define LAYOUT_STRIDED(member) MEMBER(member)
#define LAYOUT_BROADCAST(member)
#define LAYOUT_OF_BIAS(member)
#define LAYOUT_PACKED(member)
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, LAYOUT, layout, ...) LAYOUT_##LAYOUT(layout)
                                            CA_OPERANDS(OPERAND)
#undef OPERAND
#undef MEMBER
};

/* Refuses members of another operation that differ from their initial values. */
static clattn_status check_others(const clattn_problem *p, char *reason, size_t bytes)
{
    static const char *const calls[] = {
#define OPERATION(ID, name, word, noun, call, ...) [CLATTN_##ID] = call,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };
    /* Bytes of the operation's own struct; attention has none. */
    static const size_t own_bytes[CA_NUM_OPERATIONS] = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = sizeof(clattn_##name##_problem),
        CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
    };
    const unsigned char *all = (const unsigned char *)p;
    const size_t count = ca_is_attention(p) ? 0 : sizeof of_attention / sizeof *of_attention;
    clattn_problem first;

    clattn_problem_init(&first);
    for (size_t n = 0; n < count; n++) {
        const size_t at = of_attention[n].at;
        if (memcmp(all + at, (const unsigned char *)&first + at, of_attention[n].bytes) != 0)
            return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes, "%s has no %s",
                                  calls[p->operation], of_attention[n].name);
    }
    if (count > 0 && !isnan(p->scale))
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes, "%s has no scale",
                              calls[p->operation]);
    for (size_t n = own_bytes[p->operation]; n < sizeof p->room; n++) {
        if (((const unsigned char *)p->room)[n] != 0)
            return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes,
                                  "%s has no members of other operations but its own",
                                  calls[p->operation]);
    }
    return CLATTN_SUCCESS;
}

#define OPERATION(ID, name, ...)                                                                   \
    _Static_assert(sizeof(clattn_##name##_problem) <=                                              \
                       sizeof(((const clattn_problem *)NULL)->room),                               \
                   "operations grow within the room that is reserved, so that no later member "    \
                   "moves");
CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION

const char *ca_cache_refusal(const clattn_layout *layout, size_t dim)
{
    if (dim % CA_BLOCK != 0)
        return "dim must be a multiple of 32";
    if (layout->stride[3] != 1)
        return "innermost stride must be 1";
    for (int n = 0; n < 3; n++)
        if (layout->stride[n] % CA_BLOCK != 0)
            return "strides must be multiples of 32, but for the innermost";
    return NULL;
}

/* Returns whether the calls of backward have no member for an operand of attention. */
static int is_forwards_own(unsigned argument)
{
    static const char own[CA_WORKSPACE] = {
#define OWN_FORWARD 1
#define OWN_BACKWARD 0
#define OWN_BOTH 0
#define OPERAND(ID, member, GIVEN, ...) [CA_##ID] = OWN_##GIVEN,
        CA_OPERANDS(OPERAND)
#undef OPERAND
    };

    return own[argument];
}

static clattn_status check_layouts(const clattn_problem *p, char *reason, size_t bytes)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(p, tensors);
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        const struct ca_tensor *t = &tensors[n];
        size_t span;
        if (!t->present)
            continue;
        if (p->operation == CLATTN_BACKWARD && is_forwards_own((unsigned)n))
            return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes,
                                  "%s is an operand of forward only", t->name);
        if (!ca_layout_span(&t->layout, t->sizes, &span)) {
            return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes,
                                  "%s reaches over more than 2^58 elements", t->name);
        }
        if (t->written && !ca_layout_injective(&t->layout, t->sizes))
            return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes,
                                  "elements of %s share places: its strides are too small",
                                  t->name);
        const char *refusal = ca_problem_cache(p, (unsigned)n) == CLATTN_CACHE_PLAIN
                                  ? NULL
                                  : ca_cache_refusal(&t->layout, t->sizes[3]);
        if (refusal)
            return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes, "%s is quantized: its %s",
                                  t->name, refusal);
    }
    return CLATTN_SUCCESS;
}

static clattn_status check(const clattn_problem *problem, char *reason, size_t reason_bytes)
{
    static clattn_status (*const of[])(const clattn_problem *, char *, size_t) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = ca_##name##_check,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };
    clattn_status status;

    ca_reason(reason, reason_bytes, "%s", "");
    if (!problem || problem->struct_size != sizeof *problem)
        return ca_status_with(CLATTN_INVALID_ARGUMENT, reason, reason_bytes,
                              "problem is null or its struct_size is not that of this library");
    const size_t room = sizeof problem->reserved / sizeof *problem->reserved;
    const size_t used = ca_reserved_used(problem->reserved, room);
    if (used < room)
        return ca_status_with(
            CLATTN_INVALID_ARGUMENT, reason, reason_bytes,
            "problem->reserved[%zu] is not 0: it asks for what clattn %s does not know", used,
            CLATTN_VERSION_STRING);
    const struct ca_enum_value operation = {"operation", (int)problem->operation,
                                            CA_NUM_OPERATIONS - 1};
    if ((status = ca_check_choices(&operation, 1, reason, reason_bytes)) != CLATTN_SUCCESS ||
        (status = check_others(problem, reason, reason_bytes)) != CLATTN_SUCCESS ||
        (status = of[problem->operation](problem, reason, reason_bytes)) != CLATTN_SUCCESS)
        return status;
    return check_layouts(problem, reason, reason_bytes);
}

clattn_status clattn_problem_check(const clattn_problem *problem, char *reason, size_t reason_bytes)
{
    char why[CA_LOG_BYTES];

    return ca_give_reason(check(problem, why, sizeof why), why, reason, reason_bytes);
}

clattn_status ca_problem_make(const clattn_problem *given, struct ca_problem *made, char *reason,
                              size_t reason_bytes)
{
    const clattn_status status = clattn_problem_check(given, reason, reason_bytes);

    if (status == CLATTN_SUCCESS)
        *made = ca_problem_own(given);
    return status;
}

struct ca_problem ca_problem_own(const clattn_problem *sound)
{
    return (struct ca_problem){*sound, ca_problem_normal(sound)};
}

/* ---- operations --------------------------------------------------------------------------- */

/* The sum over i < queries of i + first, each clamped to 0..keys. */
static double clamped_sum(double queries, double first, double keys)
{
    const double begin = fmin(fmax(-first, 0.0), queries); /* terms of smaller i are 0 */
    const double end =
        fmin(fmax(keys - first, begin), queries); /* terms from this i on are `keys` */

    return (end - begin) * (first + (begin + end - 1.0) / 2.0) + (queries - end) * keys;
}

double clattn_problem_flops(const clattn_problem *problem)
{
    static double (*const of[])(const clattn_problem *) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = ca_##name##_flops,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    return clattn_problem_check(problem, NULL, 0) == CLATTN_SUCCESS
               ? of[problem->operation](problem)
               : 0.0;
}

double ca_visible_pairs(const struct ca_visible *p)
{
    const double queries = (double)p->seq_q, keys = (double)p->seq_kv, d = (double)p->diagonal;
    double pairs = queries * keys;

    if (p->window_right != CLATTN_UNLIMITED)
        pairs = clamped_sum(queries, d + (double)p->window_right + 1.0, keys);
    if (p->window_left != CLATTN_UNLIMITED)
        pairs -= clamped_sum(queries, d - (double)p->window_left, keys);
    pairs = fmin(pairs, p->most);
    /* Packed sequences together have no more queries or keys than there are rows. */
    double sequences = (double)p->batch;
    if (p->total_q && queries > 0.0)
        sequences = fmin(sequences, (double)p->total_q / queries);
    if (p->total_kv && keys > 0.0)
        sequences = fmin(sequences, (double)p->total_kv / keys);
    return sequences * (double)p->heads * pairs;
}

double ca_attention_flops(const clattn_problem *problem)
{
    const clattn_problem p = ca_problem_normal(problem);
    const struct ca_visible visible = {
        .batch = p.batch,
        .heads = p.heads,
        .seq_q = p.seq_q,
        .seq_kv = p.seq_kv,
        .total_q = p.total_q,
        .total_kv = p.total_kv,
        .window_left = p.window_left,
        .window_right = p.window_right,
        .diagonal = ca_problem_diagonal(&p),
        .most = p.topk      ? (double)p.seq_q * (double)p.topk
                : p.block_q ? (double)p.max_blocks * (double)p.block_q * (double)p.block_kv
                            : INFINITY};
    const size_t per_pair =
        p.operation == CLATTN_BACKWARD ? 6 * p.dim_qk + 4 * p.dim_v : 2 * p.dim_qk + 2 * p.dim_v;

    return (double)per_pair * ca_visible_pairs(&visible);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/cases/case_file.h"
#include "bench/cases/case_options.h"
#include "bench/judge/values.h"
#include "internal.h"
#include "os/file.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const struct naming {
    const char *k, *v, *o, *scores;
    clattn_scores mode; /* Kind of values in `scores`; NONE: qk_matmul_output_mode says which. */
} namings[] = {
    {"K", "V", "Y", "qk_matmul_output", CLATTN_SCORES_NONE},
    {"K", "V", "O", "qk_matmul_output", CLATTN_SCORES_NONE},
    {"K", "V", "context", "weights", CLATTN_SCORES_WEIGHTS},
    {"K2", "V2", "context_cross", "weights_cross", CLATTN_SCORES_WEIGHTS},
};
#define NAMING_COUNT (sizeof namings / sizeof *namings)

/* A tensor of the file seen as (batch, heads, seq, dim). */
struct source {
    const struct safetensor *tensor;
    clattn_dtype dtype;
    size_t size[4];
    bool seq_major; /* Heads lie inside a position: (batch, seq, heads, dim). */
};

static bool find_source(struct source *source, const struct safetensors *file, const char *name,
                        const char *heads_attribute, struct message *why)
{
    const struct safetensor *t = safetensors_find(file, name);
    size_t heads;

    source->tensor = t;
    if (t == NULL)
        return message_set(why, "there is no tensor '%s'", name);
    if (!case_dtype(t, &source->dtype))
        return message_set(why, "'%s' is %s; attention reads F32, F16 and BF16", name, t->dtype);
    source->seq_major = t->rank == 3;
    if (t->rank == 4) {
        memcpy(source->size, t->shape, sizeof source->size);
    } else if (t->rank == 2) {
        memcpy(source->size, (size_t[]){1, 1, t->shape[0], t->shape[1]}, sizeof source->size);
    } else if (t->rank == 3) {
        if (!case_read_size(file, heads_attribute, &heads, why))
            return false;
        if (heads == 0 || t->shape[2] % heads != 0)
            return message_set(why, "%s=%zu does not divide the %zu columns of '%s'",
                               heads_attribute, heads, t->shape[2], name);
        memcpy(source->size, (size_t[]){t->shape[0], heads, t->shape[1], t->shape[2] / heads},
               sizeof source->size);
    } else {
        return message_set(why, "'%s' has rank %zu; 2, 3 and 4 are known", name, t->rank);
    }
    return true;
}

/* The bytes of the row of dim elements at (b, h, s). */
static const unsigned char *row_of(const struct source *source, size_t b, size_t h, size_t s)
{
    const size_t *size = source->size;
    const size_t row =
        source->seq_major ? (b * size[2] + s) * size[1] + h : (b * size[1] + h) * size[2] + s;

    return source->tensor->data + row * size[3] * value_bytes(source->dtype);
}

static bool copy_tensor(struct block *block, const struct safetensor *tensor, struct message *why)
{
    block->data = case_allocate(tensor->bytes, 1, why);
    if (block->data == NULL)
        return false;
    block->bytes = tensor->bytes;
    memcpy(block->data, tensor->data, tensor->bytes);
    return true;
}

/* Past and new keys (or values) one after the other, as packed (batch, heads, seq, dim). */
static bool join(struct block *block, const struct source *past, const struct source *new,
                 struct message *why)
{
    const size_t row_bytes = new->size[3] * value_bytes(new->dtype);
    unsigned char *to;

    block->bytes = past->tensor->bytes + new->tensor->bytes;
    block->data = to = case_allocate(block->bytes, 1, why);
    if (to == NULL)
        return false;
    for (size_t b = 0; block->bytes > 0 && b < new->size[0]; b++) {
        for (size_t h = 0; h < new->size[1]; h++) {
            for (size_t s = 0; s < past->size[2]; s++, to += row_bytes)
                memcpy(to, row_of(past, b, h, s), row_bytes);
            for (size_t s = 0; s < new->size[2]; s++, to += row_bytes)
                memcpy(to, row_of(new, b, h, s), row_bytes);
        }
    }
    return true;
}

/* Keys or values, behind their past if there is one; `length` receives how many there are. */
static bool read_cached(struct block *block, clattn_layout *layout, const struct source *new,
                        const struct safetensors *file, const char *past_name, size_t *past_length,
                        struct message *why)
{
    struct source past;

    *past_length = 0;
    if (safetensors_find(file, past_name) == NULL) {
        if (new->seq_major && clattn_layout_packed("bshd", new->size, layout) != CLATTN_SUCCESS)
            return message_set(why, "the shape of '%s' overflows", new->tensor->name);
        return copy_tensor(block, new->tensor, why);
    }
    if (!find_source(&past, file, past_name, "kv_num_heads", why))
        return false;
    if (past.tensor->rank != 4 || past.dtype != new->dtype || past.size[0] != new->size[0] ||
        past.size[1] != new->size[1] || past.size[3] != new->size[3])
        return message_set(why, "'%s' and '%s' do not fit together", past_name, new->tensor->name);
    *past_length = past.size[2];
    return join(block, &past, new, why);
}

static bool read_qkv(struct attention_case *attention, const struct safetensors *file,
                     const struct naming *naming, size_t *past, struct message *why)
{
    clattn_problem *p = &attention->job.problem;
    struct source q, k, v;
    size_t past_values;

    if (!find_source(&q, file, "Q", "q_num_heads", why) ||
        !find_source(&k, file, naming->k, "kv_num_heads", why) ||
        !find_source(&v, file, naming->v, "kv_num_heads", why))
        return false;
    if (k.dtype != q.dtype || v.dtype != q.dtype)
        return message_set(why, "Q, K and V differ in dtype");
    if (k.size[0] != q.size[0] || k.size[3] != q.size[3] || v.size[0] != k.size[0] ||
        v.size[1] != k.size[1])
        return message_set(why, "the shapes of Q, K and V do not fit together");
    if (q.seq_major && clattn_layout_packed("bshd", q.size, &p->q) != CLATTN_SUCCESS)
        return message_set(why, "the shape of Q overflows");
    if (!copy_tensor(&attention->in[INPUT_Q], q.tensor, why) ||
        !read_cached(&attention->in[INPUT_K], &p->k, &k, file, "past_key", past, why) ||
        !read_cached(&attention->in[INPUT_V], &p->v, &v, file, "past_value", &past_values, why))
        return false;
    if (v.size[2] != k.size[2] || past_values != *past || k.size[2] > SIZE_MAX - *past)
        return message_set(why, "there are not as many values as keys");
    p->dtype = q.dtype;
    p->batch = q.size[0];
    p->heads = q.size[1];
    p->kv_heads = k.size[1];
    p->seq_q = q.size[2];
    p->seq_kv = *past + k.size[2];
    p->dim_qk = q.size[3];
    p->dim_v = v.size[3];
    const size_t o[4] = {p->batch, p->heads, p->seq_q, p->dim_v};
    if (q.seq_major && clattn_layout_packed("bshd", o, &p->o) != CLATTN_SUCCESS)
        return message_set(why, "the shape of the output overflows");
    return true;
}

static bool copy_answer(struct answer *answer, const struct safetensor *tensor, size_t count,
                        size_t row, struct message *why)
{
    struct block block;

    if (!case_dtype(tensor, &answer->dtype))
        return message_set(why, "'%s' is %s; answers are F32, F16 or BF16", tensor->name,
                           tensor->dtype);
    if (tensor->count != count || tensor->rank < 2 || tensor->shape[tensor->rank - 1] % row != 0)
        return message_set(why, "'%s' has not the shape of the result", tensor->name);
    if (!copy_tensor(&block, tensor, why))
        return false;
    answer->data = block.data;
    answer->count = count;
    answer->row = row;
    return true;
}

static bool read_answers(struct attention_case *attention, const struct safetensors *file,
                         const struct naming *naming, struct message *why)
{
    clattn_problem *p = &attention->job.problem;
    const struct safetensor *scores = safetensors_find(file, naming->scores);
    const size_t rows = p->batch * p->heads * p->seq_q; /* clattn_problem_check() has passed */

    if (!copy_answer(&attention->o, safetensors_find(file, naming->o), rows * p->dim_v, p->dim_v,
                     why))
        return false;
    if (scores == NULL || p->seq_kv == 0)
        return true;
    p->scores = naming->mode;
    if (p->scores == CLATTN_SCORES_NONE && !case_read_scores_mode(file, &p->scores, why))
        return false;
    return copy_answer(&attention->scores, scores, rows * p->seq_kv, p->seq_kv, why);
}

/* Checks that the file's joined K or V is the cache followed by the new keys or values, byte for
 * byte. */
static bool check_present(const struct attention_case *attention, enum input input,
                          const struct safetensors *file, const char *name, struct message *why)
{
    const struct view view = case_input_view(&attention->job, input);
    const size_t element = value_bytes(view.dtype), row = view.size[3] * element;
    const unsigned char *data = attention->in[input].data;
    struct source present;

    if (safetensors_find(file, name) == NULL)
        return true;
    if (!find_source(&present, file, name, "kv_num_heads", why))
        return false;
    if (present.dtype != view.dtype || memcmp(present.size, view.size, sizeof view.size) != 0)
        return message_set(why, "'%s' has not the shape of past and new together", name);
    for (size_t b = 0; view.extent > 0 && b < view.size[0]; b++)
        for (size_t h = 0; h < view.size[1]; h++)
            for (size_t s = 0; s < view.size[2]; s++) {
                const size_t at = b * view.stride[0] + h * view.stride[1] + s * view.stride[2];
                if (memcmp(row_of(&present, b, h, s), data + at * element, row) != 0)
                    return message_set(why, "'%s' is not the past followed by the new", name);
            }
    return true;
}

static void name_case(struct attention_case *attention, const struct safetensors *file,
                      const char *path, const struct naming *naming)
{
    const char *name = safetensors_attribute(file, "name");
    char variant[32] = "";

    if (name == NULL)
        name = ca_path_name(path);
    if (case_file_count(file) > 1)
        snprintf(variant, sizeof variant, ":%s", naming->o);
    snprintf(attention->name, sizeof attention->name, "%.90s%s", name, variant);
    ca_make_printable(attention->name);
}

static bool read_case(struct attention_case *attention, const struct safetensors *file,
                      const struct naming *naming, struct message *why)
{
    char reason[256];
    size_t past;

    if (!case_check_attributes(file, why) || !read_qkv(attention, file, naming, &past, why) ||
        !case_read_options(attention, file, past, why))
        return false;
    if (clattn_problem_check(&attention->job.problem, reason, sizeof reason) != CLATTN_SUCCESS)
        return message_set(why, "%s", reason);
    return case_read_mask(attention, file, why) && read_answers(attention, file, naming, why) &&
           check_present(attention, INPUT_K, file, "present_key", why) &&
           check_present(attention, INPUT_V, file, "present_value", why);
}

size_t case_file_count(const struct safetensors *file)
{
    size_t count = 0;

    for (size_t n = 0; n < NAMING_COUNT; n++)
        count += safetensors_find(file, namings[n].o) != NULL;
    return count;
}

bool case_file_read(struct attention_case *attention, const struct safetensors *file,
                    const char *path, size_t index, struct message *why)
{
    const struct naming *naming = NULL;
    struct message reason;

    memset(attention, 0, sizeof *attention);
    clattn_problem_init(&attention->job.problem);
    for (size_t n = 0; n < NAMING_COUNT && naming == NULL; n++)
        if (safetensors_find(file, namings[n].o) != NULL && index-- == 0)
            naming = &namings[n];
    if (naming == NULL)
        return message_set(why, "%s: there is no tensor Y, O or context", path);
    name_case(attention, file, path, naming);
    if (read_case(attention, file, naming, &reason))
        return true;
    case_free(attention);
    return message_set(why, "%s: %s", path, reason.text);
}

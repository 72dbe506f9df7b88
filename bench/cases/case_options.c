/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/cases/case_options.h"
#include "bench/judge/values.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool case_dtype(const struct safetensor *tensor, clattn_dtype *dtype)
{
    static const char *const names[] = {
        [CLATTN_F32] = "F32", [CLATTN_F16] = "F16", [CLATTN_BF16] = "BF16"};

    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        if (strcmp(tensor->dtype, names[n]) == 0) {
            *dtype = (clattn_dtype)n;
            return true;
        }
    }
    return false;
}

bool case_read_size(const struct safetensors *file, const char *key, size_t *size,
                    struct message *why)
{
    const char *text = safetensors_attribute(file, key);
    char *end;

    if (text == NULL)
        return message_set(why, "the attribute %s is missing", key);
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 0 || value == LONG_MAX)
        return message_set(why, "the attribute %s=%s is no whole number", key, text);
    *size = (size_t)value;
    return true;
}

/* A window's bound: -1, the default, for none. */
static bool read_bound(const struct safetensors *file, const char *key, int64_t *bound,
                       struct message *why)
{
    const char *text = safetensors_attribute(file, key);
    size_t size = 0;

    if (text == NULL || strcmp(text, "-1") == 0)
        return true;
    if (!case_read_size(file, key, &size, why))
        return message_set(why, "the attribute %s=%s is neither -1 nor a whole number from 0", key,
                           text);
    *bound = (int64_t)size;
    return true;
}

/* Returns whether it is one of the words, which have a blank on both sides. */
static bool has_word(const char *words, const char *word)
{
    const size_t length = strlen(word);

    for (const char *at = words; length > 0 && (at = strstr(at, word)) != NULL; at += length)
        if (at[-1] == ' ' && at[length] == ' ' && strchr(word, ' ') == NULL)
            return true;
    return false;
}

bool case_check_attributes(const struct safetensors *file, struct message *why)
{
    /* What decides the answer, as ONNX's operator has it, but for the precision of its softmax,
     * which here is at least that of its inputs. */
    static const char deciding[] = " scale softcap is_causal q_num_heads kv_num_heads "
                                   "left_window_size right_window_size qk_matmul_output_mode "
                                   "softmax_precision ";
    static const char describing[] = " name op opset inputs outputs source license format formula "
                                     "model layer text tokens ";
    const char *key = NULL;

    while ((key = safetensors_next_attribute(file, key)) != NULL)
        if (!has_word(deciding, key) && !has_word(describing, key) &&
            strncmp(key, "note", 4) != 0 && strncmp(key, "printed_", 8) != 0)
            return message_set(why,
                               "the attribute '%.100s' is not known, and the answer may depend on "
                               "it; what only describes a file may have a name that begins with "
                               "note",
                               key);
    return true;
}

/* Leaves *value alone if the attribute is not there. */
static bool read_float(const struct safetensors *file, const char *key, float *value,
                       struct message *why)
{
    const char *text = safetensors_attribute(file, key);
    char *end;

    if (text == NULL)
        return true;
    *value = strtof(text, &end);
    if (end == text || *end != '\0' || !isfinite(*value))
        return message_set(why, "the attribute %s=%s is no finite number", key, text);
    return true;
}

bool case_read_scores_mode(const struct safetensors *file, clattn_scores *scores,
                           struct message *why)
{
    size_t mode = 0;

    if (safetensors_attribute(file, "qk_matmul_output_mode") != NULL &&
        !case_read_size(file, "qk_matmul_output_mode", &mode, why))
        return false;
    if (mode > 3)
        return message_set(why, "qk_matmul_output_mode=%zu is not one of 0 to 3", mode);
    *scores = (clattn_scores)(CLATTN_SCORES_RAW + mode);
    return true;
}

/* nonpad_kv_seqlen: 64-bit integers here, cl_ints there. */
static bool read_lengths(struct attention_case *attention, const struct safetensor *tensor,
                         struct message *why)
{
    struct block *block = &attention->in[INPUT_KV_LENGTHS];
    cl_int *lengths;

    if (strcmp(tensor->dtype, "I64") != 0 || tensor->rank != 1 ||
        tensor->count != attention->job.problem.batch)
        return message_set(why, "'%s' is not an I64 for each batch", tensor->name);
    block->data = lengths = case_allocate(tensor->count, sizeof *lengths, why);
    if (lengths == NULL)
        return false;
    block->bytes = tensor->count * sizeof *lengths;
    for (size_t b = 0; b < tensor->count; b++) {
        int64_t length;
        memcpy(&length, tensor->data + b * sizeof length, sizeof length);
        lengths[b] = (cl_int)(length < 0 ? 0 : length > INT_MAX ? INT_MAX : length);
    }
    attention->job.problem.kv_lengths = 1;
    return true;
}

bool case_read_options(struct attention_case *attention, const struct safetensors *file,
                       size_t past, struct message *why)
{
    const struct safetensor *lengths = safetensors_find(file, "nonpad_kv_seqlen");
    clattn_problem *p = &attention->job.problem;
    size_t causal = 0;

    if (!read_float(file, "scale", &p->scale, why) ||
        !read_float(file, "softcap", &p->softcap, why))
        return false;
    if (safetensors_attribute(file, "is_causal") != NULL &&
        !case_read_size(file, "is_causal", &causal, why))
        return false;
    if (lengths != NULL && past > 0)
        return message_set(why, "past_key and nonpad_kv_seqlen exclude each other");
    if (lengths != NULL && !read_lengths(attention, lengths, why))
        return false;
    if (!read_bound(file, "left_window_size", &p->window_left, why) ||
        !read_bound(file, "right_window_size", &p->window_right, why))
        return false;
    p->causal = causal != 0;
    const bool diagonal = p->causal || p->window_left >= 0 || p->window_right >= 0;
    if (diagonal && lengths != NULL) {
        p->diagonal = CLATTN_BOTTOM_RIGHT;
    } else if (diagonal && past > 0) {
        p->diagonal = CLATTN_OFFSET;
        p->diagonal_offset = (int64_t)past;
    }
    return true;
}

/* Copies rows of `width` elements into rows of `seq_kv`; the rest of each hides its keys. */
static bool widen(struct block *block, const struct safetensor *mask, size_t width, size_t seq_kv,
                  clattn_dtype dtype, bool boolean, struct message *why)
{
    const size_t element = boolean ? 1 : value_bytes(dtype);
    const size_t rows = mask->count / width;

    if (rows > SIZE_MAX / element / seq_kv)
        return message_set(why, "'%s' overflows when widened to the keys", mask->name);
    block->bytes = rows * seq_kv * element;
    block->data = case_allocate(block->bytes, 1, why);
    if (block->data == NULL)
        return false;
    for (size_t r = 0; r < rows; r++) {
        unsigned char *row = (unsigned char *)block->data + r * seq_kv * element;
        memcpy(row, mask->data + r * width * element, width * element);
        for (size_t j = width; j < seq_kv; j++) {
            if (boolean)
                row[j] = 0;
            else
                value_set(dtype, row, j, -INFINITY);
        }
    }
    return true;
}

bool case_read_mask(struct attention_case *attention, const struct safetensors *file,
                    struct message *why)
{
    const struct safetensor *tensor = safetensors_find(file, "attn_mask");
    clattn_problem *p = &attention->job.problem;

    if (tensor == NULL || p->seq_kv == 0) /* Without keys, no mask is needed. */
        return true;
    const bool boolean = strcmp(tensor->dtype, "BOOL") == 0;
    if (!boolean && !case_dtype(tensor, &p->bias_dtype))
        return message_set(why, "'attn_mask' is %s; BOOL, F32, F16 and BF16 are known",
                           tensor->dtype);
    if (tensor->rank < 1 || tensor->rank > 4)
        return message_set(why, "'attn_mask' has rank %zu; 1 to 4 are known", tensor->rank);
    size_t shape[4];
    memcpy(shape, tensor->shape, tensor->rank * sizeof *shape);
    const size_t width = shape[tensor->rank - 1];
    if (width == 0)
        return message_set(why, "'attn_mask' has no columns");
    if (width < p->seq_kv) /* A single column too: here ONNX pads rather than broadcasts. */
        shape[tensor->rank - 1] = p->seq_kv;
    clattn_layout *layout = boolean ? &p->mask_layout : &p->bias_layout;
    if (clattn_layout_broadcast(p, tensor->rank, shape, layout) != CLATTN_SUCCESS)
        return message_set(why, "'attn_mask' does not broadcast to (batch, heads, seq_q, seq_kv)");
    struct block *block = &attention->in[boolean ? INPUT_MASK : INPUT_BIAS];
    if (boolean)
        p->mask = 1;
    else
        p->bias = 1;
    return widen(block, tensor, width, p->seq_kv, p->bias_dtype, boolean, why);
}

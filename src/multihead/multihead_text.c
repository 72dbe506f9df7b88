/* SPDX-License-Identifier: Apache-2.0 */
/* A layer's one-line text form. */
#include "base/log.h"
#include "base/text.h"
#include "multihead/multihead.h"
#include "problem/text/problem_words.h"

#include <stdio.h>
#include <string.h>

static const char prefix[] = "layer ";
/* indexed by clattn_weights_out */
static const char *const weights_names[] = {"none", "heads", "mean"};
enum { WEIGHTS_NAMES = sizeof weights_names / sizeof *weights_names };

/* ---- printing -------------------------------------------------------------------------------- */

/* The layer's own words, each with a blank before it; returns their length. */
static size_t print_words(const clattn_multihead *layer, char *words, size_t bytes)
{
    const int w = (int)layer->weights;
    char source[64] = "", output[32] = "";

    if (layer->source == CLATTN_CROSS)
        snprintf(source, sizeof source, " cross=%zu", layer->context_model);
    if (layer->source == CLATTN_SEPARATE)
        snprintf(source, sizeof source, " separate=%zu,%zu", layer->context_model,
                 layer->values_model);
    if (layer->output != layer->model)
        snprintf(output, sizeof output, " output=%zu", layer->output);
    const int length =
        snprintf(words, bytes, " model=%zu%s%s%s%s%s%s%s%s%s%s", layer->model, source, output,
                 layer->order == CLATTN_IN_OUT ? " io" : "", layer->packed ? " packed" : "",
                 layer->qkv_biases ? " biases" : "", layer->output_bias ? " obias" : "",
                 layer->seq_first ? " seqfirst" : "", layer->training ? " training" : "",
                 w == 0 ? "" : " weights=",
                 w == 0                            ? ""
                 : w > 0 && w < (int)WEIGHTS_NAMES ? weights_names[w]
                                                   : "?");
    return length > 0 ? (size_t)length : 0;
}

/* Writes as much of `from` as fits at an offset of text, and the terminator. */
static void put(char *text, size_t text_bytes, size_t at, const char *from)
{
    if (at < text_bytes)
        snprintf(text + at, text_bytes - at, "%s", from);
}

clattn_status clattn_multihead_print(const clattn_multihead *layer, char *text, size_t text_bytes,
                                     size_t *needed)
{
    const size_t begin = sizeof prefix - 1;
    const size_t left = text_bytes > begin ? text_bytes - begin : 0;
    char words[256];
    size_t attention;

    const int has_text = ca_text_begin(text, text_bytes, needed);
    if (!layer || layer->struct_size != sizeof *layer || !has_text)
        return CLATTN_INVALID_ARGUMENT;
    const clattn_status status =
        clattn_problem_print(&layer->attention, left ? text + begin : NULL, left, &attention);
    if (status == CLATTN_INVALID_ARGUMENT)
        return status;
    const size_t end = begin + attention - 1;
    const size_t bytes = end + print_words(layer, words, sizeof words) + 1;
    if (text_bytes > 0)
        memcpy(text, prefix, text_bytes > begin ? begin : text_bytes - 1);
    if (text_bytes > 0 && text_bytes <= begin)
        text[text_bytes - 1] = '\0';
    put(text, text_bytes, end, words);
    return ca_text_end(bytes, text_bytes, needed);
}

/* ---- parsing --------------------------------------------------------------------------------- */

enum word {
    W_LAYER,
    W_MODEL,
    W_CROSS,
    W_SEPARATE,
    W_OUTPUT,
    W_IO,
    W_PACKED,
    W_BIASES,
    W_OBIAS,
    W_SEQFIRST,
    W_TRAINING,
    W_WEIGHTS,
    W_COUNT
};
static const char *const keys[W_COUNT] = {
    "layer",  "model=", "cross=", "separate=", "output=",  "io",
    "packed", "biases", "obias",  "seqfirst",  "training", "weights="};

/* Returns which word of the layer the text is, and the value after its key; W_COUNT: a word of the
 * attention. */
static enum word recognise(const char *text, const char **value)
{
    for (unsigned w = 0; w < W_COUNT; w++) {
        const size_t length = strlen(keys[w]);
        *value = text + length;
        if (strncmp(text, keys[w], length) == 0 && (keys[w][length - 1] == '=' || **value == '\0'))
            return (enum word)w;
    }
    return W_COUNT;
}

static int parse_word(enum word word, const char *value, clattn_multihead *layer)
{
    switch (word) {
    case W_MODEL:
        return ca_parse_size(&value, &layer->model) && *value == '\0';
    case W_CROSS:
        layer->source = CLATTN_CROSS;
        return ca_parse_size(&value, &layer->context_model) && *value == '\0';
    case W_SEPARATE:
        layer->source = CLATTN_SEPARATE;
        return ca_parse_size(&value, &layer->context_model) && *value++ == ',' &&
               ca_parse_size(&value, &layer->values_model) && *value == '\0';
    case W_OUTPUT:
        return ca_parse_size(&value, &layer->output) && *value == '\0';
    case W_IO:
        layer->order = CLATTN_IN_OUT;
        return 1;
    case W_PACKED:
        return layer->packed = 1;
    case W_BIASES:
        return layer->qkv_biases = 1;
    case W_OBIAS:
        return layer->output_bias = 1;
    case W_SEQFIRST:
        return layer->seq_first = 1;
    case W_TRAINING:
        return layer->training = 1;
    case W_WEIGHTS:
        for (int n = 1; n < (int)WEIGHTS_NAMES; n++)
            if (strcmp(value, weights_names[n]) == 0) {
                layer->weights = (clattn_weights_out)n;
                return 1;
            }
        return 0;
    default:
        return 1;
    }
}

/* Reads the layer's words and leaves those of the attention in rest. */
static clattn_status parse_words(const char *text, clattn_multihead *layer, char *rest,
                                 size_t rest_bytes, unsigned *seen, char *reason,
                                 size_t reason_bytes)
{
    static const char blanks[] = " \t\r\n";
    size_t used = 0;

    for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
        const size_t length = strcspn(text, blanks);
        char copy[128] = "";
        const char *value, *word = text;
        if (length < sizeof copy)
            memcpy(copy, text, length);
        const enum word w = recognise(copy, &value);
        text += length;
        if (!*seen && w != W_LAYER)
            break; /* the first word must be "layer" */
        if (w == W_COUNT) {
            if (used + length + 2 > rest_bytes) {
                ca_reason(reason, reason_bytes, "the text is longer than any layer's");
                return CLATTN_INVALID_PROBLEM;
            }
            memcpy(rest + used, word, length);
            used += length;
            rest[used++] = ' ';
            continue;
        }
        if (*seen & 1u << w) {
            ca_reason(reason, reason_bytes, "'%s' is given twice", keys[w]);
            return CLATTN_INVALID_PROBLEM;
        }
        *seen |= 1u << w;
        if (!parse_word(w, value, layer)) {
            ca_reason(reason, reason_bytes, "'%.*s' has a value that cannot be read", (int)length,
                      word);
            return CLATTN_INVALID_PROBLEM;
        }
    }
    rest[used] = '\0';
    return CLATTN_SUCCESS;
}

/* Checks that the required words are there, and fills in defaults for words that are left out. */
static clattn_status complete(clattn_multihead *layer, unsigned seen, char *reason,
                              size_t reason_bytes)
{
    const char *missing = !(seen & 1u << W_LAYER)   ? "'layer' as the first word"
                          : !(seen & 1u << W_MODEL) ? "model=N"
                                                    : NULL;

    if (missing) {
        ca_reason(reason, reason_bytes, "%s is missing", missing);
        return CLATTN_INVALID_PROBLEM;
    }
    if (seen & 1u << W_CROSS && seen & 1u << W_SEPARATE) {
        ca_reason(reason, reason_bytes, "cross= and separate= exclude each other");
        return CLATTN_INVALID_PROBLEM;
    }
    if (layer->source == CLATTN_SELF)
        layer->context_model = layer->model;
    if (layer->source != CLATTN_SEPARATE)
        layer->values_model = layer->context_model;
    if (!(seen & 1u << W_OUTPUT))
        layer->output = layer->model;
    return CLATTN_SUCCESS;
}

static clattn_status parse(const char *text, clattn_multihead *layer, char *reason,
                           size_t reason_bytes)
{
    char rest[2048]; /* several times the longest problem that is printed */
    unsigned seen = 0;

    ca_reason(reason, reason_bytes, "%s", "");
    if (layer)
        clattn_multihead_init(layer);
    if (!text || !layer) {
        ca_reason(reason, reason_bytes, "text or layer is null");
        return CLATTN_INVALID_ARGUMENT;
    }
    clattn_status status = parse_words(text, layer, rest, sizeof rest, &seen, reason, reason_bytes);
    if (status == CLATTN_SUCCESS)
        status = complete(layer, seen, reason, reason_bytes);
    if (status == CLATTN_SUCCESS)
        status = clattn_problem_parse(rest, &layer->attention, reason, reason_bytes);
    if (status == CLATTN_SUCCESS)
        status = clattn_multihead_check(layer, reason, reason_bytes);
    if (status != CLATTN_SUCCESS)
        clattn_multihead_init(layer);
    return status;
}

clattn_status clattn_multihead_parse(const char *text, clattn_multihead *layer, char *reason,
                                     size_t reason_bytes)
{
    char why[CA_LOG_BYTES];

    return ca_give_reason(parse(text, layer, why, sizeof why), why, reason, reason_bytes);
}

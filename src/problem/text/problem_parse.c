/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/sizes.h"
#include "problem/function_source.h"
#include "problem/layout.h"
#include "problem/problem.h"
#include "problem/tensors.h"
#include "problem/text/parse_values.h"
#include "problem/text/problem_words.h"

#include <ctype.h>
#include <string.h>

static const char blanks[] = " \t\r\n";

/* The words, and the operations that have them. A key that ends in '=' is followed by a value, one that ends in a
 * letter and is marked as a number by digits; others stand alone. Layouts need all the sizes: a second pass. An
 * operation is a name of ca_operation_names, a dtype one of ca_dtype_names. */
#define OPERATION(ID, ...) ID = 1 << CLATTN_##ID,
enum {
    CA_OWN_OPERATIONS(OPERATION) ATTENTION = 1 << CLATTN_FORWARD | 1 << CLATTN_BACKWARD,
    LAYOUT_WORDS = 0, /* those whose layout words have it */
    ALL = -1
};
#undef OPERATION
#define KEYS(KEY)                                                                                  \
    KEY(OPERATION, "an operation", ALL)                                                            \
    KEY(DTYPE, "a dtype", ALL)                                                                     \
    KEY(Q_LAYOUT, "q=", LAYOUT_WORDS)                                                              \
    KEY(K_LAYOUT, "k=", LAYOUT_WORDS)                                                              \
    KEY(V_LAYOUT, "v=", LAYOUT_WORDS)                                                              \
    KEY(O_LAYOUT, "o=", LAYOUT_WORDS)                                                              \
    KEY(DO_LAYOUT, "do=", LAYOUT_WORDS)                                                            \
    KEY(DQ_LAYOUT, "dq=", LAYOUT_WORDS)                                                            \
    KEY(DK_LAYOUT, "dk=", LAYOUT_WORDS)                                                            \
    KEY(DV_LAYOUT, "dv=", LAYOUT_WORDS)                                                            \
    KEY(DROPOUT, "dropout=", ATTENTION)                                                            \
    KEY(SCALE, "scale=", ATTENTION | DOUBLE_BACKWARD)                                              \
    KEY(SOFTCAP, "softcap=", ATTENTION)                                                            \
    KEY(CAUSAL, "causal=", ATTENTION | DOUBLE_BACKWARD | INDEXER)                                  \
    KEY(DIAGONAL, "diagonal=", ATTENTION | DOUBLE_BACKWARD)                                        \
    KEY(WINDOW, "window=", ATTENTION | DOUBLE_BACKWARD)                                            \
    KEY(BIAS, "bias=", ATTENTION | PROJECTION)                                                     \
    KEY(MASK, "mask=", ATTENTION)                                                                  \
    KEY(SCORE_FUNCTION, "score=", ATTENTION)                                                       \
    KEY(MASK_FUNCTION, "visible=", ATTENTION)                                                      \
    KEY(SCORES, "scores=", ATTENTION)                                                              \
    KEY(STATES, "n", MERGE)                                                                        \
    KEY(PARTS_LAYOUT, "parts=", LAYOUT_WORDS)                                                      \
    KEY(GGQ_LAYOUT, "ggq=", LAYOUT_WORDS)                                                          \
    KEY(GGK_LAYOUT, "ggk=", LAYOUT_WORDS)                                                          \
    KEY(GGV_LAYOUT, "ggv=", LAYOUT_WORDS)                                                          \
    KEY(X_LAYOUT, "x=", LAYOUT_WORDS)                                                              \
    KEY(DW_LAYOUT, "dw=", LAYOUT_WORDS)                                                            \
    KEY(W_LAYOUT, "w=", PROJECTION)                                                                \
    KEY(Y_LAYOUT, "y=", LAYOUT_WORDS)                                                              \
    KEY(K_CACHE, "kcache=", ATTENTION | APPEND)                                                    \
    KEY(V_CACHE, "vcache=", ATTENTION | APPEND)                                                    \
    KEY(CACHE_DTYPE, "cache=", APPEND)                                                             \
    KEY(ACCUMULATE, "accumulate", PROJECTION | MERGE)                                              \
    KEY(POSITIONS, "pos", APPEND)                                                                  \
    KEY(SLOTS, "slots", APPEND)                                                                    \
    KEY(ROPE, "rope=", APPEND)                                                                     \
    KEY(GRADIENTS, "gradients", INDEXER)                                                           \
    KEY(CHOSEN_SCORES, "scores", INDEXER)                                                          \
    KEY(QUERIES, "queries", APPEND)                                                                \
    KEY(BLOCKS, "blocks=", ATTENTION)                                                              \
    KEY(K_SCALES_LAYOUT, "kscales=", ATTENTION | APPEND)                                           \
    KEY(V_SCALES_LAYOUT, "vscales=", ATTENTION | APPEND)                                           \
    KEY(PAGE_SIZE, "page=", ATTENTION | APPEND | INDEXER)                                          \
    KEY(PAGES, "pages=", ATTENTION | APPEND | INDEXER)                                             \
    KEY(LAYOUT, "layout=", ALL)                                                                    \
    KEY(BATCH, "b", ALL)                                                                           \
    KEY(HEADS, "h", ALL)                                                                           \
    KEY(SEQ_Q, "q", ALL)                                                                           \
    KEY(SEQ_KV, "k", ATTENTION | APPEND | DOUBLE_BACKWARD | INDEXER)                               \
    KEY(DIM, "d", ALL)
#define FLAG(ID, member, word, OF, difference) W_##ID,
#define KEY(ID, key, of) W_##ID,
enum word { KEYS(KEY) CA_FLAGS(FLAG) CA_SIZES(FLAG) W_COUNT };
#undef KEY
#undef FLAG
#define FLAG(ID, member, word, OF, difference) [W_##ID] = {word, ATTENTION},
#define KEY(ID, key, of) [W_##ID] = {key, of},
static const struct {
    const char *key;
    int of;
} words_of_text[W_COUNT] = {KEYS(KEY) CA_FLAGS(FLAG) CA_SIZES(FLAG)};
#undef KEY
#undef FLAG

/* A set of words. */
struct word_set {
    unsigned char has[W_COUNT];
};

/* Returns whether the word stands alone. */
static int is_flag(enum word word)
{
    switch (word) {
    case W_ACCUMULATE:
    case W_POSITIONS:
    case W_SLOTS:
    case W_QUERIES:
    case W_CHOSEN_SCORES:
    case W_GRADIENTS:
#define FLAG(ID, member, word, OF, difference) case W_##ID:
        CA_FLAGS(FLAG)
#undef FLAG
        return 1;
    default:
        return 0;
    }
}

/* The tensor of the operation whose layout a word gives; CA_WORKSPACE if it gives none. */
static unsigned laid_by(clattn_operation operation, enum word word)
{
    const char *key = words_of_text[word].key;
    const size_t length = strlen(key) - 1;

    for (const struct ca_layout_word *w = ca_layout_words(operation); w->word; w++)
        if (key[length] == '=' && strlen(w->word) == length && strncmp(w->word, key, length) == 0)
            return w->argument;
    return CA_WORKSPACE;
}

/* Returns whether an operation has the word: attention's flags of lengths and sinks are words of others, too. */
static int has_word(clattn_operation operation, enum word word)
{
    int of = words_of_text[word].of;

    if (word == W_SINKS)
        of |= MERGE;
    if (word == W_Q_LENGTHS || word == W_KV_LENGTHS)
        of |= DOUBLE_BACKWARD | INDEXER;
    if (word == W_TOTAL_Q || word == W_TOTAL_KV || word == W_TOPK)
        of |= INDEXER;
    if (word == W_KV_LENGTHS || word == W_K_SCALES || word == W_V_SCALES)
        of |= APPEND;
    return (of & 1 << operation) != 0 || laid_by(operation, word) != CA_WORKSPACE;
}

/* The word that text starts with, and the text after its key. */
static enum word recognise(const char *text, const char **value)
{
    int number;

    *value = text;
    if (ca_parse_name(text, ca_operation_names, CA_NUM_OPERATIONS, &number))
        return W_OPERATION;
    if (ca_parse_name(text, ca_dtype_names, CA_NUM_DTYPES, &number))
        return W_DTYPE;
    for (unsigned w = W_DTYPE + 1; w < W_COUNT; w++) {
        const char *key = words_of_text[w].key;
        const size_t length = strlen(key);
        if (strncmp(text, key, length) != 0)
            continue;
        *value = text + length;
        const int fits = w == W_QUERIES           ? **value == '\0' || **value == '='
                         : is_flag((enum word)w)  ? **value == '\0'
                         : key[length - 1] == '=' ? 1
                                                  : isdigit((unsigned char)**value);
        if (fits)
            return (enum word)w;
    }
    return W_COUNT;
}

static int parse_whole_size(const char *value, size_t *size)
{
    return ca_parse_size(&value, size) && *value == '\0';
}

static int parse_projection_word(enum word word, const char *value, clattn_projection_problem *p)
{
    (void)value;
    p->accumulate |= word == W_ACCUMULATE;
    return 1;
}

static int parse_merge_word(enum word word, const char *value, clattn_merge_problem *p)
{
    (void)value;
    if (word == W_SINKS)
        p->sinks = 1;
    if (word == W_ACCUMULATE)
        p->accumulate = 1;
    return 1;
}

static int parse_append_word(enum word word, const char *value, clattn_append_problem *p)
{
    switch (word) {
    case W_K_CACHE:
        return ca_parse_cache(value, &p->k_format);
    case W_V_CACHE:
        return ca_parse_cache(value, &p->v_format);
    case W_CACHE_DTYPE:
        return ca_parse_dtype(value, &p->cache_dtype);
    case W_KV_LENGTHS:
        return p->kv_lengths = 1;
    case W_POSITIONS:
        return p->positions = 1;
    case W_SLOTS:
        return p->slots = 1;
    case W_K_SCALES:
        return p->k_scaled = 1;
    case W_V_SCALES:
        return p->v_scaled = 1;
    case W_ROPE:
        return ca_parse_rope(value, p);
    case W_QUERIES:
        p->queries = *value ? CLATTN_QUERIES_IN_PLACE : CLATTN_QUERIES_ROTATED;
        return !*value || strcmp(value, "=inplace") == 0;
    default:
        return 1;
    }
}

static int parse_window(const char *value, int64_t *left, int64_t *right)
{
    return ca_parse_step(&value, left) && *value++ == ',' && ca_parse_step(&value, right) &&
           *value == '\0';
}

/* Returns whether the word says that there is no such tensor. */
static int is_none(const char *value)
{
    return strcmp(value, "none") == 0;
}

static int parse_double_backward_word(enum word word, const char *value,
                                      clattn_double_backward_problem *p)
{
    switch (word) {
    case W_SCALE:
        return ca_parse_float(value, &p->scale);
    case W_CAUSAL:
    case W_DIAGONAL:
        p->causal = word == W_CAUSAL;
        return ca_parse_diagonal(value, &p->diagonal, &p->diagonal_offset);
    case W_WINDOW:
        return parse_window(value, &p->window_left, &p->window_right);
    case W_Q_LENGTHS:
        return p->q_lengths = 1;
    case W_KV_LENGTHS:
        return p->kv_lengths = 1;
    case W_GGQ_LAYOUT:
        p->no_ggq = is_none(value);
        return 1;
    case W_GGK_LAYOUT:
        p->no_ggk = is_none(value);
        return 1;
    case W_GGV_LAYOUT:
        p->no_ggv = is_none(value);
        return 1;
    default:
        return 1;
    }
}

static int parse_indexer_word(enum word word, const char *value, clattn_indexer_problem *p)
{
    switch (word) {
    case W_TOTAL_Q:
        return parse_whole_size(value, &p->total_q);
    case W_TOTAL_KV:
        return parse_whole_size(value, &p->total_kv);
    case W_TOPK:
        return parse_whole_size(value, &p->topk);
    case W_CAUSAL:
        p->causal = 1;
        return ca_parse_diagonal(value, &p->diagonal, &p->diagonal_offset);
    case W_Q_LENGTHS:
        return p->q_lengths = 1;
    case W_KV_LENGTHS:
        return p->kv_lengths = 1;
    case W_CHOSEN_SCORES:
        return p->scores = 1;
    case W_GRADIENTS:
        return p->gradients = 1;
    default:
        return 1;
    }
}

static int parse_attention_word(enum word word, const char *value, clattn_problem *p)
{
    int number;

    switch (word) {
    case W_K_CACHE:
        return ca_parse_cache(value, &p->k_cache);
    case W_V_CACHE:
        return ca_parse_cache(value, &p->v_cache);
    case W_BLOCKS:
        return ca_parse_blocks(value, p);
    case W_DROPOUT:
        return ca_parse_float(value, &p->dropout);
    case W_SCALE:
        return ca_parse_float(value, &p->scale);
    case W_SOFTCAP:
        return ca_parse_float(value, &p->softcap);
    case W_CAUSAL:
        p->causal = 1;
        return ca_parse_diagonal(value, &p->diagonal, &p->diagonal_offset);
    case W_DIAGONAL:
        return ca_parse_diagonal(value, &p->diagonal, &p->diagonal_offset);
    case W_WINDOW:
        return parse_window(value, &p->window_left, &p->window_right);
    case W_SCORE_FUNCTION:
        return ca_function_of_name(value, &p->score_function, NULL, 0) == CLATTN_SUCCESS;
    case W_MASK_FUNCTION:
        return ca_function_of_name(value, &p->mask_function, NULL, 0) == CLATTN_SUCCESS;
    case W_SCORES:
        if (!ca_parse_name(value, ca_scores_names, CA_SCORES_NAMES, &number) || number == 0)
            return 0;
        p->scores = (clattn_scores)number;
        return 1;
#define FLAG(ID, member, word, OF, difference)                                                     \
    case W_##ID:                                                                                   \
        return p->member = 1;
        CA_FLAGS(FLAG)
#undef FLAG
#define SIZE(ID, member, word, OF, difference)                                                     \
    case W_##ID:                                                                                   \
        return parse_whole_size(value, &p->member);
        CA_SIZES(SIZE)
#undef SIZE
    default:
        return 1;
    }
}

/* A word of the problem's operation, which is set. Layouts are for the second pass, and words of other
 * operations for check_operation(). */
static int parse_word(enum word word, const char *value, clattn_problem *p)
{
    const struct ca_size_words words = ca_size_words(p);

    if (!has_word(p->operation, word))
        return 1;
    switch (word) {
    case W_OPERATION:
        return 1;
    case W_DTYPE:
        return ca_parse_dtype(value, words.dtype);
    case W_BATCH:
        return parse_whole_size(value, words.b);
    case W_HEADS:
        return ca_parse_pair(value, words.h, words.second_h);
    case W_SEQ_Q:
        return parse_whole_size(value, words.q);
    case W_SEQ_KV:
        return parse_whole_size(value, words.k);
    case W_STATES:
        return parse_whole_size(value, words.n);
    case W_DIM:
        return ca_parse_pair(value, words.d, words.second_d);
    case W_PAGE_SIZE:
        return parse_whole_size(value, words.page_size) && *words.page_size > 0;
    case W_PAGES:
        return parse_whole_size(value, words.pages);
    default:
        break;
    }
    switch (p->operation) {
#define OPERATION(ID, name, ...)                                                                   \
    case CLATTN_##ID:                                                                              \
        return parse_##name##_word(word, value, &p->name);
        CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
    default:
        return parse_attention_word(word, value, p);
    }
}

/* The order of all tensors that have no word of their own among those seen. */
static int parse_order(const char *value, const struct word_set *seen, clattn_problem *p)
{
    uint64_t own = 0;

    if (!ca_layout_is_order(value))
        return 0;
    for (unsigned w = 0; w < W_COUNT; w++)
        if (seen->has[w])
            own |= CA_BIT(laid_by(p->operation, (enum word)w));
    ca_problem_order(p, value, ~own);
    return 1;
}

/* The layout of scales of k, or of v, which are then wanted. */
static int parse_scales(const char *value, int of_v, const struct ca_tensor *tensors,
                        clattn_problem *p)
{
    clattn_append_problem *a = &p->append;
    const struct {
        unsigned argument;
        int *has;
        clattn_layout *layout;
    } scales[2][2] = {{{CA_K_SCALES, &p->k_scales, &p->k_scales_layout},
                       {CA_V_SCALES, &p->v_scales, &p->v_scales_layout}},
                      {{CA_APPEND_K_SCALES, &a->k_scaled, &a->k_scales},
                       {CA_APPEND_V_SCALES, &a->v_scaled, &a->v_scales}}},
      *of = &scales[p->operation == CLATTN_APPEND][of_v];

    *of->has = 1;
    return ca_parse_scales(value, tensors[of->argument].sizes, of->layout);
}

static int parse_layout_word(enum word word, const char *value, const struct word_set *seen,
                             clattn_problem *p)
{
    const unsigned argument = laid_by(p->operation, word);
    const char *colon = strchr(value, ':');
    struct ca_tensor tensors[CA_WORKSPACE];
    char dtype[8] = "";

    if (argument != CA_WORKSPACE) {
        if ((word == W_GGQ_LAYOUT || word == W_GGK_LAYOUT || word == W_GGV_LAYOUT) &&
            is_none(value))
            return 1;
        ca_problem_tensors(p, tensors);
        return ca_parse_layout(value, tensors[argument].sizes,
                               ca_tensor_layout(p, &tensors[argument]));
    }
    ca_problem_tensors(p, tensors);
    switch (word) {
    case W_LAYOUT:
        return parse_order(value, seen, p);
    case W_K_SCALES_LAYOUT:
    case W_V_SCALES_LAYOUT:
        return parse_scales(value, word == W_V_SCALES_LAYOUT, tensors, p);
    case W_W_LAYOUT:
        return ca_parse_weights(value, &p->projection);
    case W_MASK:
        p->mask = 1;
        return ca_parse_spanning(value, p, ca_mask_keys(p), &p->mask_layout);
    case W_BIAS:
        if (p->operation == CLATTN_PROJECTION)
            return p->projection.bias = ca_parse_dtype(value, &p->projection.bias_dtype);
        p->bias = 1;
        if (!colon || colon - value >= (int)sizeof dtype)
            return 0;
        memcpy(dtype, value, (size_t)(colon - value));
        return ca_parse_dtype(dtype, &p->bias_dtype) &&
               ca_parse_spanning(colon + 1, p, p->seq_kv, &p->bias_layout);
    default:
        return 1;
    }
}

/* Says why the value of a word cannot be read: of a function, what is wrong with its file or source. */
static clattn_status refuse_value(enum word word, const char *value, const char *text,
                                  size_t length, char *reason, size_t reason_bytes)
{
    const int is_function = word == W_SCORE_FUNCTION || word == W_MASK_FUNCTION;
    const clattn_function *f;
    const clattn_status status =
        is_function ? ca_function_of_name(value, &f, reason, reason_bytes) : CLATTN_SUCCESS;

    if (status == CLATTN_SUCCESS)
        ca_reason(reason, reason_bytes, "'%.*s' has a value that cannot be read", (int)length,
                  text);
    return status == CLATTN_OUT_OF_MEMORY ? status : CLATTN_INVALID_PROBLEM;
}

/* Goes over all words once; layouts tells which pass. */
static clattn_status parse_pass(const char *text, int layouts, clattn_problem *p,
                                struct word_set *seen, char *reason, size_t reason_bytes)
{
    for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
        const size_t length = strcspn(text, blanks);
        char copy[CA_FUNCTION_NAME + 64] = "";
        const char *value = NULL;
        if (length < sizeof copy)
            memcpy(copy, text, length);
        const enum word w = recognise(copy, &value);
        text += length;
        if (w == W_COUNT)
            return ca_status_with(CLATTN_INVALID_PROBLEM, reason, reason_bytes,
                                  "'%.*s' is not a word of a problem", (int)length, text - length);
        if (!layouts && seen->has[w]) {
            if (w <= W_DTYPE)
                ca_reason(reason, reason_bytes, "two %s are given, the second is '%s'",
                          w == W_DTYPE ? "dtypes" : "operations", value);
            else
                ca_reason(reason, reason_bytes, "'%s' is given twice", words_of_text[w].key);
            return CLATTN_INVALID_PROBLEM;
        }
        seen->has[w] = 1;
        if (!(layouts ? parse_layout_word(w, value, seen, p) : parse_word(w, value, p)))
            return refuse_value(w, value, text - length, length, reason, reason_bytes);
    }
    return CLATTN_SUCCESS;
}

/* Words of another operation than the one that is given. */
static clattn_status check_operation(const struct word_set *seen, clattn_operation operation,
                                     char *reason, size_t reason_bytes)
{
    static const char *const nouns[] = {
#define OPERATION(ID, name, word, noun, ...) [CLATTN_##ID] = noun,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    for (unsigned w = 0; w < W_COUNT; w++) {
        if (seen->has[w] && !has_word(operation, (enum word)w))
            return ca_status_with(CLATTN_INVALID_PROBLEM, reason, reason_bytes,
                                  "'%s' is not a word of %s", words_of_text[w].key,
                                  nouns[operation]);
    }
    return CLATTN_SUCCESS;
}

/* Checks that the required words are present, and that no two exclude each other. */
static clattn_status check_words(const struct word_set *seen, clattn_operation operation,
                                 char *reason, size_t reason_bytes)
{
    const struct {
        enum word word;
        int needed;
        const char *what;
    } words[] = {
        {W_OPERATION, 1, "the operation, fwd, bwd, proj, merge, append, bwd2 or indexer,"},
        {W_DTYPE, 1, "a dtype, f32, f16 or bf16,"},
        {W_SEQ_Q, 1, "qN"},
        {W_DIM, 1, "dN"},
        {W_STATES, operation == CLATTN_MERGE, "nN"},
        {W_SEQ_KV, operation == CLATTN_APPEND, "kN"},
        {W_TOPK, operation == CLATTN_INDEXER, "topk=N"},
    };

    for (size_t n = 0; n < sizeof words / sizeof *words; n++) {
        if (words[n].needed && !seen->has[words[n].word])
            return ca_status_with(CLATTN_INVALID_PROBLEM, reason, reason_bytes, "%s is missing",
                                  words[n].what);
    }
    if (seen->has[W_CAUSAL] && seen->has[W_DIAGONAL])
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, reason_bytes,
                              "causal= and diagonal= exclude each other");
    return check_operation(seen, operation, reason, reason_bytes);
}

/* Pages for all keys of all batches, at least one: clattn_problem_check() says where that is too many. */
static size_t enough_pages(size_t batch, size_t table_pages)
{
    size_t pages;

    if (!ca_multiply(batch, table_pages, &pages))
        return SIZE_MAX;
    return pages ? pages : 1;
}

/* Derives values that are not given from the words that are. */
static void complete(clattn_problem *p, const struct word_set *seen)
{
    const struct ca_size_words words = ca_size_words(p);

    if (words.k && !seen->has[W_SEQ_KV])
        *words.k = *words.q;
    if (words.pages && *words.page_size && !seen->has[W_PAGES])
        *words.pages = enough_pages(*words.b, ca_divide_up(*words.k, *words.page_size));
    if (p->operation == CLATTN_APPEND && !seen->has[W_CACHE_DTYPE])
        p->append.cache_dtype = p->append.dtype;
}

/* The first operation among the words; forward if there is none. */
static clattn_operation find_operation(const char *text)
{
    for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
        const size_t length = strcspn(text, blanks);
        for (int n = 0; n < CA_NUM_OPERATIONS; n++)
            if (strlen(ca_operation_names[n]) == length &&
                memcmp(text, ca_operation_names[n], length) == 0)
                return (clattn_operation)n;
        text += length;
    }
    return CLATTN_FORWARD;
}

static clattn_status parse(const char *text, clattn_problem *problem, char *reason,
                           size_t reason_bytes)
{
    clattn_status status;
    struct word_set seen = {{0}};

    ca_reason(reason, reason_bytes, "%s", "");
    if (problem)
        clattn_problem_init(problem);
    if (!text || !problem)
        return ca_status_with(CLATTN_INVALID_ARGUMENT, reason, reason_bytes,
                              "text or problem is null");
    clattn_problem_init_operation(problem, find_operation(text));
    status = parse_pass(text, 0, problem, &seen, reason, reason_bytes);
    if (status == CLATTN_SUCCESS)
        status = check_words(&seen, problem->operation, reason, reason_bytes);
    if (status == CLATTN_SUCCESS)
        complete(problem, &seen);
    if (status == CLATTN_SUCCESS)
        status = parse_pass(text, 1, problem, &seen, reason, reason_bytes);
    if (status == CLATTN_SUCCESS)
        status = clattn_problem_check(problem, reason, reason_bytes);
    if (status != CLATTN_SUCCESS)
        clattn_problem_init(problem);
    return status;
}

clattn_status clattn_problem_parse(const char *text, clattn_problem *problem, char *reason,
                                   size_t reason_bytes)
{
    char why[CA_LOG_BYTES];

    return ca_give_reason(parse(text, problem, why, sizeof why), why, reason, reason_bytes);
}

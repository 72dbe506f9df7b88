/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "base/writer.h"
#include "problem/function.h"
#include "problem/layout.h"
#include "problem/problem.h"
#include "problem/tensors.h"
#include "problem/text/problem_words.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const orders[] = {
    "bhsd", "bshd", "sbhd", "shbd", "hbsd", "hsbd", "bhds", "bdhs", "bsdh", "bdsh", "hbds", "hdbs",
    "hsdb", "hdsb", "sbdh", "sdbh", "shdb", "sdhb", "dbhs", "dbsh", "dhbs", "dhsb", "dsbh", "dshb"};

static const clattn_layout zero_layout;

/* Prints a number with a decimal point, whatever the locale. */
static void put_number(struct ca_writer *w, const char *name, float value)
{
    char text[32];

    snprintf(text, sizeof text, "%.9g", (double)value);
    char *mark = strstr(text, localeconv()->decimal_point);
    if (mark)
        *mark = '.';
    ca_put(w, " %s%s", name, text);
}

static void put_float(struct ca_writer *w, const char *name, float value)
{
    char key[32];

    snprintf(key, sizeof key, "%s=", name);
    put_number(w, key, value);
}

static void put_strides(struct ca_writer *w, const clattn_layout *l)
{
    ca_put(w, "%zu.%zu.%zu.%zu", l->stride[0], l->stride[1], l->stride[2], l->stride[3]);
}

static void put_layout(struct ca_writer *w, const char *name, const clattn_layout *layout,
                       const size_t sizes[4])
{
    if (memcmp(layout, &zero_layout, sizeof zero_layout) == 0)
        return;
    for (size_t n = 0; n < sizeof orders / sizeof *orders; n++) {
        clattn_layout packed;
        ca_layout_pack(orders[n], sizes, &packed);
        if (memcmp(layout, &packed, sizeof packed) == 0) {
            if (n > 0) /* the first is the default */
                ca_put(w, " %s=%s", name, orders[n]);
            return;
        }
    }
    ca_put(w, " %s=", name);
    put_strides(w, layout);
}

/* Prints the layouts of `count` of the operation's words, from the first on. */
static void put_layouts(struct ca_writer *w, const clattn_problem *p, size_t first, size_t count)
{
    const struct ca_layout_word *words = ca_layout_words(p->operation) + first;
    struct ca_tensor tensors[CA_WORKSPACE];
    clattn_problem copy = *p;

    ca_problem_tensors(p, tensors);
    for (size_t n = 0; n < count; n++) {
        const struct ca_tensor *t = &tensors[words[n].argument];
        put_layout(w, words[n].word, ca_tensor_layout(&copy, t), t->sizes);
    }
}

static void put_spanning(struct ca_writer *w, const clattn_problem *p, size_t columns,
                         const clattn_layout *layout)
{
    for (unsigned axes = 15; axes > 0; axes--) {
        char letters[5];
        clattn_layout spanning;
        ca_spanning_layout(p, columns, axes, letters, &spanning);
        if (memcmp(layout, &spanning, sizeof spanning) == 0) {
            ca_put(w, "%s", letters);
            return;
        }
    }
    put_strides(w, layout);
}

/* The word of scales of these sizes, and their layout where they are several. */
static void put_scales(struct ca_writer *w, const char *word, const clattn_layout *scales,
                       const size_t sizes[4])
{
    const clattn_layout one = {{0}};
    char letters[5];

    ca_put(w, " %s%s", word, memcmp(scales, &one, sizeof one) == 0 ? "" : "=");
    if (memcmp(scales, &one, sizeof one) == 0)
        return;
    for (unsigned axes = 7; axes > 0; axes--) {
        clattn_layout layout;
        ca_scales_layout(sizes, axes, letters, &layout);
        if (memcmp(scales, &layout, sizeof layout) == 0) {
            ca_put(w, "%s", letters);
            return;
        }
    }
    put_strides(w, scales);
}

/* The flag's word, if it is set. */
static void put_flag(struct ca_writer *w, const clattn_problem *p, const int *flag,
                     const char *word)
{
    const size_t sizes[4] = {ca_cache_batch(p), p->kv_heads, ca_cache_rows(p), 1};

    if (*flag && (flag == &p->k_scales || flag == &p->v_scales))
        put_scales(w, word, flag == &p->k_scales ? &p->k_scales_layout : &p->v_scales_layout,
                   sizes);
    else if (*flag)
        ca_put(w, " %s", word);
}

static void put_diagonal(struct ca_writer *w, int causal, clattn_diagonal diagonal, int64_t offset)
{
    const char *name = causal ? "causal" : "diagonal";

    if (diagonal == CLATTN_OFFSET)
        ca_put(w, " %s=%lld", name, (long long)offset);
    else if (causal || diagonal != CLATTN_TOP_LEFT)
        ca_put(w, " %s=%s", name, diagonal == CLATTN_TOP_LEFT ? "tl" : "br");
}

static void put_step(struct ca_writer *w, char before, int64_t step)
{
    if (step == CLATTN_UNLIMITED)
        ca_put(w, "%c*", before);
    else
        ca_put(w, "%c%lld", before, (long long)step);
}

static void put_window(struct ca_writer *w, int64_t left, int64_t right)
{
    if (left == CLATTN_UNLIMITED && right == CLATTN_UNLIMITED)
        return;
    ca_put(w, " window");
    put_step(w, '=', left);
    put_step(w, ',', right);
}

/* The name at an index, or "?" for a value that clattn_problem_check() would refuse. */
static const char *name_at(const char *const *names, size_t count, int value)
{
    return value >= 0 && (size_t)value < count ? names[value] : "?";
}

static void put_cache(struct ca_writer *w, const char *name, clattn_cache cache)
{
    if (cache != CLATTN_CACHE_PLAIN)
        ca_put(w, " %s=%s", name, name_at(ca_cache_names, CA_NUM_CACHES, (int)cache));
}

static void put_caches(struct ca_writer *w, clattn_cache k, clattn_cache v)
{
    put_cache(w, "kcache", k);
    put_cache(w, "vcache", v);
}

static void put_pages(struct ca_writer *w, size_t page_size, size_t pages)
{
    if (page_size)
        ca_put(w, " page=%zu pages=%zu", page_size, pages);
}

/* Prints the words after the sizes of a projection; a layout "oi" is the packed one of another
 * order. */
static void print_projection(struct ca_writer *w, const clattn_problem *problem)
{
    const clattn_projection_problem *p = &problem->projection;
    const size_t sizes[4] = {p->x_heads, p->x_dim, p->y_heads, p->y_dim};
    clattn_layout io, oi;

    put_layouts(w, problem, 0, 2);
    ca_layout_pack("bhsd", sizes, &io);
    ca_layout_pack(CA_OUT_IN, sizes, &oi);
    if (memcmp(&p->w, &zero_layout, sizeof io) != 0 && memcmp(&p->w, &io, sizeof io) != 0) {
        ca_put(w, " w=");
        if (memcmp(&p->w, &oi, sizeof oi) == 0)
            ca_put(w, "oi");
        else
            put_strides(w, &p->w);
    }
    if (p->bias)
        ca_put(w, " bias=%s", name_at(ca_dtype_names, CA_NUM_DTYPES, (int)p->bias_dtype));
    ca_put(w, "%s", p->accumulate ? " accumulate" : "");
}

static void print_merge(struct ca_writer *w, const clattn_problem *p)
{
    put_layouts(w, p, 0, 2);
    ca_put(w, "%s%s", p->merge.sinks ? " sinks" : "", p->merge.accumulate ? " accumulate" : "");
}

static void print_append(struct ca_writer *w, const clattn_problem *problem)
{
    static const char *const queries[] = {"", " queries", " queries=inplace"};
    const clattn_append_problem *p = &problem->append;
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(problem, tensors);
    put_layouts(w, problem, 0, 6);
    if (p->cache_dtype != p->dtype)
        ca_put(w, " cache=%s", name_at(ca_dtype_names, CA_NUM_DTYPES, (int)p->cache_dtype));
    put_caches(w, p->k_format, p->v_format);
    put_pages(w, p->page_size, p->pages);
    ca_put(w, "%s%s%s", p->kv_lengths ? " klen" : "", p->positions ? " pos" : "",
           p->slots ? " slots" : "");
    if (p->k_scaled)
        put_scales(w, "kscales", &p->k_scales, tensors[CA_APPEND_K_SCALES].sizes);
    if (p->v_scaled)
        put_scales(w, "vscales", &p->v_scales, tensors[CA_APPEND_V_SCALES].sizes);
    if (p->rotary != CLATTN_ROTARY_NONE) {
        char name[64];
        snprintf(name, sizeof name,
                 "rope=%s:%zu:", name_at(ca_rotary_names, CA_ROTARY_NAMES, (int)p->rotary),
                 p->rotary_dim);
        if (p->rotary_length)
            ca_put(w, " %stables:%zu", name, p->rotary_length);
        else
            put_number(w, name, p->rotary_base);
    }
    ca_put(w, "%s", name_at(queries, 3, (int)p->queries));
}

static void print_double_backward(struct ca_writer *w, const clattn_problem *problem)
{
    const clattn_double_backward_problem *p = &problem->double_backward;
    const int none[] = {p->no_ggq, p->no_ggk, p->no_ggv};

    put_layouts(w, problem, 0, 8);
    for (size_t n = 0; n < 3; n++)
        if (none[n])
            ca_put(w, " %s=none", ca_double_backward_layouts[8 + n].word);
        else
            put_layouts(w, problem, 8 + n, 1);
    if (!isnan(p->scale))
        put_float(w, "scale", p->scale);
    put_diagonal(w, p->causal, p->diagonal, p->diagonal_offset);
    put_window(w, p->window_left, p->window_right);
    ca_put(w, "%s%s", p->q_lengths ? " qlen" : "", p->kv_lengths ? " klen" : "");
}

static void print_indexer(struct ca_writer *w, const clattn_problem *problem)
{
    const clattn_indexer_problem *p = &problem->indexer;

    put_layouts(w, problem, 0, p->gradients ? 6 : 3);
    put_pages(w, p->page_size, p->pages);
    if (p->causal)
        put_diagonal(w, p->causal, p->diagonal, p->diagonal_offset);
    ca_put(w, "%s%s", p->q_lengths ? " qlen" : "", p->kv_lengths ? " klen" : "");
    if (p->total_q)
        ca_put(w, " totalq=%zu", p->total_q);
    if (p->total_kv)
        ca_put(w, " totalkv=%zu", p->total_kv);
    ca_put(w, " topk=%zu%s%s", p->topk, p->scores ? " scores" : "",
           p->gradients ? " gradients" : "");
}

static void print_attention(struct ca_writer *w, const clattn_problem *p)
{
    put_layouts(w, p, 0, 4);
    put_caches(w, p->k_cache, p->v_cache);
    put_pages(w, p->page_size, p->pages);
    if (!isnan(p->scale))
        put_float(w, "scale", p->scale);
    if (p->softcap != 0.0f)
        put_float(w, "softcap", p->softcap);
    put_diagonal(w, p->causal, p->diagonal, p->diagonal_offset);
    put_window(w, p->window_left, p->window_right);
    if (p->bias) {
        ca_put(w, " bias=%s:", name_at(ca_dtype_names, CA_NUM_DTYPES, (int)p->bias_dtype));
        put_spanning(w, p, p->seq_kv, &p->bias_layout);
    }
    if (p->mask) {
        ca_put(w, " mask=");
        put_spanning(w, p, ca_mask_keys(p), &p->mask_layout);
    }
    if (p->block_q)
        ca_put(w, " blocks=%zux%zu:%zu%s%s%s", p->block_q, p->block_kv, p->max_blocks,
               p->block_batches || p->block_heads ? ":" : "", p->block_batches ? "b" : "",
               p->block_heads ? "h" : "");
#define FLAG(ID, member, word, OF, difference)                                                     \
    CA_IF_ATTENTION(OF, put_flag(w, p, &p->member, word);)
    CA_FLAGS(FLAG)
#undef FLAG
#define SIZE(ID, member, word, OF, difference)                                                     \
    CA_IF_ATTENTION(OF, if (p->member) ca_put(w, " " word "%zu", p->member);)
    CA_SIZES(SIZE)
#undef SIZE
    if (p->scores != CLATTN_SCORES_NONE)
        ca_put(w, " scores=%s", name_at(ca_scores_names, CA_SCORES_NAMES, (int)p->scores));
    if (p->score_function)
        ca_put(w, " score=%s", p->score_function->name);
    if (p->mask_function)
        ca_put(w, " visible=%s", p->mask_function->name);
    if (p->dropout != 0.0f)
        put_float(w, "dropout", p->dropout);
    put_layouts(w, p, 4, 4);
#define FLAG(ID, member, word, OF, difference)                                                     \
    CA_IF_BACKWARD(OF, ca_put(w, "%s", p->member ? " " word : "");)
    CA_FLAGS(FLAG)
#undef FLAG
}

/* The value of a word and, behind a slash, the second one where there is one that differs. */
static void put_pair(struct ca_writer *w, const char *word, const size_t *first,
                     const size_t *second)
{
    ca_put(w, " %s%zu", word, *first);
    if (second && *second != *first)
        ca_put(w, "/%zu", *second);
}

static void print(struct ca_writer *w, clattn_problem *p)
{
    static void (*const of[])(struct ca_writer *, const clattn_problem *) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = print_##name,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };
    const struct ca_size_words words = ca_size_words(p);

    ca_put(w, "%s %s b%zu", name_at(ca_operation_names, CA_NUM_OPERATIONS, (int)p->operation),
           name_at(ca_dtype_names, CA_NUM_DTYPES, (int)*words.dtype), *words.b);
    put_pair(w, "h", words.h, words.second_h);
    ca_put(w, " q%zu", *words.q);
    if (words.k)
        ca_put(w, " k%zu", *words.k);
    put_pair(w, "d", words.d, words.second_d);
    if (words.n)
        ca_put(w, " n%zu", *words.n);
    of[ca_operation(p)](w, p);
}

clattn_status clattn_problem_print(const clattn_problem *problem, char *text, size_t text_bytes,
                                   size_t *needed)
{
    struct ca_writer w = {text, text_bytes, 0};

    const int has_text = ca_text_begin(text, text_bytes, needed);
    if (!problem || problem->struct_size != sizeof *problem || !has_text)
        return ca_refuse(CLATTN_INVALID_ARGUMENT,
                         "problem is null or of another version, or text is null");
    clattn_problem simple = *problem;
    ca_problem_simplify(&simple);
    print(&w, &simple);
    return ca_text_end(w.length + 1, text_bytes, needed);
}

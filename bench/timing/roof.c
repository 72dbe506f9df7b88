/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/timing/roof.h"
#include "bench/verify/sample.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_COPIES 64.0

/* The elements of a tensor that are used: a byte each where they may differ. What broadcasts, or is
 * alike for all batches or heads, has a step of 0. */
struct marks {
    unsigned char *used;
    size_t step[4];
    size_t count;
    double weight; /* Bytes that a mark stands for. */
};

/* Tensors of which all of a row is used or nothing of it; first those of queries. */
static const enum input rows_used[] = {INPUT_Q, INPUT_O, INPUT_LSE, INPUT_DO, INPUT_K, INPUT_V};

#define NUM_ROWS_USED (sizeof rows_used / sizeof *rows_used)
#define NUM_OF_QUERIES 4

/* All rows of the score matrix, one after the other. Without lengths and pages and where lists, mask and
 * bias are shared, all batches or heads are alike, and one is gone through for all. */
struct survey {
    const struct attention_case *attention;
    struct tensor_view inputs;
    size_t batches, heads;
    /* Keys of a row that block lists, mask, bias and pages leave visible; NULL without these. */
    unsigned char *visible;
    bool rows_differ;                /* The rows differ in `visible`. */
    struct marks marks[INPUT_COUNT]; /* Empty where only pairs are counted. */
    double pairs;                    /* Number of visible pairs. */
};

/* The keys that lengths, causality and windows leave to a query: begin <= j < end. */
struct span {
    size_t begin, end;
};

static bool differs_along(const clattn_problem *p, int dimension)
{
    return (p->mask && p->mask_layout.stride[dimension] != 0) ||
           (p->bias && p->bias_layout.stride[dimension] != 0);
}

/* Returns how many queries or keys of the batch are in use. */
static int64_t in_use(const struct block *lengths, size_t b, size_t all)
{
    if (lengths->data == NULL)
        return (int64_t)all;
    const int64_t length = ((const cl_int *)lengths->data)[b];
    return length < 0 ? 0 : length > (int64_t)all ? (int64_t)all : length;
}

/* Keys of the batch that are in use. */
static int64_t keys_in_use(const struct attention_case *attention, size_t b)
{
    const clattn_problem *p = &attention->job.problem;
    const struct tensor_view view = sample_inputs(attention);

    return in_use(&attention->in[INPUT_KV_LENGTHS], b, tensor_keys(p, &view, b));
}

static struct span find_span(const struct attention_case *attention, size_t b, size_t i)
{
    const clattn_problem *p = &attention->job.problem;
    const struct tensor_view view = sample_inputs(attention);
    const int64_t queries = in_use(&attention->in[INPUT_Q_LENGTHS], b, tensor_queries(p, &view, b));
    const int64_t keys = keys_in_use(attention, b);
    const int64_t now = (int64_t)i + (p->diagonal == CLATTN_TOP_LEFT       ? 0
                                      : p->diagonal == CLATTN_BOTTOM_RIGHT ? keys - queries
                                                                           : p->diagonal_offset);
    int64_t begin = 0, end = keys;

    if (p->causal && now + 1 < end)
        end = now + 1;
    if (p->window_right >= 0 && now + p->window_right + 1 < end)
        end = now + p->window_right + 1;
    if (p->window_left >= 0 && now - p->window_left > begin)
        begin = now - p->window_left;
    if ((int64_t)i >= queries || begin >= end)
        return (struct span){0, 0};
    return (struct span){(size_t)begin, (size_t)end};
}

static size_t mask_keys(const clattn_problem *p)
{
    return p->mask_keys ? p->mask_keys : p->seq_kv;
}

/* The key that a column of the mask is of; below 0 if there is none. */
static int64_t key_of_column(const struct attention_case *attention, size_t b, size_t column)
{
    const clattn_problem *p = &attention->job.problem;
    const int64_t keys = p->mask_keys ? keys_in_use(attention, b) : 0;

    return (int64_t)column + (p->mask_keys ? keys - (int64_t)p->mask_keys : 0);
}

static bool is_minus_infinity(clattn_dtype dtype, const void *data, size_t n)
{
    if (dtype == CLATTN_F32)
        return ((const float *)data)[n] == -INFINITY;
    return ((const uint16_t *)data)[n] == (dtype == CLATTN_F16 ? 0xfc00 : 0xff80);
}

enum { LISTED = 1, LISTED_AS_FULL };

/* Finds the keys that the block lists leave visible to a query, and where they leave the mask
 * unread. */
static void find_listed(struct survey *survey, size_t b, size_t h, size_t i)
{
    const clattn_problem *p = &survey->attention->job.problem;
    const struct block *in = survey->attention->in;
    const size_t rows = (p->seq_q + p->block_q - 1) / p->block_q;
    const size_t list =
        (p->block_batches ? b : 0) * (p->block_heads ? p->heads : 1) + (p->block_heads ? h : 0);
    const cl_int *offsets = (const cl_int *)in[INPUT_BLOCK_OFFSETS].data + list * (rows + 1);
    const cl_int *entries = (const cl_int *)in[INPUT_BLOCK_ENTRIES].data + list * p->max_blocks;
    const int64_t begin = offsets[i / p->block_q], end = offsets[i / p->block_q + 1];

    memset(survey->visible, 0, p->seq_kv);
    for (int64_t n = begin < 0 ? 0 : begin; n < end && n < (int64_t)p->max_blocks; n++) {
        const unsigned char listed = entries[n] & CLATTN_BLOCK_FULL ? LISTED_AS_FULL : LISTED;
        const size_t first = (size_t)(entries[n] & ~CLATTN_BLOCK_FULL) * p->block_kv;
        for (size_t j = first; entries[n] >= 0 && j < first + p->block_kv && j < p->seq_kv; j++)
            survey->visible[j] = listed > survey->visible[j] ? listed : survey->visible[j];
    }
}

static void find_visible(struct survey *survey, size_t b, size_t h, size_t i)
{
    const clattn_problem *p = &survey->attention->job.problem;
    const struct block *in = survey->attention->in;
    const size_t *mask = p->mask_layout.stride, *bias = p->bias_layout.stride;
    const unsigned char *bytes = in[INPUT_MASK].data;

    if (p->block_q > 0)
        find_listed(survey, b, h, i);
    else
        memset(survey->visible, LISTED, p->seq_kv);
    for (size_t c = 0; p->mask && c < mask_keys(p); c++) {
        const int64_t j = key_of_column(survey->attention, b, c);
        if (j >= 0 && survey->visible[j] == LISTED &&
            bytes[b * mask[0] + h * mask[1] + i * mask[2] + c * mask[3]] == 0)
            survey->visible[j] = 0;
    }
    for (size_t j = 0; p->bias && j < p->seq_kv; j++)
        if (is_minus_infinity(p->bias_dtype, in[INPUT_BIAS].data,
                              b * bias[0] + h * bias[1] + i * bias[2] + j * bias[3]))
            survey->visible[j] = 0;
    for (size_t j = 0; p->page_size && j < p->seq_kv; j++) {
        size_t page, row;
        if (!tensor_locate_key(p, &survey->inputs, b, j, &page, &row))
            survey->visible[j] = 0;
    }
    for (size_t j = 0; p->block_q && j < p->seq_kv; j++)
        survey->visible[j] = survey->visible[j] != 0;
}

static unsigned char *find_mark(const struct marks *marks, size_t b, size_t h, size_t i, size_t j)
{
    return marks->used + b * marks->step[0] + h * marks->step[1] + i * marks->step[2] +
           j * marks->step[3];
}

/* Marks keys where they lie side by side. */
static void mark_keys(struct survey *survey, size_t b, size_t head, struct span span)
{
    const unsigned char *visible = survey->visible;

    for (int n = INPUT_K; n <= INPUT_V; n++) {
        unsigned char *used = find_mark(&survey->marks[n], b, head, 0, 0);
        const size_t step = survey->marks[n].step[2];
        for (size_t j = span.begin; j < span.end; j++)
            used[j * step] |= visible != NULL ? visible[j] : 1;
    }
}

/* Marks the visible keys where a page table or starts of sequences say where they lie. */
static void mark_scattered_keys(struct survey *survey, size_t b, size_t head, struct span span)
{
    const clattn_problem *p = &survey->attention->job.problem;

    for (size_t j = span.begin; j < span.end; j++) {
        size_t block, row;
        if ((survey->visible == NULL || survey->visible[j]) &&
            tensor_locate_key(p, &survey->inputs, b, j, &block, &row))
            for (int n = INPUT_K; n <= INPUT_V; n++)
                *find_mark(&survey->marks[n], block, head, row, 0) = 1;
    }
}

static void mark_span(struct survey *survey, size_t b, size_t h, struct span span)
{
    const clattn_problem *p = &survey->attention->job.problem;
    const size_t head = h / (p->heads / p->kv_heads);

    if (span.begin >= span.end)
        return;
    if (p->page_size > 0 || p->total_kv > 0)
        mark_scattered_keys(survey, b, head, span);
    else
        mark_keys(survey, b, head, span);
}

/* Marks a row's keys except those that the previous row has marked; `before` is empty where visible
 * keys differ from row to row. */
static void mark_row(struct survey *survey, size_t b, size_t h, size_t i, struct span span,
                     struct span before)
{
    const clattn_problem *p = &survey->attention->job.problem;

    if (before.begin >= before.end)
        before = (struct span){span.end, span.end};
    mark_span(survey, b, h,
              (struct span){span.begin, before.begin < span.end ? before.begin : span.end});
    mark_span(survey, b, h,
              (struct span){before.end > span.begin ? before.end : span.begin, span.end});
    for (size_t j = span.begin; survey->marks[INPUT_BIAS].used != NULL && j < span.end; j++)
        *find_mark(&survey->marks[INPUT_BIAS], b, h, i, j) = 1;
    for (size_t c = 0; survey->marks[INPUT_MASK].used != NULL && c < mask_keys(p); c++) {
        const int64_t j = key_of_column(survey->attention, b, c);
        if (j >= (int64_t)span.begin && j < (int64_t)span.end)
            *find_mark(&survey->marks[INPUT_MASK], b, h, i, c) = 1;
    }
}

static void mark_query(const struct survey *survey, const struct marks *marks, size_t b, size_t h,
                       size_t i)
{
    size_t block, row;

    if (marks->used != NULL &&
        tensor_locate_query(&survey->attention->job.problem, &survey->inputs, b, i, &block, &row))
        *find_mark(marks, block, h, row, 0) = 1;
}

static double count_visible(const struct survey *survey, struct span span)
{
    size_t count = 0;

    if (survey->visible == NULL)
        return (double)(span.end - span.begin);
    for (size_t j = span.begin; j < span.end; j++)
        count += survey->visible[j];
    return (double)count;
}

static void go_through(struct survey *survey)
{
    const clattn_problem *p = &survey->attention->job.problem;

    for (size_t b = 0; b < survey->batches; b++) {
        for (size_t h = 0; h < survey->heads; h++) {
            struct span before = {0, 0};
            for (size_t i = 0; i < p->seq_q; i++) {
                const struct span span = find_span(survey->attention, b, i);
                if (survey->visible != NULL && (i == 0 || survey->rows_differ))
                    find_visible(survey, b, h, i);
                const double pairs = count_visible(survey, span);
                survey->pairs += pairs;
                if (survey->marks[INPUT_Q].used == NULL)
                    continue;
                mark_row(survey, b, h, i, span, before);
                before = survey->rows_differ ? before : span;
                for (size_t n = 0; n < NUM_OF_QUERIES && pairs > 0.0; n++)
                    mark_query(survey, &survey->marks[rows_used[n]], b, h, i);
            }
        }
    }
    if (survey->batches > 0)
        survey->pairs *= (double)(p->batch / survey->batches) * (double)(p->heads / survey->heads);
}

/* Begins a survey, with room for the visible keys of a row; false without memory. */
static bool begin_survey(struct survey *survey, const struct attention_case *attention)
{
    const clattn_problem *p = &attention->job.problem;
    const bool lengths = p->q_lengths || p->kv_lengths || p->total_q || p->total_kv;

    *survey = (struct survey){.attention = attention, .inputs = sample_inputs(attention)};
    const bool hidden = p->mask || p->bias || p->page_size || p->block_q;
    const bool batches_differ = lengths || p->page_size || p->block_batches || differs_along(p, 0);

    survey->batches = p->batch > 0 && !batches_differ ? 1 : p->batch;
    survey->heads = differs_along(p, 1) || p->block_heads ? p->heads : 1;
    survey->rows_differ = differs_along(p, 2) || p->block_q;
    if (hidden)
        survey->visible = malloc(p->seq_kv + 1);
    return survey->visible != NULL || !hidden;
}

static void end_survey(struct survey *survey)
{
    for (int n = 0; n < INPUT_COUNT; n++)
        free(survey->marks[n].used);
    free(survey->visible);
}

static bool open_marks(struct survey *survey, enum input input)
{
    const struct view view = case_input_view(&survey->attention->job, input);
    const bool rows = input != INPUT_BIAS && input != INPUT_MASK;
    const bool pages = survey->attention->job.problem.page_size > 0 &&
                       (input == INPUT_K || input == INPUT_V); /* shared by all batches */
    const bool once[4] = {survey->batches == 1 && !pages, survey->heads == 1, false, rows};
    struct marks *marks = &survey->marks[input];

    marks->count = 1;
    marks->weight = view_elements_bytes(&view, 1.0);
    for (int n = 3; n >= 0; n--) {
        if (view.stride[n] == 0)
            continue;
        if (once[n]) {
            marks->weight *= (double)view.size[n];
        } else {
            marks->step[n] = marks->count;
            marks->count *= view.size[n];
        }
    }
    marks->used = calloc(marks->count + 1, 1);
    return marks->used != NULL;
}

static double marked_bytes(const struct marks *marks)
{
    size_t count = 0;

    for (size_t n = 0; marks->used != NULL && n < marks->count; n++)
        count += marks->used[n];
    return (double)count * marks->weight;
}

static bool open_all_marks(struct survey *survey)
{
    const clattn_problem *p = &survey->attention->job.problem;
    bool ok = true;

    for (size_t n = 0; ok && n < NUM_ROWS_USED; n++)
        ok = !case_has_input(&survey->attention->job, rows_used[n]) ||
             open_marks(survey, rows_used[n]);
    return ok && (!p->bias || open_marks(survey, INPUT_BIAS)) &&
           (!p->mask || open_marks(survey, INPUT_MASK));
}

/* Scores from before the mask are wanted of hidden pairs as well. */
static void mark_for_scores(struct survey *survey)
{
    const clattn_scores scores = survey->attention->job.problem.scores;

    for (int n = INPUT_Q; n <= INPUT_K; n++)
        if (scores == CLATTN_SCORES_RAW || scores == CLATTN_SCORES_SOFTCAP)
            memset(survey->marks[n].used, 1, survey->marks[n].count);
}

/* Operations of a visible pair: two products forward, five backward. */
static double pair_flops(const clattn_problem *p)
{
    return p->operation == CLATTN_BACKWARD ? 6.0 * (double)p->dim_qk + 4.0 * (double)p->dim_v
                                           : 2.0 * (double)(p->dim_qk + p->dim_v);
}

static double attention_flops(const struct attention_case *attention)
{
    struct survey survey;

    if (begin_survey(&survey, attention))
        go_through(&survey);
    end_survey(&survey);
    return pair_flops(&attention->job.problem) * survey.pairs;
}

double case_flops(const struct attention_case *attention)
{
    const struct job *job = &attention->job;

    if (job->problem.operation > CLATTN_BACKWARD)
        return clattn_problem_flops(&job->problem);
    if (job->is_layer) /* lengths and masks change attention only, not the projections */
        return clattn_multihead_flops(&job->layer) - clattn_problem_flops(&job->problem) +
               attention_flops(attention);
    return attention_flops(attention);
}

/* All elements of a tensor, strides apart or not; what broadcasts has one. */
static double view_bytes(const struct view *view)
{
    double elements = 1.0;

    for (int n = 0; n < 4; n++)
        elements *= view->stride[n] != 0 || view->size[n] <= 1 ? (double)view->size[n] : 1.0;
    return view_elements_bytes(view, elements);
}

static double all_bytes(struct view view)
{
    return view.few ? 0.0 : view_bytes(&view);
}

static double written_bytes(const struct job *job)
{
    double bytes = 0.0;

    for (int n = 0; n < OUTPUT_COUNT; n++)
        bytes += all_bytes(case_output_view(job, (enum output)n));
    return bytes;
}

/* Bytes of attention: only the elements of visible pairs count. */
static double attention_bytes(const struct attention_case *attention)
{
    const clattn_problem *p = &attention->job.problem;
    const double pairs = (double)p->batch * (double)p->heads * (double)p->seq_q * (double)p->seq_kv;
    struct survey survey;
    double bytes = 0.0;

    if (begin_survey(&survey, attention) && open_all_marks(&survey)) {
        go_through(&survey);
        if (pairs > 0.0)
            mark_for_scores(&survey);
        for (int n = 0; n < INPUT_COUNT; n++)
            bytes += marked_bytes(&survey.marks[n]);
    }
    end_survey(&survey);
    return bytes;
}

/* Bytes of other operations: all elements that are read. */
static double read_bytes(const struct job *job)
{
    double bytes = 0.0;

    for (int n = 0; n < INPUT_COUNT; n++)
        bytes += all_bytes(case_input_view(job, (enum input)n));
    return bytes;
}

/* The tokens' rows of the caches, and the queries. */
static double appended_bytes(const struct job *job)
{
    const clattn_append_problem *p = &job->problem.append;
    const double rows = (double)p->batch * (double)p->kv_heads * (double)p->tokens;
    const struct view k = case_output_view(job, OUTPUT_APPEND_K_CACHE);
    const struct view v = case_output_view(job, OUTPUT_APPEND_V_CACHE);
    const struct view q = case_output_view(job, OUTPUT_APPEND_Q_OUT);
    const double queries = p->queries == CLATTN_QUERIES_IN_PLACE ? 2.0 : 1.0;

    return view_elements_bytes(&k, rows * (double)p->dim_qk) +
           view_elements_bytes(&v, rows * (double)p->dim_v) +
           (p->queries != CLATTN_QUERIES_NONE ? queries * view_bytes(&q) : 0.0);
}

double case_bytes(const struct attention_case *attention)
{
    const struct job *job = &attention->job;
    const double written = written_bytes(job);

    if (job_kind(job) == JOB_FORWARD || job_kind(job) == JOB_BACKWARD)
        return written + attention_bytes(attention);
    if (job_kind(job) == JOB_APPEND)
        return appended_bytes(job) + read_bytes(job);
    return (ca_problem_accumulates(&job->problem) ? 2.0 : 1.0) * written + read_bytes(job);
}

double case_set_bytes(const struct attention_case *attention)
{
    double bytes = 0.0;

    for (int n = 0; n < INPUT_COUNT; n++)
        bytes += (double)attention->in[n].bytes;
    for (int n = 0; n < OUTPUT_COUNT; n++) {
        const struct view view = case_output_view(&attention->job, (enum output)n);
        bytes += (double)view_extent_bytes(&view);
    }
    return bytes;
}

size_t roof_copies(double flops, double bytes, double gflops, double gigabytes, double cover,
                   double set, double most)
{
    const bool memory_limits = flops * gigabytes < bytes * gflops;
    double copies = memory_limits && bytes > 0.0 ? ceil(cover / bytes) : 1.0;

    if (copies > MOST_COPIES)
        copies = MOST_COPIES;
    if (copies * set > most)
        copies = floor(most / set);
    return copies < 1.0 ? 1 : (size_t)copies;
}

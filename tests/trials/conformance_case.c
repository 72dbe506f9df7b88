/* SPDX-License-Identifier: Apache-2.0 */
/* Cases that no one on this project wrote (tests/data/conformance), as trials. */
#define _POSIX_C_SOURCE 200809L /* scandir */
#include "tests/trials/conformance_case.h"

#include "bench/judge/row.h"
#include "tests/support/storage.h"
#include "tests/trials/case_file.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor of a file as (batch, heads, seq, dim), whatever its rank. */
struct source {
    struct safetensor t;
    clattn_dtype dtype;
    size_t size[4], stride[4];
};

static int find(const struct safetensors *file, const char *name, const size_t heads,
                struct source *s)
{
    if (!case_file_find(file, name, &s->t))
        return 0;
    s->dtype = strcmp(s->t.dtype, "F16") == 0 ? CLATTN_F16 : CLATTN_F32;
    const size_t *n = s->t.shape;
    const size_t rank2[] = {1, 1, n[0], n[1]}, rank2_step[] = {0, 0, n[1], 1};
    const size_t rank4[] = {n[0], n[1], n[2], n[3]};
    const size_t rank4_step[] = {n[1] * n[2] * n[3], n[2] * n[3], n[3], 1};
    const size_t dim = s->t.rank == 3 ? n[2] / heads : 0; /* heads are not known for other ranks */
    const size_t rank3[] = {n[0], heads, n[1], dim};
    const size_t rank3_step[] = {n[1] * n[2], dim, n[2], 1};
    memcpy(s->size, s->t.rank == 2 ? rank2 : s->t.rank == 3 ? rank3 : rank4, sizeof s->size);
    memcpy(s->stride,
           s->t.rank == 2   ? rank2_step
           : s->t.rank == 3 ? rank3_step
                            : rank4_step,
           sizeof s->stride);
    return 1;
}

static double source_at(const struct source *s, const size_t b, const size_t h, const size_t i,
                        const size_t d)
{
    return value_get(s->dtype, s->t.data,
                     b * s->stride[0] + h * s->stride[1] + i * s->stride[2] + d * s->stride[3]);
}

static unsigned char *first(struct host_tensor *x)
{
    return x->bytes + x->offset * x->shape.element_bytes;
}

/* Copies a source into a tensor of the trial, from the position `from` along seq. */
static void put(struct trial *t, const enum tensor_id id, const struct source *s, const size_t from)
{
    struct host_tensor *x = &t->tensor[id];

    for (size_t b = 0; b < s->size[0]; b++)
        for (size_t h = 0; h < s->size[1]; h++)
            for (size_t i = 0; i < s->size[2]; i++)
                for (size_t d = 0; d < s->size[3]; d++)
                    value_set(x->shape.dtype, first(x), tensor_index(&x->shape, b, h, from + i, d),
                              source_at(s, b, h, i, d));
}

/* A mask of rank 2 to 4; keys that it is too short for are masked. */
static void set_mask_layout(clattn_problem *p, const struct safetensor *mask)
{
    size_t shape[4];
    const int boolean = strcmp(mask->dtype, "BOOL") == 0;

    memcpy(shape, mask->shape, sizeof shape);
    shape[mask->rank - 1] = p->seq_kv;
    p->mask = boolean;
    p->bias = !boolean;
    p->bias_dtype = strcmp(mask->dtype, "F16") == 0 ? CLATTN_F16 : CLATTN_F32;
    cr_assert(clattn_layout_broadcast(p, mask->rank, shape,
                                      boolean ? &p->mask_layout : &p->bias_layout) ==
              CLATTN_SUCCESS);
}

static void put_mask(struct trial *t, const struct safetensor *mask)
{
    struct host_tensor *x = &t->tensor[t->problem.mask ? TENSOR_MASK : TENSOR_BIAS];
    const size_t given = mask->shape[mask->rank - 1];
    size_t rows = 1;

    for (size_t n = 0; n + 1 < mask->rank; n++)
        rows *= mask->shape[n];
    for (size_t row = 0; row < rows; row++)
        for (size_t j = 0; j < t->problem.seq_kv; j++) {
            const size_t to = row * t->problem.seq_kv + j, from = row * given + j;
            if (t->problem.mask)
                first(x)[to] = j < given ? mask->data[from] : 0;
            else
                value_set(x->shape.dtype, first(x), to,
                          j < given ? value_get(x->shape.dtype, mask->data, from) : -INFINITY);
        }
}

/* Compares a result with what the file holds: f32 within 2e-6 of the largest of the row, f16
 * within what its own 11 bits leave (ONNX computes in f16 throughout). */
static void expect(const struct trial *t, const char *file, const enum tensor_id id,
                   const struct source *want)
{
    const struct host_tensor *x = &t->tensor[id];
    const unsigned char *got = x->got + x->offset * x->shape.element_bytes;
    const double tolerance = want->dtype == CLATTN_F16 ? 2e-3 : 2e-6;

    for (int n = 0; n < 4; n++)
        cr_assert(want->size[n] == x->shape.size[n], "%s: shape of %s", file, x->shape.name);
    for (size_t b = 0; b < want->size[0]; b++)
        for (size_t h = 0; h < want->size[1]; h++)
            for (size_t i = 0; i < want->size[2]; i++) {
                double most = 0.0;
                for (size_t d = 0; d < want->size[3]; d++)
                    if (isfinite(source_at(want, b, h, i, d)))
                        most = fmax(most, fabs(source_at(want, b, h, i, d)));
                for (size_t d = 0; d < want->size[3]; d++) {
                    const struct bounded w = {source_at(want, b, h, i, d), tolerance * most};
                    const double g =
                        value_get(x->shape.dtype, got, tensor_index(&x->shape, b, h, i, d));
                    cr_assert(within(g, w), "%s on %s: %s[%zu, %zu, %zu, %zu] is %.9g, not %.9g",
                              file, t->family ? t->family : "any family", x->shape.name, b, h, i, d,
                              g, w.value);
                }
            }
}

/* Only a family that has the scores in memory can hand them out; o is asked of all. */
static void settle_scores(const struct fixture *f, struct trial *t)
{
    const clattn_plan_options options = {.struct_size = sizeof options, .family = t->family};

    if (clattn_plan_supports(f->context, &t->problem, &options) == CLATTN_UNSUPPORTED)
        t->problem.scores = CLATTN_SCORES_NONE;
}

/* ---- ONNX ---------------------------------------------------------------------------------- */

static size_t attribute(const struct safetensors *file, const char *key)
{
    return strtoul(case_file_text(file, key, "0"), NULL, 10);
}

static void run_onnx(struct fixture *f, const struct safetensors *file, const char *name,
                     const clattn_dtype *dtype, struct trial *t)
{
    const size_t q_heads = attribute(file, "q_num_heads"), heads = attribute(file, "kv_num_heads");
    struct source q, k, v, past_k, past_v, y, scores;
    struct safetensor mask, lengths;
    clattn_problem *p = &t->problem;

    cr_assert(find(file, "Q", q_heads, &q) && find(file, "K", heads, &k) &&
              find(file, "V", heads, &v) && find(file, "Y", q_heads, &y));
    const int has_past = find(file, "past_key", heads, &past_k);
    const size_t past = has_past ? past_k.size[2] : 0;
    const int has_mask = case_file_find(file, "attn_mask", &mask);
    const int has_scores = find(file, "qk_matmul_output", q_heads, &scores);
    clattn_problem_init(p);
    p->dtype = dtype ? *dtype : q.dtype;
    p->batch = q.size[0];
    p->heads = q.size[1];
    p->kv_heads = k.size[1];
    p->seq_q = q.size[2];
    p->seq_kv = past + k.size[2];
    p->dim_qk = q.size[3];
    p->dim_v = v.size[3];
    memcpy(p->q.stride, q.stride, sizeof q.stride);
    memcpy(p->o.stride, y.stride, sizeof y.stride);
    if (!has_past) {
        memcpy(p->k.stride, k.stride, sizeof k.stride);
        memcpy(p->v.stride, v.stride, sizeof v.stride);
    }
    p->scale = strtof(case_file_text(file, "scale", "nan"), NULL);
    p->softcap = strtof(case_file_text(file, "softcap", "0"), NULL);
    p->kv_lengths = case_file_find(file, "nonpad_kv_seqlen", &lengths);
    p->causal = attribute(file, "is_causal") != 0;
    if (p->causal && p->kv_lengths)
        p->diagonal = CLATTN_BOTTOM_RIGHT;
    else if (p->causal && past)
        p->diagonal = CLATTN_OFFSET, p->diagonal_offset = (int64_t)past;
    if (has_mask)
        set_mask_layout(p, &mask);
    if (has_scores)
        p->scores = (clattn_scores)(CLATTN_SCORES_RAW + attribute(file, "qk_matmul_output_mode"));
    settle_scores(f, t);

    trial_fill(t);
    put(t, TENSOR_Q, &q, 0);
    put(t, TENSOR_K, &k, past);
    put(t, TENSOR_V, &v, past);
    if (has_past && find(file, "past_value", heads, &past_v)) {
        put(t, TENSOR_K, &past_k, 0);
        put(t, TENSOR_V, &past_v, 0);
    }
    if (has_mask)
        put_mask(t, &mask);
    for (size_t b = 0; p->kv_lengths && b < p->batch; b++) {
        int64_t length;
        memcpy(&length, lengths.data + b * sizeof length, sizeof length);
        const cl_int stored = (cl_int)length;
        memcpy(first(&t->tensor[TENSOR_KV_LENGTHS]) + b * sizeof stored, &stored, sizeof stored);
    }
    trial_run(f, t);
    trial_check(t);
    if (!dtype)
        expect(t, name, TENSOR_O, &y);
    if (!dtype && p->scores != CLATTN_SCORES_NONE)
        expect(t, name, TENSOR_SCORES, &scores);
    trial_free(t);
}

/* ---- worked examples: q, k, v of rank 2 ------------------------------------------------------ */

struct example {
    const char *k, *v, *scores, *weights, *context;
};

static void run_example(struct fixture *f, const struct safetensors *file, const char *name,
                        const struct example *e, const clattn_dtype *dtype, struct trial *t)
{
    struct source q, k, v, scores, weights, context;
    const clattn_scores points[] = {CLATTN_SCORES_WEIGHTS, CLATTN_SCORES_RAW};
    clattn_problem *p = &t->problem;

    cr_assert(find(file, "Q", 1, &q) && find(file, e->k, 1, &k) && find(file, e->v, 1, &v) &&
                  find(file, e->scores, 1, &scores) && find(file, e->weights, 1, &weights) &&
                  find(file, e->context, 1, &context),
              "%s", name);
    clattn_problem_init(p);
    p->dtype = dtype ? *dtype : CLATTN_F32;
    p->seq_q = q.size[2];
    p->seq_kv = k.size[2];
    p->dim_qk = q.size[3];
    p->dim_v = v.size[3];
    for (int n = 0; n < 2; n++) {
        p->scores = points[n];
        /* the files' scores are q k^T, not scaled */
        p->scale = n == 0 ? strtof(case_file_text(file, "scale", "?"), NULL) : 1.0f;
        settle_scores(f, t);
        trial_fill(t);
        put(t, TENSOR_Q, &q, 0);
        put(t, TENSOR_K, &k, 0);
        put(t, TENSOR_V, &v, 0);
        trial_run(f, t);
        trial_check(t);
        if (!dtype && n == 0)
            expect(t, name, TENSOR_O, &context);
        if (!dtype && p->scores != CLATTN_SCORES_NONE)
            expect(t, name, TENSOR_SCORES, n == 0 ? &weights : &scores);
        trial_free(t);
    }
}

/* ---- files ---------------------------------------------------------------------------------- */

static int is_case(const struct dirent *entry)
{
    return strstr(entry->d_name, ".safetensors") != NULL;
}

struct dirent **conformance_files(int *count)
{
    struct dirent **files;

    *count = scandir(CLATTN_TEST_DATA "/conformance", &files, is_case, alphasort);
    cr_assert(*count == 48, "%d files in " CLATTN_TEST_DATA "/conformance", *count);
    return files;
}

void conformance_run(struct fixture *f, const char *name, const clattn_dtype *dtype,
                     struct trial *t)
{
    const struct example own = {"K", "V", "scores", "weights", "context"};
    const struct example cross = {"K2", "V2", "scores_cross", "weights_cross", "context_cross"};
    struct safetensors file;
    char path[512];

    snprintf(path, sizeof path, CLATTN_TEST_DATA "/conformance/%s", name);
    case_file_open(&file, path);
    if (strncmp(name, "test_attention_", 15) == 0)
        run_onnx(f, &file, name, dtype, t);
    else
        run_example(f, &file, name, &own, dtype, t);
    if (strncmp(name, "raschka", 7) == 0)
        run_example(f, &file, name, &cross, dtype, t);
    safetensors_free(&file);
}

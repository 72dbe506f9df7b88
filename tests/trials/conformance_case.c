/* SPDX-License-Identifier: Apache-2.0 */
/* Cases that no one on this project wrote (tests/data/conformance), as trials. clattn-bench's reader makes problems of
 * them (bench/cases/case_file.h). */
#define _POSIX_C_SOURCE 200809L /* scandir */
#include "tests/trials/conformance_case.h"

#include "bench/cases/case_file.h"
#include "bench/judge/row.h"
#include "tests/support/storage.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The inputs of a file, with the elements' places as the problem says: the first three in the trial's dtype. */
static void put_inputs(struct trial *t, const struct attention_case *c)
{
    static const struct {
        enum input from;
        enum tensor_id to;
    } inputs[] = {{INPUT_Q, TENSOR_Q},       {INPUT_K, TENSOR_K},
                  {INPUT_V, TENSOR_V},       {INPUT_BIAS, TENSOR_BIAS},
                  {INPUT_MASK, TENSOR_MASK}, {INPUT_KV_LENGTHS, TENSOR_KV_LENGTHS}};

    for (size_t n = 0; n < sizeof inputs / sizeof *inputs; n++) {
        const struct block *from = &c->in[inputs[n].from];
        const struct host_tensor *to = &t->tensor[inputs[n].to];
        unsigned char *first = to->bytes + to->offset * to->shape.element_bytes;
        const size_t count = from->bytes / value_bytes(c->job.problem.dtype);
        if (n >= 3 && from->data)
            memcpy(first, from->data, from->bytes);
        for (size_t x = 0; n < 3 && x < count; x++)
            value_set(to->shape.dtype, first, x, value_get(c->job.problem.dtype, from->data, x));
    }
}

/* Compares a result with what the file holds: f32 within 2e-6 of the largest of the row, f16
 * within what its own 11 bits leave (ONNX computes in f16 throughout). */
static void expect(const struct trial *t, const char *name, const enum tensor_id id,
                   const struct answer *want)
{
    const struct host_tensor *x = &t->tensor[id];
    const unsigned char *got = x->got + x->offset * x->shape.element_bytes;
    const double tolerance = want->dtype == CLATTN_F16 ? 2e-3 : 2e-6;

    for (size_t row = 0; row < want->count; row += want->row) {
        double most = 0.0;
        for (size_t n = row; n < row + want->row; n++) {
            const double here = value_get(want->dtype, want->data, n);
            most = isfinite(here) ? fmax(most, fabs(here)) : most;
        }
        for (size_t n = row; n < row + want->row; n++) {
            const struct bounded w = {value_get(want->dtype, want->data, n), tolerance * most};
            const double g = value_get(x->shape.dtype, got, n);
            cr_assert(within(g, w), "%s on %s: element %zu of %s is %.9g, not %.9g", name,
                      t->family ? t->family : "any family", n, x->shape.name, g, w.value);
        }
    }
}

static void run_case(struct fixture *f, const struct attention_case *c, const clattn_dtype *dtype,
                     struct trial *t)
{
    const clattn_plan_options options = {.struct_size = sizeof options, .family = t->family};

    t->problem = c->job.problem;
    if (dtype)
        t->problem.dtype = *dtype;
    /* Only a family that has the scores in memory can hand them out; o is asked of all. */
    if (clattn_plan_supports(f->context, &t->problem, &options) == CLATTN_UNSUPPORTED)
        t->problem.scores = CLATTN_SCORES_NONE;
    trial_fill(t);
    put_inputs(t, c);
    trial_run(f, t);
    trial_check(t);
    if (!dtype && c->o.data)
        expect(t, c->name, TENSOR_O, &c->o);
    if (!dtype && t->problem.scores != CLATTN_SCORES_NONE)
        expect(t, c->name, TENSOR_SCORES, &c->scores);
    trial_free(t);
}

/* Worked examples have q k^T as well, not scaled, for which their o is not. */
static void run_unscaled(struct fixture *f, struct attention_case *c,
                         const struct safetensor *scores, const clattn_dtype *dtype,
                         struct trial *t)
{
    const struct answer o = c->o, weights = c->scores;

    c->o.data = NULL;
    memcpy(c->scores.data, scores->data, scores->bytes);
    c->job.problem.scores = CLATTN_SCORES_RAW;
    c->job.problem.scale = 1.0f;
    run_case(f, c, dtype, t);
    c->o = o;
    c->scores = weights;
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
    static const char *const unscaled[] = {"scores", "scores_cross"};
    struct safetensors file;
    struct message why;
    char path[512];

    snprintf(path, sizeof path, CLATTN_TEST_DATA "/conformance/%s", name);
    cr_assert(safetensors_read(&file, path, &why), "%s", why.text);
    for (size_t n = 0; n < case_file_count(&file); n++) {
        const struct safetensor *scores = safetensors_find(&file, unscaled[n]);
        struct attention_case c;
        cr_assert(case_file_read(&c, &file, path, n, &why), "%s", why.text);
        run_case(f, &c, dtype, t);
        if (scores)
            run_unscaled(f, &c, scores, dtype, t);
        case_free(&c);
    }
    safetensors_free(&file);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradients as PyTorch computed them in double precision (tests/data/pytorch), and
 * those of a layer of a real model (tests/data/minilm), through the public API on every family; the
 * former on the one that the library chooses as well.
 *
 * The bounds are those of the references, which must agree with PyTorch too: forward almost exactly.
 * Backward reads o and lse, which the files hold in double precision: rounding them to f32 changes
 * delta by at most u sum|do o| and exp(s - lse) by a factor of at most exp(u |lse|), u = 2^-24. Both
 * are smaller than what reference_backward.c allows the arithmetic for the same terms, dim_v + 6 and
 * dim_qk + 6 times as much, so an element's bound covers it once more: twice the bound in all. */
#define _POSIX_C_SOURCE 200809L /* scandir */
#include "bench/judge/gradients.h"
#include "bench/judge/row.h"
#include "tests/support/families.h"
#include "tests/support/fixture.h"
#include "tests/support/storage.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/case_file.h"
#include "tests/trials/tensors.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(pytorch, .timeout = 600);

struct attention_case {
    const char *name;
    const char *family;
    clattn_problem problem;
    struct tensor_view view; /* owns what it points to: it cannot know that it does */
};

static void *writable(const struct tensor_view *view, const enum tensor_id id)
{
    return (void *)view->at[id];
}

/* An element of a file, which holds f64 where it is a result of PyTorch's. */
static double element(const struct safetensor *t, const size_t n)
{
    double value;

    if (strcmp(t->dtype, "F64") != 0)
        return value_get(CLATTN_F32, t->data, n);
    memcpy(&value, t->data + n * sizeof value, sizeof value);
    return value;
}

/* Memory for a tensor of NaN. */
static unsigned char *make(const struct tensor_shape *s)
{
    unsigned char *bytes = malloc(s->extent * s->element_bytes);

    cr_assert(bytes != NULL);
    memset(bytes, 0xff, s->extent * s->element_bytes);
    return bytes;
}

/* Memory for a tensor with what the file holds. */
static unsigned char *load(const struct safetensors *file, const char *name,
                           const struct tensor_shape *s)
{
    unsigned char *bytes = make(s);
    struct safetensor t;

    cr_assert(case_file_find(file, name, &t), "no %s in the file", name);
    cr_assert(t.count == s->extent, "%zu elements of %s, not %zu", t.count, name, s->extent);
    if (strcmp(t.dtype, "F64") != 0)
        memcpy(bytes, t.data, s->extent * s->element_bytes);
    for (size_t n = 0; strcmp(t.dtype, "F64") == 0 && n < s->extent; n++)
        value_set(CLATTN_F32, bytes, n, element(&t, n));
    return bytes;
}

static const char *family_of(const struct attention_case *c)
{
    return c->family ? c->family : "any family";
}

static void run(struct fixture *f, struct attention_case *c)
{
    const clattn_plan_options options = {.struct_size = sizeof options, .family = c->family};

    fixture_need_groups_of(f, c->family);
    const clattn_status status = tensor_execute_host(f->context, &c->problem, &options, &c->view);

    cr_assert(status == CLATTN_SUCCESS, "%s on %s: %s", c->name, family_of(c), f->log.last);
}

static void release(struct attention_case *c)
{
    for (int id = 0; id < NUM_TENSORS; id++)
        free(writable(&c->view, (enum tensor_id)id));
}

/* What an element must be by PyTorch, and what the reference says. */
static void compare(const struct attention_case *c, const char *tensor, const size_t n,
                    const double got, const double want, const struct bounded reference)
{
    const double rounded = c->problem.operation == CLATTN_BACKWARD ? 1.0 : 1e-6;
    const struct bounded agreed = {want, rounded * reference.bound};
    const struct bounded allowed = {want, (1.0 + rounded) * reference.bound};

    cr_assert(within(reference.value, agreed), "%s: %s[%zu] of the reference is %.9g, not %.9g",
              c->name, tensor, n, reference.value, want);
    cr_assert(within(got, allowed), "%s on %s: %s[%zu] is %.9g, not %.9g +- %.2g", c->name,
              family_of(c), tensor, n, got, want, allowed.bound);
}

/* ---- forward ------------------------------------------------------------------------------- */

static void check_forward(const struct safetensors *file, const struct attention_case *c)
{
    const clattn_problem *p = &c->problem;
    const struct tensor_shape o = tensor_shape_of(p, TENSOR_O);
    struct safetensor want_o, want_lse;
    struct reference_row row;

    cr_assert(case_file_find(file, "o", &want_o) && case_file_find(file, "lse", &want_lse));
    cr_assert(reference_row_open(p, PRECISION_SINGLE, &row));
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->heads; h++)
            for (size_t i = 0; i < p->seq_q; i++) {
                const size_t n = (b * p->heads + h) * p->seq_q + i;
                reference_row_compute(p, &c->view, b, h, i, &row);
                compare(c, "lse", n, value_get(CLATTN_F32, c->view.at[TENSOR_LSE], n),
                        element(&want_lse, n), row.lse);
                for (size_t d = 0; d < p->dim_v; d++) {
                    const size_t at = tensor_index(&o, b, h, i, d);
                    compare(c, "o", at, value_get(CLATTN_F32, c->view.at[TENSOR_O], at),
                            element(&want_o, at), row.o[d]);
                }
            }
    reference_row_close(&row);
}

/* ---- backward ------------------------------------------------------------------------------ */

/* Gradients are packed, in the files and in the problems, so that all three arrays agree. Of a
 * file that holds only every `step`-th row of a head those are compared. */
static void check_gradient(const struct safetensors *file, const struct attention_case *c,
                           const enum tensor_id id, const struct bounded *reference,
                           const size_t step)
{
    const struct tensor_shape s = tensor_shape_of(&c->problem, id);
    struct safetensor want;
    size_t stored = 0;

    cr_assert(case_file_find(file, s.name, &want), "%s: no %s", c->name, s.name);
    for (size_t n = 0; n < s.extent; n++)
        if (n / s.size[3] % s.size[2] % step == 0) {
            cr_assert(stored < want.count);
            compare(c, s.name, n, value_get(CLATTN_F32, c->view.at[id], n),
                    element(&want, stored++), reference[n]);
        }
    cr_assert(stored == want.count, "%s: %s", c->name, s.name);
}

static void check_backward(const struct safetensors *file, const struct attention_case *c,
                           const size_t step)
{
    struct reference_gradients reference;

    cr_assert(reference_gradients_open(&c->problem, &c->view, &reference));
    for (int id = TENSOR_DQ; id <= TENSOR_DSINKS; id++)
        if (tensor_shape_of(&c->problem, (enum tensor_id)id).present)
            check_gradient(file, c, (enum tensor_id)id, reference.at[id], step);
    reference_gradients_close(&reference);
}

/* ---- all cases, on every family -------------------------------------------------------------- */

static void pass(struct fixture *f, const char *name, const clattn_operation operation,
                 const char *family)
{
    struct attention_case c = {.name = name, .family = family};
    struct safetensors file;
    char path[512];

    snprintf(path, sizeof path, CLATTN_TEST_DATA "/pytorch/%s", name);
    case_file_open(&file, path);
    c.problem = fixture_problem(
        case_file_text(&file, operation == CLATTN_BACKWARD ? "backward" : "forward", ""));
    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(&c.problem, (enum tensor_id)id);
        if (s.present)
            c.view.at[id] = s.written ? make(&s) : load(&file, s.name, &s);
    }
    run(f, &c);
    if (operation == CLATTN_BACKWARD)
        check_backward(&file, &c, 1);
    else
        check_forward(&file, &c);
    release(&c);
    safetensors_free(&file);
}

static int is_attention(const struct dirent *entry)
{
    return strncmp(entry->d_name, "attention_", 10) == 0;
}

/* A family (by number, the last: whichever the library chooses) and a half of the files: those next
 * to each other share programs. */
struct portion {
    clattn_operation operation;
    size_t family, half;
};

ParameterizedTestParameters(pytorch, attention) {
    static struct portion portions[32];
    const clattn_operation operations[] = {CLATTN_BACKWARD, CLATTN_FORWARD}; /* longest first */
    size_t count = 0;

    for (size_t n = 0; n < 2; n++)
        for (size_t family = 0; count + 2 <= 32; family++) {
            for (size_t half = 0;
                 half < 2 && family_takes_f32(clattn_family_name(operations[n], family)); half++)
                portions[count++] = (struct portion){operations[n], family, half};
            if (!clattn_family_name(operations[n], family))
                break;
        }
    return cr_make_param_array(struct portion, portions, count);
}

ParameterizedTest(struct portion *portion, pytorch, attention) {
    const char *family = clattn_family_name(portion->operation, portion->family);
    struct dirent **files;
    struct fixture f;

    if (family)
        unoptimised();
    const int count = scandir(CLATTN_TEST_DATA "/pytorch", &files, is_attention, alphasort);
    cr_assert(count == 36, "%d files in " CLATTN_TEST_DATA "/pytorch", count);
    fixture_open(&f);
    const int begin = portion->half ? count / 2 : 0, end = portion->half ? count : count / 2;
    /* Of a family that is forced one file in twelve in each run, of the library's choice one in nine, and the
     * others in the next. */
    for (int n = begin; n < end; n++)
        if (run_takes((uint64_t)n + portion->family, family ? 12 : 9))
            pass(&f, files[n]->d_name, portion->operation, family);
    fixture_close(&f);
    for (int n = 0; n < count; n++)
        free(files[n]);
    free(files);
}

/* ---- MiniLM -------------------------------------------------------------------------------- */

ParameterizedTestParameters(pytorch, minilm) {
    static size_t families[16];
    size_t count = 0;

    for (size_t n = 0; clattn_family_name(CLATTN_BACKWARD, n) && count < 16; n++)
        if (family_takes_f32(clattn_family_name(CLATTN_BACKWARD, n)))
            families[count++] = n;
    return cr_make_param_array(size_t, families, count);
}

/* q, k, v and o lie in the layer's file. */
ParameterizedTest(size_t *family, pytorch, minilm) {
    static const char *const in_layer[NUM_TENSORS] = {
        [TENSOR_Q] = "Q", [TENSOR_K] = "K", [TENSOR_V] = "V", [TENSOR_O] = "O"};
    struct attention_case c = {.name = "minilm_gradients_5",
                               .family = clattn_family_name(CLATTN_BACKWARD, *family)};
    struct safetensors layer, gradients;
    struct fixture f;

    fixture_open(&f);
    case_file_open(&layer, CLATTN_TEST_DATA "/minilm/minilm_layer_5.safetensors");
    case_file_open(&gradients, CLATTN_TEST_DATA "/minilm_training/minilm_gradients_5.safetensors");
    c.problem = fixture_problem(case_file_text(&gradients, "backward", ""));
    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(&c.problem, (enum tensor_id)id);
        if (s.present)
            c.view.at[id] = s.written      ? make(&s)
                            : in_layer[id] ? load(&layer, in_layer[id], &s)
                                           : load(&gradients, s.name, &s);
    }
    run(&f, &c);
    check_backward(&gradients, &c,
                   strtoul(case_file_text(&gradients, "every_token", "1"), NULL, 10));
    release(&c);
    safetensors_free(&gradients);
    safetensors_free(&layer);
    fixture_close(&f);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The reference against PyTorch, in double precision: attention and its gradients, and multi-head layers with
 * parameters in PyTorch's own layout (tests/data/pytorch), and those of a layer of a real model (tests/data/minilm).
 * No device: that the library agrees with the reference is for the sweep, the properties and the tests of layers.
 *
 * Every input in the files is an f32, so that almost all numbers must be the same. Gradients of attention read o and
 * lse, which the files hold in double precision: rounding them to f32 changes delta by at most u sum|do o| and
 * exp(s - lse) by a factor of at most exp(u |lse|), u = 2^-24. Both are smaller than what the reference allows the
 * arithmetic for the same terms, dim_v + 6 and dim_qk + 6 times as much: an element's bound covers it. */
#define _POSIX_C_SOURCE 200809L /* scandir */
#include "bench/cases/safetensors.h"
#include "bench/judge/gradients.h"
#include "bench/judge/row.h"
#include "tests/support/fixture.h"
#include "tests/support/storage.h"
#include "tests/trials/multihead_case.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(pytorch, .timeout = 300);

/* The tensor of that name, which must be there. */
static struct safetensor find(const struct safetensors *file, const char *name)
{
    const struct safetensor *t = name ? safetensors_find(file, name) : NULL;

    cr_assert(t, "no %s in the file", name ? name : "such");
    return *t;
}

static void open_file(struct safetensors *file, const char *path)
{
    struct message why;

    cr_assert(safetensors_read(file, path, &why), "%s", why.text);
}

/* A string of the metadata; `otherwise` if there is none. */
static const char *text_of(const struct safetensors *file, const char *key, const char *otherwise)
{
    const char *text = safetensors_attribute(file, key);

    return text ? text : otherwise;
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

/* Compares with PyTorch's number; share is the allowed part of the reference's bound. */
static void compare(const char *of, const char *tensor, const size_t n, const double want,
                    const struct bounded got, const double share)
{
    const struct bounded agreed = {want, share * got.bound};

    cr_assert(within(got.value, agreed), "%s: %s[%zu] of the reference is %.9g, not %.9g", of,
              tensor, n, got.value, want);
}

/* Each file whose name begins so, of which there must be `count`. */
static void for_each_file(const char *prefix, const int count, void (*pass)(const char *path))
{
    struct dirent **files;
    const int all = scandir(CLATTN_TEST_DATA "/pytorch", &files, NULL, alphasort);
    int found = 0;

    for (int n = 0; n < all; n++) {
        char path[512];
        snprintf(path, sizeof path, CLATTN_TEST_DATA "/pytorch/%s", files[n]->d_name);
        if (strncmp(files[n]->d_name, prefix, strlen(prefix)) == 0) {
            pass(path);
            found++;
        }
        free(files[n]);
    }
    free(files);
    cr_assert(found == count, "%d files of %s in " CLATTN_TEST_DATA "/pytorch", found, prefix);
}

/* ---- attention -------------------------------------------------------------------------------- */

/* Loads a tensor of the file, as f32 if it is in f64. */
static unsigned char *load(const struct safetensors *file, const char *name,
                           const struct tensor_shape *s)
{
    const struct safetensor t = find(file, name);
    const int is_double = strcmp(t.dtype, "F64") == 0;
    unsigned char *bytes = malloc(s->extent * s->element_bytes);

    cr_assert(bytes != NULL);
    cr_assert(t.count == s->extent, "%zu elements of %s, not %zu", t.count, name, s->extent);
    if (!is_double)
        memcpy(bytes, t.data, s->extent * s->element_bytes);
    for (size_t n = 0; is_double && n < s->extent; n++)
        value_set(CLATTN_F32, bytes, n, element(&t, n));
    return bytes;
}

static void check_forward(const struct safetensors *file, const clattn_problem *p,
                          const struct tensor_view *view, const char *name)
{
    const struct tensor_shape o = tensor_shape_of(p, TENSOR_O);
    const struct safetensor want_o = find(file, "o"), want_lse = find(file, "lse");
    struct reference_row row;

    cr_assert(reference_row_open(p, PRECISION_SINGLE, &row));
    for (size_t n = 0; n < p->batch * p->heads * p->seq_q; n++) {
        const size_t b = n / p->seq_q / p->heads, h = n / p->seq_q % p->heads, i = n % p->seq_q;
        reference_row_compute(p, view, b, h, i, &row);
        compare(name, "lse", n, element(&want_lse, n), row.lse, 1e-6);
        for (size_t d = 0; d < p->dim_v; d++) {
            const size_t at = tensor_index(&o, b, h, i, d);
            compare(name, "o", at, element(&want_o, at), row.o[d], 1e-6);
        }
    }
    reference_row_close(&row);
}

/* Gradients are packed, in the files and in the problems. Of a file that holds only every `step`-th row of a head those
 * are compared. */
static void check_backward(const struct safetensors *file, const clattn_problem *p,
                           const struct tensor_view *view, const char *name, const size_t step)
{
    struct reference_gradients reference;

    cr_assert(reference_gradients_open(p, view, &reference));
    for (int id = TENSOR_DQ; id <= TENSOR_DSINKS; id++) {
        const struct tensor_shape s = tensor_shape_of(p, (enum tensor_id)id);
        size_t stored = 0;
        if (!s.present)
            continue;
        const struct safetensor want = find(file, s.name);
        for (size_t n = 0; n < s.extent; n++)
            if (n / s.size[3] % s.size[2] % step == 0) {
                cr_assert(stored < want.count);
                compare(name, s.name, n, element(&want, stored++), reference.at[id][n], 1.0);
            }
        cr_assert(stored == want.count, "%s: %s", name, s.name);
    }
    reference_gradients_close(&reference);
}

/* inputs: of q, k, v and o, if they lie in a file of their own, under names in capitals; else NULL. */
static void pass_problem(const struct safetensors *file, const struct safetensors *inputs,
                         const char *name, const char *operation)
{
    static const char *const capitals[NUM_TENSORS] = {
        [TENSOR_Q] = "Q", [TENSOR_K] = "K", [TENSOR_V] = "V", [TENSOR_O] = "O"};
    const clattn_problem p = fixture_problem(text_of(file, operation, ""));
    struct tensor_view view = {.at = {NULL}};

    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(&p, (enum tensor_id)id);
        if (s.present && !s.written)
            view.at[id] =
                inputs && capitals[id] ? load(inputs, capitals[id], &s) : load(file, s.name, &s);
    }
    if (p.operation == CLATTN_BACKWARD)
        check_backward(file, &p, &view, name, strtoul(text_of(file, "every_token", "1"), NULL, 10));
    else
        check_forward(file, &p, &view, name);
    for (int id = 0; id < NUM_TENSORS; id++)
        free((void *)view.at[id]);
}

static void pass_attention(const char *path)
{
    struct safetensors file;

    open_file(&file, path);
    pass_problem(&file, NULL, path, "forward");
    pass_problem(&file, NULL, path, "backward");
    safetensors_free(&file);
}

Test(pytorch, attention) {
    for_each_file("attention_", 36, pass_attention);
}

Test(pytorch, attention_of_minilm) {
    struct safetensors layer, gradients;

    open_file(&layer, CLATTN_TEST_DATA "/minilm/minilm_layer_5.safetensors");
    open_file(&gradients, CLATTN_TEST_DATA "/minilm_training/minilm_gradients_5.safetensors");
    pass_problem(&gradients, &layer, "minilm_gradients_5", "backward");
    safetensors_free(&gradients);
    safetensors_free(&layer);
}

/* ---- layers ----------------------------------------------------------------------------------- */

/* Where a file has a tensor of the layer. */
struct place {
    const char *name;
    size_t first; /* element of the file's tensor */
};

/* PyTorch's separate weights share one bias of q, k and v. */
static struct place place_of(const clattn_multihead *layer, const enum layer_tensor id)
{
    static const char *const names[NUM_LAYER_TENSORS] = {
        [LAYER_X] = "x",
        [LAYER_CONTEXT] = "context",
        [LAYER_VALUES] = "values",
        [LAYER_BIAS] = "bias",
        [LAYER_MASK] = "mask",
        [LAYER_KV_LENGTHS] = "kv_lengths",
        [LAYER_W_Q] = "q_proj_weight",
        [LAYER_W_K] = "k_proj_weight",
        [LAYER_W_V] = "v_proj_weight",
        [LAYER_W_O] = "out_proj.weight",
        [LAYER_B_Q] = "in_proj_bias",
        [LAYER_B_K] = "in_proj_bias",
        [LAYER_B_V] = "in_proj_bias",
        [LAYER_B_O] = "out_proj.bias",
        [LAYER_DY] = "dy",
        [LAYER_Y] = "y",
        [LAYER_WEIGHTS] = "weights",
        [LAYER_DX] = "d_x",
        [LAYER_DCONTEXT] = "d_context",
        [LAYER_DVALUES] = "d_values",
        [LAYER_DW_Q] = "d_q_proj_weight",
        [LAYER_DW_K] = "d_k_proj_weight",
        [LAYER_DW_V] = "d_v_proj_weight",
        [LAYER_DW_O] = "d_out_proj.weight",
        [LAYER_DB_Q] = "d_in_proj_bias",
        [LAYER_DB_K] = "d_in_proj_bias",
        [LAYER_DB_V] = "d_in_proj_bias",
        [LAYER_DB_O] = "d_out_proj.bias",
        [LAYER_DBIAS] = "d_bias",
    };
    const clattn_problem *p = &layer->attention;
    struct place place = {names[id], 0};

    if (layer->packed && id == LAYER_W_Q)
        place.name = "in_proj_weight";
    else if (layer->packed && id == LAYER_DW_Q)
        place.name = "d_in_proj_weight";
    else if (id == LAYER_B_K || id == LAYER_DB_K)
        place.first = p->heads * p->dim_qk;
    else if (id == LAYER_B_V || id == LAYER_DB_V)
        place.first = (p->heads + p->kv_heads) * p->dim_qk;
    return place;
}

/* The file holds one in so many rows of a tensor. */
static size_t step_of(const struct safetensors *file, const enum layer_tensor id)
{
    const char *key = id == LAYER_Y || id == LAYER_DX        ? "every_token"
                      : id >= LAYER_DW_Q && id <= LAYER_DW_O ? "every_weight_row"
                                                             : "";

    return strtoul(text_of(file, key, "1"), NULL, 10);
}

static void compare_layer(const struct safetensors *file, const clattn_multihead *layer,
                          const enum layer_tensor id, const struct bounded *reference)
{
    const struct place place = place_of(layer, id);
    const char *name = text_of(file, "name", "?");
    const size_t step = step_of(file, id), elements = layer_elements(layer, id);
    const struct safetensor want = find(file, place.name);
    const size_t columns = want.shape[want.rank - 1];
    size_t stored = place.first;

    for (size_t n = 0; n < elements; n++) {
        if (n / columns % step != 0)
            continue;
        cr_assert(stored < want.count, "%s: %s", name, place.name);
        compare(name, place.name, n, element(&want, stored++), reference[n], 1e-6);
    }
    cr_assert(stored == want.count || place.first + elements < want.count, "%s: %s", name,
              place.name);
}

static void pass_layer(const char *path)
{
    struct layer_inputs in = {.at = {NULL}};
    struct layer_outputs reference;
    void *copies[LAYER_DY + 1] = {NULL};
    struct safetensors file;

    open_file(&file, path);
    const clattn_multihead layer = layer_parsed(text_of(&file, "forward", ""));
    for (int id = 0; id <= LAYER_DY; id++) {
        const size_t elements = layer_elements(&layer, (enum layer_tensor)id);
        const size_t bytes = elements * (id == LAYER_MASK ? 1 : 4);
        const struct place place = place_of(&layer, (enum layer_tensor)id);
        if (elements == 0)
            continue;
        const struct safetensor given = find(&file, place.name);
        cr_assert(place.first + elements <= given.count, "%s", place.name);
        copies[id] = malloc(bytes);
        cr_assert(copies[id] != NULL);
        memcpy(copies[id], given.data + place.first * (bytes / elements), bytes);
        if (id == LAYER_MASK)
            in.options.at[TENSOR_MASK] = copies[id];
        else if (id == LAYER_KV_LENGTHS)
            in.options.at[TENSOR_KV_LENGTHS] = copies[id];
        else
            in.stored[id] = copies[id];
    }
    cr_assert(reference_layer_open(&layer, &in, &reference));
    for (int id = LAYER_Y; id < NUM_LAYER_TENSORS; id++)
        if (layer_elements(&layer, (enum layer_tensor)id) > 0)
            compare_layer(&file, &layer, (enum layer_tensor)id, reference.at[id]);
    reference_layer_close(&reference);
    for (int id = 0; id <= LAYER_DY; id++)
        free(copies[id]);
    safetensors_free(&file);
}

Test(pytorch, layers) {
    for_each_file("layer_", 22, pass_layer);
}

Test(pytorch, layer_of_minilm) {
    pass_layer(CLATTN_TEST_DATA "/minilm_training/minilm_multihead_5.safetensors");
}

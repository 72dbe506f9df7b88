/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head layers and their gradients as torch.nn.MultiheadAttention computed them in double
 * precision, from parameters in PyTorch's own layout (tests/data/pytorch), and those of a layer of a
 * real model (tests/data/minilm), through the public API.
 *
 * The bounds are the reference's, which must agree with PyTorch almost exactly: every input in the
 * files is an f32. */
#define _POSIX_C_SOURCE 200809L /* scandir */
#include "tests/support/storage.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/case_file.h"
#include "tests/trials/multihead_case.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(pytorch_layers, .timeout = 300);

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

/* ---- running a file -------------------------------------------------------------------------- */

/* What the file holds in place of what the case drew. */
static void put(struct fixture *f, const struct safetensors *file, const struct layer_case *c,
                const enum layer_tensor id)
{
    const struct layer_buffer *t = &c->tensor[id];
    const struct place place = place_of(&c->layer, id);
    unsigned char *sent = t->sent + t->offset * t->element_bytes;
    struct safetensor given;

    cr_assert(place.name && case_file_find(file, place.name, &given), "no %s", place.name);
    cr_assert(place.first + t->elements <= given.count, "%s", place.name);
    memcpy(sent, given.data + place.first * t->element_bytes, t->elements * t->element_bytes);
    for (size_t n = 0; t->values && n < t->elements; n++)
        t->values[n] = value_get(CLATTN_F32, sent, n);
    cr_assert(clEnqueueWriteBuffer(f->queue, t->buffer, CL_TRUE, 0, t->bytes, t->sent, 0, NULL,
                                   NULL) == CL_SUCCESS);
}

static void run(struct fixture *f, const struct safetensors *file, const struct layer_case *c)
{
    const clattn_multihead gradients = layer_parsed(case_file_text(file, "backward", ""));
    const struct layer_arguments arguments = layer_case_arguments(c);
    clattn_multihead_plan *there = layer_plan(f, &c->layer), *back = layer_plan(f, &gradients);

    cr_assert(layer_execute(CLATTN_FORWARD, there, f->queue, &arguments, 0, NULL, NULL) ==
                  CLATTN_SUCCESS,
              "%s", f->log.last);
    cr_assert(layer_execute(CLATTN_BACKWARD, back, f->queue, &arguments, 0, NULL, NULL) ==
                  CLATTN_SUCCESS,
              "%s", f->log.last);
    clattn_multihead_plan_release(back);
    clattn_multihead_plan_release(there);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Of how many rows of a tensor the file holds one. */
static size_t step_of(const struct safetensors *file, const enum layer_tensor id)
{
    const char *key = id == LAYER_Y || id == LAYER_DX        ? "every_token"
                      : id >= LAYER_DW_Q && id <= LAYER_DW_O ? "every_weight_row"
                                                             : "";

    return strtoul(case_file_text(file, key, "1"), NULL, 10);
}

static void compare(const struct safetensors *file, const struct layer_case *c,
                    const enum layer_tensor id, const struct bounded *reference)
{
    const struct layer_buffer *t = &c->tensor[id];
    const struct place place = place_of(&c->layer, id);
    const char *name = case_file_text(file, "name", "?");
    const size_t step = step_of(file, id);
    struct safetensor given;
    size_t stored = place.first;

    cr_assert(place.name && case_file_find(file, place.name, &given), "no %s", place.name);
    const size_t columns = given.shape[given.rank - 1];
    for (size_t n = 0; n < t->elements; n++) {
        struct bounded want = {0.0, 1e-6 * reference[n].bound};
        const double got = value_get(CLATTN_F32, t->got, t->offset + n);
        if (n / columns % step != 0)
            continue;
        cr_assert(stored < given.count, "%s: %s", name, place.name);
        memcpy(&want.value, given.data + stored++ * sizeof want.value, sizeof want.value);
        cr_assert(within(reference[n].value, want),
                  "%s: %s[%zu] of the reference is %.9g, not %.9g", name, place.name, n,
                  reference[n].value, want.value);
        want.bound += reference[n].bound;
        cr_assert(within(got, want), "%s: %s[%zu] is %.9g, not %.9g +- %.2g", name, place.name, n,
                  got, want.value, want.bound);
    }
    cr_assert(stored == given.count || place.first + t->elements < given.count, "%s: %s", name,
              place.name);
}

static void pass(struct fixture *f, const char *path)
{
    struct safetensors file;
    struct layer_case c;
    struct layer_outputs reference;

    case_file_open(&file, path);
    const clattn_multihead layer = layer_parsed(case_file_text(&file, "forward", ""));
    layer_case_open(f, &c, &layer, 1);
    for (int id = 0; id <= LAYER_DY; id++)
        if (c.tensor[id].elements > 0)
            put(f, &file, &c, (enum layer_tensor)id);
    run(f, &file, &c);
    layer_case_read(f, &c);
    const struct layer_inputs in = layer_case_inputs(&c);
    cr_assert(reference_layer_open(&c.layer, &in, &reference));
    for (int id = LAYER_Y; id < NUM_LAYER_TENSORS; id++)
        if (c.tensor[id].elements > 0)
            compare(&file, &c, (enum layer_tensor)id, reference.at[id]);
    reference_layer_close(&reference);
    layer_case_close(&c);
    safetensors_free(&file);
}

static int is_layer(const struct dirent *entry)
{
    return strncmp(entry->d_name, "layer_", 6) == 0;
}

Test(pytorch_layers, parameters_and_gradients) {
    struct dirent **files;
    struct fixture f;
    char path[512];

    const int count = scandir(CLATTN_TEST_DATA "/pytorch", &files, is_layer, alphasort);
    cr_assert(count == 22, "%d files in " CLATTN_TEST_DATA "/pytorch", count);
    fixture_open(&f);
    for (int n = 0; n < count; n++) {
        snprintf(path, sizeof path, CLATTN_TEST_DATA "/pytorch/%s", files[n]->d_name);
        if (run_takes((uint64_t)n, 3)) /* the others in the next two runs */
            pass(&f, path);
        free(files[n]);
    }
    free(files);
    fixture_close(&f);
}

Test(pytorch_layers, minilm) {
    struct fixture f;

    fixture_open(&f);
    pass(&f, CLATTN_TEST_DATA "/minilm_training/minilm_multihead_5.safetensors");
    fixture_close(&f);
}

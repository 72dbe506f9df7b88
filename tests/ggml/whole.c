/* SPDX-License-Identifier: Apache-2.0 */
/* whole: a graph of several operations given to clattn's backend alone, as programs without a
 * scheduler do, beside the same on ggml's CPU backend: a product makes queries, keys and values in
 * one tensor, of which attention takes overlapping views, and its result is scaled. */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TOKENS 77
#define HEADS 3
#define DIM 48
#define COLUMNS (HEADS * DIM)

struct graph {
    struct ggml_context *context;
    struct ggml_cgraph *graph;
};

static void fill(struct ggml_tensor *tensor, unsigned state)
{
    for (size_t n = 0; n < ggml_nbytes(tensor) / sizeof(float); n++) {
        state = state * 1664525u + 1013904223u;
        ((float *)tensor->data)[n] = (float)(state >> 8) * 0x1p-23f - 1.0f;
    }
}

/* One of the three parts of (tokens, 3, heads, dim), as (dim, tokens, heads). */
static struct ggml_tensor *part(struct ggml_context *context, struct ggml_tensor *all, int which)
{
    const size_t row = DIM * sizeof(float);

    return ggml_view_3d(context, all, DIM, TOKENS, HEADS, all->nb[1], row,
                        (size_t)which * HEADS * row);
}

static struct graph make(void)
{
    struct graph g = {.context =
                          ggml_init((struct ggml_init_params){.mem_size = (size_t)16 << 20})};
    struct ggml_tensor *weights = ggml_new_tensor_2d(g.context, GGML_TYPE_F32, 64, 3 * COLUMNS);
    struct ggml_tensor *x = ggml_new_tensor_2d(g.context, GGML_TYPE_F32, 64, TOKENS);

    fill(weights, 1);
    fill(x, 2);
    struct ggml_tensor *all = ggml_mul_mat(g.context, weights, x);
    struct ggml_tensor *o =
        ggml_flash_attn_ext(g.context, part(g.context, all, 0), part(g.context, all, 1),
                            part(g.context, all, 2), NULL, 0.1f, 0.0f, 0.0f);
    g.graph = ggml_new_graph(g.context);
    ggml_build_forward_expand(g.graph, ggml_scale(g.context, o, 2.0f));
    return g;
}

int main(void)
{
    struct graph with = make(), without = make();
    double error = 0.0, size = 0.0;

    backends_load();
    ggml_backend_t clattn = ggml_backend_init_by_name("CLATTN", NULL);
    ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    expect(clattn != NULL && cpu != NULL, "the backend is not loaded");
    expect(ggml_backend_graph_compute(clattn, with.graph) == GGML_STATUS_SUCCESS &&
               ggml_backend_graph_compute(cpu, without.graph) == GGML_STATUS_SUCCESS,
           "a graph fails");
    const float *a = ggml_graph_node(with.graph, -1)->data;
    const float *b = ggml_graph_node(without.graph, -1)->data;
    for (size_t n = 0; n < TOKENS * COLUMNS; n++) {
        error = fmax(error, fabs((double)a[n] - (double)b[n]));
        size = fmax(size, fabs((double)b[n]));
    }
    expect(size > 0.0 && error < 1e-4 * size, "the results differ");
    ggml_backend_free(clattn);
    ggml_backend_free(cpu);
    ggml_free(with.context);
    ggml_free(without.context);
    printf("error %.1g of %.3g\n", error, size);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* 25: token-sparse attention. An indexer with two small heads chooses 16 of 1000 keys for each query; attention then sees
 * these alone, by the lists as they lie in device memory. Each query is planted as a copy of one key, which it must find. */
#include "example.h"
#include <math.h>

enum { QUERIES = 8, KEYS = 1000, CHOSEN = 16, HEADS = 2, INDEX_DIM = 16, DIM = 32 };

int main(void)
{
    static float index_q[HEADS * QUERIES * INDEX_DIM], index_k[KEYS * INDEX_DIM];
    static float q[QUERIES * DIM], k[KEYS * DIM], o[QUERIES * DIM];
    float w[HEADS * QUERIES];
    cl_int lists[QUERIES * CHOSEN];
    int found = 0;
    const struct device d = open_device();

    for (int n = 0; n < KEYS * INDEX_DIM; n++)
        index_k[n] = (float)sin(n * 1.37);
    for (int n = 0; n < KEYS * DIM; n++)
        k[n] = (float)cos(n * 0.91);
    for (int i = 0; i < QUERIES; i++) {
        const int key = 100 * i + 7;
        for (int n = 0; n < INDEX_DIM; n++) {
            index_q[i * INDEX_DIM + n] = index_k[key * INDEX_DIM + n];
            index_q[(QUERIES + i) * INDEX_DIM + n] = index_k[key * INDEX_DIM + n];
        }
        for (int n = 0; n < DIM; n++)
            q[i * DIM + n] = k[key * DIM + n];
        w[i] = 1.0f;
        w[QUERIES + i] = 0.5f;
    }

    clattn_plan *indexer = plan_of(&d, "indexer f32 h2 q8 k1000 d16 topk=16");
    clattn_plan *attention = plan_of(&d, "fwd f32 q8 k1000 d32 topk=16");
    const clattn_indexer_tensors choice = {
        .struct_size = sizeof choice,
        .q = make_buffer(&d, HEADS * QUERIES * INDEX_DIM, index_q),
        .k = make_buffer(&d, KEYS * INDEX_DIM, index_k),
        .w = make_buffer(&d, HEADS * QUERIES, w),
        .topk_indices = make_buffer(&d, QUERIES * CHOSEN, NULL)};
    const clattn_buffer keys = make_buffer(&d, KEYS * DIM, k);
    const clattn_forward_tensors sparse = {.struct_size = sizeof sparse,
                                           .q = make_buffer(&d, QUERIES * DIM, q),
                                           .k = keys,
                                           .v = keys,
                                           .o = make_buffer(&d, QUERIES * DIM, NULL),
                                           .topk_indices = choice.topk_indices};

    /* The queue is in-order: attention reads the lists that the indexer has written. */
    check(clattn_indexer(indexer, d.queue, &choice, 0, NULL, NULL) == CLATTN_SUCCESS, "indexer");
    check(clattn_attention_forward(attention, d.queue, &sparse, 0, NULL, NULL) == CLATTN_SUCCESS,
          "attention");
    check_opencl(clEnqueueReadBuffer(d.queue, choice.topk_indices.buffer, CL_TRUE, 0, sizeof lists,
                                     lists, 0, NULL, NULL),
                 "clEnqueueReadBuffer");
    read_buffer(&d, sparse.o, QUERIES * DIM, o);
    for (int n = 0; n < QUERIES * CHOSEN; n++)
        found += lists[n] == 100 * (n / CHOSEN) + 7;
    printf("%d of %d queries list their key among %d of %d; o[0] is %.3f\n", found, QUERIES, CHOSEN,
           KEYS, (double)o[0]);

    const clattn_buffer all[] = {choice.q, choice.k, choice.w, choice.topk_indices,
                                 keys,     sparse.q, sparse.o};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++)
        clReleaseMemObject(all[n].buffer);
    clattn_plan_release(attention);
    clattn_plan_release(indexer);
    close_device(&d);
    return found != QUERIES || !isfinite(o[0]);
}

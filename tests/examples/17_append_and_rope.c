/* SPDX-License-Identifier: Apache-2.0 */
/* 17: appending. A decoder keeps the keys and values of all tokens that it has read. Those of
 * each new token are appended to the cache. They are rotated to their position, as Llama's
 * models do it, and rounded or quantized to the cache's format. Then they are written to the
 * next free place, for all requests of a batch at once. The query is rotated in the same call.
 * Here: two requests of different lengths decode four tokens. */
#include "example.h"
#include <math.h>

enum { REQUESTS = 2, HEADS = 4, KV_HEADS = 2, DIM = 32, CAPACITY = 16, STEPS = 4 };
enum { Q = REQUESTS * HEADS * DIM, KV = REQUESTS * KV_HEADS * DIM, CACHE = KV * CAPACITY };

/* A number of request b's token t; what is the same for all tokens would not show a wrong place. */
static float number(size_t b, size_t h, size_t t, size_t d)
{
    return cosf((float)b + 2.3f * (float)h + 0.7f * (float)t + 0.3f * (float)d);
}

/* One token's numbers, (requests, heads, 1, dim); request b is at token lengths[b]. */
static void fill(float *x, size_t heads, const cl_int *lengths)
{
    for (size_t n = 0; n < REQUESTS * heads * DIM; n++) {
        const size_t b = n / DIM / heads;
        x[n] = number(b, n / DIM % heads, (size_t)lengths[b], n % DIM);
    }
}

/* Returns an element of a key at its place: its halves are turned by its position. */
static double turned(size_t b, size_t h, size_t t, size_t d)
{
    const size_t i = d % (DIM / 2), other = d < DIM / 2 ? d + DIM / 2 : d - DIM / 2;
    const double angle = (double)t * pow(10000.0, -2.0 * (double)i / DIM);
    const double x = number(b, h, t, d), y = number(b, h, t, other);

    return x * cos(angle) + (d < DIM / 2 ? -y : y) * sin(angle);
}

int main(void)
{
    const struct device d = open_device();
    static float q[Q], k[KV], v[KV], cache[CACHE], o[Q];
    cl_int lengths[REQUESTS] = {0,
                                5}; /* the second has read 5 tokens before, which are zeros here */
    cl_int err;
    int ok = 1;

    /* New keys and values, of f32, to caches of f32; "cache=f16" or "kcache=q8_0 vcache=q8_0" is all it
     * takes for smaller ones. Then attention over the cache: "klen" says how much of it is in use. */
    clattn_plan *append =
        plan_of(&d, "append f32 b2 h4/2 q1 k16 d32 klen rope=halves:32:10000 queries=inplace");
    clattn_plan *attend = plan_of(&d, "fwd f32 b2 h4/2 q1 k16 d32 klen");

    for (size_t n = 0; n < CACHE; n++)
        cache[n] = 0.0f;
    const clattn_buffer k_cache = make_buffer(&d, CACHE, cache),
                        v_cache = make_buffer(&d, CACHE, cache);
    const clattn_buffer new_k = make_buffer(&d, KV, NULL), new_v = make_buffer(&d, KV, NULL);
    const clattn_buffer queries = make_buffer(&d, Q, NULL), result = make_buffer(&d, Q, NULL);
    const clattn_buffer in_use = {
        .buffer = clCreateBuffer(d.opencl, CL_MEM_READ_ONLY, sizeof lengths, NULL, &err)};
    check_opencl(err, "clCreateBuffer");

    for (int step = 0; step < STEPS; step++) {
        fill(q, HEADS, lengths);
        fill(k, KV_HEADS, lengths);
        fill(v, KV_HEADS, lengths);
        write_buffer(&d, queries, Q, q);
        write_buffer(&d, new_k, KV, k);
        write_buffer(&d, new_v, KV, v);
        /* Appending wants to know how many tokens there are, attention how many there are then. */
        check_opencl(clEnqueueWriteBuffer(d.queue, in_use.buffer, CL_TRUE, 0, sizeof lengths,
                                          lengths, 0, NULL, NULL),
                     "clEnqueueWriteBuffer");
        const clattn_append_tensors tokens = {.struct_size = sizeof tokens,
                                              .k = new_k,
                                              .v = new_v,
                                              .k_cache = k_cache,
                                              .v_cache = v_cache,
                                              .q_out = queries,
                                              .kv_lengths = in_use};
        check(clattn_append(append, d.queue, &tokens, 0, NULL, NULL) == CLATTN_SUCCESS, "append");
        for (int b = 0; b < REQUESTS; b++)
            lengths[b]++;
        check_opencl(clEnqueueWriteBuffer(d.queue, in_use.buffer, CL_TRUE, 0, sizeof lengths,
                                          lengths, 0, NULL, NULL),
                     "clEnqueueWriteBuffer");
        const clattn_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                .q = queries,
                                                .k = k_cache,
                                                .v = v_cache,
                                                .o = result,
                                                .kv_lengths = in_use};
        check(clattn_attention_forward(attend, d.queue, &tensors, 0, NULL, NULL) == CLATTN_SUCCESS,
              "attention");
        read_buffer(&d, result, Q, o);
        printf("tokens: %d and %d, the first result is %.6f\n", (int)lengths[0], (int)lengths[1],
               (double)o[0]);
    }

    /* Every key lies at its place, turned by its position, and nothing behind the last. */
    read_buffer(&d, k_cache, CACHE, cache);
    for (size_t n = 0; n < CACHE; n++) {
        const size_t t = n / DIM % CAPACITY, h = n / DIM / CAPACITY % KV_HEADS;
        const size_t b = n / DIM / CAPACITY / KV_HEADS, first = b == 0 ? 0 : 5;
        const double want = t >= first && t < first + STEPS ? turned(b, h, t, n % DIM) : 0.0;
        ok = ok && fabs((double)cache[n] - want) < 1e-5;
    }
    printf("the cache is %s\n", ok ? "as it should be" : "wrong");

    clReleaseMemObject(k_cache.buffer);
    clReleaseMemObject(v_cache.buffer);
    clReleaseMemObject(new_k.buffer);
    clReleaseMemObject(new_v.buffer);
    clReleaseMemObject(queries.buffer);
    clReleaseMemObject(result.buffer);
    clReleaseMemObject(in_use.buffer);
    clattn_plan_release(append);
    clattn_plan_release(attend);
    close_device(&d);
    return !ok;
}

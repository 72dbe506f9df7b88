/* SPDX-License-Identifier: Apache-2.0 */
/* 15: a paged cache. Requests that grow take pages of a pool as they need them, and a table says which:
 * no request reserves room for its longest answer, and requests that begin alike share pages. The table
 * lies in device memory and changes from step to step; the plan stays. Here: two requests that share a
 * prompt of 16 tokens, the pages in no order. */
#include "example.h"
#include <math.h>
#include <string.h>

enum { REQUESTS = 2, HEADS = 4, KV_HEADS = 2, DIM = 32, PAGE = 8, PAGES = 7 };
enum { MOST = 32, COLUMNS = MOST / PAGE, ROW = KV_HEADS * DIM, O = REQUESTS * HEADS * DIM };

/* Which page of the pool has tokens 0 to 7, 8 to 15, ...: the first two are the same for both. What is
 * behind the last token in use is not looked at. */
static const cl_int table[REQUESTS * COLUMNS] = {5, 2, 0, -1, 5, 2, 6, 3};
static const cl_int lengths[REQUESTS] = {19, 27};

static float number(size_t request, size_t t, size_t n)
{
    return sinf((t < 16 ? 0.0f : (float)(request + 1)) + 0.9f * (float)t + 0.4f * (float)n);
}

/* Both requests' keys and values, in pages (token by token, all heads of each) and without. */
static void fill(float *pool_k, float *pool_v, float *k, float *v)
{
    for (size_t n = 0; n < (size_t)PAGES * PAGE * ROW; n++)
        pool_k[n] = pool_v[n] = NAN; /* whose pages are free is nobody's business */
    for (size_t b = 0; b < REQUESTS; b++)
        for (size_t t = 0; t < (size_t)lengths[b]; t++) {
            const size_t page = (size_t)table[b * COLUMNS + t / PAGE];
            for (size_t n = 0; n < ROW; n++) {
                const size_t paged = (page * PAGE + t % PAGE) * ROW + n;
                const size_t plain = (b * MOST + t) * ROW + n;
                pool_k[paged] = k[plain] = number(b, t, n);
                pool_v[paged] = v[plain] = number(b, t, n + 7);
            }
        }
}

int main(void)
{
    clattn_context *context = open_context();
    static float pool_k[PAGES * PAGE * ROW], pool_v[PAGES * PAGE * ROW];
    static float k[REQUESTS * MOST * ROW], v[REQUESTS * MOST * ROW], q[O], paged[O], plain[O];

    fill(pool_k, pool_v, k, v);
    for (size_t n = 0; n < O; n++)
        q[n] = cosf((float)n);

    const clattn_problem in_pages =
        problem_of("fwd f32 b2 h4/2 q1 k32 d32 k=bshd v=bshd page=8 pages=7 klen");
    const clattn_host_forward_tensors of_pages = {.struct_size = sizeof of_pages,
                                                  .q = q,
                                                  .k = pool_k,
                                                  .v = pool_v,
                                                  .o = paged,
                                                  .kv_lengths = lengths,
                                                  .page_table = table};
    check(clattn_attention_forward_host(context, &in_pages, NULL, &of_pages) == CLATTN_SUCCESS,
          "attention over pages");

    const clattn_problem contiguous = problem_of("fwd f32 b2 h4/2 q1 k32 d32 k=bshd v=bshd klen");
    const clattn_host_forward_tensors of_rows = {
        .struct_size = sizeof of_rows, .q = q, .k = k, .v = v, .o = plain, .kv_lengths = lengths};
    check(clattn_attention_forward_host(context, &contiguous, NULL, &of_rows) == CLATTN_SUCCESS,
          "attention over a contiguous cache");

    float largest = 0.0f;
    for (size_t n = 0; n < O; n++)
        largest = fmaxf(largest, fabsf(paged[n] - plain[n]));
    printf("two requests of 19 and 27 tokens in %d pages of %d: off by %.1e\n", 5, PAGE,
           (double)largest);
    clattn_context_release(context);
    return !(largest < 1e-5f); /* the library may choose other tiles for either */
}

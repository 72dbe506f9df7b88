/* SPDX-License-Identifier: Apache-2.0 */
/* 16: merging states. Attention over some of the keys gives o and lse: a state. States of
 * disjoint sets of keys merge to that of all of them, exactly as if they had been seen together.
 * So a prefix that requests share is read once for all of them. Keys on several devices are read
 * where they lie, and a prompt is processed in pieces. Here: two requests behind one prefix, and
 * keys that come in pieces. */
#include "example.h"
#include <math.h>
#include <string.h>

enum { REQUESTS = 2, HEADS = 4, DIM = 16, PREFIX = 48, OWN = 8, KEYS = PREFIX + OWN };
enum { O = REQUESTS * HEADS * DIM, ROWS = REQUESTS * HEADS };

static void attend(clattn_context *context, const char *text, const float *q, const float *k,
                   const float *v, float *o, float *lse)
{
    static const cl_int starts[REQUESTS + 1] = {0, 1, 2}; /* a query each */
    const clattn_problem problem = problem_of(text);
    const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = q,
                                                 .k = k,
                                                 .v = v,
                                                 .o = o,
                                                 .lse = lse,
                                                 .q_starts = problem.total_q ? starts : NULL};

    check(clattn_attention_forward_host(context, &problem, NULL, &tensors) == CLATTN_SUCCESS,
          "attention");
}

static void merge(clattn_context *context, const char *text, const float *parts,
                  const float *parts_lse, float *o, float *lse)
{
    const clattn_problem problem = problem_of(text);
    const clattn_host_merge_tensors tensors = {
        .struct_size = sizeof tensors, .parts = parts, .parts_lse = parts_lse, .o = o, .lse = lse};

    check(clattn_merge_host(context, &problem, NULL, &tensors) == CLATTN_SUCCESS, "merge");
}

static float largest_difference(const float *a, const float *b, size_t count)
{
    float largest = 0.0f;

    for (size_t n = 0; n < count; n++)
        largest = fmaxf(largest, fabsf(a[n] - b[n]));
    return largest;
}

/* Element d of token t and head h of a request. All requests have the same prefix. */
static float number(size_t request, size_t h, size_t t, size_t d)
{
    return sinf((float)(t < PREFIX ? 0 : request + 1) + 1.7f * (float)h + 0.9f * (float)t +
                0.4f * (float)d);
}

int main(void)
{
    clattn_context *context = open_context();
    static float q[O], k[HEADS * KEYS * DIM * REQUESTS], v[HEADS * KEYS * DIM * REQUESTS];
    static float prefix_k[HEADS * PREFIX * DIM], prefix_v[HEADS * PREFIX * DIM];
    static float whole[O], whole_lse[ROWS], parts[3 * O], parts_lse[3 * ROWS], o[O], lse[ROWS];

    for (size_t n = 0; n < O; n++)
        q[n] = cosf((float)n);
    for (size_t n = 0; n < sizeof k / sizeof *k; n++) {
        const size_t t = n / DIM % KEYS, h = n / DIM / KEYS % HEADS, b = n / DIM / KEYS / HEADS;
        k[n] = number(b, h, t, n % DIM);
        v[n] = number(b, h, t, n % DIM + 7);
        if (t < PREFIX) {
            prefix_k[(h * PREFIX + t) * DIM + n % DIM] = k[n];
            prefix_v[(h * PREFIX + t) * DIM + n % DIM] = v[n];
        }
    }

    /* What is to come out: each request with its prefix and its own keys, together. Queries are a packed
     * batch, so that lse is (heads, requests), as it is of queries of one batch. */
    attend(context, "fwd f32 b2 h4 q1 k56 d16 q=bshd o=bshd lse totalq=2", q, k, v, whole,
           whole_lse);

    /* The prefix once: the requests are queries of one batch. */
    attend(context, "fwd f32 h4 q2 k48 d16 q=bshd o=bshd lse", q, prefix_k, prefix_v, o, lse);

    /* Each request's own keys, behind the prefix in the cache, then both states in place. */
    attend(context,
           "fwd f32 b2 h4 q1 k8 d16 q=bshd k=3584.896.16.1 v=3584.896.16.1 o=bshd lse totalq=2", q,
           k + PREFIX * DIM, v + PREFIX * DIM, parts, parts_lse);
    merge(context, "merge f32 h4 q2 d16 n1 parts=bshd o=bshd accumulate", parts, parts_lse, o, lse);
    const float cascade =
        fmaxf(largest_difference(o, whole, O), largest_difference(lse, whole_lse, ROWS));
    printf("a shared prefix, then each request's own keys: off by %.1e\n", (double)cascade);

    /* Keys in three pieces, merged at once. */
    for (size_t n = 0; n < 3; n++) {
        static const size_t begin[] = {0, 20, 40};
        attend(context,
               n < 2 ? "fwd f32 b2 h4 q1 k20 d16 q=bshd k=3584.896.16.1 v=3584.896.16.1 o=bshd lse "
                       "totalq=2"
                     : "fwd f32 b2 h4 q1 k16 d16 q=bshd k=3584.896.16.1 v=3584.896.16.1 o=bshd lse "
                       "totalq=2",
               q, k + begin[n] * DIM, v + begin[n] * DIM, parts + n * O, parts_lse + n * ROWS);
    }
    merge(context, "merge f32 h4 q2 d16 n3 parts=bshd o=bshd", parts, parts_lse, o, lse);
    const float pieces =
        fmaxf(largest_difference(o, whole, O), largest_difference(lse, whole_lse, ROWS));
    printf("three pieces: off by %.1e\n", (double)pieces);

    /* A piece that no query sees is empty, whatever its o holds: it changes nothing. */
    for (size_t n = 0; n < ROWS; n++)
        parts_lse[n] = -INFINITY;
    for (size_t n = 0; n < O; n++)
        parts[n] = NAN;
    merge(context, "merge f32 h4 q2 d16 n1 parts=bshd o=bshd accumulate", parts, parts_lse,
          memcpy(whole, o, sizeof o), memcpy(whole_lse, lse, sizeof lse));
    const int unchanged =
        memcmp(whole, o, sizeof o) == 0 && memcmp(whole_lse, lse, sizeof lse) == 0;
    printf("with an empty one: %s\n", unchanged ? "the same bits" : "something else");

    clattn_context_release(context);
    return !(cascade < 1e-5f && pieces < 1e-5f && unchanged);
}

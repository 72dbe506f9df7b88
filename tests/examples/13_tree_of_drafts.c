/* SPDX-License-Identifier: Apache-2.0 */
/* 13: a tree of drafts. Speculative decoding guesses several continuations of a text at once, as
 * a tree: two drafts that share their first word here. One call verifies them all. Each drafted
 * word sees the cached text, and of the other drafts only those before it on its own branch. A
 * mask of the last keys alone (mask_keys) says so. Each branch gets the result that it would get
 * by itself. */
#include "example.h"
#include <math.h>
#include <string.h>

enum { CACHED = 50, DRAFTS = 5, DIM = 32, HEADS = 4, KV_HEADS = 2, KEYS = 64 };

/* The draft before each in the tree:  0 - 1 - 2
 *                                      \
 *                                       3 - 4 */
static const int before[DRAFTS] = {-1, 0, 1, 0, 3};

static float q[HEADS][DRAFTS][DIM], k[KV_HEADS][KEYS][DIM], v[KV_HEADS][KEYS][DIM];

static void fill(float *x, size_t count, unsigned state)
{
    for (size_t n = 0; n < count; n++) {
        state = state * 1664525u + 1013904223u;
        x[n] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
}

/* Row i sees itself and what is before it on its branch. */
static void fill_tree(unsigned char mask[DRAFTS][DRAFTS])
{
    memset(mask, 0, DRAFTS * DRAFTS);
    for (int i = 0; i < DRAFTS; i++)
        for (int j = i; j >= 0; j = before[j])
            mask[i][j] = 1;
}

/* Draft `last` alone: its branch stands in the cache behind the text. */
static void decode_branch(const struct device *d, int last, float o[HEADS][DIM])
{
    static float row[HEADS][DIM], keys[KV_HEADS][KEYS][DIM], values[KV_HEADS][KEYS][DIM];
    int branch[DRAFTS], length = 0;

    for (int n = last; n >= 0; n = before[n])
        branch[length++] = n;
    for (int h = 0; h < HEADS; h++)
        memcpy(row[h], q[h][last], sizeof row[h]);
    memcpy(keys, k, sizeof k);
    memcpy(values, v, sizeof v);
    for (int h = 0; h < KV_HEADS; h++)
        for (int n = 0; n < length; n++) {
            memcpy(keys[h][CACHED + n], k[h][CACHED + branch[n]], sizeof k[h][0]);
            memcpy(values[h][CACHED + n], v[h][CACHED + branch[n]], sizeof v[h][0]);
        }
    const cl_int in_use = CACHED + length;
    const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = row,
                                                 .k = keys,
                                                 .v = values,
                                                 .o = o,
                                                 .kv_lengths = &in_use};
    const clattn_problem problem = problem_of("fwd f32 h4/2 q1 k64 d32 klen");
    check(clattn_attention_forward_host(d->context, &problem, NULL, &tensors) == CLATTN_SUCCESS,
          "a branch");
}

int main(void)
{
    unsigned char tree[DRAFTS][DRAFTS];
    float o[HEADS][DRAFTS][DIM], alone[HEADS][DIM];
    const cl_int in_use = CACHED + DRAFTS;
    const struct device d = open_device();

    fill(&q[0][0][0], HEADS * DRAFTS * DIM, 1);
    fill(&k[0][0][0], KV_HEADS * KEYS * DIM, 2);
    fill(&v[0][0][0], KV_HEADS * KEYS * DIM, 3);
    fill_tree(tree);
    const clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                                 .q = q,
                                                 .k = k,
                                                 .v = v,
                                                 .o = o,
                                                 .mask = &tree[0][0],
                                                 .kv_lengths = &in_use};
    const clattn_problem problem = problem_of("fwd f32 h4/2 q5 k64 d32 mask=qk klen maskkeys=5");
    check(clattn_attention_forward_host(d.context, &problem, NULL, &tensors) == CLATTN_SUCCESS,
          "the tree");
    for (int i = 0; i < DRAFTS; i++) {
        float difference = 0;
        decode_branch(&d, i, alone);
        for (int h = 0; h < HEADS; h++)
            for (int n = 0; n < DIM; n++)
                difference = fmaxf(difference, fabsf(o[h][i][n] - alone[h][n]));
        printf("draft %d: in the tree and alone differ by at most %.1e\n", i, (double)difference);
        check(difference < 1e-5f, "the tree");
    }
    close_device(&d);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* 23: functions of one's own. A score function adds T5's learned bias of the distance; a mask function keeps documents in
 * a row apart. Both are a few lines of OpenCL C, which every kernel is compiled with. The mask function is evaluated once
 * to list the blocks in which anything is visible; what no document shares is skipped then. */
#include "example.h"
#include <math.h>
#include <stdlib.h>

enum { HEADS = 2, TOKENS = 192, DIM = 32, BUCKETS = 32, BLOCK = 32 };

static const char apart[] = "#pragma clattn operand int document[k]\n"
                            "bool visible(pair p, operands o)\n"
                            "{\n"
                            "    return document_at(o, p.query) == document_at(o, p.key);\n"
                            "}\n";

static void fill(float *x, size_t count, unsigned state)
{
    for (size_t n = 0; n < count; n++) {
        state = state * 1664525u + 1013904223u;
        x[n] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
}

int main(void)
{
    static float q[HEADS][TOKENS][DIM], k[HEADS][TOKENS][DIM], v[HEADS][TOKENS][DIM];
    static float o[HEADS][TOKENS][DIM], listed[HEADS][TOKENS][DIM], table[HEADS][BUCKETS];
    static int32_t document[TOKENS], offsets[TOKENS / BLOCK + 1];
    const struct device d = open_device();
    const clattn_function *mask;
    float difference = 0;

    fill(&q[0][0][0], HEADS * TOKENS * DIM, 1);
    fill(&k[0][0][0], HEADS * TOKENS * DIM, 2);
    fill(&v[0][0][0], HEADS * TOKENS * DIM, 3);
    fill(&table[0][0], HEADS * BUCKETS, 4);
    for (int n = 0; n < TOKENS; n++)
        document[n] = n / 64; /* three documents */

    check(clattn_function_create("apart", apart, &mask, NULL, 0) == CLATTN_SUCCESS, "a function");
    clattn_problem problem = problem_of("fwd f32 h2 q192 d32 score=t5");
    problem.mask_function = mask;
    clattn_host_forward_tensors tensors = {
        .struct_size = sizeof tensors, .q = q, .k = k, .v = v, .o = o};
    tensors.function_0 = table; /* operands of the score function come first */
    tensors.function_1 = document;
    check(clattn_attention_forward_host(d.context, &problem, NULL, &tensors) == CLATTN_SUCCESS,
          "with functions");

    problem.block_q = problem.block_kv = BLOCK;
    problem.max_blocks = 1;
    check(clattn_function_blocks(d.context, &problem, &tensors, NULL, NULL, &problem.max_blocks) ==
              CLATTN_SUCCESS,
          "the number of blocks");
    int32_t *entries = malloc(problem.max_blocks * sizeof *entries);
    check(entries != NULL, "memory");
    check(clattn_function_blocks(d.context, &problem, &tensors, offsets, entries, NULL) ==
              CLATTN_SUCCESS,
          "the list");
    tensors.block_offsets = offsets;
    tensors.block_entries = entries;
    tensors.o = listed;
    check(clattn_attention_forward_host(d.context, &problem, NULL, &tensors) == CLATTN_SUCCESS,
          "with a list");
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < TOKENS; i++)
            for (int n = 0; n < DIM; n++)
                difference = fmaxf(difference, fabsf(o[h][i][n] - listed[h][i][n]));
    printf(
        "%zu of %d blocks are visible; results with and without the list differ by at most %.1e\n",
        problem.max_blocks, TOKENS / BLOCK * (TOKENS / BLOCK), (double)difference);
    check(problem.max_blocks == 12 && difference < 1e-5f, "the blocks");
    free(entries);
    close_device(&d);
    return 0;
}

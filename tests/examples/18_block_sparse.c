/* SPDX-License-Identifier: Apache-2.0 */
/* 18: block-sparse attention. A window around each token and a few global ones, as in Longformer: the blocks
 * that some query sees are listed, nothing else is computed. The answer is that of a mask of these blocks. */
#include "example.h"
#include <math.h>

enum { SEQ = 512, DIM = 32, BLOCK = 32, ROWS = SEQ / BLOCK };

int main(void)
{
    static float q[SEQ * DIM], k[SEQ * DIM], v[SEQ * DIM], sparse[SEQ * DIM], masked[SEQ * DIM];
    static unsigned char mask[SEQ * SEQ];
    cl_int offsets[ROWS + 1], entries[ROWS * ROWS];
    clattn_context *context = open_context();
    double worst = 0.0;

    for (int n = 0; n < SEQ * DIM; n++) {
        q[n] = (float)sin(n * 0.37);
        k[n] = (float)cos(n * 0.91);
        v[n] = (float)sin(n * 1.7);
    }

    clattn_problem problem;
    clattn_problem_init(&problem);
    problem.seq_q = problem.seq_kv = SEQ;
    problem.dim_qk = problem.dim_v = DIM;
    problem.block_q = problem.block_kv = BLOCK;
    problem.max_blocks = ROWS * ROWS; /* room for all; the list says which there are */
    clattn_status status = clattn_blocks_window(&problem, 48, 48, 8, 0, 0, offsets, entries, NULL);
    clattn_host_forward_tensors tensors = {.struct_size = sizeof tensors,
                                           .q = q,
                                           .k = k,
                                           .v = v,
                                           .o = sparse,
                                           .block_offsets = offsets,
                                           .block_entries = entries};
    if (status == CLATTN_SUCCESS)
        status = clattn_attention_forward_host(context, &problem, NULL, &tensors);
    printf("%s: %d of %d blocks\n", clattn_status_string(status), (int)offsets[ROWS], ROWS * ROWS);

    /* The same by a mask, all of which is read. */
    for (int row = 0; row < ROWS; row++)
        for (int n = offsets[row]; n < offsets[row + 1]; n++)
            for (int i = row * BLOCK; i < (row + 1) * BLOCK; i++)
                for (int j = 0; j < BLOCK; j++)
                    mask[i * SEQ + (entries[n] & ~CLATTN_BLOCK_FULL) * BLOCK + j] = 1;
    problem.block_q = problem.block_kv = problem.max_blocks = 0;
    problem.mask = 1;
    problem.mask_layout = (clattn_layout){{0, 0, SEQ, 1}};
    tensors.block_offsets = tensors.block_entries = NULL;
    tensors.mask = mask;
    tensors.o = masked;
    if (status == CLATTN_SUCCESS)
        status = clattn_attention_forward_host(context, &problem, NULL, &tensors);
    clattn_context_release(context);
    for (int n = 0; n < SEQ * DIM; n++)
        worst = fmax(worst, fabs((double)sparse[n] - (double)masked[n]));
    printf("%s: no element differs by more than %.1e\n", clattn_status_string(status), worst);
    return status != CLATTN_SUCCESS || !(worst < 1e-5) || offsets[ROWS] >= ROWS * ROWS / 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses how many keys a round of an all-gather has. It calls neither MPI nor OpenCL. */
#ifndef MPI_ROUNDS_H
#define MPI_ROUNDS_H

#include <clattn/problem.h>
#include <stdbool.h>

/* The rows of a round, of `keys` whose k and v take `row_bytes` each: as many as `most_bytes`
 * allow, a multiple of 16. in_halves: at most half of the keys, if these are not short, so that
 * messages of one half travel while the other is computed. That is for zigzag, by which every place
 * has as much of each half; else a round would be sent by some of the places alone, and take as
 * long as all. */
size_t rows_of_round(size_t keys, size_t row_bytes, size_t most_bytes, bool in_halves);

/* The step in bytes from a row to the next, for rows of so many bytes. Forward reads rows of keys
 * again and again, and steps that are multiples of 1 KiB would map them to few lines of a
 * processor's cache; backward is not slower with such steps. */
size_t step_of_rows(size_t row_bytes, clattn_operation operation);

#endif

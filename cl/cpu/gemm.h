/* SPDX-License-Identifier: Apache-2.0 */
/* The micro-kernel of matrix products on CPUs, register-blocked as in BLIS: strips of one matrix
 * times panels of the other. projection_cpu, projection_cpu UNIT=pairs and both products of unfused_lanes use it.
 *
 * A strip is REGISTER_ROWS rows of operands (cpu/operands.h), floats or pairs, and the depth counts
 * these. A panel has, for each step of the depth,
 * REGISTER_VECTORS vectors of columns, one after the other. An element of the strip is broadcast
 * and multiplied with the panel's vectors; the register tile has REGISTER_ROWS * REGISTER_VECTORS
 * accumulators.
 *
 * Tunables   REGISTER_ROWS, REGISTER_VECTORS. Kernels say how strips lie:
 *   IN_PLACE 1   in global memory, along the depth: a strip is a list of pointers to its rows. The
 *                processor prefetches them while it multiplies, which is faster than packing them.
 *   IN_PLACE 0   packed in private memory, STRIP_DEPTH between neighbours of the depth and
 *   STRIP_ROW
 *                between rows. */
#pragma once
#include "cpu/operands.h"

#if IN_PLACE
typedef const __global stored_operand *const *strip_rows;
#define SPREAD_OF SPREAD_STORED
#define ROW_OF(strip, r) (strip)[r]
#define FROM_ROW(r) (r)
#define STRIP_DEPTH 1
#else
typedef const operand *strip_rows;
#define SPREAD_OF SPREAD
#define ROW_OF(strip, r) ((strip) + FROM_ROW(r))
#define FROM_ROW(r) ((r)*STRIP_ROW)
#endif
#define FEW_ROWS 2 /* the number of rows of the last strip that are multiplied at a time */

/* The depth of a strip: runs of at most `run` steps lie side by side, `jump` from one's end to the
 * next; the first run may be shorter. It is passed by address: compilers copy a struct passed by
 * value with one load of several stores' bytes, which no processor forwards (store-to-load
 * forwarding). Each product then waited until all earlier stores had left the store buffer. */
struct runs {
    int depth, first, run;
    long jump;
};

/* sum[r][v] += strip[r][at] panel[v], for rows and vectors (constants, at most REGISTER_ROWS and
 * REGISTER_VECTORS). */
INLINE void multiply_strip_step(const int rows, const int vectors, const strip_rows strip,
                                const long at, const lanes *panel, lanes (*sum)[REGISTER_VECTORS])
{
    UNROLL
    for (int r = 0; r < REGISTER_ROWS; r++) {
        if (r < rows) {
            const spread z = SPREAD_OF(ROW_OF(strip, r) + at);
            UNROLL
            for (int v = 0; v < REGISTER_VECTORS; v++)
                if (v < vectors)
                    sum[r][v] = MULTIPLY(panel[v], z, sum[r][v]);
        }
    }
}

/* sums[r][v] += strip[r] . panel[v], from zeros if `zero`. The loop over the depth is unrolled by
 * two, since compilers do not unroll it. */
INLINE void multiply_rows_of_strip(const int rows, const int vectors, const bool zero,
                                   const strip_rows strip, const lanes *panel,
                                   const struct runs *runs, lanes *sums)
{
    lanes sum[REGISTER_ROWS][REGISTER_VECTORS];
    long at = 0; /* the offset of this step of the depth in a strip */

    UNROLL
    for (int r = 0; r < REGISTER_ROWS; r++) {
        UNROLL
        for (int v = 0; v < REGISTER_VECTORS; v++)
            if (r < rows && v < vectors)
                sum[r][v] = zero ? (lanes)(0.0f) : sums[r * REGISTER_VECTORS + v];
    }
    for (int left = runs->depth, run = runs->first; left > 0; run = min(runs->run, left)) {
        int k = 0;
        for (; k + 2 <= run; k += 2, at += 2 * STRIP_DEPTH, panel += 2 * REGISTER_VECTORS) {
            multiply_strip_step(rows, vectors, strip, at, panel, sum);
            multiply_strip_step(rows, vectors, strip, at + STRIP_DEPTH, panel + REGISTER_VECTORS,
                                sum);
        }
        if (k < run) {
            multiply_strip_step(rows, vectors, strip, at, panel, sum);
            at += STRIP_DEPTH;
            panel += REGISTER_VECTORS;
        }
        at += runs->jump;
        left -= run;
    }
    UNROLL
    for (int r = 0; r < REGISTER_ROWS; r++) {
        UNROLL
        for (int v = 0; v < REGISTER_VECTORS; v++)
            if (r < rows && v < vectors)
                sums[r * REGISTER_VECTORS + v] = sum[r][v];
    }
}

/* A strip of any number of rows. */
INLINE void multiply_strip(const int rows, const int vectors, const bool zero,
                           const strip_rows strip, const lanes *panel, const struct runs *runs,
                           lanes *sums)
{
    if (rows >= REGISTER_ROWS) {
        multiply_rows_of_strip(REGISTER_ROWS, vectors, zero, strip, panel, runs, sums);
        return;
    }
    int r = 0;
#if REGISTER_ROWS > FEW_ROWS
    for (; r + FEW_ROWS <= rows; r += FEW_ROWS)
        multiply_rows_of_strip(FEW_ROWS, vectors, zero, strip + FROM_ROW(r), panel, runs,
                               sums + r * REGISTER_VECTORS);
#endif
#if REGISTER_ROWS > 1
    for (; r < rows; r++)
        multiply_rows_of_strip(1, vectors, zero, strip + FROM_ROW(r), panel, runs,
                               sums + r * REGISTER_VECTORS);
#endif
}

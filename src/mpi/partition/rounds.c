/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/partition/rounds.h"

enum { GRAIN = 16, SHORT_HALF = 512, CACHE_LINE = 64, CROWDED_STEP = 1024 };

size_t rows_of_round(const size_t keys, const size_t row_bytes, const size_t most_bytes,
                     const bool in_halves)
{
    const size_t allowed = row_bytes ? most_bytes / row_bytes : keys;
    const size_t half = (keys / 2 + GRAIN - 1) / GRAIN * GRAIN;
    const size_t rows = in_halves && half >= SHORT_HALF && half < allowed ? half : allowed;

    return rows < GRAIN ? GRAIN : rows / GRAIN * GRAIN;
}

size_t step_of_rows(const size_t row_bytes, const clattn_operation operation)
{
    const bool crowded = operation == CLATTN_FORWARD && row_bytes % CROWDED_STEP == 0;

    return crowded ? row_bytes + CACHE_LINE : row_bytes;
}

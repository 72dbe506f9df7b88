#include "mpi/partition/rounds.h"

enum { GRAIN = 16, SHORT_HALF = 512 };

size_t rows_of_round(const size_t keys, const size_t row_bytes, const size_t most_bytes,
                     const bool in_halves)
{
    const size_t allowed = row_bytes ? most_bytes / row_bytes : keys;
    const size_t half = (keys / 2 + GRAIN - 1) / GRAIN * GRAIN;
    const size_t rows = in_halves && half >= SHORT_HALF && half < allowed ? half : allowed;

    return rows < GRAIN ? GRAIN : rows / GRAIN * GRAIN;
}

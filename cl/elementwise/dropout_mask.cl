/* SPDX-License-Identifier: Apache-2.0 */
/* dropout_mask: a byte of 1 or 0 for each weight that dropout keeps or drops, packed (batch *
 * heads, i, j).
 *
 * NDRange   local (1, 1, 1), global (blocks of 64 keys, seq_q, batch * heads): a work-item has 64
 *           keys of a row, which are 16 counters.
 * Ragged    The last block of a row is cut. */
#include "common/arguments.h"
#define RANDOM_LANES 16
#include "common/philox_lanes.h"
#include "common/philox.h"

enum { KEYS = 4 * RANDOM_LANES };

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
dropout_mask(const ulong seed, const uint stream, const uint drop_below, const long seq_kv,
             const long first, __global uchar *mask)
{
    const long j = get_global_id(0) * KEYS, i = get_global_id(1), bh = get_global_id(2);
    const words lane = (words)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    words counter[4] = {(uint)(j / 4) + lane, (words)(uint)i, (words)(uint)bh, (words)stream};
    const uint *word = (const uint *)counter;

    philox(counter, seed);
    mask += first + (bh * get_global_size(1) + i) * seq_kv + j;
    for (int n = 0; n < (int)min(seq_kv - j, (long)KEYS); n++)
        mask[n] = word[n % 4 * RANDOM_LANES + n / 4] >= drop_below;
}

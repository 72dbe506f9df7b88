/* SPDX-License-Identifier: Apache-2.0 */
/* function_blocks: how much of each block of queries and keys a mask function (clattn/function.h) leaves visible: 0 nothing,
 * 1 some pairs, 2 all of them.
 *
 * NDRange   local any, global (columns of blocks, rows of blocks, lists): a work-item has a block of a list, for all batches
 *           and heads that share the list; of a function that asks for neither, for the first.
 * Workspace the results, a byte each, in the order (list, row, column). */
#include "score/function.h"

__kernel void function_blocks(PARAMETERS_function_blocks, const long block_q, const long block_kv,
                              const long batches, const long heads)
{
    const struct arguments arguments = ARGUMENTS_function_blocks;
    const struct arguments *const args = &arguments;
    const long column = get_global_id(0), row = get_global_id(1), list = get_global_id(2);
    const long columns = get_global_size(0), rows = get_global_size(1);
    const long own_heads = args->shape->list_of_head ? args->shape->heads : 1;
    const long b0 = args->shape->list_of_batch ? list / own_heads : 0;
    const long h0 = args->shape->list_of_head ? list % own_heads : 0;
    const long b_end = args->shape->list_of_batch ? b0 + 1 : batches;
    const long h_end = args->shape->list_of_head ? h0 + 1 : heads;
    const long i_end = min((row + 1) * block_q, args->shape->seq_q);
    const long j_end = min((column + 1) * block_kv, args->shape->seq_kv);
    bool some = false, all = true;

    for (long b = b0; b < b_end; b++) {
        for (long h = h0; h < h_end; h++)
            for (long i = row * block_q; i < i_end && (all || !some); i++)
                for (long j = column * block_kv; j < j_end && (all || !some); j++) {
                    const bool sees = function_visible(args, function_pair_of(args, b, h, i, j));
                    some = some || sees;
                    all = all && sees;
                }
    }
    ((__global uchar *)args->workspace)[(list * rows + row) * columns + column] =
        some ? 1 + all : 0;
}

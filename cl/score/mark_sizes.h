/* SPDX-License-Identifier: Apache-2.0 */
/* The problems whose tiles are marked (score/mark_pairs.h, src/families/pair_marks.c). They have a mask function, or a mask or
 * bias of pairs, and enough rows and keys to pay for a pass over the pairs. That pass reads each pair once more, so forward
 * also needs enough heads and batches that share a mark. Backward gains without them, since it has more than twice as many
 * products. A mask function gains without them, too, since it is not called for full tiles. With few pairs, as in a
 * self-check, marking costs nothing. Compiled by the host and by the device. */
#pragma once
enum {
    LEAST_MARKED_QUERIES = 32,
    LEAST_MARKED_KEYS = 128,
    FEW_MARKED_PAIRS = 32768,
    FORWARD_MARK_SHARERS = 2,
    BACKWARD_MARK_SHARERS = 1,
    /* The queries of a mark in backward_cpu; its tiles may begin between two marks. */
    BACKWARD_MARK_QUERIES = 16,
    /* The keys of a mark of a mask function in fused_cpu, whose tiles begin and end with marks. */
    FUNCTION_MARK_KEYS = 8
};

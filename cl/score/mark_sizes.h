/* SPDX-License-Identifier: Apache-2.0 */
/* The problems that get marks (score/mark_pairs.h, src/families/pair_marks.c): those with a mask function, or with a
 * mask or bias of pairs, with enough rows and keys to pay for a pass of its own, and with enough heads and
 * batches that share a mark. A mask function gains even if nothing is shared: a full tile does not call it again. Marking reads each pair once more; backward, with more than twice as
 * many products, gains even if nothing is shared. With few pairs, as in a self-check, marking costs
 * nothing. Compiled by the host and by the device. */
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Of which problems marks are made (score/mark_pairs.h, src/families/pair_marks.c): a mask or a bias
 * of pairs, of rows and keys that a pass of its own is worth, where so many heads and batches share a mark.
 * Making them reads each pair once more, which backward's products, more than twice as many, are worth even if
 * nothing is shared. With few pairs, as in a self-check, that costs nothing. Compiled by the host and by the
 * device. */
#ifndef CLATTN_MARK_SIZES_H
#define CLATTN_MARK_SIZES_H
#define LEAST_MARKED_QUERIES 32
#define LEAST_MARKED_KEYS 128
#define FEW_MARKED_PAIRS 32768
#define FORWARD_MARK_SHARERS 2
#define BACKWARD_MARK_SHARERS 1
#define BACKWARD_MARK_QUERIES 16 /* of a mark of backward_cpu, whose tiles begin anywhere */
#endif

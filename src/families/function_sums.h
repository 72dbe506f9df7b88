/* SPDX-License-Identifier: Apache-2.0 */
/* The workspace of the gradients of functions' operands, which kernels and host share. */
#pragma once

/* The floats of all arrays of sums together, unless one has more. */
enum { MOST_FUNCTION_SUMS = 1 << 24 };

/* Returns how many arrays of so many elements there are, if `items` could have one each. */
#define FUNCTION_SUMS(items, elements)                                                             \
    ((items) * (elements) <= MOST_FUNCTION_SUMS ? (items)                                          \
     : (elements) < MOST_FUNCTION_SUMS          ? MOST_FUNCTION_SUMS / (elements)                  \
                                                : 1u)

/* On GPUs work-groups share the pairs of so many queries at a time; more than these groups would leave the last sum more work
 * than they save. */
enum { LOAD_ROWS = 4 };
#define FUNCTION_GROUPS(blocks) ((blocks) < 512 ? (blocks) : 512u)

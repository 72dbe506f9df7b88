/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of the parts of f32 tensors in the workspace (cl/mma/f32_parts.h), for kernels and the host. */
#pragma once
#include "families/sizes.h"

/* The work-items of a work-group that makes parts, and the most work-groups for a tensor. */
enum { PART_ITEMS = 256, MOST_PART_GROUPS = 8192 };

/* The elements of a line of a plane, for a row of `elements` elements: a multiple of 8, which are 16 bytes. */
#define PART_LINE(elements) ROUND_UP(elements, 8)

/* The bytes of a tensor's parts: a flag of each line, then three planes. Lines have whole pieces of
 * 8 elements. */
#define PART_FLAGS_BYTES(lines) ROUND_UP((lines)*INT_BYTES, 16)
#define PARTS_BYTES(lines, elements)                                                               \
    (PART_FLAGS_BYTES(lines) + 3 * ELEMENT_BYTES * (lines) * (elements))
/* Parts begin at the workspace's first piece of 16 bytes, since it may begin at any float. */
enum { PARTS_ALIGNMENT = 16 };

/* SPDX-License-Identifier: Apache-2.0 */
/* Products of f32 by matrix instructions of bf16, for families that have them: the stage that splits tensors into
 * three parts (cl/mma/f32_parts.h), and the devices on which that pays. */
#ifndef CA_F32_PARTS_H
#define CA_F32_PARTS_H

#include "families/f32_part_sizes.h"
#include "families/family.h"

/* The NDRange of the stage that makes the parts. Dimension 1 counts tensors, of which none has more lines, or more elements in
 * a line. The range is empty without lines. */
struct ca_ndrange ca_f32_parts_ndrange(size_t lines, size_t elements, size_t tensors);

/* Returns why the device cannot make parts; NULL if it can. */
const char *ca_f32_parts_refusal(const clattn_device_info *dev);

/* Returns whether six products of bf16 by matrix instructions are faster on the device than one of f32 by
 * multiply-adds. On other devices a matrix unit computes f32 only if the caller
 * forces it. */
int ca_f32_parts_pay(const clattn_device_info *dev);

/* The preference of a unit of forward attention, which is `with` for 16 bits. f32 ranks behind
 * multiply-adds where parts do not pay. That also holds for too few queries to win back the stage
 * that splits k and v, and for local memory too small for tiles of three parts. */
int ca_fused_parts_preference(const struct ca_problem *p, const clattn_device_info *dev, int with);

#endif

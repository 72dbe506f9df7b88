/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of fused forward attention by matrix instructions are made of: their sizes, a work-group's threads
 * and task, and the fragments of a sub-group. A kernel that multiplies bytes includes gpu/byte_rows.h before. */
#pragma once
#include "mma/fragment.h"
#include "gpu/tile_exp.h"
#include "score/score.h"
#if K_DTYPE != DTYPE || V_DTYPE != DTYPE || SCORES ||                                              \
    (DTYPE == DTYPE_F32 && (K_CACHE || V_CACHE || PAGE_SIZE))
#error "operands have one dtype; keys and values may be quantized, but not beside floats"
#endif
#if STAGES > 1 && (!HAS_COPIES || PAGE_SIZE || (HAS_DROPOUT && !PRODUCER) || K_CACHE || V_CACHE)
#error "what a tile needs besides, places, factors and what is kept, is there once"
#endif

enum { COMPUTING = FRAGMENT_LANES * SUB_GROUPS };
#define PLACES_OF_STAGES (DTYPE == DTYPE_F32 ? PLANE_PLACES : STAGES)
#include "mma/computing.h"
#define LOAD_WIDTH 8
#define HAS_ROW_TILES 0
#define OWN_KEYS 0
#define KEY_SPACING 1
#include "common/quantized.h"
#include "mma/tile_layout.h"
#include "families/fused_gpu/fused_gpu_mma_sizes.h"

#include "gpu/tile_load.h"
#include "mma/attention_parts.h"
/* Marks, or bits of block lists, follow parts and rows of bytes in the workspace. */
INLINE long marks_begin(const struct arguments *args)
{
#if HAS_INT8
    return byte_row_floats(args);
#else
    return OPERAND_PARTS > 1 ? attention_parts_end(args) / FLOAT_BYTES : 0;
#endif
}

#include "gpu/query_block.h"
#include "gpu/fused_task.h"
#include "gpu/row_end.h"
#include "score/mark_blocks.h"
#include "mma/key_places.h"
#include "mma/fragment_attention.h"
#include "mma/fragment_planes.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of gradients by matrix instructions are made of: their sizes, a work-group's threads, tiles of rows
 * in local memory and, for f32, their parts. */
#pragma once
#include "mma/fragment.h"
#include "gpu/tile_exp.h"
#include "score/score.h"
#if DTYPE != DTYPE_F32 && HAS_STRICT
#error "f16 and bf16 are taken in standard precision alone"
#endif

enum { COMPUTING = FRAGMENT_LANES * SUB_GROUPS * DIM_GROUPS };
#define DRAWN_AT_ONCE 2
#define DRAWERS HAS_DROPOUT /* a producer draws random numbers, too */
#include "mma/computing.h"
#define LOAD_WIDTH 8
#include "mma/tile_layout.h"
#include "families/backward_gpu/backward_gpu_mma_sizes.h"
#include "common/backward.h"
#include "gpu/tile_load.h"
#include "gpu/backward_tile.h"
#include "gpu/pair_dropout.h"
#include "mma/fragment_tile.h"
#include "mma/fragment_dropout.h"
#include "mma/gradients_parts.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* backward_gpu_warpgroup: dq, dk and dv as in backward_gpu_mma.cl, by products of warpgroups (cl/mma/warpgroup_tile.h):
 * NVIDIA's wgmma, of Hopper.
 *
 * Head dims are 64 or 128. Owned and streamed rows lie in local memory once, for all products, and the tensor cores
 * read both. With PRODUCER another warpgroup copies, and draws what dropout keeps (cl/mma/gradients_producer.h).
 *
 * Tunables  src/families/backward_gpu/backward_gpu_warpgroup.def, all defined by the host; no fallbacks here. */
#include "score/score.h"
#if !defined(EMULATE) || !defined(SUB_GROUPS) || !defined(BLOCK_STREAMED) || !defined(STAGES) ||   \
    !defined(PRODUCER) || !defined(EXP)
#error "backward_gpu_warpgroup.cl must be built with all of its tunables defined"
#endif

#define INSTRUCTION 7
#include "mma/fragment_wgmma.h"
#define DIM_GROUPS 1
#define M_FRAGMENTS 1
#include "mma/gradients_fragments.h"
#include "mma/warpgroup_tile.h"
#include "mma/gradients_rows.h"
#if PRODUCER
#include "mma/gradients_producer.h"
#else
#include "mma/gradients_passes.h"
#endif
#include "mma/gradients_kernels.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* backward_gpu_mma: dq, dk and dv by matrix instructions, in two passes over the pairs; see clattn/problem.h for the
 * formulas. Neither scores nor their gradients reach memory.
 *
 * Stages    those of src/families/backward_gpu/backward_gpu_item.cl, with the same workspace (cl/gpu/backward_tile.h):
 *           backward_rows, backward_keys (dk and dv, for blocks of owned keys), backward_queries (dq, for
 *           blocks of owned queries), backward_bias and backward_sums. Nothing is added by atomics: the
 *           same inputs give the same bits.
 * Tiles     A work-group owns BLOCK_OWNED rows, FRAGMENT_QUERIES for each of SUB_GROUPS sub-groups, of k
 *           and v, or of q and do, and streams BLOCK_STREAMED rows at a time of the other two:
 *             1. owned times streamed rows: s = q k^T and dp = do v^T, with all in local memory;
 *             2. p and ds in registers (cl/mma/fragment_gradients.h);
 *             3. sums += p or ds times streamed rows, with the weights as operands in the same registers.
 *           DIM_GROUPS sub-groups have the same owned rows: each does 1. and 2., and 3. for a part of the
 *           dims, where one could not hold all sums in registers. With M_FRAGMENTS > 1 sub-groups have more owned
 *           rows, and two of them divide the products of the same keys (cl/mma/gradients_wide.h).
 * Fragments cl/mma/fragment.h: the layouts of an instruction, which EMULATE replaces by local memory.
 * Parts     f32 is multiplied as three parts of bf16, by six products for one (cl/mma/f32_parts.h): a stage before all
 *           others, backward_parts, writes those of q, k, v and do to the workspace (cl/mma/gradients_parts.h), and p
 *           and ds are split in registers. In the second pass (see Masked) products that Infs made NaNs are those of
 *           first parts, and so are products of infinite p and ds.
 * Sums      f32. In f16 and bf16 p and ds are rounded to 16 bits once, as in FlashAttention: in f16 a ds over 65504 is
 *           infinite. The terms of dbias and dslopes are not rounded.
 * NDRange   local THREADS = FRAGMENT_LANES * SUB_GROUPS * DIM_GROUPS everywhere.
 * Ragged    Nothing outside the tensors is read; local memory holds 0 there.
 * Masked    A weight of 0 does not silence an Inf or NaN of a streamed row. If some result becomes
 *           one, the whole block is computed again with 0 in its place in 3., and is added at the end to rows
 *           that see it. Owned rows without a visible pair may contain anything: a row's sums
 *           are its own, and 0 is stored for it.
 * Barriers  Every thread reaches every barrier; only the instructions' own lockstep is relied on.
 * Hopper    products of warpgroups: src/families/backward_gpu/backward_gpu_warpgroup.cl.
 * Tunables  src/families/backward_gpu/backward_gpu_mma.def, all defined by the host; no fallbacks here. */
#include "score/score.h"
#if !defined(INSTRUCTION) || !defined(EMULATE) || !defined(SUB_GROUPS) || !defined(DIM_GROUPS) ||  \
    !defined(M_FRAGMENTS) || !defined(BLOCK_STREAMED) || !defined(STAGES) || !defined(EXP)
#error "backward_gpu_mma.cl must be built with all of its tunables defined"
#endif

#define PRODUCER 0
#include "mma/any_instruction.h"
#include "mma/gradients_fragments.h"
#include "mma/gradients_stages.h"
#if M_FRAGMENTS > 1
#include "mma/gradients_wide.h"
#else
#include "mma/gradients_passes.h"
#endif
#include "mma/gradients_kernels.h"

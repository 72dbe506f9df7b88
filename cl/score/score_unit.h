/* SPDX-License-Identifier: Apache-2.0 */
/* The unit in which kernels for CPUs keep scores, and what a problem does to them. */
#ifndef CLATTN_SCORE_UNIT_H
#define CLATTN_SCORE_UNIT_H
#include "families/operand_sizes.h"
#include "cpu/simd_math.h"
#include "score/score_scale.h"

/* Scores are kept in units of log 2, so that 2^x serves as the exponential; with a bias in natural
 * units, since a bias of -FLT_MAX must stay finite, and where scores are handed out
 * (NATURAL_SCORES). */
#if HAS_BIAS || defined(NATURAL_SCORES)
#define SCORE_UNIT 1.0f
#define SCORE_TO_LOG 1.0f
#define EXPONENTIAL(x) exponential2((x)*LOG2E)
#else
#define SCORE_UNIT LOG2E
#define SCORE_TO_LOG LN2
#define EXPONENTIAL(x) exponential2(x)
#endif
/* What score_scale() is multiplied with: a softcap wants natural units, and returns scores in
 * SCORE_UNIT. */
#define SCALE_UNIT (HAS_SOFTCAP ? 1.0f : SCORE_UNIT)

#define HAS_WINDOW (HAS_WINDOW_LEFT || HAS_WINDOW_RIGHT)
/* Whether pairs may be hidden at all. */
#define HIDES (HAS_WINDOW || HIDES_ANYWHERE)
/* Whether scores differ from products even in a tile of full visibility. */
#define CHANGES_SCORES (HAS_SOFTCAP || HAS_BIAS || HAS_MASK || HAS_ALIBI)

#endif

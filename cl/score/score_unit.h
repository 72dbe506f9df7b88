/* SPDX-License-Identifier: Apache-2.0 */
/* The unit in which kernels for CPUs keep scores, and the score options that a problem has. */
#pragma once
#include "families/operand_sizes.h"
#include "cpu/simd_math.h"
#include "score/score_scale.h"

/* Scores are kept in units of log 2, so that 2^x serves as the exponential; with a bias in natural
 * units, since a bias of -FLT_MAX must stay finite, with a score function, which takes and returns them, and where scores are
 * handed out (NATURAL_SCORES). */
#if HAS_BIAS || HAS_SCORE_FUNCTION || defined(NATURAL_SCORES)
#define SCORE_UNIT 1.0f
#else
#define SCORE_UNIT M_LOG2E_F
#endif

/* The factor of scores that gives natural units. */
INLINE float score_to_log(void)
{
    return SCORE_UNIT == 1.0f ? 1.0f : M_LN2_F;
}

/* The exponential of scores. */
INLINE lanes exponential(const lanes scores)
{
    return exponential2(SCORE_UNIT == 1.0f ? scores * M_LOG2E_F : scores);
}

/* The unit in score_scale(): the softcap takes scores in natural units and returns them in SCORE_UNIT. */
#define SCALE_UNIT (HAS_SOFTCAP ? 1.0f : SCORE_UNIT)

#define HAS_WINDOW (HAS_WINDOW_LEFT || HAS_WINDOW_RIGHT)
/* Is 1 if any pair may be masked. */
enum { HIDES = HAS_WINDOW || HIDES_ANYWHERE };
/* Is 1 if scores differ from products even in a tile of full visibility. */
#define CHANGES_SCORES                                                                             \
    (HAS_SOFTCAP || HAS_BIAS || HAS_MASK || HAS_ALIBI || HAS_SCORE_FUNCTION || HAS_MASK_FUNCTION)

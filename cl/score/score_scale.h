/* SPDX-License-Identifier: Apache-2.0 */
/* What the product of a query and a key is multiplied with, on CPUs and GPUs alike. */
#ifndef CLATTN_SCORE_SCALE_H
#define CLATTN_SCORE_SCALE_H
#include "common/common.h"

#if HAS_ALIBI
/* What ALiBi multiplies a slope with, from how far a key lies after the query's diagonal: a float or a vector. */
#if HAS_ALIBI_SYMMETRIC
#define ALIBI_DISTANCE(x) (-fabs(x))
#else
#define ALIBI_DISTANCE(x) (x)
#endif
#endif

/* Of head h. */
static inline float score_scale(const struct arguments *args, const long h)
{
    return args->shape->scale;
}

#endif

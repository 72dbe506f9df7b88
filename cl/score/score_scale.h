/* SPDX-License-Identifier: Apache-2.0 */
/* The scale of a score, on CPUs and GPUs alike. */
#pragma once
#include "common/common.h"

#if HAS_ALIBI
/* ALiBi's factor of a slope; x is the key's distance behind the query's diagonal, a float or a
 * vector. */
#if HAS_ALIBI_SYMMETRIC
#define ALIBI_DISTANCE(x) (-fabs(x))
#else
#define ALIBI_DISTANCE(x) (x)
#endif
#endif

/* The scale of head h's scores. */
static inline float score_scale(const struct arguments *args, const long h)
{
    return args->shape->scale;
}

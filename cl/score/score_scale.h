/* SPDX-License-Identifier: Apache-2.0 */
/* The scale of a score, on CPUs and GPUs alike. */
#pragma once
#include "common/common.h"

/* ALiBi's factor of a slope; x is the key's distance behind the query's diagonal, a float or a
 * vector. */
#define ALIBI_DISTANCE(x) (HAS_ALIBI_SYMMETRIC ? -fabs(x) : (x))

/* The scale of head h's scores. */
static inline float score_scale(const struct arguments *args, const long h)
{
    return args->shape->scale;
}

/* What the product of a query and a key is multiplied with, on CPUs and GPUs alike. */
#ifndef CLATTN_SCORE_SCALE_H
#define CLATTN_SCORE_SCALE_H
#include "common/common.h"

/* Of head h. */
static inline float score_scale(SHAPE_PARAMS, const long h SCORE_OPERANDS_PARAM)
{
    return a.scale;
}

#endif

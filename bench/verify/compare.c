/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/verify/compare.h"
#include "bench/judge/values.h"

#include <math.h>

/* Replaces negative tolerances by the defaults. */
static struct tolerance complete(struct tolerance wanted, clattn_dtype dtype)
{
    static const struct tolerance defaults[] = {
        [CLATTN_F32] = {1e-5, 1e-6},
        [CLATTN_F16] = {2e-3, 1e-5},   /* 4 units of rounding: answers may be made in f16 */
        [CLATTN_BF16] = {1.6e-2, 1e-5} /* likewise */
    };

    return (struct tolerance){
        .rtol = wanted.rtol < 0.0 ? defaults[dtype].rtol : wanted.rtol,
        .atol = wanted.atol < 0.0 ? defaults[dtype].atol : wanted.atol,
    };
}

static clattn_dtype coarser(clattn_dtype a, clattn_dtype b)
{
    static const int bits[] = {[CLATTN_F32] = 24, [CLATTN_F16] = 11, [CLATTN_BF16] = 8};

    return bits[a] < bits[b] ? a : b;
}

/* `got` has as many elements in the same order, of `dtype`. */
static void compare_answer(struct worst *worst, const struct answer *answer, clattn_dtype dtype,
                           const void *got, struct tolerance tolerance)
{
    /* An f16 answer is no better than f16, even where the result is f32; nor is a bf16 result,
     * however exact the answer. */
    const struct tolerance t = complete(tolerance, coarser(answer->dtype, dtype));

    for (size_t row = 0; row < answer->count; row += answer->row) {
        double largest = 0.0;
        for (size_t n = row; n < row + answer->row; n++) {
            const double want = fabs(value_get(answer->dtype, answer->data, n));
            if (isfinite(want) && want > largest)
                largest = want;
        }
        for (size_t n = row; n < row + answer->row; n++)
            worst_add(worst, value_get(dtype, got, n), value_get(answer->dtype, answer->data, n),
                      t.atol + t.rtol * largest);
    }
}

void compare_case(struct worst *worst, const struct attention_case *attention, const void *o,
                  const float *scores, struct tolerance tolerance)
{
    const clattn_problem *p = &attention->job.problem;

    compare_answer(worst, &attention->o, p->o_f32 ? CLATTN_F32 : p->dtype, o, tolerance);
    if (scores != NULL)
        compare_answer(worst, &attention->scores, CLATTN_F32, scores, tolerance);
}

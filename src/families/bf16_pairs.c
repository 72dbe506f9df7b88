/* SPDX-License-Identifier: Apache-2.0 */
#include "families/bf16_pairs.h"
#include "device/capacity.h"
#include "families/family.h"

const char *ca_bf16_pairs_refusal(const clattn_problem *p)
{
    if (ca_problem_own_dtype(p) != CLATTN_BF16)
        return "the instruction multiplies pairs of bf16 alone";
    if (p->strict)
        return "weights become bf16 on their way, which a strict problem does not allow";
    if (p->k_cache != CLATTN_CACHE_PLAIN || p->v_cache != CLATTN_CACHE_PLAIN)
        return "the instruction takes two operands of bf16, and k or v is stored otherwise";
    return NULL;
}

const char *ca_bf16_pairs_options(const size_t *values, const clattn_device_info *dev)
{
    (void)values;
    return ca_multiplies_bf16_pairs(dev) ? " -DEMULATE=0" : " -DEMULATE=1";
}

int ca_bf16_pairs_preference(const clattn_device_info *dev, int with)
{
    if (!ca_multiplies_bf16_pairs(dev))
        return CA_ONLY_IF_FORCED;
    return ca_bf16_pairs_are_fast(dev) ? with : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "families/family_units.h"
#include "device/capacity.h"
#include "families/fragments.h"
#include "os/processor.h"

const char *ca_bf16_pairs_refusal(const struct ca_problem *p)
{
    const char *why = ca_bf16_pairs_or_bytes_refusal(p);

    if (!why &&
        (p->normal.k_cache != CLATTN_CACHE_PLAIN || p->normal.v_cache != CLATTN_CACHE_PLAIN))
        return "the instruction takes two operands of bf16, and k or v is stored otherwise";
    return why;
}

/* The numbers of formats whose blocks have scales would be rounded, or their products scaled block by block. */
static int is_exact_in_bf16(clattn_cache cache)
{
    return cache == CLATTN_CACHE_PLAIN || ca_has_scales(cache);
}

const char *ca_bf16_pairs_or_bytes_refusal(const struct ca_problem *p)
{
    if (ca_problem_own_dtype(&p->normal) != CLATTN_BF16)
        return "the instruction multiplies pairs of bf16 alone";
    if (p->normal.strict)
        return "weights become bf16 on their way, which a strict problem does not allow";
    if (!is_exact_in_bf16(p->normal.k_cache) || !is_exact_in_bf16(p->normal.v_cache))
        return "the instruction multiplies numbers that are exact in bf16, and k or v is stored "
               "otherwise";
    return NULL;
}

static int is_dtype_of_its_own(clattn_cache cache)
{
    return cache != CLATTN_CACHE_PLAIN && !ca_format_of(cache)->is_blocks;
}

const char *ca_bf16_parts_refusal(const struct ca_problem *p)
{
    const char *why = ca_bf16_pairs_or_bytes_refusal(p);

    if (!why)
        return NULL;
    if (ca_problem_own_dtype(&p->normal) == CLATTN_F32)
        return "the instruction multiplies bf16, and two parts in bf16 do not hold an f32";
    if (p->normal.strict)
        return "weights lose their last bits on their way, which a strict problem does not allow";
    if (is_dtype_of_its_own(p->normal.k_cache) || is_dtype_of_its_own(p->normal.v_cache))
        return "k or v has a dtype that is not that of q";
    if (p->normal.invariant)
        return "with parts in bf16 a query that is not finite changes the bits of others";
    return NULL;
}

static const char *emulate(int has_unit)
{
    return has_unit ? " -DEMULATE=0" : " -DEMULATE=1";
}

const char *ca_bf16_pairs_options(const size_t *values, const clattn_device_info *dev)
{
    (void)values;
    return emulate(ca_multiplies_bf16_pairs(dev));
}

const char *ca_amx_options(const size_t *values, const clattn_device_info *dev)
{
    (void)values;
    return emulate(ca_multiplies_bf16_tiles(dev));
}

const char *ca_bytes_options(const size_t *values, const clattn_device_info *dev)
{
    (void)values;
    return emulate(ca_multiplies_bytes(dev));
}

const char *ca_amx_refused_by_system(const clattn_device_info *dev)
{
    return ca_multiplies_bf16_tiles(dev) && !ca_processor_grants_tiles()
               ? "the operating system does not grant the process the tile registers of AMX"
               : NULL;
}

int ca_vector_preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return ca_fills_vectors(dev) ? 90 : 10;
}

int ca_bf16_pairs_preference_with(const clattn_device_info *dev, int with)
{
    if (!ca_multiplies_bf16_pairs(dev))
        return CA_ONLY_IF_FORCED;
    return ca_bf16_pairs_are_fast(dev) ? with : 0;
}

int ca_bf16_pairs_preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return ca_bf16_pairs_preference_with(dev, 91);
}

int ca_amx_preference_with(const clattn_device_info *dev, int with)
{
    return ca_multiplies_bf16_tiles(dev) ? with : CA_ONLY_IF_FORCED;
}

int ca_amx_preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return ca_amx_preference_with(dev, 92);
}

int ca_bytes_preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return ca_multiplies_bytes(dev) ? 90 : CA_ONLY_IF_FORCED;
}

int ca_item_preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return dev->type & CL_DEVICE_TYPE_GPU ? 90 : 20;
}

int ca_mma_preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return ca_instruction_of(dev) ? 95 : CA_ONLY_IF_FORCED;
}

int ca_only_preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    (void)dev;
    return 50;
}

int ca_forced_preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    (void)dev;
    return CA_ONLY_IF_FORCED;
}

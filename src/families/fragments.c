/* SPDX-License-Identifier: Apache-2.0 */
#include "families/fragments.h"
#include "families/block_sizes.h"
#include "families/fragment_sizes.h"
#include "problem/operations.h"
#include "problem/tensors.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct ca_fragment fragments[] = {
    [CA_MMA_SYNC] = {32, 16, 8, 16, 2, 0, 256, 1, 8, {660, 400}},
    [CA_WMMA] = {32, 16, 16, 16, 1, 1, 192, 2, 8, {480, 300}},
    [CA_MFMA_32] = {64, 32, 32, 8, 1, 1, 384, 1, 4, {SIZE_MAX, SIZE_MAX}},
    [CA_MFMA_16] = {64, 16, 16, 16, 1, 1, 384, 1, 4, {SIZE_MAX, SIZE_MAX}},
    [CA_DPAS_8] = {8, 8, 8, 16, 1, 1, 192, 1, 8, {SIZE_MAX, SIZE_MAX}},
    [CA_DPAS_16] = {16, 8, 16, 16, 1, 1, 192, 1, 8, {SIZE_MAX, SIZE_MAX}},
    [CA_WGMMA] = {32, 16, 8, 16, 2, 0, 255, 1, 8, {SIZE_MAX, SIZE_MAX}},
};

const struct ca_fragment *ca_fragment_of(size_t instruction)
{
    return &fragments[instruction];
}

size_t ca_instruction_of(const clattn_device_info *dev)
{
    static const struct {
        const char *architecture; /* the first characters of the architecture's name */
        size_t sub_group_size, instruction;
    } known[] = {
        {"gfx11", 32, CA_WMMA},
        {"gfx90a", 64, CA_MFMA_32},
        {"gfx94", 64, CA_MFMA_32},
        {"gfx950", 64, CA_MFMA_32},
    };

    if (strncmp(dev->architecture, "sm_", 3) == 0)
        return strtoul(dev->architecture + 3, NULL, 10) >= 80 ? CA_MMA_SYNC : 0;
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        if (strncmp(dev->architecture, known[n].architecture, strlen(known[n].architecture)) == 0)
            return dev->sub_group_size == known[n].sub_group_size ? known[n].instruction : 0;
    if (!strstr(dev->extensions, "cl_intel_subgroup_matrix_multiply_accumulate"))
        return 0;
    return dev->sub_group_size == 8 ? CA_DPAS_8 : CA_DPAS_16;
}

int ca_has_instruction(const clattn_device_info *dev, size_t instruction)
{
    const size_t own = ca_instruction_of(dev);

    return own == instruction || (own == CA_MFMA_32 && instruction == CA_MFMA_16);
}

/* The register pressure, fitted to 60 programs of fused_gpu_mma and 80 of split_gpu_mma that
 * tests/offline.sh's compilers spilled or not. Scores count with their weights, and more with a
 * mask, bias, dropout or block lists; then outputs; queries, held twice while two tiles are multiplied;
 * second parts of strict f16 weights. */
int ca_fragment_spills(const struct ca_fragment *f, const struct ca_problem *p, size_t scores,
                       size_t outputs, size_t queries)
{
    const int more = ca_keeps_more(p);
    const size_t weight = !more ? 5 : p->normal.block_q > 0 ? 10 : 8;

    const int sums =
        f == &fragments[CA_MMA_SYNC] && p->normal.strict && p->normal.dtype == CLATTN_F16;

    return weight * scores + 4 * outputs + 2 * queries + (sums ? 200 : 0) > f->most_pressure[more];
}

size_t ca_operand_parts(const struct ca_problem *p)
{
    const int DTYPE = (int)ca_problem_own_dtype(&p->normal), DTYPE_F32 = CLATTN_F32;

    return OPERAND_PARTS;
}

int ca_both_quantized(const struct ca_problem *p)
{
    return ca_problem_cache(&p->normal, CA_K) != CLATTN_CACHE_PLAIN &&
           ca_problem_cache(&p->normal, CA_V) != CLATTN_CACHE_PLAIN;
}

static const char *refusal_of_operands(const struct ca_problem *p)
{
    if (ca_problem_dtype(&p->normal, CA_K) != p->normal.dtype ||
        ca_problem_dtype(&p->normal, CA_V) != p->normal.dtype)
        return "matrix instructions take two operands of one dtype";
    if ((ca_format_of(p->normal.k_cache)->offset && !p->normal.int8) ||
        ca_format_of(p->normal.v_cache)->offset)
        return "matrix instructions multiply codes of keys and values, to which no offset is added";
    if (p->normal.scores != CLATTN_SCORES_NONE)
        return "the scores never lie in memory, so they cannot be handed out";
    return NULL;
}

const char *ca_mma_refusal(const struct ca_problem *p)
{
    if (!ca_is_attention(&p->normal))
        return NULL;
    if (p->normal.dtype == CLATTN_F32)
        return "matrix instructions take f16 and bf16, not f32";
    return refusal_of_operands(p);
}

const char *ca_mma_parts_refusal(const struct ca_problem *p)
{
    if (p->normal.dtype != CLATTN_F32)
        return ca_mma_refusal(p);
    if (p->normal.page_size || p->normal.k_cache != CLATTN_CACHE_PLAIN ||
        p->normal.v_cache != CLATTN_CACHE_PLAIN)
        return "floats are split into parts as whole tensors, not in pages, and not beside "
               "quantized ones";
    return refusal_of_operands(p);
}

const char *ca_mma_gradient_refusal(const struct ca_problem *p)
{
    const char *const why = refusal_of_operands(p);

    if (!why && p->normal.strict && p->normal.dtype != CLATTN_F32)
        return "weights and gradients of scores are rounded to the dtype, which a strict problem "
               "does not allow";
    return why;
}

int ca_fragment_multiplies_bytes(const clattn_device_info *dev, size_t instruction)
{
    const int is_mfma = instruction == CA_MFMA_32 || instruction == CA_MFMA_16;

    return instruction != CA_WMMA && !(is_mfma && strcmp(dev->architecture, "gfx90a") == 0);
}

int ca_has_wgmma(const clattn_device_info *dev)
{
    return strcmp(dev->architecture, "sm_90") == 0;
}

size_t ca_wgmma_registers(size_t work_items, size_t groups)
{
    const size_t all = 65536, most = 255;

    return ca_smaller(all / (work_items * groups) / 8 * 8, most);
}

size_t ca_wgmma_computing_registers(size_t sub_groups)
{
    return sub_groups > 8 ? 160 : 232;
}

int ca_wgmma_holds(size_t local_bytes, size_t groups)
{
    /* `systems` is the number of bytes that each group reserves */
    const size_t all = 228 << 10, systems = 1024;

    return groups * (local_bytes + systems) <= all;
}

int ca_has_plain_scores(const struct ca_problem *p)
{
    return !p->normal.bias && !p->normal.dslopes && !p->normal.score_function;
}

int ca_mma_one_stage(const struct ca_problem *p)
{
    return p->normal.page_size || p->normal.dropout > 0.0f ||
           ca_problem_cache(&p->normal, CA_K) != CLATTN_CACHE_PLAIN ||
           ca_problem_cache(&p->normal, CA_V) != CLATTN_CACHE_PLAIN;
}

const char *ca_fragment_options(size_t instruction, int emulate, size_t registers)
{
    static const struct {
        size_t registers;
        const char *option;
    } limits[] = {{96, " -cl-nv-maxrregcount=96"},
                  {128, " -cl-nv-maxrregcount=128"},
                  {168, " -cl-nv-maxrregcount=168"}};
    const int dpas = instruction == CA_DPAS_8 || instruction == CA_DPAS_16;

    for (size_t n = 0; n < sizeof limits / sizeof *limits && !emulate; n++)
        if (limits[n].registers == registers)
            return limits[n].option;
    return dpas && !emulate ? " -cl-intel-256-GRF-per-thread" : "";
}

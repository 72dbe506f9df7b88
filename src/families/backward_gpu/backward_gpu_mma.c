/* SPDX-License-Identifier: Apache-2.0 */
/* backward_gpu_mma: gradients by matrix instructions; see src/families/backward_gpu/backward_gpu_mma.cl. */
#include "base/sizes.h"
#include "device/capacity.h"
#include "families/family_units.h"
#include "families/fragment_sizes.h"
#include "families/fragments.h"
#include "families/registry.h"
#include <stdint.h>
#include <string.h>

/* The number of work-items of an emulated group: without optimisation, one takes up to 40 KB of a
 * thread's stack on PoCL. */
enum { MOST_EMULATED = 128 };

static size_t work_items(const size_t *values);
static size_t register_words(const struct ca_problem *p, const size_t *values);
static int spills(const struct ca_problem *p, const size_t *values);

enum { PRODUCER = 0 };

#define TUNABLES_DEF "families/backward_gpu/backward_gpu_mma.def"
#define TUNABLES_UNIT UNIT_MMA
#define SIZES_FILE "families/backward_gpu/backward_gpu_mma_sizes.h"
#include "families/expand.h"
#include "families/fragment_unit.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

static size_t sub_groups(const size_t *values)
{
    return values[SUB_GROUPS_INDEX] * values[DIM_GROUPS_INDEX];
}

static size_t work_items(const size_t *values)
{
    return fragment_of(values)->lanes * sub_groups(values);
}

static size_t block_owned(const size_t *values)
{
    return fragment_of(values)->queries * values[SUB_GROUPS_INDEX] * values[M_FRAGMENTS_INDEX];
}

static size_t owned_keys(const size_t *values)
{
    return block_owned(values) / values[M_FRAGMENTS_INDEX];
}

/* The dims of results, of all sub-groups that divide them: DIMS() of cl/mma/fragment_gradients.h.
 * */
static size_t padded_dim(size_t dim, const size_t *values)
{
    const struct ca_fragment *f = fragment_of(values);

    return ca_round_up(dim, values[DIM_GROUPS_INDEX] * f->others * f->others_at_once);
}

/* The words of a work-item of backward_keys: two products, and (below) two sums. With wide sub-
 * groups backward_queries has more: two products of each fragment and their sums. */
static size_t product_words(const size_t *values)
{
    const struct ca_fragment *f = fragment_of(values);

    return values[M_FRAGMENTS_INDEX] * f->queries * 2 * values[BLOCK_STREAMED_INDEX] / f->lanes;
}

static size_t sum_words(const struct ca_problem *p, const size_t *values)
{
    const struct ca_fragment *f = fragment_of(values);
    const size_t dims = padded_dim(p->normal.dim_qk, values) + padded_dim(p->normal.dim_v, values);

    return f->queries * (dims / values[DIM_GROUPS_INDEX]) / f->lanes;
}

/* The words that a work-item keeps in registers. */
static size_t register_words(const struct ca_problem *p, const size_t *values)
{
    return product_words(values) + sum_words(p, values);
}

/* The least number of streamed rows in a tile. */
static size_t least_streamed(const size_t *values)
{
    return ca_larger(16, fragment_of(values)->others);
}

/* The registers that a work-item needs, fitted to 100 programs that tests/offline.sh's compilers
 * spilled or not. Added are addresses and operands (WMMA holds these twice), an address in a
 * mask and a bias for each pair, and values that other options keep. */
static size_t needed_registers(const struct ca_problem *p, const size_t *values)
{
    const int twice = values[INSTRUCTION_INDEX] == CA_WMMA;
    const size_t products = product_words(values);
    const size_t pairs = (p->normal.mask != 0) + (p->normal.bias != 0);
    const int wide = values[M_FRAGMENTS_INDEX] > 1;
    /* Wide sub-groups need nothing besides for softcap and dropout. */
    /* WMMA with ALiBi spilled 43 words of blocks that 16 more hold back. */
    const size_t scores = (!wide && p->normal.softcap > 0.0f) +
                          (p->normal.alibi != 0) * (twice ? 2 : 1) +
                          (!wide && p->normal.dropout > 0.0f);
    const size_t places =
        (p->normal.block_q > 0) + (p->normal.total_q > 0 || p->normal.total_kv > 0);
    const size_t operands = wide ? 62 : 82;
    const size_t others = !twice ? operands : p->normal.dtype == CLATTN_BF16 ? 140 : 100;
    const size_t parts = p->normal.dtype == CLATTN_F32 ? (twice ? 100 : 24) : 0; /* of operands */

    return sum_words(p, values) + (twice ? 2 : 1) * products + pairs * (products + 16) +
           scores * 16 + places * 32 + others + parts;
}

/* The smallest blocks are taken even if registers are spilled, since there is no other choice. Of DPAS with 8 lanes
 * a bias and softcap spilled. Devices with other instructions have more registers. */
static int spills(const struct ca_problem *p, const size_t *values)
{
    const size_t instruction = values[INSTRUCTION_INDEX];
    const int is_dpas = instruction == CA_DPAS_8;
    const int least =
        values[BLOCK_STREAMED_INDEX] == least_streamed(values) && values[DIM_GROUPS_INDEX] == 4;
    const size_t most = !is_dpas                   ? 256
                        : p->normal.bias           ? 210
                        : p->normal.softcap > 0.0f ? 290
                                                   : SIZE_MAX;

    return (instruction == CA_MMA_SYNC || instruction == CA_WMMA || is_dpas) && !least &&
           needed_registers(p, values) > most;
}

/* ---- the family ------------------------------------------------------------------------------ */

static int fits_registers(const struct ca_problem *p, const size_t *values)
{
    return register_words(p, values) <= fragment_of(values)->registers &&
           (values[EMULATE_INDEX] || !spills(p, values));
}

static int fits(const struct ca_problem *p, const clattn_device_info *dev, const size_t *values)
{
    return fits_registers(p, values) && local_bytes(p, values) <= dev->local_memory_bytes;
}

/* Chooses fewer streamed rows, or more parts of the dims, until the registers hold all values. */
static void fit_registers(const struct ca_problem *p, size_t *values)
{
    const size_t most = values[BLOCK_STREAMED_INDEX];

    for (size_t parts = 1; parts <= 4; parts *= 2) {
        values[DIM_GROUPS_INDEX] = parts;
        values[BLOCK_STREAMED_INDEX] = most;
        while (!fits_registers(p, values) && values[BLOCK_STREAMED_INDEX] > least_streamed(values))
            values[BLOCK_STREAMED_INDEX] /= 2;
        if (fits_registers(p, values))
            return;
    }
}

/* Chooses fewer sub-groups until the device and the problem keep all of them busy, and local memory
 * has room. */
static void shrink(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t most_items =
        ca_smaller(values[EMULATE_INDEX] ? MOST_EMULATED : SIZE_MAX,
                   ca_smaller(dev->max_work_group_size, dev->max_work_item_sizes[0]));
    size_t *const sub_rows = &values[SUB_GROUPS_INDEX];

    fit_registers(p, values);
    while (*sub_rows > 1 &&
           (work_items(values) > most_items ||
            block_owned(values) / 2 >= ca_larger(p->normal.seq_q, p->normal.seq_kv)))
        *sub_rows /= 2;
    while (!fits(p, dev, values) && values[BLOCK_STREAMED_INDEX] > least_streamed(values))
        values[BLOCK_STREAMED_INDEX] /= 2;
    while (!fits(p, dev, values) && *sub_rows > 1)
        *sub_rows /= 2;
}

/* Takes wide sub-groups if a multiprocessor holds two groups and every multiprocessor gets some:
 * they load operands half as often. */
static void take_wide(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    size_t wide[NUM_TUNABLES];

    memcpy(wide, values, sizeof wide);
    wide[M_FRAGMENTS_INDEX] = 2;
    wide[DIM_GROUPS_INDEX] = 1;
    wide[SUB_GROUPS_INDEX] = 4;
    wide[BLOCK_STREAMED_INDEX] = 32;
    wide[STAGES_INDEX] = 2;
    if (!reject(p, dev, wide) && 2 * local_bytes(p, wide) <= dev->local_memory_bytes &&
        p->normal.seq_q / block_owned(wide) * p->normal.heads * p->normal.batch >=
            2 * ca_device_cores(dev))
        memcpy(values, wide, sizeof wide);
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t own = ca_instruction_of(dev);

    values[EMULATE_INDEX] = own == 0;
    if (own != 0)
        values[INSTRUCTION_INDEX] = own;
    else /* small blocks: speed does not matter, and tests have small problems */
        values[SUB_GROUPS_INDEX] = 2;
    if (own == CA_MMA_SYNC)
        values[EXP_INDEX] = 1;
    shrink(p, dev, values);
    if (own == CA_MMA_SYNC) {
        values[STAGES_INDEX] = 2;
        if (reject(p, dev, values))
            values[STAGES_INDEX] = 1;
        take_wide(p, dev, values);
    }
    if (own == CA_MFMA_32 && sub_groups(values) < 4) { /* four fit with half the rows */
        values[INSTRUCTION_INDEX] = CA_MFMA_16;
        values[SUB_GROUPS_INDEX] = 4;
        values[BLOCK_STREAMED_INDEX] = 32;
        shrink(p, dev, values);
    }
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    size_t values[NUM_TUNABLES];
    const char *why = ca_mma_gradient_refusal(p);

    if (why)
        return why;
    ca_tunables_default(tunables, NUM_TUNABLES, values);
    adapt(p, dev, values);
    return reject(p, dev, values);
}

#define operand_parts ca_operand_parts
#include "families/backward_gpu/backward_gpu_stages.h"
#include "families/backward_gpu/backward_gpu_parts.h"

/* Parts fill local memory. If it holds fewer than four sub-groups' rows of f32, some register files
 * of a compute unit would be idle. */
static int preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    const int with = ca_mma_preference(p, dev);
    size_t values[NUM_TUNABLES];

    if (operand_parts(p) > 1 && with != CA_ONLY_IF_FORCED) {
        ca_tunables_default(tunables, NUM_TUNABLES, values);
        adapt(p, dev, values);
        if (sub_groups(values) < 4)
            return BEHIND_OTHERS;
    }
    return preference_with(p, dev, with);
}

const struct ca_family ca_backward_gpu_mma = {
    CA_UNIT_OF("backward_gpu", "mma"),
    .operation = CLATTN_BACKWARD,
    .source = ca_source_backward_gpu_mma,
    OWN_MEMBERS,
    CA_STAGES(BACKWARD_PARTS, BACKWARD_STAGES),
    .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .options = more_options,
    .preference = preference,
};

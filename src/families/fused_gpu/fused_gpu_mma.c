/* SPDX-License-Identifier: Apache-2.0 */
/* fused_gpu_mma: forward attention by matrix instructions; see src/families/fused_gpu/fused_gpu_mma.cl. */
#include "base/sizes.h"
#include "families/block_sizes.h"
#include "families/byte_rows.h"
#include "families/family_units.h"
#include "families/f32_parts.h"
#include "families/fragment_sizes.h"
#include "families/fragments.h"
#include "families/registry.h"
#include <string.h>

static size_t work_items(const size_t *values);
static size_t register_words(const struct ca_problem *p, const size_t *values);
static int spills(const struct ca_problem *p, const size_t *values);
static int keeps_bits(const struct ca_problem *p, const clattn_device_info *dev,
                      const size_t *values);

enum { PRODUCER = 0, DRAWERS = 0 };

#define TUNABLES_DEF "families/fused_gpu/fused_gpu_mma.def"
#define TUNABLES_UNIT UNIT_MMA
#define SIZES_FILE "families/fused_gpu/fused_gpu_mma_sizes.h"
#include "families/expand.h"
#include "families/fragment_unit.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

static size_t work_items(const size_t *values)
{
    return fragment_of(values)->lanes * values[SUB_GROUPS_INDEX];
}

static size_t block_m(const size_t *values)
{
    return fragment_of(values)->queries * values[SUB_GROUPS_INDEX] * values[M_FRAGMENTS_INDEX];
}

static size_t padded_dim_v(const struct ca_problem *p, const struct ca_fragment *f)
{
    return ca_round_up(p->normal.dim_v, f->others * f->others_at_once);
}

/* The columns of 16 bits of a row of q: with precision=int8 they are two bytes. */
static size_t query_columns(const struct ca_problem *p, const struct ca_fragment *f)
{
    return ca_round_up(p->normal.int8 ? ca_divide_up(p->normal.dim_qk, 2) : p->normal.dim_qk,
                       f->depth);
}

/* The words that a work-item keeps in registers throughout: scores, outputs and queries. */
static size_t register_words(const struct ca_problem *p, const size_t *values)
{
    const struct ca_fragment *f = fragment_of(values);
    const size_t sums = values[BLOCK_N_INDEX] + padded_dim_v(p, f);
    const size_t q_halves = values[Q_RESIDENT_INDEX] ? query_columns(p, f) * f->replicas : 0;

    return values[M_FRAGMENTS_INDEX] * f->queries * (sums + q_halves / 2) / f->lanes;
}

/* The words that products of floats in parts take: outputs, four tiles' sums and three parts of
 * weights. */
static size_t part_words(const struct ca_problem *p, const size_t *values)
{
    const struct ca_fragment *f = fragment_of(values);

    return values[M_FRAGMENTS_INDEX] * f->queries *
           (padded_dim_v(p, f) + 4 * f->others + values[BLOCK_N_INDEX] * 3 / 2) / f->lanes;
}

enum { PLACE_WORDS = 80 };

/* The smallest blocks are taken even if registers are spilled, since there is no other choice. */
static int spills(const struct ca_problem *p, const size_t *values)
{
    const struct ca_fragment *f = fragment_of(values);
    const size_t rows = values[M_FRAGMENTS_INDEX] * f->queries;
    const size_t queries = rows * query_columns(p, f) * f->replicas / 2 / f->lanes;
    const int held = values[Q_RESIDENT_INDEX] || values[M_FRAGMENTS_INDEX] > 1;
    const int least = values[BLOCK_N_INDEX] <= 16 && !held;

    /* If operands are held twice, compilers were seen to keep addresses of paged rows as well. */
    const size_t places = p->normal.page_size && f->replicas > 1 ? PLACE_WORDS : 0;

    if (p->normal.dtype == CLATTN_F32)
        return part_words(p, values) +
                   (ca_looks_up_blocks(p, block_m(values), values[BLOCK_N_INDEX]) ? 124
                    : ca_keeps_more(p)                                            ? 24
                                                                                  : 0) >
               f->registers - 40;
    /* Of these programs NVIDIA's compiler spills nothing, where LLVM's spills a few words. An invariant problem's softcap
     * takes more registers: of 192 words 20 are spilled. */
    if (values[INSTRUCTION_INDEX] == CA_MMA_SYNC && !ca_keeps_more(p) && !p->normal.strict &&
        places == 0 && values[M_FRAGMENTS_INDEX] > 1)
        return register_words(p, values) >
               (p->normal.invariant && p->normal.softcap > 0.0f ? 160 : 192);
    return !least &&
           ca_fragment_spills(f, p, rows * values[BLOCK_N_INDEX] / f->lanes,
                              rows * padded_dim_v(p, f) / f->lanes, (held ? queries : 0) + places);
}

/* ---- the family ------------------------------------------------------------------------------ */

static int is_quantized(const struct ca_problem *p)
{
    return ca_problem_cache(&p->normal, CA_K) != CLATTN_CACHE_PLAIN ||
           ca_problem_cache(&p->normal, CA_V) != CLATTN_CACHE_PLAIN;
}

/* Returns whether the registers hold the smallest block of the device's own instruction. If
 * operands are held twice, compilers were seen to spill it with both paged rows and factors.
 * */
static int has_registers(const struct ca_problem *p, const clattn_device_info *dev)
{
    const size_t own = ca_instruction_of(dev);
    const size_t least[NUM_TUNABLES] = {[INSTRUCTION_INDEX] = own,
                                        [M_FRAGMENTS_INDEX] = 1,
                                        [BLOCK_N_INDEX] =
                                            ca_larger(16, ca_fragment_of(own)->others)};

    if (own == 0)
        return 1;
    return register_words(p, least) <= ca_fragment_of(own)->registers &&
           !(ca_fragment_of(own)->replicas > 1 && (p->normal.page_size || p->normal.invariant) &&
             is_quantized(p));
}

static int fits_registers(const struct ca_problem *p, const size_t *values)
{
    return register_words(p, values) <= fragment_of(values)->registers &&
           (values[EMULATE_INDEX] || !spills(p, values));
}

static int fits(const struct ca_problem *p, const clattn_device_info *dev, const size_t *values)
{
    return fits_registers(p, values) && local_bytes(p, values) <= dev->local_memory_bytes;
}

/* Halves a tunable, if it stays above the least; a block of keys is whole fragments. */
static int halve(size_t *values, size_t index, size_t least)
{
    if (index == BLOCK_N_INDEX)
        least = ca_larger(least, fragment_of(values)->others);
    if (values[index] <= least)
        return 0;
    values[index] /= 2;
    return 1;
}

/* Halves blocks until registers suffice, then until local memory does. */
static void shrink(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    static const struct {
        size_t index, least;
    } register_steps[] = {{BLOCK_N_INDEX, 32}, {Q_RESIDENT_INDEX, 0}, {BLOCK_N_INDEX, 16}},
      steps[] = {{BLOCK_N_INDEX, 32},
                 {Q_RESIDENT_INDEX, 0},
                 {SUB_GROUPS_INDEX, 2},
                 {BLOCK_N_INDEX, 16},
                 {SUB_GROUPS_INDEX, 1}};

    for (size_t n = 0; n < sizeof register_steps / sizeof *register_steps; n++)
        while (!fits_registers(p, values) &&
               halve(values, register_steps[n].index, register_steps[n].least))
            ;
    for (size_t n = 0; n < sizeof steps / sizeof *steps; n++)
        while (!fits(p, dev, values) && halve(values, steps[n].index, steps[n].least))
            ;
}

/* Two fragments of queries for each of NVIDIA's sub-groups: K and V are read from local memory once
 * for both, while the next tile arrives. An H200 is 1.27 times as fast with it, if there are enough
 * queries and local memory. */
static int take_more_rows(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    size_t more[NUM_TUNABLES];

    memcpy(more, values, sizeof more);
    more[M_FRAGMENTS_INDEX] = 2;
    more[Q_RESIDENT_INDEX] = 0;
    more[STAGES_INDEX] = 2;
    /* Beside the factors of rows and keys of bytes, LLVM's code spills 30 words of blocks of 64 keys. */
    if (p->normal.int8 && p->normal.dim_v > 64)
        more[BLOCK_N_INDEX] = 32;
    if (ca_mma_one_stage(p) || block_m(values) >= p->normal.seq_q ||
        ca_spans_blocks(block_m(more), p->normal.block_q))
        return 0;
    while (reject(p, dev, more) && more[STAGES_INDEX] > 1)
        more[STAGES_INDEX]--;
    if (reject(p, dev, more))
        return 0;
    memcpy(values, more, sizeof more);
    return 1;
}

/* With floats in parts, local memory limits the number of queries. */
static void adapt_to_parts(const struct ca_problem *p, size_t *values)
{
    const size_t keys = ca_larger(32, fragment_of(values)->others);

    values[Q_RESIDENT_INDEX] = 0;
    while (values[BLOCK_N_INDEX] > keys &&
           (values[EMULATE_INDEX] || ca_larger(p->normal.dim_qk, p->normal.dim_v) > 64 ||
            spills(p, values)))
        values[BLOCK_N_INDEX] /= 2;
    if (!values[EMULATE_INDEX])
        values[SUB_GROUPS_INDEX] = 8; /* on an H200 as fast as 4 */
    if (ca_spans_blocks(block_m(values), p->normal.block_q))
        values[SUB_GROUPS_INDEX] = 4;
}

/* Returns whether blocks of 16 keys are better than larger ones with DPAS of 8 lanes. Larger blocks spilled with the
 * polynomial for tanh, with block lists, with a mask beside pages, with weights that are rounded to bf16, with strict
 * weights in two parts, and with products of bytes. In f16 and bf16, for dims up to 80, Intel's compiler kept their sums
 * in memory (1088 bytes of a work-item in dim 64), but those of 16 keys in registers; in dim 96 it spills 62 words of
 * these, and 110 of 32 keys. Sums of larger dims are in memory with any block. */
static int spills_lanes_of_8(const struct ca_problem *p)
{
    const int small = ca_larger(p->normal.dim_qk, p->normal.dim_v) <= 96;

    return p->normal.softcap > 0.0f || p->normal.block_q || p->normal.int8 || p->normal.strict ||
           (p->normal.mask && p->normal.page_size) ||
           (p->normal.dtype == CLATTN_BF16 && !is_quantized(p)) ||
           (p->normal.dtype != CLATTN_F32 && small);
}

#define REPRESENTATIVE_QUERIES 512
static const size_t deciding[] = {INSTRUCTION_INDEX, BLOCK_N_INDEX, BYTES_INDEX, EXP_INDEX};
#include "families/invariant_unit.h"

/* Places of pages take registers and local memory: fewer rows a sub-group leave room, and change no bits. */
static void adapt_to_pages(const struct ca_problem *p, const clattn_device_info *dev,
                           size_t *values)
{
    values[STAGES_INDEX] = 1;
    values[Q_RESIDENT_INDEX] = 0;
    if (reject(p, dev, values))
        values[M_FRAGMENTS_INDEX] = 1;
    while (values[SUB_GROUPS_INDEX] > 1 && reject(p, dev, values))
        values[SUB_GROUPS_INDEX] /= 2;
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t most_items = dev->max_work_group_size < dev->max_work_item_sizes[0]
                                  ? dev->max_work_group_size
                                  : dev->max_work_item_sizes[0];
    const size_t own = ca_instruction_of(dev);

    if (p->normal.invariant) {
        adapt_to_representative(p, dev, values);
        if (p->normal.page_size)
            adapt_to_pages(p, dev, values);
        else if (reject(p, dev, values)) /* softcap takes registers */
            values[M_FRAGMENTS_INDEX] = 1;
        return;
    }
    values[EMULATE_INDEX] = own == 0;
    if (own == CA_MMA_SYNC)
        values[EXP_INDEX] = 1;
    values[BYTES_INDEX] =
        own == CA_MMA_SYNC && ca_both_quantized(p) && p->normal.dropout == 0.0f && !p->normal.int8;
    if (values[BYTES_INDEX] &&
        p->normal.page_size) /* the offsets of paged keys take Q's registers */
        values[Q_RESIDENT_INDEX] = 0;
    if (own == CA_WMMA) { /* it holds operands twice */
        values[Q_RESIDENT_INDEX] = 0;
        values[BLOCK_N_INDEX] = 32;
    }
    if (is_quantized(p) && own != 0) /* factors of keys take registers as well */
        values[BLOCK_N_INDEX] /= 2;
    if (own == CA_DPAS_8 && spills_lanes_of_8(p)) {
        values[Q_RESIDENT_INDEX] = 0;
        values[BLOCK_N_INDEX] = 16;
    }
    if (own == 0) { /* small blocks: speed does not matter, and tests have small problems */
        values[SUB_GROUPS_INDEX] = 2;
        values[BLOCK_N_INDEX] = 32;
    } else {
        values[INSTRUCTION_INDEX] = own;
    }
    if (p->normal.dtype == CLATTN_F32)
        adapt_to_parts(p, values);
    while (work_items(values) > most_items && values[SUB_GROUPS_INDEX] > 1)
        values[SUB_GROUPS_INDEX] /= 2;
    while (values[SUB_GROUPS_INDEX] > 1 && block_m(values) / 2 >= p->normal.seq_q)
        values[SUB_GROUPS_INDEX] /= 2;
    if (own == CA_MMA_SYNC && p->normal.dtype != CLATTN_F32 && take_more_rows(p, dev, values))
        return;
    shrink(p, dev, values);
    if (own == CA_MFMA_32 &&
        !fits(p, dev, values)) { /* MFMA_16 has half as many queries and keys */
        values[INSTRUCTION_INDEX] = CA_MFMA_16;
        shrink(p, dev, values);
    }
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    const char *reason = ca_mma_parts_refusal(p);

    if (!reason && p->normal.dtype == CLATTN_F32)
        reason = ca_f32_parts_refusal(dev);
    if (!reason && p->normal.int8 && p->normal.dtype == CLATTN_F32)
        reason =
            "products of bytes by matrix instructions stand beside values of 16 bits, not floats";
    if (!reason && p->normal.int8 && !ca_fragment_multiplies_bytes(dev, ca_instruction_of(dev)))
        reason = "the device's matrix instruction multiplies no bytes, or no faster than f16";
    if (!reason && p->normal.invariant && p->normal.dtype == CLATTN_F32)
        reason =
            "floats in parts cannot be in pages, with which an invariant problem has its bits too";
    if (reason)
        return reason;
    if (p->normal.dtype == CLATTN_F16 && p->normal.dropout > 0.0f &&
        ca_problem_dtype(&p->normal, CA_O) == CLATTN_F32)
        return "o in f32 would show how weights are rounded whose row's largest dropout left out";
    if (p->normal.dim_qk > 256 || p->normal.dim_v > 256)
        return "outputs of dims over 256 exceed the registers";
    if (!has_registers(p, dev))
        return "outputs, or places and scales of rows, exceed the registers of the device's "
               "sub-groups";
    return p->normal.dtype == CLATTN_F32 ? refusal_of_suggested(p, dev) : refusal_of_pages(p, dev);
}

static int preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    return ca_fused_parts_preference(p, dev, ca_mma_preference(p, dev));
}

/* One of both is 0. */
static size_t parts_or_rows_bytes(const struct ca_problem *p);
#define PARTS_OF_F32
#define FIRST_IN_WORKSPACE parts_or_rows_bytes
#include "families/fused_stages.h"

static size_t parts_or_rows_bytes(const struct ca_problem *p)
{
    return parts_bytes(p) + ca_byte_rows_bytes(p);
}

const struct ca_family ca_fused_gpu_mma = {
    CA_UNIT_OF("fused_gpu", "mma"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_fused_gpu_mma,
    OWN_MEMBERS,
    CA_STAGES(CA_BYTE_ROWS, FUSED_STAGES_OF_PARTS("fused_gpu_mma", CA_OF_BYTES)),
    .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .options = more_options,
    .preference = preference,
    .keeps_invariant = 1,
    .multiplies_bytes = CA_BYTES_TOO,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* fused_gpu UNIT=warpgroup: forward attention by wgmma, of NVIDIA's Hopper; see fused_gpu_warpgroup.cl. */
#include "base/sizes.h"
#include "device/capacity.h"
#include "families/block_sizes.h"
#include "families/family_units.h"
#include "families/f32_parts.h"
#include "families/fragment_sizes.h"
#include "families/fragments.h"
#include "families/registry.h"
#include <string.h>

static size_t work_items(const size_t *values);
static size_t register_words(const struct ca_problem *p, const size_t *values);
static int spills(const struct ca_problem *p, const size_t *values);
static int has_one_stage(const struct ca_problem *p, const size_t *values);

static const size_t INSTRUCTION = CA_WGMMA;
enum { M_FRAGMENTS = 1, BYTES = 0 };

#define TUNABLES_DEF "families/fused_gpu/fused_gpu_warpgroup.def"
#define TUNABLES_UNIT UNIT_WARPGROUP
#define SIZES_FILE "families/fused_gpu/fused_gpu_mma_sizes.h"
#include "families/expand.h"
#include "families/fragment_unit.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

enum {
    SUB_GROUP = 32,
    QUERIES = 16,
    WARPGROUP = 4,
    BLOCK_COLUMNS = 64,
    COPIED = 8,
    LEAST_DIM = 40,
    LEAST_KEYS = 32
};

static int has_producer(const size_t *values)
{
    return values[PRODUCER_INDEX] && !values[EMULATE_INDEX];
}

static size_t work_items(const size_t *values)
{
    const size_t served = ca_larger(1, values[DRAWERS_INDEX]);

    return SUB_GROUP * (values[SUB_GROUPS_INDEX] + (has_producer(values) ? WARPGROUP * served : 0));
}

static size_t block_m(const size_t *values)
{
    return QUERIES * values[SUB_GROUPS_INDEX];
}

/* Quantized keys and values are refused. A producer draws dropout's bits ahead. */
static int has_one_stage(const struct ca_problem *p, const size_t *values)
{
    return p->normal.page_size || (p->normal.dropout > 0.0f && !values[PRODUCER_INDEX]);
}

/* The words that a work-item keeps in registers throughout: scores, outputs and, if resident,
 * queries. */
static size_t register_words(const struct ca_problem *p, const size_t *values)
{
    const size_t dims_qk = ca_round_up(p->normal.dim_qk, 16),
                 dims_v = ca_round_up(p->normal.dim_v, 16);
    const size_t queries = values[Q_RESIDENT_INDEX] ? QUERIES * dims_qk / 2 : 0;

    return (QUERIES * (values[BLOCK_N_INDEX] + dims_v) + queries) / SUB_GROUP;
}

/* The registers of a work-item that computes. */
static size_t registers(const struct ca_problem *p, const size_t *values)
{
    /* For random numbers or block lists (cl/mma/warpgroup_producer.h). */
    static const size_t taken[] = {0, 8, 24};
    const size_t least = p->normal.block_q > 0;

    if (has_producer(values))
        return ca_wgmma_computing_registers(values[SUB_GROUPS_INDEX]) -
               taken[ca_larger(values[DRAWERS_INDEX], least)];
    return ca_wgmma_registers(work_items(values), values[RESIDENT_GROUPS_INDEX]);
}

/* The words that products of floats in parts take: outputs, a tile's sums and three parts of
 * weights. */
static size_t part_words(const struct ca_problem *p, const size_t *values)
{
    return QUERIES * (2 * p->normal.dim_v + values[BLOCK_N_INDEX] * 3 / 2) / SUB_GROUP;
}

/* The register pressure, fitted to 40 programs that ptxas spilled or not. Scores count again for
 * values read of each pair, and again for block lists if pairs are looked up. Parts of strict
 * weights, addresses of packed batches and pages, and other addresses add to that. */
static int spills(const struct ca_problem *p, const size_t *values)
{
    const int looks_up = ca_looks_up_blocks(p, block_m(values), values[BLOCK_N_INDEX]);

    if (p->normal.dtype == CLATTN_F32)
        return part_words(p, values) + (ca_keeps_more(p) ? 64 : 40) + (looks_up ? 64 : 0) >
               registers(p, values);
    const size_t scores = QUERIES * values[BLOCK_N_INDEX] / SUB_GROUP;
    const int keeps_more =
        p->normal.mask || p->normal.bias || (p->normal.dropout > 0.0f && !has_producer(values));
    const size_t more = (size_t)keeps_more + (size_t)looks_up;
    const size_t weights = values[OVERLAP_INDEX] ? scores / (p->normal.strict ? 1 : 2) : 0;
    const size_t places =
        p->normal.total_q > 0 || p->normal.total_kv > 0 || p->normal.page_size ? 8 : 0;
    const size_t addresses = more ? 94 + 9 * more
                             : has_producer(values) && !values[Q_RESIDENT_INDEX]
                                 ? 32 /* the producer holds the copies' addresses */
                                 : 40 + places + (scores > 32 ? 20 : 0);

    return register_words(p, values) + more * scores + (p->normal.strict ? scores / 2 : 0) +
               weights + addresses >
           registers(p, values);
}

/* ---- the family ------------------------------------------------------------------------------ */

/* Configurations for a number of dims: the fastest on an H200 first
 * (bench/results/h200-wgmma-2026-11-27.txt), then those that need less. In the first ones two or
 * three warpgroups share tiles that a producer copies, and softmax overlaps with products. In the
 * next ones three groups of 64 queries overlap one's softmax with the others' products. With fewer
 * registers left, softmax overlaps within a group. */
static const struct way {
    size_t dims, sub_groups, keys, q_resident, stages, overlap, producer, groups;
} ways[] = {
    {64, 12, 128, 0, 3, 1, 2, 1}, {64, 8, 128, 0, 3, 1, 1, 1},  {64, 4, 128, 1, 2, 1, 0, 2},
    {64, 4, 128, 1, 1, 0, 0, 2},  {128, 8, 128, 0, 2, 1, 1, 1}, {128, 4, 64, 1, 2, 0, 0, 3},
    {128, 4, 64, 1, 1, 0, 0, 3},  {128, 4, 64, 1, 1, 0, 0, 2},  {256, 8, 64, 0, 2, 1, 0, 1},
    {256, 4, 64, 0, 1, 0, 0, 2},  {256, 4, 64, 1, 1, 0, 0, 1},  {256, 4, 64, 0, 1, 0, 0, 1},
    {256, 4, 32, 1, 1, 0, 0, 2},  {256, 4, 32, 1, 1, 0, 0, 1},  {256, 4, 32, 0, 1, 0, 0, 1},
};

/* Configurations for f32 in parts: planes stream through local memory, and one warpgroup's softmax
 * overlaps with another's products. */
static const struct way ways_of_parts[] = {
    {64, 8, 128, 0, 3, 0, 1, 1}, {64, 8, 64, 0, 3, 0, 1, 1},  {64, 8, 32, 0, 3, 0, 1, 1},
    {128, 8, 64, 0, 2, 0, 1, 1}, {128, 8, 32, 0, 2, 0, 1, 1}, {256, 8, 32, 0, 1, 0, 1, 1},
};

/* Returns whether each multiprocessor has a group and tiles are not mostly masked. With three
 * warpgroups the last block of queries must also leave few of them idle. */
static int fills(const struct ca_problem *p, const clattn_device_info *dev, const size_t *values)
{
    const size_t blocks =
        ca_divide_up(p->normal.seq_q, block_m(values)) * p->normal.heads * p->normal.batch;
    const int64_t window = p->normal.window_left, tiles = (int64_t)values[BLOCK_N_INDEX] * 4;

    if (values[SUB_GROUPS_INDEX] == 12 &&
        (p->normal.softcap > 0.0f || /* the latter spilled registers, as dropout does */
         p->normal.dropout > 0.0f ||
         ca_round_up(p->normal.seq_q, block_m(values)) - p->normal.seq_q > p->normal.seq_q / 25))
        return 0;
    return blocks >= ca_device_cores(dev) && (window == CLATTN_UNLIMITED || window >= tiles);
}

/* Floats in parts have no fewer than two warpgroups. */
static int spans_blocks(const struct ca_problem *p, const size_t *values)
{
    return (p->normal.dtype != CLATTN_F32 && ca_spans_blocks(block_m(values), p->normal.block_q)) ||
           ca_spans_blocks(values[BLOCK_N_INDEX], p->normal.block_kv);
}

static int fits(const struct ca_problem *p, const clattn_device_info *dev, const size_t *values)
{
    const size_t local = local_bytes(p, values);

    return !spills(p, values) && local <= dev->local_memory_bytes &&
           ca_wgmma_holds(local, values[RESIDENT_GROUPS_INDEX]) &&
           (values[STAGES_INDEX] == 1 || !has_one_stage(p, values));
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    values[EMULATE_INDEX] = !ca_has_wgmma(dev);
    if (p->normal.dtype == CLATTN_F32) {
        values[Q_RESIDENT_INDEX] = 0;
        values[PRODUCER_INDEX] = values[RESIDENT_GROUPS_INDEX] = 1;
    }
    if (values[EMULATE_INDEX]) { /* speed does not matter, and tests have small problems */
        values[BLOCK_N_INDEX] = LEAST_KEYS;
        values[EXP_INDEX] = 2;
        return;
    }
    const int parts = p->normal.dtype == CLATTN_F32;
    const size_t count =
        parts ? sizeof ways_of_parts / sizeof *ways_of_parts : sizeof ways / sizeof *ways;
    for (size_t n = 0; n < count; n++) {
        const struct way *const w = parts ? &ways_of_parts[n] : &ways[n];
        values[SUB_GROUPS_INDEX] = w->sub_groups;
        values[BLOCK_N_INDEX] = w->keys;
        values[Q_RESIDENT_INDEX] = w->q_resident;
        values[STAGES_INDEX] = w->stages;
        values[OVERLAP_INDEX] = w->overlap;
        values[PRODUCER_INDEX] = w->producer;
        values[DRAWERS_INDEX] =
            w->producer && p->normal.dropout > 0.0f; /* two were not measured yet */
        values[RESIDENT_GROUPS_INDEX] = w->groups;
        if (p->normal.dim_v <= w->dims && !spans_blocks(p, values) && fits(p, dev, values) &&
            (!w->producer || parts || fills(p, dev, values)))
            return;
    }
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    const char *reason = ca_mma_parts_refusal(p);

    if (!reason && p->normal.dtype == CLATTN_F32)
        reason = ca_f32_parts_refusal(dev);
    if (reason)
        return reason;
    if (ca_instruction_of(dev) != 0 && !ca_has_wgmma(dev))
        return "the device has another matrix instruction";
    if (p->normal.dtype == CLATTN_F16 && p->normal.dropout > 0.0f &&
        ca_problem_dtype(&p->normal, CA_O) == CLATTN_F32)
        return "o in f32 would show how weights are rounded whose row's largest dropout left out";
    if (p->normal.dtype == CLATTN_F16 && p->normal.strict &&
        ca_problem_dtype(&p->normal, CA_O) == CLATTN_F32)
        return "o in f32 would show how strict weights far below their row's largest are rounded";
    if (ca_problem_cache(&p->normal, CA_K) != CLATTN_CACHE_PLAIN ||
        ca_problem_cache(&p->normal, CA_V) != CLATTN_CACHE_PLAIN)
        return "quantized keys and values have factors, which whole tiles are not multiplied with";
    if (p->normal.dtype == CLATTN_F32 && p->normal.dropout > 0.0f)
        return "what dropout keeps of a tile has no place beside the tiles of a producer";
    if (p->normal.dtype == CLATTN_F32 &&
        (p->normal.dim_qk % BLOCK_COLUMNS || p->normal.dim_v % BLOCK_COLUMNS))
        return "dims are not multiples of 64, a row of a tile that the tensor cores read";
    if (p->normal.dim_qk % COPIED || p->normal.dim_v % COPIED)
        return "dims are not multiples of 8, which a copy to local memory takes";
    if (p->normal.dim_qk < LEAST_DIM || p->normal.dim_v < LEAST_DIM)
        return "dims are so few that most of a tile of 64 columns would be empty";
    if (p->normal.dim_qk > 256 || p->normal.dim_v > 256 ||
        (ca_has_wgmma(dev) &&
         spills(p, (const size_t[NUM_TUNABLES]){[SUB_GROUPS_INDEX] =
                                                    p->normal.dtype == CLATTN_F32 ? 8 : WARPGROUP,
                                                [PRODUCER_INDEX] = p->normal.dtype == CLATTN_F32,
                                                [RESIDENT_GROUPS_INDEX] = 1,
                                                [BLOCK_N_INDEX] = LEAST_KEYS})))
        return "scores, outputs and queries of a work-item exceed its registers";
    return p->normal.dtype == CLATTN_F32 ? refusal_of_suggested(p, dev) : NULL;
}

/* It is never chosen where it would be emulated, which is for tests. It is preferred to
 * fused_gpu_mma, whose mma.sync reaches some 60 % of wgmma's rate there (tests/offline/tile_time.sh). With f32 it
 * has two warpgroups or more, whose tiles hold several small blocks of lists; fused_gpu_mma has
 * smaller tiles. */
static int preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    const size_t least = WARPGROUP * QUERIES * (p->normal.dtype == CLATTN_F32 ? 2 : 1);

    if (!ca_has_wgmma(dev))
        return CA_ONLY_IF_FORCED;
    return ca_fused_parts_preference(
        p, dev,
        p->normal.seq_q < WARPGROUP * QUERIES || ca_spans_blocks(least, p->normal.block_q) ? 80
                                                                                           : 96);
}

#define PARTS_OF_F32
#include "families/fused_stages.h"

const struct ca_family ca_fused_gpu_warpgroup = {
    CA_UNIT_OF("fused_gpu", "warpgroup"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_fused_gpu_warpgroup,
    OWN_MEMBERS,
    CA_STAGES(FUSED_STAGES_OF_PARTS("fused_gpu_warpgroup", 0)),
    .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .ptx_target = ptx_target,
    .preference = preference,
};

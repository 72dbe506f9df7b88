/* SPDX-License-Identifier: Apache-2.0 */
/* split_gpu_mma: forward attention for few queries and many keys by matrix instructions; see
 * src/families/split_gpu/split_gpu_mma.cl. */
#include "base/sizes.h"
#include "device/capacity.h"
#include "families/family_units.h"
#include "families/fragment_sizes.h"
#include "families/fragments.h"
#include "families/registry.h"
#include "families/split.h"
#include "families/split_gpu/split_gpu_sizes.h"

static size_t work_items(const size_t *values);
static size_t combine_items(const size_t *values);
static size_t keys_at_once(const size_t *values);
static size_t register_words(const struct ca_problem *p, const size_t *values);
static int spills(const struct ca_problem *p, const size_t *values);
static int keeps_bits(const struct ca_problem *p, const clattn_device_info *dev,
                      const size_t *values);

#define TUNABLES_DEF "families/split_gpu/split_gpu_mma.def"
#define TUNABLES_UNIT UNIT_MMA
#define SIZES_FILE "families/split_gpu/split_gpu_mma_sizes.h"
#include "families/expand.h"
#define MOST_REGISTERS(values) values[REGISTERS_INDEX]
#include "families/fragment_unit.h"

/* The smallest number of rows of a kv head for which matrix instructions pay. With background
 * copies, which no
 * other split family has, one row suffices: an H200 reads a cache of 4 rows a kv head at 97 % of
 * its bandwidth, of 1 row at 92 %; with split_gpu_item it is 49 and 85. */
static size_t least_rows(const clattn_device_info *dev)
{
    return ca_instruction_of(dev) == CA_MMA_SYNC ? 1 : 8;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static size_t work_items(const size_t *values)
{
    return fragment_of(values)->lanes * values[SUB_GROUPS_INDEX];
}

static size_t combine_items(const size_t *values)
{
    return ca_round_up(work_items(values), COMBINED_COLUMNS);
}

static size_t block_m(const size_t *values)
{
    return fragment_of(values)->queries * values[M_FRAGMENTS_INDEX] /
           (values[HALF_ROWS_INDEX] ? 2 : 1);
}

/* The least keys of the first product, and dims of the second, that all sub-groups multiply
 * together. */
static size_t keys_at_once(const size_t *values)
{
    const struct ca_fragment *f = fragment_of(values);

    return values[SUB_GROUPS_INDEX] * f->others * f->others_at_once;
}

static size_t padded_dim_v(const struct ca_problem *p, const size_t *values)
{
#include "families/fragment_names.h"
#include SIZES_FILE
    return DIMS;
}

static size_t part_columns(const struct ca_problem *p, const size_t *values)
{
#include "families/fragment_names.h"
#include SIZES_FILE
    return PART_COLUMNS;
}

/* The words that a work-item keeps in registers for its rows: scores and outputs. */
static size_t scores(const size_t *values)
{
    return block_m(values) * values[BLOCK_N_INDEX] / work_items(values);
}

static size_t outputs(const struct ca_problem *p, const size_t *values)
{
    if (values[BYTES_INDEX] == 2)
        return block_m(values) * p->normal.dim_v / fragment_of(values)->lanes;
    return block_m(values) * padded_dim_v(p, values) / work_items(values);
}

/* The words of the queries' columns of one part, if queries stay in registers. */
static size_t queries(const struct ca_problem *p, const size_t *values)
{
    const struct ca_fragment *f = fragment_of(values);

    return block_m(values) * part_columns(p, values) * f->replicas / 2 / f->lanes;
}

static size_t register_words(const struct ca_problem *p, const size_t *values)
{
    return scores(values) + outputs(p, values) +
           (values[Q_RESIDENT_INDEX] ? queries(p, values) : 0);
}

/* If queries are held, the visible ranges of a fragment's rows count as five more words. With
 * quantized keys, unscaled products and the queries of two steps count as twenty. If operands are
 * held twice, compilers load those of 256 columns and more long before they are multiplied. */
static int spills(const struct ca_problem *p, const size_t *values)
{
    enum { MOST_COLUMNS = 192 };
    const size_t fragments = values[M_FRAGMENTS_INDEX];
    const size_t more = ca_problem_cache(&p->normal, CA_K) == CLATTN_CACHE_PLAIN ? 5 : 25;
    const int held = values[Q_RESIDENT_INDEX] || fragments > 1;

    if (fragment_of(values)->replicas > 1 && part_columns(p, values) > MOST_COLUMNS)
        return 1;
    return ca_fragment_spills(fragment_of(values), p, scores(values), outputs(p, values),
                              held ? queries(p, values) + more * fragments : 0);
}

#include "families/split_gpu/split_gpu_stages.h"

/* ---- choosing -------------------------------------------------------------------------------- */

static const char *refusal_of_pages(const struct ca_problem *p, const clattn_device_info *dev);

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    const char *reason = ca_mma_refusal(p);

    if (reason)
        return reason;
    if (p->normal.dropout > 0.0f)
        return "this family draws no dropout, which is for training";
    if (ca_split_rows_per_kv_head(p) > CL_UINT_MAX || p->normal.seq_kv > CL_INT_MAX)
        return "more rows or keys of a kv head than 32 bits count";
    if (p->normal.invariant)
        return refusal_of_pages(p, dev);
    return p->normal.dim_v > 256 ? refusal_of_suggested(p, dev)
                                 : NULL; /* sums of a row fill registers */
}

static int fits(const struct ca_problem *p, const clattn_device_info *dev, const size_t *values)
{
    return reject(p, dev, values) == NULL;
}

/* Halves a tunable; returns 0 if its value was already the smallest. */
static int halve(size_t *values, size_t index, size_t least)
{
    if (values[index] <= least)
        return 0;
    values[index] /= 2;
    return 1;
}

/* Fits K and V into local memory. With background copies they lie side by side; else they use the same memory in turns, so
 * that two work-groups are resident. Divides them into more parts until they fit. Returns 0 if nothing fits. */
static int place_parts(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t resident = values[Q_RESIDENT_INDEX];
    size_t *const kv_parts = &values[KV_PARTS_INDEX];
    const size_t fewest = values[INSTRUCTION_INDEX] == CA_MMA_SYNC && !values[BYTES_INDEX] ? 0 : 1;
    const size_t most = values[BYTES_INDEX] ? 1 : 8;

    for (*kv_parts = fewest; *kv_parts <= most; *kv_parts += ca_larger(*kv_parts, 1)) {
        values[Q_RESIDENT_INDEX] = resident;
        if (fits(p, dev, values))
            return 1;
        values[Q_RESIDENT_INDEX] = 0;
        if (fits(p, dev, values))
            return 1;
    }
    values[Q_RESIDENT_INDEX] = resident;
    *kv_parts = fewest;
    return 0;
}

/* Does so, then takes fewer keys, until they fit. */
static int place_tiles(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t keys = values[BLOCK_N_INDEX];

    for (; values[BLOCK_N_INDEX] >= keys_at_once(values); values[BLOCK_N_INDEX] /= 2)
        if (place_parts(p, dev, values))
            return 1;
    values[BLOCK_N_INDEX] = keys;
    return 0;
}

/* Chooses a way to read quantized keys and values that needs less memory; returns 0 if there is
 * none. */
static int fewer_bytes(size_t *values)
{
    values[HALF_ROWS_INDEX] = 0;
    return halve(values, BYTES_INDEX, 0);
}

/* The most fragments of rows. Four with block lists need more than NVIDIA's 255 registers. With DPAS of 8 lanes, two spill
 * in the programs of most options. */
static size_t most_fragments(const struct ca_problem *p, const clattn_device_info *dev)
{
    switch (ca_instruction_of(dev)) {
    case CA_DPAS_8:
        return 1;
    case CA_DPAS_16:
        return 2;
    case CA_MMA_SYNC:
        return p->normal.block_q > 0 ? 2 : 4;
    default:
        return 4;
    }
}

static void cover_rows(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    while (values[M_FRAGMENTS_INDEX] < most_fragments(p, dev) &&
           block_m(values) < ca_split_rows_per_kv_head(p))
        values[M_FRAGMENTS_INDEX] *= 2;
}

/* Some words are spilled then, which is of use where local memory has room for more groups than registers. */
static void limit_registers(const struct ca_problem *p, const clattn_device_info *dev,
                            size_t *values)
{
    if (values[BYTES_INDEX] && values[M_FRAGMENTS_INDEX] == 1 &&
        4 * local_bytes(p, values) <= dev->local_memory_bytes)
        values[REGISTERS_INDEX] = 128;
}

/* A query of a call with few. How many rows share a group changes no bit, nor does where K, V and Q are. */
#define REPRESENTATIVE_QUERIES 1
static const size_t deciding[] = {INSTRUCTION_INDEX, SUB_GROUPS_INDEX, BLOCK_N_INDEX,
                                  BYTES_INDEX,       HALF_ROWS_INDEX,  EXP_INDEX};
#include "families/invariant_unit.h"

/* Tunables of an invariant problem. Places of pages take local memory. */
static void adapt_invariant(const struct ca_problem *p, const clattn_device_info *dev,
                            size_t *values)
{
    adapt_to_representative(p, dev, values);
    values[SPLIT_K_INDEX] = 1;
    values[REGISTERS_INDEX] = 0;
    cover_rows(p, dev, values);
    while (!place_parts(p, dev, values) && halve(values, M_FRAGMENTS_INDEX, 1))
        ;
    limit_registers(p, dev, values);
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t most_items = ca_smaller(dev->max_work_group_size, dev->max_work_item_sizes[0]);
    const size_t own = ca_instruction_of(dev);

    if (p->normal.invariant) {
        adapt_invariant(p, dev, values);
        return;
    }
    values[EMULATE_INDEX] = own == 0;
    values[SPLIT_K_INDEX] = 1;
    if (own == CA_MMA_SYNC) {
        values[EXP_INDEX] = 1;
        values[BYTES_INDEX] = ca_both_quantized(p); /* 2 was never timed */
    }
    if (own == 0) { /* emulation on few work-items, where speed does not matter */
        values[SUB_GROUPS_INDEX] = 2;
    } else {
        values[INSTRUCTION_INDEX] = own == CA_MFMA_32 ? CA_MFMA_16 : own;
        values[Q_RESIDENT_INDEX] = own == CA_MFMA_32;
        if (own == CA_DPAS_8 || own == CA_DPAS_16)
            values[SUB_GROUPS_INDEX] = 8;
    }
    if (values[BYTES_INDEX] == 2)
        values[BLOCK_N_INDEX] = 32 * values[SUB_GROUPS_INDEX];
    while (work_items(values) > most_items && values[SUB_GROUPS_INDEX] > 1)
        values[SUB_GROUPS_INDEX] /= 2;
    values[BLOCK_N_INDEX] = ca_larger(values[BLOCK_N_INDEX], keys_at_once(values));
    cover_rows(p, dev, values);
    while (!place_tiles(p, dev, values) &&
           (halve(values, M_FRAGMENTS_INDEX, 1) || fewer_bytes(values) ||
            halve(values, SUB_GROUPS_INDEX, 1)))
        ;
    limit_registers(p, dev, values);
    ca_split_suggest(p, dev, &tunables[SPLIT_K_INDEX], block_m(values), work_items(values), values,
                     SPLIT_K_INDEX, reject);
}

/* It is never chosen where it would be emulated, which is for tests. */
static int preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    /* The number of work-groups of a family that does not split keys. */
    const size_t groups = p->normal.batch * p->normal.heads * ca_divide_up(p->normal.seq_q, 64);
    /* Such long rows are left to other families, without matrix instructions. */
    const int alone = ca_larger(p->normal.dim_qk, p->normal.dim_v) > 256;

    if (!ca_instruction_of(dev))
        return CA_ONLY_IF_FORCED;
    if (ca_split_rows_per_kv_head(p) < least_rows(dev))
        return 25;
    if (alone)
        return 98;
    if (p->normal.seq_kv < 256)
        return 25;
    if (p->normal.seq_q <= CLATTN_INVARIANT_QUERIES)
        return 98;
    /* A prompt takes another unit, as in any batch. */
    return !p->normal.invariant && groups < ca_device_cores(dev) / 2 ? 98 : 25;
}

const struct ca_family ca_split_gpu_mma = {
    CA_UNIT_OF("split_gpu", "mma"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_split_gpu_mma,
    OWN_MEMBERS,
    CA_STAGES(SPLIT_STAGES),
    .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .options = more_options,
    .preference = preference,
    .keeps_invariant = 1,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The forward for few queries and many keys, on GPUs: the keys of a kv head are split over groups.
 * src/families/split_gpu/split_gpu_item.cl says how. */
#include "base/sizes.h"
#include "device/capacity.h"
#include "families/family_units.h"
#include "families/registry.h"
#include "families/split.h"
#include "families/split_gpu/split_gpu_item_sizes.h"

static int reads_halves(const struct ca_problem *p);
static size_t most_registers(const clattn_device_info *dev);
static int keeps_bits(const struct ca_problem *p, const clattn_device_info *dev,
                      const size_t *values);

#define TUNABLES_DEF "families/split_gpu/split_gpu_item.def"
#define TUNABLES_UNIT UNIT_ITEM
#include "families/expand.h"

/* Returns whether keys or values have two bytes, so that one load reads eight; queries are read
 * once, singly. */
static int reads_halves(const struct ca_problem *p)
{
    return ca_problem_dtype(&p->normal, CA_K) != CLATTN_F32 ||
           ca_problem_dtype(&p->normal, CA_V) != CLATTN_F32;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The columns that an item has of a row of v, including those beyond the last. */
static size_t thread_columns(const struct ca_problem *p, const size_t *values)
{
#include "families/names.h"
    return THREAD_COLUMNS;
}

/* The number of register_floats() from which compilers for 255 (NVIDIA) or 256 registers (AMD) were
 * seen to spill: see tests/offline.sh. */
static size_t most_registers(const clattn_device_info *dev)
{
    return ca_has_many_registers(dev) ? 150 : SIZE_MAX;
}

static size_t block_m(const size_t *values)
{
    return values[BLOCK_M_INDEX];
}

static size_t work_items(const size_t *values)
{
    return values[THREADS_INDEX];
}

static size_t combine_items(const size_t *values)
{
    return values[THREADS_INDEX];
}

#include "families/split_gpu/split_gpu_stages.h"

/* ---- choosing -------------------------------------------------------------------------------- */

static const char *refusal_of_pages(const struct ca_problem *p, const clattn_device_info *dev);

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    if (p->normal.scores != CLATTN_SCORES_NONE)
        return "the scores never lie in memory, so they cannot be handed out";
    if (ca_split_rows_per_kv_head(p) > CL_UINT_MAX || p->normal.seq_kv > CL_INT_MAX)
        return "more rows or keys of a kv head than 32 bits count";
    return refusal_of_pages(p, dev);
}

/* A group has all rows, if registers allow, and lanes enough that each loads once from a row. */
static void adapt_rows(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t rows = ca_split_rows_per_kv_head(p),
                 dim = ca_larger(p->normal.dim_qk, p->normal.dim_v);
    /* With block lists Intel's compiler kept the scores of 32 sums in memory, and spilled. */
    const size_t most_sums = ca_has_many_registers(dev) ? 64 : p->normal.block_q ? 16 : 32;
    size_t *const threads = &values[THREADS_D_INDEX];

    values[BLOCK_M_INDEX] = 1;
    while (values[BLOCK_M_INDEX] < rows && values[BLOCK_M_INDEX] < 16)
        values[BLOCK_M_INDEX] *= 2;
    values[LOAD_WIDTH_INDEX] =
        !reads_halves(p) || !ca_has_many_registers(dev) || values[BLOCK_M_INDEX] > 8 ? 4 : 8;
    *threads = 4;
    while (*threads < 32 && *threads * values[LOAD_WIDTH_INDEX] < dim)
        *threads *= 2;
    while (values[BLOCK_M_INDEX] > 1 &&
           values[BLOCK_M_INDEX] * thread_columns(p, values) > most_sums) {
        if (*threads < 64 && *threads * values[LOAD_WIDTH_INDEX] < dim)
            *threads *= 2;
        else
            values[BLOCK_M_INDEX] /= 2;
    }
    *threads = ca_larger(*threads, values[BLOCK_M_INDEX]);
    values[EARLY_V_INDEX] = ca_has_many_registers(dev) && values[BLOCK_M_INDEX] <= 8 &&
                            values[THREAD_N_INDEX] * thread_columns(p, values) <= 32;
    if (register_floats(p, values) > most_registers(dev))
        values[EARLY_V_INDEX] = 0;
    /* the offsets of paged keys and values take registers as well */
    while (values[BLOCK_M_INDEX] > 1 && register_floats(p, values) > most_registers(dev))
        values[BLOCK_M_INDEX] /= 2;
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values);

/* A query of a call with few: rows of more queries form blocks of their own. */
#define REPRESENTATIVE_QUERIES 1
static const size_t deciding[] = {THREADS_INDEX, THREADS_D_INDEX, THREAD_N_INDEX, LOAD_WIDTH_INDEX,
                                  EXP_INDEX};
#include "families/invariant_unit.h"

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t most_items = ca_smaller(dev->max_work_group_size, dev->max_work_item_sizes[0]);

    if (p->normal.invariant) {
        adapt_to_representative(p, dev, values);
        values[SPLIT_K_INDEX] = 1;
        while (values[BLOCK_M_INDEX] > 1 &&
               reject(p, dev, values)) /* places of pages take registers */
            values[BLOCK_M_INDEX] /= 2;
        return;
    }
    adapt_rows(p, dev, values);
    while (values[THREADS_INDEX] > most_items && values[THREADS_INDEX] > 32)
        values[THREADS_INDEX] /= 2;
    values[THREADS_D_INDEX] = ca_smaller(values[THREADS_D_INDEX], values[THREADS_INDEX]);
    while (values[THREADS_INDEX] > ca_larger(32, values[THREADS_D_INDEX]) &&
           local_bytes(p, values) > ca_smaller(dev->local_memory_bytes, 32768))
        values[THREADS_INDEX] /= 2;
    while (values[BLOCK_M_INDEX] > 1 && local_bytes(p, values) > dev->local_memory_bytes)
        values[BLOCK_M_INDEX] /= 2;
    ca_split_suggest(p, dev, &tunables[SPLIT_K_INDEX], values[BLOCK_M_INDEX], values[THREADS_INDEX],
                     values, SPLIT_K_INDEX, reject);
}

static int preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    const size_t rows = ca_split_rows_per_kv_head(p);
    /* The number of work-groups of a family that does not split keys. */
    const size_t groups = p->normal.batch * p->normal.heads * ca_split_divide(p->normal.seq_q, 32);

    if (!(dev->type & CL_DEVICE_TYPE_GPU))
        return CA_ONLY_IF_FORCED;
    if (p->normal.seq_kv < 256)
        return 10;
    return rows <= 16 || (rows <= 64 && groups < ca_device_cores(dev) / 2) ? 97 : 30;
}

const struct ca_family ca_split_gpu_item = {
    CA_UNIT_OF("split_gpu", "item"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_split_gpu_item,
    OWN_MEMBERS,
    CA_STAGES(SPLIT_STAGES),
    .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .preference = preference,
    .keeps_invariant = 1,
};

const struct ca_family *const ca_split_gpu[] = {&ca_split_gpu_item, &ca_split_gpu_mma, NULL};

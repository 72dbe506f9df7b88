/* SPDX-License-Identifier: Apache-2.0 */
/* fused_gpu by work-items: forward attention for GPUs; see src/families/fused_gpu/fused_gpu_item.cl. With UNIT=bytes scores
 * are products of bytes. */
#include "device/capacity.h"
#include "families/block_sizes.h"
#include "families/byte_rows.h"
#include "families/family_units.h"
#include "families/fused_gpu/fused_gpu_item_sizes.h"
#include "families/registry.h"

#include <string.h>

static int reads_halves(const struct ca_problem *p);
static int copies_floats(const struct ca_problem *p);
static size_t most_registers(const clattn_device_info *dev);
static size_t needed_registers(const struct ca_problem *p, const size_t *values);
static int keeps_bits(const struct ca_problem *p, const clattn_device_info *dev,
                      const size_t *values);

#define TUNABLES_DEF "families/fused_gpu/fused_gpu_item.def"
#define TUNABLES_UNIT UNIT_ITEM
#include "families/expand.h"
#undef TUNABLES_UNIT
#define TUNABLES_UNIT UNIT_BYTES
#define TUNABLES_TABLE tunables_of_bytes
#include "families/table.h"

/* Returns whether some elements have two bytes, so that one load reads eight. */
static int reads_halves(const struct ca_problem *p)
{
    return p->normal.dtype != CLATTN_F32 || ca_problem_dtype(&p->normal, CA_K) != CLATTN_F32 ||
           ca_problem_dtype(&p->normal, CA_V) != CLATTN_F32;
}

/* Returns whether rows can be copied to tiles without conversion: floats, not in pages; keys may have become bytes. */
static int copies_floats(const struct ca_problem *p)
{
    return p->normal.dtype == CLATTN_F32 &&
           (p->normal.int8 || !ca_problem_converts(&p->normal, CA_K)) &&
           !ca_problem_converts(&p->normal, CA_V) && !p->normal.page_size;
}

/* The output dims that a work-item holds for each of its rows. */
static size_t thread_dims(const struct ca_problem *p, size_t threads)
{
    return ca_round_up(p->normal.dim_v, 4 * threads) / threads;
}

/* The number of needed_registers() from which compilers for 255 (NVIDIA) or 256 registers (AMD)
 * were seen to spill: see tests/offline.sh. */
static size_t most_registers(const clattn_device_info *dev)
{
    return ca_has_many_registers(dev) ? 208 : SIZE_MAX;
}

/* The registers of a work-item: scores, outputs, the operands of the first product, and values of
 * options. Addresses are not counted. */
static size_t needed_registers(const struct ca_problem *p, const size_t *values)
{
    const size_t keys = values[BLOCK_N_INDEX] / values[THREADS_N_INDEX];

    return register_floats(p, values) + 4 * keys + 4 +
           (ca_keeps_more(p) ? 8 * values[THREAD_M_INDEX] : 0) +
           (p->normal.softcap > 0.0f ? 32 : 0);
}

static const char *refusal_of_pages(const struct ca_problem *p, const clattn_device_info *dev);

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    if (p->normal.scores != CLATTN_SCORES_NONE)
        return "the scores never lie in memory, so they cannot be handed out";
    return refusal_of_pages(p, dev);
}

static size_t block_m(const size_t *values)
{
    return values[BLOCK_M_INDEX];
}

static size_t work_items(const size_t *values)
{
    return values[BLOCK_M_INDEX] / values[THREAD_M_INDEX] * values[THREADS_N_INDEX];
}

/* Returns the widest stage of K's columns or words, up to most, that pads the depth of q k^T the least. */
static size_t best_stage(const struct ca_problem *p, const size_t *values, size_t most)
{
#include "families/names.h"
    size_t best = most;

    for (size_t stage = most; stage >= 8; stage /= 2)
        if (ca_round_up(QK_DEPTH, stage) < ca_round_up(QK_DEPTH, best))
            best = stage;
    return best;
}

/* The local memory of a work-item up to which registers limit the resident groups: GPUs have 64 KB
 * of it or more for 256 items of 256 registers. */
enum { ITEM_LOCAL_BYTES = 256 };

/* Halves stages down to 16 columns if that makes room for one more group. */
static void shrink_stages(const struct ca_problem *p, size_t *values)
{
    static const size_t stages[] = {STAGE_N_INDEX, BLOCK_K_INDEX};

    for (size_t n = 0; n < sizeof stages / sizeof *stages; n++)
        while (local_bytes(p, values) > ITEM_LOCAL_BYTES * work_items(values) &&
               values[stages[n]] > 16)
            values[stages[n]] /= 2;
}

/* Halves tile sizes until a work-group takes at most 32 KB of local memory, of which a compute unit of 64 KB holds two. Less
 * if the device has less. The sizes whose reduction costs least speed come first. */
static void fit_local_memory(const struct ca_problem *p, const clattn_device_info *dev,
                             size_t *values)
{
    static const struct {
        size_t index, floor;
    } steps[] = {{STAGE_N_INDEX, 16}, {BLOCK_K_INDEX, 16}, {BLOCK_M_INDEX, 32},
                 {STAGE_N_INDEX, 8},  {BLOCK_K_INDEX, 8},  {BLOCK_N_INDEX, 32},
                 {STAGE_N_INDEX, 4},  {BLOCK_M_INDEX, 8},  {BLOCK_N_INDEX, 8}};
    const size_t most = ca_smaller((size_t)dev->local_memory_bytes, 32768);

    for (size_t n = 0; n < sizeof steps / sizeof *steps; n++)
        while (
            local_bytes(p, values) > most && values[steps[n].index] > steps[n].floor &&
            (steps[n].index != BLOCK_N_INDEX || values[BLOCK_N_INDEX] > values[THREADS_N_INDEX]) &&
            (steps[n].index != BLOCK_M_INDEX || values[BLOCK_M_INDEX] > values[THREAD_M_INDEX]))
            values[steps[n].index] /= 2;
    values[STAGE_N_INDEX] = ca_smaller(values[STAGE_N_INDEX], values[BLOCK_N_INDEX]);
}

/* Adds a second stage, as long as possible, and keeps all of Q in local memory, if as many work-groups stay resident.
 * It needs copies in the background. Each of these was faster on an H200. */
static void add_stage(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    static const struct {
        size_t length, q_resident;
    } choices[] = {{32, 1}, {16, 1}, {32, 0}, {16, 0}};
    size_t with[NUM_TUNABLES];

    if (!ca_copies_in_background(dev))
        return;
    for (size_t n = 0; n < sizeof choices / sizeof *choices; n++) {
        memcpy(with, values, sizeof with);
        with[STAGES_INDEX] = 2;
        with[EXP_INDEX] = 1;
        with[BLOCK_K_INDEX] = best_stage(p, with, choices[n].length);
        with[STAGE_N_INDEX] =
            ca_smaller(ca_larger(choices[n].length, with[THREADS_N_INDEX]), with[BLOCK_N_INDEX]);
        with[Q_RESIDENT_INDEX] = choices[n].q_resident;
        if (!reject(p, dev, with) &&
            local_bytes(p, with) <= ca_resident_local_bytes(dev) * work_items(with)) {
            memcpy(values, with, sizeof with);
            return;
        }
    }
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values);

#define REPRESENTATIVE_QUERIES 512
static const size_t deciding[] = {BLOCK_N_INDEX, THREADS_N_INDEX, EXP_INDEX};
#include "families/invariant_unit.h"

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t tile = ca_has_many_registers(dev) ? 8 : 4;
    const size_t most_items =
        ca_smaller(256, ca_smaller(dev->max_work_group_size, dev->max_work_item_sizes[0]));
    size_t *const block_m = &values[BLOCK_M_INDEX], *const threads = &values[THREADS_N_INDEX];

    if (p->normal.invariant) {
        adapt_to_representative(p, dev, values);
        if (p->normal.page_size)
            values[STAGES_INDEX] = 1;
        return;
    }
    while (*threads < 32 && thread_dims(p, *threads) > tile)
        *threads *= 2;
    values[THREAD_M_INDEX] = thread_dims(p, *threads) > tile || ca_keeps_more(p) ? 4 : tile;
    /* Small problems get smaller blocks, so that every compute unit has some, and more threads, so
     * that a group is still as wide as the hardware. */
    while (*block_m > 8 && (*block_m / 2 >= p->normal.seq_q ||
                            (*block_m > 16 && (p->normal.seq_q + *block_m - 1) / *block_m *
                                                      p->normal.heads * p->normal.batch <
                                                  2 * ca_device_cores(dev))))
        *block_m /= 2;
    if (work_items(values) < 64)
        values[THREAD_M_INDEX] = 4;
    while (work_items(values) < 64 && *threads < 32 && *threads * 4 < p->normal.dim_v)
        *threads *= 2;
    while (work_items(values) > most_items && *block_m > 8)
        *block_m /= 2;
    while (work_items(values) > most_items && *threads > 4)
        *threads /= 2;
    values[BLOCK_N_INDEX] = ca_larger(ca_smaller(*threads * tile, 128), 32);
    if (values[UNIT_INDEX] == UNIT_BYTES && strncmp(dev->architecture, "gfx", 3) == 0)
        values[BLOCK_N_INDEX] /= 2; /* with twice as many gfx1100 spilled at dim 64 */
    while (ca_spans_blocks(values[BLOCK_N_INDEX], p->normal.block_kv))
        values[BLOCK_N_INDEX] /= 2;
    if (!ca_has_many_registers(dev) && p->normal.block_q && ca_keeps_more(p))
        values[BLOCK_N_INDEX] = 32; /* with 64 Intel's compiler spilled 18 words */
    values[BLOCK_K_INDEX] = best_stage(p, values, values[BLOCK_K_INDEX]);
    if (reads_halves(p))
        values[LOAD_WIDTH_INDEX] = 8;
    if (p->normal.softcap > 0.0f)
        values[STAGE_N_INDEX] = 16; /* with 32 gfx1100 spilled at dim 80 */
    shrink_stages(p, values);
    fit_local_memory(p, dev, values);
    add_stage(p, dev, values);
}

static const char *more_options(const size_t *values, const clattn_device_info *dev)
{
    return values[STAGES_INDEX] > 1 ? ca_copy_options(dev) : "";
}

/* ---- fused_gpu UNIT=bytes ------------------------------------------------------------------------------- */

static int bytes_preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return ca_items_multiply_bytes(dev) ? 90 : CA_ONLY_IF_FORCED;
}

static const char *bytes_options(const size_t *values, const clattn_device_info *dev)
{
    static const char *const options[2][2] = {{" -DEMULATE=1", " -DEMULATE=1 -D ASYNC_COPIES=1"},
                                              {" -DEMULATE=0", " -DEMULATE=0 -D ASYNC_COPIES=1"}};

    return options[ca_items_multiply_bytes(dev) != 0][more_options(values, dev)[0] != '\0'];
}

/* ---- both units ----------------------------------------------------------------------------------------- */

#define FIRST_IN_WORKSPACE ca_byte_rows_bytes
#include "families/fused_stages.h"

const struct ca_family ca_fused_gpu_item = {
    CA_UNIT_OF("fused_gpu", "item"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_fused_gpu_item,
    OWN_MEMBERS,
    CA_STAGES(FUSED_STAGES("fused_gpu_item")),
    .options = more_options,
    .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .preference = ca_item_preference,
    .keeps_invariant = 1,
};

const struct ca_family ca_fused_gpu_bytes = {
    CA_UNIT_OF("fused_gpu", "bytes"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_fused_gpu_item,
    CA_TUNABLES(tunables_of_bytes),
    CA_STAGES(CA_BYTE_ROWS, CA_MARK_BLOCKS, CA_MARK_PAIRS(marks_ndrange),
              {"fused_gpu_item", CA_FUSED_ARGUMENTS | CA_BIT(CA_WORKSPACE) | CA_READ_ONLY,
               fused_ndrange}),
    .unsupported = unsupported,
    .adapt = adapt,
    .reject = reject,
    .options = bytes_options,
    .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .preference = bytes_preference,
    .multiplies_bytes = CA_BYTES_ALONE,
};

const struct ca_family *const ca_fused_gpu[] = {&ca_fused_gpu_item, &ca_fused_gpu_mma,
                                                &ca_fused_gpu_warpgroup, &ca_fused_gpu_bytes, NULL};

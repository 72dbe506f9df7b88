/* SPDX-License-Identifier: Apache-2.0 */
/* backward_gpu_item: gradients for GPUs; see src/families/backward_gpu/backward_gpu_item.cl. */
#include "device/capacity.h"
#include "families/backward_gpu/backward_gpu_item_sizes.h"
#include "families/block_sizes.h"
#include "families/family_units.h"
#include "families/registry.h"

#include <string.h>

static size_t most_registers(const clattn_device_info *dev);
static size_t needed_registers(const struct ca_problem *p, const size_t *values);
static int refuses_stored(const struct ca_problem *p);

#define TUNABLES_DEF "families/backward_gpu/backward_gpu_item.def"
#define TUNABLES_UNIT UNIT_ITEM
#include "families/expand.h"

/* Returns the largest needed_registers() for which compilers did not spill any of 255 (NVIDIA) or 256
 * registers (AMD); tests/offline.sh shows it. */
static size_t most_registers(const clattn_device_info *dev)
{
    return ca_copies_in_background(dev) ? 232 : ca_has_many_registers(dev) ? 160 : SIZE_MAX;
}

/* Returns whether options need registers for each pair. */
static int keeps_more(const struct ca_problem *p)
{
    return ca_keeps_more(p) || p->normal.block_q;
}

/* The registers of a work-item: register_floats(), the operands of a product, and values of
 * options. Addresses are not counted. */
static size_t needed_registers(const struct ca_problem *p, const size_t *values)
{
    const size_t columns = values[BLOCK_STREAMED_INDEX] / values[THREADS_N_INDEX];

    return register_floats(p, values) + 4 * columns + 4 +
           (keeps_more(p) ? 8 * values[THREAD_M_INDEX] : 0) +
           (p->normal.softcap > 0.0f || p->normal.alibi ? 32 : 0);
}

/* Returns whether gradients of scores cannot be stored (cl/gpu/stored_gradients.h): lengths,
 * windows and causality alone must decide which pairs are visible, and backward_queries must have
 * no sums but dq. */
static int refuses_stored(const struct ca_problem *p)
{
    return p->normal.bias || p->normal.mask || p->normal.block_q || p->normal.dslopes ||
           p->normal.dfunction || p->normal.total_q || p->normal.total_kv;
}

/* The bytes of all pairs' gradients. */
static size_t stored_bytes(const struct ca_problem *p)
{
    return p->normal.batch * p->normal.heads * p->normal.seq_kv * ca_round_up(p->normal.seq_q, 4) *
           sizeof(cl_float);
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)p;
    (void)dev;
    return NULL;
}

static size_t work_items(const size_t *values)
{
    return values[BLOCK_OWNED_INDEX] / values[THREAD_M_INDEX] * values[THREADS_N_INDEX];
}

/* The largest number of floats that a work-item may keep, so that the compiler has enough registers
 * left. */
static size_t most_floats(const clattn_device_info *dev)
{
    return ca_has_many_registers(dev) ? 160 : 96;
}

/* Halves tile sizes, first those whose reduction costs least speed, until two groups share the
 * local memory of a GPU that has 64 KB of it, or one group fits all of a smaller one. */
static void fit_local_memory(const struct ca_problem *p, const clattn_device_info *dev,
                             size_t *values)
{
    static const struct {
        size_t index, floor;
    } steps[] = {{STAGE_N_INDEX, 8},        {BLOCK_K_INDEX, 16},   {BLOCK_STREAMED_INDEX, 32},
                 {BLOCK_OWNED_INDEX, 32},   {STAGE_N_INDEX, 4},    {BLOCK_K_INDEX, 8},
                 {BLOCK_STREAMED_INDEX, 8}, {BLOCK_OWNED_INDEX, 8}};
    const size_t most = ca_smaller((size_t)dev->local_memory_bytes, 32768);

    for (size_t n = 0; n < sizeof steps / sizeof *steps; n++)
        while (local_bytes(p, values) > most && values[steps[n].index] > steps[n].floor &&
               (steps[n].index != BLOCK_STREAMED_INDEX ||
                values[BLOCK_STREAMED_INDEX] > values[THREADS_N_INDEX]) &&
               (steps[n].index != BLOCK_OWNED_INDEX ||
                values[BLOCK_OWNED_INDEX] > values[THREAD_M_INDEX]))
            values[steps[n].index] /= 2;
    values[STAGE_N_INDEX] = ca_smaller(values[STAGE_N_INDEX], values[BLOCK_STREAMED_INDEX]);
}

/* Gradients of scores are stored by default up to this many bytes, and up to a share of the
 * device's memory. */
enum { MOST_STORED_BYTES = 1 << 28, STORED_SHARE = 64 };

/* With background copies: a second stage, the longer the better, and all owned rows resident, if as
 * many groups stay resident. Blocks have 128 owned rows if there are enough blocks for nearly all
 * cores, and threads have four streamed rows; each of these was faster on an H200. Gradients of
 * scores are stored. */
static void add_stage(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    static const struct {
        size_t length, resident;
    } choices[] = {{32, 1}, {16, 1}, {32, 0}, {16, 0}};
    const size_t streamed = ca_larger(values[BLOCK_STREAMED_INDEX], 4 * values[THREADS_N_INDEX]);
    const size_t blocks = ca_divide_up(ca_smaller(p->normal.seq_q, p->normal.seq_kv), 128) *
                          p->normal.kv_heads * p->normal.batch;
    const int doubles = values[BLOCK_OWNED_INDEX] >= 32 && values[THREADS_N_INDEX] <= 16 &&
                        values[THREAD_M_INDEX] == 8 && 8 * blocks >= 7 * ca_device_cores(dev);
    size_t with[NUM_TUNABLES];

    if (!ca_copies_in_background(dev))
        return;
    values[STORE_DS_INDEX] = !refuses_stored(p) && stored_bytes(p) <= MOST_STORED_BYTES &&
                             stored_bytes(p) <= dev->global_memory_bytes / STORED_SHARE;
    for (size_t n = 0; n < 2 * sizeof choices / sizeof *choices; n++) {
        memcpy(with, values, sizeof with);
        with[STAGES_INDEX] = 2;
        with[EXP_INDEX] = 1;
        if (with[THREADS_N_INDEX] <= 16 && !keeps_more(p)) /* otherwise ptxas spills registers */
            with[UNROLL_INDEX] = 2;
        if (doubles && n < 2)
            with[BLOCK_OWNED_INDEX] = 128;
        if (p->normal.softcap > 0.0f && p->normal.alibi)
            with[THREAD_M_INDEX] = 4; /* eight rows spilled 274 words of dim 80 */
        if (n % 2 == 0)
            with[BLOCK_STREAMED_INDEX] = ca_smaller(streamed, 128);
        with[BLOCK_K_INDEX] = choices[n / 2].length;
        with[STAGE_N_INDEX] = ca_smaller(ca_larger(choices[n / 2].length, with[THREADS_N_INDEX]),
                                         with[BLOCK_STREAMED_INDEX]);
        with[OWNED_RESIDENT_INDEX] = choices[n / 2].resident;
        if (!reject(p, dev, with) &&
            local_bytes(p, with) <= ca_resident_local_bytes(dev) * work_items(with)) {
            memcpy(values, with, sizeof with);
            return;
        }
    }
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t most_items =
        ca_smaller(256, ca_smaller(dev->max_work_group_size, dev->max_work_item_sizes[0]));
    const size_t longest = ca_larger(p->normal.seq_q, p->normal.seq_kv);
    size_t *const block = &values[BLOCK_OWNED_INDEX], *const threads = &values[THREADS_N_INDEX];

    /* Small problems get smaller blocks, so that every compute unit has some. */
    while (*block > 8 &&
           (*block / 2 >= longest ||
            (*block > 16 && ca_divide_up(ca_smaller(p->normal.seq_q, p->normal.seq_kv), *block) *
                                    p->normal.kv_heads * p->normal.batch <
                                2 * ca_device_cores(dev))))
        *block /= 2;
    values[THREAD_M_INDEX] = *block > 8 && most_floats(dev) > 128 && !keeps_more(p) ? 8 : 4;
    while (*threads < 64 && (register_floats(p, values) > most_floats(dev) ||
                             needed_registers(p, values) > most_registers(dev))) {
        if (*threads == 32 && values[THREAD_M_INDEX] > 4)
            values[THREAD_M_INDEX] = 4;
        else
            *threads *= 2;
    }
    while (work_items(values) > most_items && *block > 8)
        *block /= 2;
    if (*block < values[THREAD_M_INDEX])
        values[THREAD_M_INDEX] = 4;
    while (work_items(values) > most_items && *threads > 4)
        *threads /= 2;
    if (p->normal.dtype != CLATTN_F32)
        values[LOAD_WIDTH_INDEX] = 8;
    fit_local_memory(p, dev, values);
    add_stage(p, dev, values);
}

static const char *more_options(const size_t *values, const clattn_device_info *dev)
{
    return values[STAGES_INDEX] > 1 ? ca_copy_options(dev) : "";
}

static size_t block_owned(const size_t *values)
{
    return values[BLOCK_OWNED_INDEX];
}

static size_t operand_parts(const struct ca_problem *p)
{
    (void)p;
    return 1;
}

#define owned_keys block_owned
#include "families/backward_gpu/backward_gpu_stages.h"

static size_t all_workspace_bytes(const struct ca_problem *p, const size_t *values)
{
    return workspace_bytes(p, values) + (values[STORE_DS_INDEX] ? stored_bytes(p) : 0);
}

const struct ca_family ca_backward_gpu_item = {
    CA_UNIT_OF("backward_gpu", "item"),
    .operation = CLATTN_BACKWARD,
    .source = ca_source_backward_gpu_item,
    OWN_MEMBERS,
    CA_STAGES(BACKWARD_STAGES),
    .options = more_options,
    .workspace_bytes = all_workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .preference = ca_item_preference,
};

const struct ca_family *const ca_backward_gpu[] = {&ca_backward_gpu_item, &ca_backward_gpu_mma,
                                                   &ca_backward_gpu_warpgroup, NULL};

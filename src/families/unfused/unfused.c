/* SPDX-License-Identifier: Apache-2.0 */
/* The family with scores in memory, in three kernels (src/families/unfused/unfused.cl). It computes
 * every problem on every device and is the one that outputs scores. */
#include "families/unfused/unfused.h"
#include "families/family_units.h"
#include "families/registry.h"
#include "families/unfused/unfused_sizes.h"

#define TUNABLES_DEF "families/unfused/unfused.def"
#include "families/expand.h"

static size_t tiles(size_t size, size_t tile)
{
    return size / tile + (size % tile != 0);
}

/* The bytes of a work-item's sums. */
static size_t private_bytes(const struct ca_problem *p, const size_t *values)
{
    (void)p;
    return values[THREAD_N_INDEX] * values[THREAD_M_INDEX] * sizeof(cl_float);
}

static struct ca_ndrange scores_ndrange(const struct ca_problem *p, const size_t *values)
{
    const size_t tile_x = values[THREADS_N_INDEX] * values[THREAD_N_INDEX];
    const size_t tile_y = values[THREADS_M_INDEX] * values[THREAD_M_INDEX] * values[SWEEPS_INDEX];
    const size_t key_tiles = p->normal.seq_kv == 0 ? 1 : tiles(p->normal.seq_kv, tile_x);

    return ca_groups(key_tiles * tiles(p->normal.seq_q, tile_y) * p->normal.batch * p->normal.heads,
                     values[THREADS_N_INDEX] * values[THREADS_M_INDEX]);
}

static struct ca_ndrange softmax_ndrange(const struct ca_problem *p, const size_t *values)
{
    return ca_groups(p->normal.batch * p->normal.heads * p->normal.seq_q,
                     values[SOFTMAX_THREADS_INDEX]);
}

static struct ca_ndrange values_ndrange(const struct ca_problem *p, const size_t *values)
{
    const size_t tile_x = values[THREADS_N_INDEX] * values[THREAD_N_INDEX];
    const size_t tile_y = values[THREADS_M_INDEX] * values[THREAD_M_INDEX];

    return ca_groups(tiles(p->normal.dim_v, tile_x) * tiles(p->normal.seq_q, tile_y) *
                         p->normal.batch * p->normal.heads,
                     values[THREADS_N_INDEX] * values[THREADS_M_INDEX]);
}

/* The bytes of all scores; 0 if size_t cannot count them. At least one float, so that the kernels
 * have a workspace even where there are no keys. */
static size_t scores_bytes(const struct ca_problem *p)
{
    const size_t sizes[] = {p->normal.batch, p->normal.heads, p->normal.seq_q, p->normal.seq_kv};
    size_t bytes = sizeof(cl_float);

    for (size_t n = 0; n < 4; n++) {
        if (sizes[n] == 0)
            return sizeof(cl_float);
        if (bytes > SIZE_MAX / sizes[n])
            return 0;
        bytes *= sizes[n];
    }
    return bytes;
}

const char *ca_unfused_unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    const size_t bytes = scores_bytes(p);

    if (p->normal.total_q || p->normal.total_kv)
        return CA_READS_NO_STARTS;
    if (bytes == 0 || bytes > dev->max_allocation_bytes)
        return "the scores (batch * heads * seq_q * seq_kv floats) exceed the device's largest "
               "allocation";
    return NULL;
}

size_t ca_unfused_workspace_bytes(const struct ca_problem *p, const size_t *values)
{
    (void)values;
    return p->normal.scores == CLATTN_SCORES_WEIGHTS ? 0 : scores_bytes(p);
}

/* One work-item forms a group, with vectors that fill the device's registers: on CPUs barriers
 * between work-items cost more than the arithmetic. K is transposed once for all queries of SWEEPS
 * tiles, if its tile takes whole rows. */
static void adapt_cpu(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t width = dev->vector_width_float;

    values[THREADS_N_INDEX] = values[THREADS_M_INDEX] = values[SOFTMAX_THREADS_INDEX] = 1;
    values[VECTOR_WIDTH_INDEX] = width >= 16 ? 16 : width >= 8 ? 8 : 4;
    values[THREAD_N_INDEX] = 2 * values[VECTOR_WIDTH_INDEX];
    values[THREAD_M_INDEX] = p->normal.seq_q > 4 ? 8 : 4;
    values[SWEEPS_INDEX] = 16;
    values[BLOCK_K_INDEX] = 32;
    while (values[BLOCK_K_INDEX] < p->normal.dim_qk && values[BLOCK_K_INDEX] < 128)
        values[BLOCK_K_INDEX] *= 2;
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    size_t limit = dev->max_work_group_size;

    if (limit > dev->max_work_item_sizes[0])
        limit = dev->max_work_item_sizes[0];
    if (dev->type & CL_DEVICE_TYPE_CPU)
        adapt_cpu(p, dev, values);
    while (values[THREADS_M_INDEX] > 1 &&
           values[THREADS_M_INDEX] / 2 * values[THREAD_M_INDEX] >= p->normal.seq_q) {
        values[THREADS_M_INDEX] /= 2; /* few queries: fewer rows, */
        if (values[THREADS_N_INDEX] < 32)
            values[THREADS_N_INDEX] *= 2; /* but more keys */
    }
    while (values[THREADS_N_INDEX] * values[THREADS_M_INDEX] > limit)
        values[values[THREADS_N_INDEX] > values[THREADS_M_INDEX] ? THREADS_N_INDEX
                                                                 : THREADS_M_INDEX] /= 2;
    while (values[SOFTMAX_THREADS_INDEX] > limit)
        values[SOFTMAX_THREADS_INDEX] =
            values[SOFTMAX_THREADS_INDEX] > 16 ? values[SOFTMAX_THREADS_INDEX] / 2 : 1;
    while (values[BLOCK_K_INDEX] > 8 && reject(p, dev, values))
        values[BLOCK_K_INDEX] /= 2; /* local memory: the only limit left */
}

static int preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    (void)dev;
    return p->normal.scores == CLATTN_SCORES_NONE ? 50 : 95;
}

static const struct ca_family family = {
    CA_FAMILY("unfused"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_unfused,
    CA_TUNABLES(tunables),
    CA_STAGES({"scores", CA_UNFUSED_SCORES_ARGUMENTS, scores_ndrange},
              {"softmax", CA_UNFUSED_SOFTMAX_ARGUMENTS, softmax_ndrange},
              {"values", CA_UNFUSED_VALUES_ARGUMENTS, values_ndrange}),
    .unsupported = ca_unfused_unsupported,
    .adapt = adapt,
    .reject = reject,
    .workspace_bytes = ca_unfused_workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .preference = preference,
};

const struct ca_family *const ca_unfused[] = {&family, NULL};

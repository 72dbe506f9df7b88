/* SPDX-License-Identifier: Apache-2.0 */
/* projection_gpu_warpgroup: matrix products of projections by wgmma, of NVIDIA's Hopper; see
 * src/families/projection_gpu/projection_gpu_warpgroup.cl. */
#include "families/family_units.h"
#include "families/fragments.h"
#include "families/projection_gpu/projection_gpu_mma_sizes.h"
#include "families/registry.h"
#include "problem/layout.h"

static size_t work_items(const size_t *values);
static size_t register_words(const struct ca_problem *p, const size_t *values);
static int spills(const struct ca_problem *p, const size_t *values);

static const size_t INSTRUCTION = CA_WGMMA;
enum { BLOCK_K = 64, COPIES = 0, SUB_GROUPS_N = 1 };
#define SUB_GROUPS_M SUB_GROUPS
#define BLOCK_M (16 * SUB_GROUPS)

#define TUNABLES_DEF "families/projection_gpu/projection_gpu_warpgroup.def"
#define TUNABLES_UNIT UNIT_WARPGROUP
#include "families/expand.h"
#include "families/fragment_unit.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

enum { SUB_GROUP = 32, ROWS = 16, STAGE = 64, PIECE = 8 };

static size_t work_items(const size_t *values)
{
    return SUB_GROUP * values[SUB_GROUPS_INDEX];
}

static size_t block_m(const size_t *values)
{
    return ROWS * values[SUB_GROUPS_INDEX];
}

/* The words that a work-item keeps in registers: its sums. */
static size_t register_words(const struct ca_problem *p, const size_t *values)
{
    (void)p;
    return ROWS * values[BLOCK_N_INDEX] / SUB_GROUP;
}

static int spills(const struct ca_problem *p, const size_t *values)
{
    const size_t addresses = 48;

    return register_words(p, values) + addresses >
           ca_wgmma_registers(work_items(values), values[RESIDENT_GROUPS_INDEX]);
}

#include "families/projection_gpu/projection_gpu_stages.h"

/* ---- the family ------------------------------------------------------------------------------ */

/* The largest number of parts of the depth, each at least 256 long. */
static size_t most_splits(const struct ca_problem *p)
{
    return ca_larger(1, ca_smaller(32, ca_projection_depth(p) / 256));
}

/* The number of parts of the depth for f32, which is six times as long. Tiles keep their size, and
 * work-groups come in whole waves. One part more must save a tenth of the time, since sums pass
 * through memory. */
static size_t splits_of_f32(const struct ca_problem *p, const clattn_device_info *dev, size_t tiles)
{
    const size_t cores = ca_device_cores(dev);
    size_t best = 1, best_share = 0;

    for (size_t splits = 1; tiles > 0 && splits <= most_splits(p); splits *= 2) {
        const size_t groups = tiles * splits;
        const size_t share = groups * 100 / (ca_divide_up(groups, cores) * cores);
        if (share >= best_share + 10) {
            best = splits;
            best_share = share;
        }
    }
    return best;
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const int is_f32 = p->normal.projection.dtype == CLATTN_F32;
    const size_t cores = ca_device_cores(dev);
    const size_t enough = is_f32 ? cores / 2 / most_splits(p) : cores;
    size_t *const columns = &values[BLOCK_N_INDEX], *const groups = &values[SUB_GROUPS_INDEX];

    values[EMULATE_INDEX] = !ca_has_wgmma(dev);
    if (dev->local_memory_bytes <
        local_bytes(p, values)) { /* other groups' products hide a stage's copies */
        values[BLOCK_N_INDEX] = 128;
        values[STAGES_INDEX] = 1;
        values[RESIDENT_GROUPS_INDEX] = 2;
    }
    if (reject(p, dev, values) || block_m(values) / 2 >= ca_projection_rows(p) ||
        num_tiles(p, values) < enough || values[EMULATE_INDEX])
        *groups = 4;
    while (*columns > 64 && (reject(p, dev, values) || *columns / 2 >= ca_projection_columns(p) ||
                             num_tiles(p, values) < enough))
        *columns /= 2;
    values[SPLIT_K_INDEX] = is_f32 ? splits_of_f32(p, dev, num_tiles(p, values))
                                   : ca_projection_splits(p, dev, num_tiles(p, values));
}

/* Returns why x or w cannot be copied in their layout; NULL if they can. */
static const char *layout_refusal(const clattn_projection_problem *p)
{
    if (p->x_dim % PIECE || (p->x_heads > 1 && p->x_dim % STAGE))
        return "heads of x are no whole stages of 64, which are copied in pieces of 8 elements";
    if (!ca_layout_in_pieces(&p->x, 3, PIECE))
        return "x does not lie in pieces of 8 elements along the depth";
    if (!(ca_layout_in_pieces(&p->w, 3, PIECE) && p->y_dim % PIECE == 0) &&
        !ca_layout_in_pieces(&p->w, 1, PIECE))
        return "w does not lie in pieces of 8 elements along its columns or the depth";
    return NULL;
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    const char *why = ca_mma_refusal(p);

    if (!why) /* parts of f32 already have the layout of tiles */
        why = p->normal.projection.dtype == CLATTN_F32 ? ca_f32_parts_refusal(dev)
                                                       : layout_refusal(&p->normal.projection);
    if (why)
        return why;
    if (ca_instruction_of(dev) != 0 && !ca_has_wgmma(dev))
        return "the device has another matrix instruction";
    return refusal_of_suggested(p, dev);
}

/* It is never chosen where it would be emulated, which is for tests. It is preferred to
 * projection_gpu_mma, but not for few rows, since a warpgroup has 64. */
static int preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    if (!ca_has_wgmma(dev))
        return CA_ONLY_IF_FORCED;
    return preference_with(p, dev, ca_projection_rows(p) > 32 ? 97 : 90);
}

const struct ca_family ca_projection_gpu_warpgroup = {
    CA_UNIT_OF("projection_gpu", "warpgroup"),
    .operation = CLATTN_PROJECTION,
    .source = ca_source_projection_gpu_warpgroup,
    OWN_MEMBERS,
    CA_STAGES(PROJECTION_MMA_STAGES("projection_gpu_warpgroup")),
    .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .ptx_target = ptx_target,
    .copies_pieces = 1,
    .preference = preference,
};

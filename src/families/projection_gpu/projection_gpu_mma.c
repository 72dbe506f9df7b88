/* SPDX-License-Identifier: Apache-2.0 */
/* projection_gpu_mma: matrix products of projections by matrix instructions; see
 * src/families/projection_gpu/projection_gpu_mma.cl. */
#include "families/family_units.h"
#include "families/fragments.h"
#include "families/projection_gpu/projection_gpu_mma_sizes.h"
#include "families/registry.h"
#include "problem/layout.h"

static size_t work_items(const size_t *values);
static size_t register_words(const struct ca_problem *p, const size_t *values);
static int are_whole_fragments(const size_t *values);
static int lies_in_pieces(const struct ca_problem *p, size_t stage);

#define TUNABLES_DEF "families/projection_gpu/projection_gpu_mma.def"
#define TUNABLES_UNIT UNIT_MMA
#include "families/expand.h"
#include "families/fragment_unit.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

static size_t sub_groups(const size_t *values)
{
    return values[SUB_GROUPS_M_INDEX] * values[SUB_GROUPS_N_INDEX];
}

static size_t work_items(const size_t *values)
{
    return fragment_of(values)->lanes * sub_groups(values);
}

static int are_whole_fragments(const size_t *values)
{
    const struct ca_fragment *f = fragment_of(values);

    return values[BLOCK_M_INDEX] % (values[SUB_GROUPS_M_INDEX] * f->queries) == 0 &&
           values[BLOCK_N_INDEX] % (values[SUB_GROUPS_N_INDEX] * f->others * f->others_at_once) ==
               0 &&
           values[BLOCK_K_INDEX] % f->depth == 0;
}

/* The words of a work-item: its sums, the operands of one step, and its loads for the next stage.
 * */
static size_t register_words(const struct ca_problem *p, const size_t *values)
{
    const struct ca_fragment *f = fragment_of(values);
    const size_t rows = values[BLOCK_M_INDEX], columns = values[BLOCK_N_INDEX];
    const size_t sums = rows * columns / work_items(values);
    const size_t columns_at_once =
        values[COPIES_INDEX] ? columns / values[SUB_GROUPS_N_INDEX] : f->others_at_once * f->others;
    const size_t operands = (rows / values[SUB_GROUPS_M_INDEX] + columns_at_once) * f->depth *
                            f->replicas / 2 / f->lanes;
    const size_t loads = values[COPIES_INDEX]
                             ? operands
                             : values[BLOCK_K_INDEX] * (rows + columns) / 2 / work_items(values);

    (void)p;
    return sums + operands + loads;
}

/* Returns whether x and w can be copied in pieces of this many elements, in stages of the depth. */
static int lies_in_pieces(const struct ca_problem *p, size_t stage)
{
    enum { PIECE = 8 };

    if (p->normal.projection.dtype == CLATTN_F32) /* parts do */
        return 1;
    return p->normal.projection.x_dim % PIECE == 0 &&
           (p->normal.projection.x_heads == 1 || p->normal.projection.x_dim % stage == 0) &&
           ca_layout_in_pieces(&p->normal.projection.x, 3, PIECE) &&
           ((ca_layout_in_pieces(&p->normal.projection.w, 3, PIECE) &&
             p->normal.projection.y_dim % PIECE == 0) ||
            ca_layout_in_pieces(&p->normal.projection.w, 1, PIECE));
}

static size_t block_m(const size_t *values)
{
    return values[BLOCK_M_INDEX];
}

#include "families/projection_gpu/projection_gpu_stages.h"

/* ---- the family ------------------------------------------------------------------------------ */

/* Chooses the smallest tile, of the instruction that the device has, or of the one that is
 * emulated. */
static void take_least(const clattn_device_info *dev, size_t *values)
{
    const size_t own = ca_instruction_of(dev);

    values[INSTRUCTION_INDEX] = own ? own : CA_MMA_SYNC;
    values[EMULATE_INDEX] = own == 0;
    const struct ca_fragment *const f = fragment_of(values);
    values[BLOCK_M_INDEX] = ca_larger(16, f->queries);
    values[BLOCK_N_INDEX] = ca_larger(16, f->others * f->others_at_once);
    values[BLOCK_K_INDEX] = 16;
    values[SUB_GROUPS_M_INDEX] = values[SUB_GROUPS_N_INDEX] = 1;
    values[STAGES_INDEX] = values[GROUP_M_INDEX] = values[SPLIT_K_INDEX] = 1;
    values[COPIES_INDEX] = 0;
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    const char *why = ca_mma_refusal(p);
    size_t least[NUM_TUNABLES];

    if (!why && p->normal.projection.dtype == CLATTN_F32)
        why = ca_f32_parts_refusal(dev);
    if (why)
        return why;
    take_least(dev, least);
    return reject(p, dev, least);
}

/* Halves the tile's rows or columns. If sub-groups then have less than a fragment, their number on
 * that side is halved; they divide the other side if it has enough fragments. Returns 0 if nothing
 * can be halved. */
static int halve(size_t *values, int rows)
{
    const struct ca_fragment *f = fragment_of(values);
    const size_t units[] = {f->others * f->others_at_once, f->queries};
    size_t *const block = &values[rows ? BLOCK_M_INDEX : BLOCK_N_INDEX];
    size_t *const groups = &values[rows ? SUB_GROUPS_M_INDEX : SUB_GROUPS_N_INDEX];
    const size_t other_block = values[rows ? BLOCK_N_INDEX : BLOCK_M_INDEX];
    size_t *const other_groups = &values[rows ? SUB_GROUPS_N_INDEX : SUB_GROUPS_M_INDEX];

    if (*block / 2 < ca_larger(16, units[rows])) /* the least candidate is 16 */
        return 0;
    *block /= 2;
    if (*block >= *groups * units[rows])
        return 1;
    *groups /= 2;
    if (*other_groups < 4 && other_block >= *other_groups * 2 * units[!rows])
        *other_groups *= 2;
    return 1;
}

/* Tiles of 128 x 256 read the least from the caches, if every multiprocessor gets one and local
 * memory holds three stages. Longer stages need fewer instructions beside the products; with f32
 * parts the longest would spill registers. */
static int takes_wide_tiles(const struct ca_problem *p, const clattn_device_info *dev,
                            size_t *values)
{
    static const struct {
        size_t depth, count;
    } stages[] = {{64, 3}, {32, 4}, {32, 3}};

    values[BLOCK_N_INDEX] = 256;
    values[SUB_GROUPS_N_INDEX] = 4;
    if (ca_projection_columns(p) <= 128 || ca_projection_rows(p) <= 64 ||
        num_tiles(p, values) < ca_device_cores(dev) ||
        ca_projection_splits(p, dev, num_tiles(p, values)) > 1)
        return 0;
    for (size_t n = p->normal.projection.dtype == CLATTN_F32; n < sizeof stages / sizeof *stages;
         n++) {
        values[BLOCK_K_INDEX] = stages[n].depth;
        values[STAGES_INDEX] = stages[n].count;
        if (!reject(p, dev, values))
            return 1;
    }
    return 0;
}

/* Chooses the tile's columns, and the stages that are copied in the background. */
static void choose_stages(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    if (takes_wide_tiles(p, dev, values))
        return;
    values[BLOCK_N_INDEX] = 128;
    values[SUB_GROUPS_N_INDEX] = 2;
    values[BLOCK_K_INDEX] = lies_in_pieces(p, 64) ? 64 : 32;
    values[STAGES_INDEX] = 3;
    while (local_bytes(p, values) > dev->local_memory_bytes && values[STAGES_INDEX] > 2)
        values[STAGES_INDEX]--;
    if (local_bytes(p, values) > dev->local_memory_bytes)
        values[BLOCK_K_INDEX] = 32;
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t own = ca_instruction_of(dev);
    size_t *const rows = &values[BLOCK_M_INDEX], *const columns = &values[BLOCK_N_INDEX];

    values[EMULATE_INDEX] = own == 0;
    if (own != 0) {
        values[INSTRUCTION_INDEX] = own;
    } else { /* small blocks: speed does not matter, and tests have small problems */
        *rows = 32;
        *columns = 64;
        values[SUB_GROUPS_M_INDEX] = 1;
        values[BLOCK_K_INDEX] = 16;
    }
    if (own == CA_DPAS_8 || own == CA_DPAS_16) /* its sub-groups have few lanes */
        values[SUB_GROUPS_M_INDEX] = values[SUB_GROUPS_N_INDEX] = 4;
    /* a longer stage would spill the elements loaded ahead */
    if (own == CA_MMA_SYNC || own == CA_WMMA)
        values[BLOCK_K_INDEX] = 16;
    values[COPIES_INDEX] = own == CA_MMA_SYNC && lies_in_pieces(p, 32);
    if (values[COPIES_INDEX])
        choose_stages(p, dev, values);
    while (*rows / 2 >= ca_projection_rows(p) && halve(values, 1))
        ;
    while (*columns / 2 >= ca_projection_columns(p) && halve(values, 0))
        ;
    while (*rows > 64 && *columns > 64 && num_tiles(p, values) < ca_device_cores(dev)) {
        halve(values, 1);
        halve(values, 0);
    }
    values[SPLIT_K_INDEX] = ca_projection_splits(p, dev, num_tiles(p, values));
    if (own == CA_MMA_SYNC && values[SPLIT_K_INDEX] > 1 && *rows > 64 && *columns > 64) {
        halve(values, 0); /* at 128 x 128 the registers for splits would spill */
        values[SPLIT_K_INDEX] = ca_projection_splits(p, dev, num_tiles(p, values));
    }
    while (reject(p, dev, values) && values[BLOCK_K_INDEX] > 16)
        values[BLOCK_K_INDEX] /= 2;
    if (reject(p, dev, values))
        values[STAGES_INDEX] = values[COPIES_INDEX] ? 2 : 1;
    while (reject(p, dev, values) && (halve(values, *rows >= *columns) || halve(values, 0)))
        ;
    if (reject(p, dev, values))
        take_least(dev, values);
}

static int preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    return preference_with(p, dev, ca_mma_preference(p, dev));
}

const struct ca_family ca_projection_gpu_mma = {
    CA_UNIT_OF("projection_gpu", "mma"),
    .operation = CLATTN_PROJECTION,
    .source = ca_source_projection_gpu_mma,
    OWN_MEMBERS,
    CA_STAGES(PROJECTION_MMA_STAGES("projection_gpu_mma")),
    .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .options = more_options,
    .copies_pieces = 1,
    .preference = preference,
};

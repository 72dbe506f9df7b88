/* SPDX-License-Identifier: Apache-2.0 */
/* The forward for few queries and many keys by pairs of bf16: the keys of a kv head are split over
 * groups. UNIT=amx multiplies them by tiles of AMX, also as sums of parts; UNIT=pairs by the instruction for pairs.
 * src/families/split_cpu/split_cpu.cl says how. */
#include "base/sizes.h"
#include "families/family.h"
#include "families/family_units.h"
#include "families/operand_sizes.h"
#include "families/registry.h"
#include "families/split.h"

enum { SIMD_WIDTH = 16, KV_HEADS = 1, STAGES_K = 1 };

#define TUNABLES_DEF "families/split_cpu/split_cpu_pairs.def"
#define TUNABLES_UNIT UNIT_AMX
#define PRIVATE_SIZES_FILE "families/split_cpu/split_cpu_sizes.h"
#include "families/expand.h"
#undef TUNABLES_UNIT
#define TUNABLES_UNIT UNIT_PAIRS
#define TUNABLES_TABLE tunables_of_pairs
#include "families/table.h"

#include "families/split_cpu/split_cpu_stages.h"

/* Why a unit does not take p, whose operands it can multiply. */
static const char *unsupported_by_unit(size_t unit, const struct ca_problem *p,
                                       const clattn_device_info *dev)
{
    /* The least memory that any choice of tunables needs. */
    const size_t least[NUM_TUNABLES] = {[UNIT_INDEX] = unit,
                                        [BLOCK_M_INDEX] = 16,
                                        [BLOCK_N_INDEX] = 32,
                                        [PREFETCH_TILES_INDEX] = 0,
                                        [SPLIT_K_INDEX] = 1};

    if (p->normal.scores != CLATTN_SCORES_NONE)
        return "the score matrix is wanted, which this family never forms";
    return reject(p, dev, least);
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    const char *why = ca_bf16_parts_refusal(p);

    return why ? why : unsupported_by_unit(UNIT_AMX, p, dev);
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t rows = ca_split_rows_per_kv_head(p);

    values[BLOCK_M_INDEX] = rows > 64 ? 128 : rows > 32 ? 64 : rows > 16 ? 32 : 16;
    values[BLOCK_N_INDEX] = rows > 64 ? 128 : 64; /* the sums of many rows leave L1 between tiles */
    values[SPLIT_K_INDEX] = 1;
    while (values[SPLIT_K_INDEX] < 128 && groups(p, values) < (size_t)8 * dev->compute_units &&
           p->normal.seq_kv / values[SPLIT_K_INDEX] >= 512)
        values[SPLIT_K_INDEX] *= 2;
    while (reject(p, dev, values) && values[SPLIT_K_INDEX] > 1)
        values[SPLIT_K_INDEX] /= 2;
    while (reject(p, dev, values) && values[BLOCK_M_INDEX] > 16)
        values[BLOCK_M_INDEX] /= 2;
    if (reject(p, dev, values)) /* the least that unsupported() has found to fit */
        values[BLOCK_N_INDEX] = 32;
}

/* Up to 8 rows leave half of a tile idle, and UNIT=vector reads keys faster: AMX was measured with
 * 4 and 16 rows. */
static int preference_where_fast(const struct ca_problem *p)
{
    if (!ca_is_for_split(p))
        return 31;
    return ca_split_rows_per_kv_head(p) > 8 ? 93 : 90; /* fused_cpu UNIT=pairs returns 91 */
}

/* ---- split_cpu UNIT=amx ------------------------------------------------------------------------------- */

/* Sums of parts take several products: UNIT=vector was as fast with 16 rows, a third as fast with 128. */
static int preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    const int in_parts = ca_bf16_pairs_or_bytes_refusal(p) != NULL;

    return ca_amx_preference_with(
        dev, in_parts && ca_split_rows_per_kv_head(p) <= 32 ? 29 : preference_where_fast(p));
}

const struct ca_family ca_split_cpu_amx = {
    CA_UNIT_OF("split_cpu", "amx"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_split_cpu,
    OWN_MEMBERS,
    CA_STAGES(SPLIT_STAGES),
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .options = ca_amx_options,
    .refused_by_system = ca_amx_refused_by_system,
    .preference = preference,
};

/* ---- split_cpu UNIT=pairs ------------------------------------------------------------------------------- */

static const char *unsupported_by_pairs(const struct ca_problem *p, const clattn_device_info *dev)
{
    const char *why = ca_bf16_pairs_or_bytes_refusal(p);

    return why ? why : unsupported_by_unit(UNIT_PAIRS, p, dev);
}

static int preference_of_pairs(const struct ca_problem *p, const clattn_device_info *dev)
{
    return ca_bf16_pairs_preference_with(dev, preference_where_fast(p));
}

const struct ca_family ca_split_cpu_pairs = {
    CA_UNIT_OF("split_cpu", "pairs"),
    .operation = CLATTN_FORWARD,
    .source = ca_source_split_cpu,
    CA_TUNABLES(tunables_of_pairs),
    CA_STAGES(SPLIT_STAGES),
    .unsupported = unsupported_by_pairs,
    .adapt = adapt,
    .reject = reject,
    .workspace_bytes = workspace_bytes,
    .private_bytes = private_bytes,
    .options = ca_bf16_pairs_options,
    .preference = preference_of_pairs,
};

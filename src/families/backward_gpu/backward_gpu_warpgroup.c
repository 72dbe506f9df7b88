/* SPDX-License-Identifier: Apache-2.0 */
/* backward_gpu UNIT=warpgroup: gradients by wgmma, of NVIDIA's Hopper; see backward_gpu_warpgroup.cl. */
#include "base/sizes.h"
#include "device/capacity.h"
#include "families/family_units.h"
#include "families/fragment_sizes.h"
#include "families/fragments.h"
#include "families/registry.h"
#include <string.h>

/* The number of work-items of an emulated group: without optimisation, one takes up to 40 KB of a
 * thread's stack on PoCL. */
enum { MOST_EMULATED = 128 };

static size_t work_items(const size_t *values);
static size_t register_words(const struct ca_problem *p, const size_t *values);
static int spills(const struct ca_problem *p, const size_t *values);

static const size_t INSTRUCTION = CA_WGMMA;
enum { DIM_GROUPS = 1, M_FRAGMENTS = 1 };

#define TUNABLES_DEF "families/backward_gpu/backward_gpu_warpgroup.def"
#define TUNABLES_UNIT UNIT_WARPGROUP
#define SIZES_FILE "families/backward_gpu/backward_gpu_mma_sizes.h"
#include "families/expand.h"
#include "families/fragment_unit.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

enum { SUB_GROUP = 32, ROWS = 16, WARPGROUP = 4, LEAST_STREAMED = 32 };

static int has_producer(const size_t *values)
{
    return values[PRODUCER_INDEX] && !values[EMULATE_INDEX];
}

static size_t work_items(const size_t *values)
{
    return SUB_GROUP * (values[SUB_GROUPS_INDEX] + (has_producer(values) ? WARPGROUP : 0));
}

static size_t block_owned(const size_t *values)
{
    return ROWS * values[SUB_GROUPS_INDEX];
}

/* The words that a work-item keeps in registers: sums of `dims` dims, and two products. */
static size_t words(size_t dims, const size_t *values)
{
    return ROWS * (dims + 2 * values[BLOCK_STREAMED_INDEX]) / SUB_GROUP;
}

/* The words of a work-item of backward_keys, with the sums of dk and dv. */
static size_t register_words(const struct ca_problem *p, const size_t *values)
{
    return words(p->normal.dim_qk + p->normal.dim_v, values);
}

/* The register pressure, fitted to programs that ptxas spilled. Added are addresses, an address in
 * a mask and a bias for each pair, and values that other options keep. Registers alone limit the
 * resident groups of backward_keys. */
static int spills(const struct ca_problem *p, const size_t *values)
{
    const size_t product = ROWS * values[BLOCK_STREAMED_INDEX] / SUB_GROUP, addresses = 36;
    const size_t pairs = (p->normal.mask != 0) + (p->normal.bias != 0);
    /* With tiles of 64 streamed rows one of ALiBi, dropout and, with a producer, a packed batch was seen to fit. */
    const size_t few = ca_has_plain_scores(p) && product <= 32 ? 7 : 16;
    /* Softcap's derivatives; with a producer tiles of more streamed rows were seen to spill. */
    const size_t slopes = p->normal.softcap == 0.0f               ? 0
                          : has_producer(values) && product <= 32 ? 7
                                                                  : 16;
    const size_t function = p->normal.score_function ? 32 : 0; /* its positions and operands */
    const size_t scores = slopes + function + (p->normal.alibi ? few : 0) +
                          (p->normal.dropout == 0.0f               ? 0
                           : has_producer(values) && product <= 32 ? 0 /* the producer draws */
                                                                   : 16);
    const size_t packed = p->normal.total_q > 0 || p->normal.total_kv > 0;
    const size_t places =
        (p->normal.block_q > 0 ? 32 : 0) + (!packed                                 ? 0
                                            : has_producer(values) && product <= 32 ? 4
                                                                                    : 32);
    const size_t parts = p->normal.dtype == CLATTN_F32 ? 24 : 0; /* of weights */
    const size_t more = pairs * (2 * product + 16) + scores + places + addresses + parts;

    if (has_producer(values)) /* the producer holds most of the addresses */
        return register_words(p, values) + more - addresses + 28 >
               ca_wgmma_computing_registers(values[SUB_GROUPS_INDEX]) -
                   (p->normal.block_q > 0 || p->normal.dropout > 0.0f ? 8 : 0);
    return register_words(p, values) + more > ca_wgmma_registers(work_items(values), 1) ||
           words(p->normal.dim_qk, values) + more >
               ca_wgmma_registers(work_items(values), values[RESIDENT_GROUPS_INDEX]);
}

/* ---- the family ------------------------------------------------------------------------------ */

/* Returns whether each multiprocessor has a group in both passes. */
static int fills(const struct ca_problem *p, const clattn_device_info *dev, const size_t *values)
{
    const size_t owned = block_owned(values),
                 heads = ca_smaller(p->normal.heads, p->normal.kv_heads);

    return ca_divide_up(ca_smaller(p->normal.seq_q, p->normal.seq_kv), owned) * heads *
               p->normal.batch >=
           ca_device_cores(dev);
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values)
{
    values[EMULATE_INDEX] = !ca_has_wgmma(dev);
    if (values[EMULATE_INDEX])
        values[EXP_INDEX] = 2;
    if (ca_larger(p->normal.dim_qk, p->normal.dim_v) == 64 && !values[EMULATE_INDEX])
        values[BLOCK_STREAMED_INDEX] = 128; /* 257 TFLOP/s on an H100, with 64 rows 239 */
    if (!values
            [EMULATE_INDEX]) { /* dim 128, on an H200: 429 TFLOP/s, without a producer 333; dim 64: 347, 329 */
        size_t with[NUM_TUNABLES];
        memcpy(with, values, sizeof with);
        with[SUB_GROUPS_INDEX] = 2 * WARPGROUP;
        with[STAGES_INDEX] = 3;
        with[PRODUCER_INDEX] = with[RESIDENT_GROUPS_INDEX] = 1;
        if (p->normal.dtype ==
            CLATTN_F32) { /* dim 64, on an H200: 70 TFLOP/s, with one warpgroup 55 */
            with[BLOCK_STREAMED_INDEX] = 64;
            with[STAGES_INDEX] = 2;
            with[PRODUCER_INDEX] = 0;
        }
        if (reject(p, dev, with) && with[BLOCK_STREAMED_INDEX] > 64 && p->normal.block_q == 0)
            with[BLOCK_STREAMED_INDEX] = 64;
        if (fills(p, dev, with) && !reject(p, dev, with)) {
            memcpy(values, with, sizeof with);
            return;
        }
    }
    while (reject(p, dev, values) && values[RESIDENT_GROUPS_INDEX] > 1)
        values[RESIDENT_GROUPS_INDEX]--;
    while (reject(p, dev, values) && values[BLOCK_STREAMED_INDEX] > LEAST_STREAMED)
        values[BLOCK_STREAMED_INDEX] /= 2;
    if (reject(p, dev, values))
        values[STAGES_INDEX] = 1;
}

static int takes_dim(size_t dim)
{
    return dim == 64 || dim == 128;
}

static const char *unsupported(const struct ca_problem *p, const clattn_device_info *dev)
{
    const char *why = ca_mma_gradient_refusal(p);

    if (why)
        return why;
    if (ca_instruction_of(dev) != 0 && !ca_has_wgmma(dev))
        return "the device has another matrix instruction";
    if (!takes_dim(p->normal.dim_qk) || !takes_dim(p->normal.dim_v))
        return "dims are not 64 or 128, rows of a tile that the tensor cores read and whose sums "
               "registers hold";
    if (p->normal.dbias)
        return "the sums of a bias need q and do, of whole tiles, at the same time";
    return refusal_of_suggested(p, dev);
}

#define owned_keys block_owned
#define operand_parts ca_operand_parts
#include "families/backward_gpu/backward_gpu_stages.h"
#include "families/backward_gpu/backward_gpu_parts.h"

/* It is never chosen where it would be emulated, which is for tests. It is preferred to UNIT=mma.
 * */
static int preference(const struct ca_problem *p, const clattn_device_info *dev)
{
    if (!ca_has_wgmma(dev))
        return CA_ONLY_IF_FORCED;
    return preference_with(
        p, dev, ca_larger(p->normal.seq_q, p->normal.seq_kv) >= WARPGROUP * ROWS ? 97 : 80);
}

const struct ca_family ca_backward_gpu_warpgroup = {
    CA_UNIT_OF("backward_gpu", "warpgroup"),
    .operation = CLATTN_BACKWARD,
    .source = ca_source_backward_gpu_warpgroup,
    OWN_MEMBERS,
    CA_STAGES(BACKWARD_PARTS, BACKWARD_STAGES),
    .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .ptx_target = ptx_target,
    .preference = preference,
};

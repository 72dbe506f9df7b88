/* fused_tiles: forward attention for GPUs; see cl/fused_tiles.cl. */
#include "family.h"
#include <string.h>

static size_t register_floats(const clattn_problem *p, const size_t *values);
static size_t local_bytes(const clattn_problem *p, const size_t *values);

#define TUNABLES_DEF "tunables/fused_tiles.def"
#include "tunables/expand.h"

extern const char ca_source_fused_tiles[];

static size_t smaller(size_t x, size_t y)
{
    return x < y ? x : y;
}

static size_t larger(size_t x, size_t y)
{
    return x > y ? x : y;
}

static size_t round_up(size_t x, size_t multiple)
{
    return (x + multiple - 1) / multiple * multiple;
}

/* Output dims that a work-item holds for each of its rows. */
static size_t item_dims(const clattn_problem *p, size_t lanes)
{
    return round_up(p->dim_v, 4 * lanes) / lanes;
}

/* What a work-item keeps in registers throughout: its scores and its outputs. */
static size_t register_floats(const clattn_problem *p, const size_t *values)
{
    const size_t lanes = values[LANES_INDEX];

    return values[ROWS_INDEX] * (values[BLOCK_KV_INDEX] / lanes + item_dims(p, lanes));
}

/* Follows the layout of local memory in cl/fused_tiles.cl. */
static size_t local_bytes(const clattn_problem *p, const size_t *values)
{
    const size_t block_q = values[BLOCK_Q_INDEX], lanes = values[LANES_INDEX];
    const size_t padding = values[PADDING_INDEX], stage_v = values[STAGE_V_INDEX];
    const size_t stage = smaller(values[STAGE_D_INDEX], round_up(p->dim_qk, 4));
    const int resident = values[Q_RESIDENT_INDEX] != 0, share = values[SHARE_KV_INDEX] != 0;
    const size_t q_columns = resident ? round_up(p->dim_qk, stage) : stage;
    const size_t q_floats = block_q * (q_columns + padding);
    const size_t k_end = q_floats + values[BLOCK_KV_INDEX] * (stage + padding);
    const size_t v_begin = !share ? k_end : resident ? q_floats : 0;
    const size_t v_end = v_begin + larger(stage_v, lanes) * (block_q + padding) +
                         stage_v * lanes * item_dims(p, lanes);
    const size_t floats = larger(k_end, v_end) + lanes * (block_q + padding);

    /* Beside the tiles a flag, and of each row two floats and (with sinks) a flag. */
    return floats * sizeof(cl_float) + (2 * sizeof(cl_float) + sizeof(cl_int)) * block_q +
           4 * sizeof(cl_int);
}

static const char *unsupported(const clattn_problem *p, const clattn_device_info *dev)
{
    (void)dev;
    if (p->scores != CLATTN_SCORES_NONE)
        return "the scores never lie in memory, so they cannot be handed out";
    return NULL;
}

/* Lowers one value to the next smaller candidate; false if there is none. */
static int step_down(size_t *values, size_t index)
{
    const struct ca_tunable *t = &tunables[index];

    for (size_t n = t->num_candidates; n-- > 0;)
        if (t->candidates[n] < values[index]) {
            values[index] = t->candidates[n];
            return 1;
        }
    return 0;
}

/* Sixty-four-float register tiles want a GPU with over 128 registers per work-item. */
static int has_many_registers(const clattn_device_info *dev)
{
    return strstr(dev->vendor, "NVIDIA") || strstr(dev->vendor, "AMD") ||
           strstr(dev->vendor, "Advanced Micro Devices");
}

/* Widest stage of K's columns up to `most` that pads dim_qk the least. */
static size_t best_stage(size_t dim_qk, size_t most)
{
    size_t best = most;

    for (size_t stage = most; stage >= 8; stage /= 2)
        if (round_up(dim_qk, stage) < round_up(dim_qk, best))
            best = stage;
    return best;
}

static void adapt(const clattn_problem *p, const clattn_device_info *dev, size_t *values)
{
    /* In the order in which room is made: the cheapest losses first. */
    static const size_t shrink[] = {STAGE_V_INDEX, STAGE_D_INDEX, BLOCK_Q_INDEX, BLOCK_KV_INDEX,
                                    ROWS_INDEX, LANES_INDEX};
    const size_t tile = has_many_registers(dev) ? 8 : 4;
    size_t *lanes = &values[LANES_INDEX];

    values[ROWS_INDEX] = tile;
    while (*lanes < 32 && item_dims(p, *lanes) > tile)
        *lanes *= 2;
    if (item_dims(p, *lanes) > 8)
        values[ROWS_INDEX] = 4;
    values[BLOCK_KV_INDEX] = smaller(*lanes * tile, larger(64, *lanes));
    while (values[BLOCK_Q_INDEX] > 8 && values[BLOCK_Q_INDEX] / 2 >= p->seq_q)
        values[BLOCK_Q_INDEX] /= 2;
    values[STAGE_D_INDEX] = best_stage(p->dim_qk, values[STAGE_D_INDEX]);
    if (p->dtype != CLATTN_F32)
        values[LOAD_WIDTH_INDEX] = 8;
    for (size_t round = 0; reject(p, dev, values) && round < sizeof shrink / sizeof *shrink;)
        if (!step_down(values, shrink[round]))
            round++;
}

static int preference(const clattn_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return dev->type & CL_DEVICE_TYPE_GPU ? 90 : 20;
}

static void ndrange(const clattn_problem *p, const size_t *values, const clattn_device_info *dev,
                    struct ca_ndrange *range)
{
    const size_t block_q = values[BLOCK_Q_INDEX];
    const size_t items = values[LANES_INDEX] * (block_q / values[ROWS_INDEX]);
    const size_t blocks = (p->seq_q + block_q - 1) / block_q;

    (void)dev;
    *range = (struct ca_ndrange){{items * blocks * p->heads * p->batch, 1, 1}, {items, 1, 1}};
}

const struct ca_family ca_fused_tiles = {
    .name = "fused_tiles",
    .source = ca_source_fused_tiles,
    .tunables = tunables,
    .num_tunables = NUM_TUNABLES,
    .stages = {{.kernel = "fused_tiles",
                .arguments = CA_BIT(CA_Q) | CA_BIT(CA_K) | CA_BIT(CA_V) | CA_BIT(CA_O) |
                             CA_BIT(CA_BIAS) | CA_BIT(CA_MASK) | CA_BIT(CA_SLOPES) |
                             CA_BIT(CA_SINKS) | CA_BIT(CA_Q_LENGTHS) | CA_BIT(CA_KV_LENGTHS) |
                             CA_BIT(CA_LSE),
                .ndrange = ndrange}},
    .num_stages = 1,
    .unsupported = unsupported,
    .adapt = adapt,
    .reject = reject,
    .preference = preference,
};

/* The fused forward for CPUs: SIMD lanes are queries. How it computes: cl/fused_lanes.cl. */
#define TUNABLES_DEF "tunables/fused_lanes.def"
#include "tunables/expand.h"

extern const char ca_source_fused_lanes[];

static size_t round_up_divide(const size_t n, const size_t by)
{
    return (n + by - 1) / by;
}

/* Queries of one group, or of half a pair. */
static size_t chunk(const size_t *values)
{
    return values[WIDTH_INDEX] * values[MV_INDEX] * values[BLOCKS_INDEX];
}

static size_t groups(const clattn_problem *p, const size_t *values)
{
    return round_up_divide(p->seq_q, chunk(values)) * p->heads * p->batch;
}

static void ndrange(const clattn_problem *p, const size_t *values, const clattn_device_info *dev,
                    struct ca_ndrange *range)
{
    const size_t chunks = round_up_divide(p->seq_q, chunk(values));

    (void)dev;
    range->global[0] = values[PAIRS_INDEX] ? round_up_divide(chunks, 2) : chunks;
    range->global[1] = p->heads;
    range->global[2] = p->batch;
    for (size_t n = 0; n < 3; n++)
        range->local[n] = 1;
}

static const char *unsupported(const clattn_problem *p, const clattn_device_info *dev)
{
    /* The least private memory that any choice of tunables needs. */
    static const size_t least[NUM_TUNABLES] = {
        [WIDTH_INDEX] = 4, [MV_INDEX] = 1,  [NB_INDEX] = 8,
        [DB_INDEX] = 8,    [BN_INDEX] = 24, [BLOCKS_INDEX] = 1};

    if (p->scores != CLATTN_SCORES_NONE)
        return "the score matrix is wanted, which a fused family never forms";
    return reject(p, dev, least);
}

/* Sums that fill the registers: 24 of 32 with vectors of 16, else 12 of 16. */
static void block_registers(const size_t mv, const int wide, size_t *values)
{
    static const size_t sums[2][5] = {{0, 12, 6, 4}, {0, 12, 12, 8, 6}}; /* by wide, mv */

    values[MV_INDEX] = mv;
    values[NB_INDEX] = sums[wide][mv];
    values[DB_INDEX] = sums[wide][mv];
}

static void adapt(const clattn_problem *p, const clattn_device_info *dev, size_t *values)
{
    const int wide = dev->vector_width_float >= 16;

    values[WIDTH_INDEX] = wide ? 16 : dev->vector_width_float >= 8 ? 8 : 4;
    block_registers(p->seq_q <= values[WIDTH_INDEX] ? 1
                    : p->seq_q < 192                ? 2
                    : wide                          ? 4
                                                    : 3,
                    wide, values);
    values[PAIRS_INDEX] = p->causal != 0;
    values[BLOCKS_INDEX] = 8;
    while (values[BLOCKS_INDEX] > 1 &&
           (groups(p, values) < (size_t)4 * dev->compute_units || chunk(values) > p->seq_q / 2))
        values[BLOCKS_INDEX] /= 2;
    while (reject(p, dev, values) && values[BLOCKS_INDEX] > 1)
        values[BLOCKS_INDEX] /= 2;
    while (reject(p, dev, values) && values[MV_INDEX] > 1)
        block_registers(values[MV_INDEX] - 1, wide, values);
    if (reject(p, dev, values)) { /* the least that unsupported() has found to fit */
        values[WIDTH_INDEX] = 4;
        block_registers(1, 0, values);
        values[BN_INDEX] = 24;
    }
}

static int preference(const clattn_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return dev->type & CL_DEVICE_TYPE_CPU ? 90 : 10;
}

const struct ca_family ca_fused_lanes = {
    .name = "fused_lanes",
    .operation = CLATTN_FORWARD,
    .source = ca_source_fused_lanes,
    .tunables = tunables,
    .num_tunables = NUM_TUNABLES,
    .stages = {{"fused_lanes",
                CA_BIT(CA_Q) | CA_BIT(CA_K) | CA_BIT(CA_V) | CA_BIT(CA_O) | CA_BIT(CA_BIAS) |
                    CA_BIT(CA_MASK) | CA_BIT(CA_SLOPES) | CA_BIT(CA_SINKS) | CA_BIT(CA_Q_LENGTHS) |
                    CA_BIT(CA_KV_LENGTHS) | CA_BIT(CA_LSE),
                ndrange}},
    .num_stages = 1,
    .unsupported = unsupported,
    .adapt = adapt,
    .reject = reject,
    .workspace_bytes = NULL,
    .preference = preference,
};

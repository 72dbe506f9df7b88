/* Projections on CPUs: SIMD lanes are columns. How it computes: cl/projection_lanes.cl. */
#include "problem.h"

#define TUNABLES_DEF "tunables/projection_lanes.def"
#include "tunables/expand.h"

extern const char ca_source_projection_lanes[];

enum { SUM_RUN = 256 }; /* as in the kernel */

static size_t round_up_divide(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

static size_t rows_of(const clattn_problem *p)
{
    return p->batch * p->seq_q;
}

static size_t columns_of(const clattn_problem *p)
{
    return p->heads * p->dim_v;
}

/* Groups of blocks of at most `block`, made of whole units, that share n. */
static size_t blocks(size_t n, size_t unit, size_t block)
{
    return round_up_divide(round_up_divide(n, unit), round_up_divide(block, unit));
}

static void lanes_ndrange(const clattn_problem *p, const size_t *values,
                          const clattn_device_info *dev, struct ca_ndrange *range)
{
    const size_t panel = values[WIDTH_INDEX] * values[MV_INDEX];

    (void)dev;
    *range = (struct ca_ndrange){{blocks(columns_of(p), panel, values[BLOCK_COLUMNS_INDEX]),
                                  blocks(rows_of(p), values[ROWS_INDEX], values[BLOCK_ROWS_INDEX]),
                                  values[SPLITS_INDEX]},
                                 {1, 1, 1}};
}

static void sum_ndrange(const clattn_problem *p, const size_t *values,
                        const clattn_device_info *dev, struct ca_ndrange *range)
{
    (void)dev;
    *range = (struct ca_ndrange){
        {values[SPLITS_INDEX] > 1 ? round_up_divide(columns_of(p), SUM_RUN) : 0, rows_of(p), 1},
        {1, 1, 1}};
}

static size_t workspace_bytes(const clattn_problem *p, const size_t *values,
                              const clattn_device_info *dev)
{
    const size_t splits = values[SPLITS_INDEX];

    (void)dev;
    return splits > 1 ? splits * rows_of(p) * columns_of(p) * sizeof(cl_float) : 0;
}

static const char *unsupported(const clattn_problem *p, const clattn_device_info *dev)
{
    (void)p;
    (void)dev;
    return NULL;
}

static void adapt(const clattn_problem *p, const clattn_device_info *dev, size_t *values)
{
    (void)p;
    values[WIDTH_INDEX] = dev->vector_width_float >= 16 ? 16 : dev->vector_width_float >= 8 ? 8 : 4;
    if (values[WIDTH_INDEX] < 16)
        values[ROWS_INDEX] = 6;
}

static int preference(const clattn_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return dev->type & CL_DEVICE_TYPE_CPU ? 90 : 10;
}

const struct ca_family ca_projection_lanes = {
    .name = "projection_lanes",
    .operation = CLATTN_PROJECTION,
    .source = ca_source_projection_lanes,
    .tunables = tunables,
    .num_tunables = NUM_TUNABLES,
    .stages = {{"projection_lanes",
                CA_BIT(CA_Q) | CA_BIT(CA_K) | CA_BIT(CA_O) | CA_BIT(CA_BIAS) | CA_BIT(CA_WORKSPACE),
                lanes_ndrange},
               {"projection_sum", CA_BIT(CA_O) | CA_BIT(CA_BIAS) | CA_BIT(CA_WORKSPACE),
                sum_ndrange}},
    .num_stages = 2,
    .unsupported = unsupported,
    .adapt = adapt,
    .reject = reject,
    .workspace_bytes = workspace_bytes,
    .preference = preference,
};

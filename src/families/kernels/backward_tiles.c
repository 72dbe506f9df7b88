/* backward_tiles: gradients for GPUs; see cl/kernels/backward_tiles.cl. */
#include "device/capacity.h"
#include "families/kernels/block_bits.h"
#include "families/kernels/block_sizes.h"
#include "families/kernels/pair_marks.h"
#include "families/registry.h"

static size_t register_floats(const clattn_problem *p, const size_t *values);
static size_t most_registers(const clattn_device_info *dev);
static size_t needed_registers(const clattn_problem *p, const size_t *values);
static size_t local_bytes(const clattn_problem *p, const size_t *values);

#define TUNABLES_DEF "families/tunables/backward_tiles.def"
#include "families/tunables/expand.h"

extern const char ca_source_backward_tiles[];

/* Dims that a work-item holds for each of its rows. */
static size_t thread_dims(size_t dim, size_t threads)
{
    return ca_round_up(dim, 4 * threads) / threads;
}

/* What a work-item of backward_keys keeps in registers: scores, their gradients, two sums. */
static size_t register_floats(const clattn_problem *p, const size_t *values)
{
    const size_t threads = values[THREADS_N_INDEX];

    return values[THREAD_M_INDEX] *
           (2 * values[BLOCK_STREAMED_INDEX] / threads + thread_dims(p->dim_qk, threads) +
            thread_dims(p->dim_v, threads));
}

/* needed_registers() above which compilers for 255 (NVIDIA) or 256 registers (AMD) were seen to spill
 * some: see tests/offline.sh. */
static size_t most_registers(const clattn_device_info *dev)
{
    return ca_has_many_registers(dev) ? 160 : SIZE_MAX;
}

/* Whether options keep more of each pair in registers. */
static int keeps_more(const clattn_problem *p)
{
    return ca_keeps_more(p) || p->block_q;
}

/* Those, the operands of a product, and what options take; not what addresses do. */
static size_t needed_registers(const clattn_problem *p, const size_t *values)
{
    const size_t columns = values[BLOCK_STREAMED_INDEX] / values[THREADS_N_INDEX];

    return register_floats(p, values) + 4 * columns + 4 +
           (keeps_more(p) ? 8 * values[THREAD_M_INDEX] : 0) +
           (p->softcap > 0.0f || p->alibi ? 32 : 0);
}

/* Floats of a row in local memory, of all its columns or of one stage. */
static size_t row_floats(size_t dim, int whole, const size_t *values)
{
    const size_t stage = ca_smaller(values[BLOCK_K_INDEX], ca_round_up(dim, 4));

    return (whole ? ca_round_up(dim, stage) : stage) + values[PADDING_INDEX];
}

/* Follows the layout of local memory in cl/gpu/tile_products.h. */
static size_t local_bytes(const clattn_problem *p, const size_t *values)
{
    const size_t block = values[BLOCK_OWNED_INDEX], threads = values[THREADS_N_INDEX];
    const size_t stage_n = values[STAGE_N_INDEX], max_dim = ca_larger(p->dim_qk, p->dim_v);
    const int resident = values[OWNED_RESIDENT_INDEX] != 0;
    const size_t own_end =
        block * (resident ? row_floats(p->dim_qk, 1, values) + row_floats(p->dim_v, 1, values)
                          : row_floats(max_dim, 0, values));
    const size_t met_end = own_end + values[BLOCK_STREAMED_INDEX] * row_floats(max_dim, 0, values);
    const size_t rows_end = (resident ? own_end : 0) +
                            ca_larger(stage_n, threads) * (block + values[PADDING_INDEX]) +
                            stage_n * threads * thread_dims(max_dim, threads);

    /* And a flag, and with dropout what is kept. */
    return ca_larger(met_end, rows_end) * sizeof(cl_float) + 4 * sizeof(cl_int) +
           (p->dropout > 0.0f ? block * (values[BLOCK_STREAMED_INDEX] / 4) : 0);
}

static size_t private_bytes(const clattn_problem *p, const size_t *values)
{
    return register_floats(p, values) * sizeof(cl_float);
}

static const char *unsupported(const clattn_problem *p, const clattn_device_info *dev)
{
    (void)p;
    (void)dev;
    return NULL;
}

static size_t work_items(const size_t *values)
{
    return values[BLOCK_OWNED_INDEX] / values[THREAD_M_INDEX] * values[THREADS_N_INDEX];
}

/* Floats of a work-item that leave the compiler enough registers. */
static size_t most_floats(const clattn_device_info *dev)
{
    return ca_has_many_registers(dev) ? 160 : 96;
}

/* Halves tile sizes, the cheapest losses first, until two groups share the local memory of a GPU
 * that has 64 KB of it, or all of a smaller one is enough for one. */
static void fit_local_memory(const clattn_problem *p, const clattn_device_info *dev, size_t *values)
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

static void adapt(const clattn_problem *p, const clattn_device_info *dev, size_t *values)
{
    const size_t most_items =
        ca_smaller(256, ca_smaller(dev->max_work_group_size, dev->max_work_item_sizes[0]));
    const size_t longest = ca_larger(p->seq_q, p->seq_kv);
    size_t *const block = &values[BLOCK_OWNED_INDEX], *const threads = &values[THREADS_N_INDEX];

    /* Small problems: smaller blocks, so that every compute unit gets some. */
    while (*block > 8 && (*block / 2 >= longest ||
                          (*block > 16 && ca_divide_up(ca_smaller(p->seq_q, p->seq_kv), *block) *
                                                  p->kv_heads * p->batch <
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
    if (p->dtype != CLATTN_F32)
        values[LOAD_WIDTH_INDEX] = 8;
    fit_local_memory(p, dev, values);
}

static int preference(const clattn_problem *p, const clattn_device_info *dev)
{
    (void)p;
    return dev->type & CL_DEVICE_TYPE_GPU ? 90 : 20;
}

/* ---- stages --------------------------------------------------------------------------------- */

static void set_groups(struct ca_ndrange *range, size_t groups, const size_t *values)
{
    const size_t items = work_items(values);

    *range = (struct ca_ndrange){{groups * items, 1, 1}, {items, 1, 1}};
}

static void rows_ndrange(const clattn_problem *p, const size_t *values,
                         const clattn_device_info *dev, struct ca_ndrange *range)
{
    const size_t items = work_items(values);

    (void)dev;
    *range = (struct ca_ndrange){{ca_round_up(p->seq_q, items), p->heads, p->batch}, {items, 1, 1}};
}

static void keys_ndrange(const clattn_problem *p, const size_t *values,
                         const clattn_device_info *dev, struct ca_ndrange *range)
{
    (void)dev;
    set_groups(range, ca_divide_up(p->seq_kv, values[BLOCK_OWNED_INDEX]) * p->kv_heads * p->batch,
               values);
}

static void queries_ndrange(const clattn_problem *p, const size_t *values,
                            const clattn_device_info *dev, struct ca_ndrange *range)
{
    (void)dev;
    set_groups(range, ca_divide_up(p->seq_q, values[BLOCK_OWNED_INDEX]) * p->heads * p->batch,
               values);
}

/* Which part of dbias's sums stays within rows of the pairs: see Workspace in the kernel. */
static int sums_keys(const clattn_problem *p)
{
    return p->dbias && p->bias_layout.stride[3] == 0;
}

static int sums_queries(const clattn_problem *p)
{
    return p->dbias && p->bias_layout.stride[2] == 0 && !sums_keys(p);
}

/* Batches and heads of the bias. */
static size_t bias_planes(const clattn_problem *p)
{
    const size_t *stride = p->bias_layout.stride;

    return (stride[0] == 0 ? 1 : p->batch) * (stride[1] == 0 ? 1 : p->heads);
}

static void bias_ndrange(const clattn_problem *p, const size_t *values,
                         const clattn_device_info *dev, struct ca_ndrange *range)
{
    const size_t tiles = ca_divide_up(p->seq_kv, values[BLOCK_STREAMED_INDEX]) *
                         ca_divide_up(p->seq_q, values[BLOCK_OWNED_INDEX]);

    (void)dev;
    set_groups(range, p->dbias && !sums_keys(p) && !sums_queries(p) ? tiles * bias_planes(p) : 0,
               values);
}

static void sums_ndrange(const clattn_problem *p, const size_t *values,
                         const clattn_device_info *dev, struct ca_ndrange *range)
{
    const size_t head_sums = (p->dslopes ? p->heads : 0) + (p->dsinks ? p->heads : 0);
    size_t elements = 0;

    (void)dev;
    if (sums_keys(p))
        elements = bias_planes(p) * (p->bias_layout.stride[2] == 0 ? 1 : p->seq_q);
    if (sums_queries(p))
        elements = bias_planes(p) * p->seq_kv;
    set_groups(range, head_sums + elements, values);
}

/* MARK_M and MARK_N of cl/kernels/backward_tiles.cl. */
static size_t mark_rows(const size_t *values)
{
    return values[BLOCK_OWNED_INDEX] < values[BLOCK_STREAMED_INDEX] ? values[BLOCK_OWNED_INDEX]
                                                                    : values[BLOCK_STREAMED_INDEX];
}

static size_t workspace_bytes(const clattn_problem *p, const size_t *values,
                              const clattn_device_info *dev)
{
    const size_t rows = p->batch * p->heads * p->seq_q, keys = p->batch * p->heads * p->seq_kv;

    (void)dev;
    return (2 * rows + (p->dslopes ? rows : 0) + (sums_keys(p) ? rows : 0) +
            (sums_queries(p) ? keys : 0)) *
               sizeof(cl_float) +
           ca_block_bits_bytes(p) + /* one of them is 0 */
           ca_pair_marks_bytes(p, mark_rows(values), mark_rows(values));
}

static void marks_ndrange(const clattn_problem *p, const size_t *values,
                          const clattn_device_info *dev, struct ca_ndrange *range)
{
    (void)dev;
    ca_pair_marks_group_ndrange(p, mark_rows(values), mark_rows(values), work_items(values), range);
}

const struct ca_family ca_backward_tiles = {
    .name = "backward_tiles",
    .operation = CLATTN_BACKWARD,
    .source = ca_source_backward_tiles,
    .tunables = tunables,
    .num_tunables = NUM_TUNABLES,
    .stages = {CA_MARK_BLOCKS,
               CA_MARK_PAIRS(marks_ndrange),
               {"backward_rows",
                CA_BIT(CA_O) | CA_BIT(CA_LSE) | CA_BIT(CA_DO) | CA_STARTS | CA_BIT(CA_WORKSPACE),
                rows_ndrange},
               {"backward_keys", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DK) | CA_BIT(CA_DV),
                keys_ndrange},
               {"backward_queries", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DQ), queries_ndrange},
               {"backward_bias", CA_BACKWARD_ARGUMENTS | CA_BIT(CA_DBIAS) | CA_READ_ONLY,
                bias_ndrange},
               {"backward_sums",
                CA_BIT(CA_SINKS) | CA_BIT(CA_LSE) | CA_BIT(CA_DBIAS) | CA_BIT(CA_DSLOPES) |
                    CA_BIT(CA_DSINKS) | CA_STARTS | CA_BIT(CA_WORKSPACE) | CA_READ_ONLY,
                sums_ndrange}},
    .num_stages = 7,
    .unsupported = unsupported,
    .adapt = adapt,
    .reject = reject,
    .workspace_bytes = workspace_bytes,
    .local_bytes = local_bytes,
    .private_bytes = private_bytes,
    .preference = preference,
};

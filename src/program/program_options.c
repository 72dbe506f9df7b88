/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler's options of a program (see src/program/program.h). */
#include "program/program_options.h"
#include "base/writer.h"
#include "families/candidate.h"
#include "problem/function.h"
#include "problem/operations.h"
#include "problem/problem_append.h"

struct define {
    const char *name;
    size_t value;
};

#define PUT_DEFINES(writer, defines)                                                               \
    put_defines(writer, defines, sizeof(defines) / sizeof *(defines))
static void put_defines(struct ca_writer *writer, const struct define *defines, size_t count)
{
    for (size_t n = 0; n < count; n++)
        ca_put(writer, " -D%s=%zu", defines[n].name, defines[n].value);
}

/* The -D options of a projection (see cl/common/projection.h). */
static void put_projection_options(struct ca_writer *writer, const clattn_problem *problem)
{
    const clattn_projection_problem *p = &problem->projection;
    const int x_column = p->x.stride[3] == 1, w_column = p->w.stride[3] == 1;
    const struct define defines[] = {{"DTYPE", (size_t)p->dtype},
                                     {"BIAS_DTYPE", p->bias ? (size_t)p->bias_dtype : 0},
                                     {"HAS_BIAS", p->bias != 0},
                                     {"UNIT_X_COLUMN", x_column},
                                     {"UNIT_X_ROW", !x_column && p->x.stride[2] == 1},
                                     {"X_HAS_PAIRS", (size_t)ca_projection_x_in_pairs(p)},
                                     {"UNIT_W_COLUMN", w_column},
                                     {"UNIT_W_ROW", !w_column && p->w.stride[1] == 1},
                                     {"UNIT_Y_COLUMN", p->y.stride[3] == 1},
                                     {"HAS_ACCUMULATE", p->accumulate != 0}};

    PUT_DEFINES(writer, defines);
}

/* Options of a merge (see src/families/merge_rows/merge_rows.cl). */
static void put_merge_options(struct ca_writer *writer, const clattn_problem *problem)
{
    const clattn_merge_problem *p = &problem->merge;
    const struct define defines[] = {{"DTYPE", (size_t)p->dtype},
                                     {"BIAS_DTYPE", 0},
                                     {"UNIT_PARTS", p->parts.stride[3] == 1},
                                     {"UNIT_O", p->o.stride[3] == 1},
                                     {"HAS_SINKS", p->sinks != 0},
                                     {"HAS_ACCUMULATE", p->accumulate != 0}};

    PUT_DEFINES(writer, defines);
}

/* Options of an append (see src/families/append_tokens/append_tokens.cl). */
static void put_append_options(struct ca_writer *writer, const clattn_problem *problem)
{
    const clattn_append_problem *p = &problem->append;
    const struct define defines[] = {{"DTYPE", (size_t)p->dtype},
                                     {"BIAS_DTYPE", 0},
                                     {"CACHE_DTYPE", (size_t)p->cache_dtype},
                                     {"PAGE_SIZE", p->page_size},
                                     {"K_FORMAT", (size_t)p->k_format},
                                     {"V_FORMAT", (size_t)p->v_format},
                                     {"UNIT_IN", (size_t)ca_append_reads_units(problem)},
                                     {"UNIT_OUT", (size_t)ca_append_writes_units(problem)},
                                     {"ROTARY", (size_t)p->rotary},
                                     {"ROTARY_DIM", p->rotary_dim},
                                     {"HAS_TABLES", p->rotary_length != 0},
                                     {"QUERIES", (size_t)p->queries},
                                     {"HAS_SLOTS", p->slots != 0},
                                     {"HAS_POSITIONS", p->positions != 0},
                                     {"HAS_K_SCALES", p->k_scaled != 0},
                                     {"HAS_V_SCALES", p->v_scaled != 0},
                                     {"HAS_KV_LENGTHS", p->kv_lengths != 0}};

    PUT_DEFINES(writer, defines);
}

/* Options of a double backward (see src/families/double_backward/double_backward.cl). */
static void put_double_backward_options(struct ca_writer *writer, const clattn_problem *problem)
{
    const clattn_double_backward_problem *p = &problem->double_backward;
    const clattn_layout *read[] = {&p->q, &p->k, &p->v, &p->d_o, &p->ggq, &p->ggk, &p->ggv};
    const clattn_layout *written[] = {&p->gq, &p->gk, &p->gv, &p->gdo};
    const int lengths = p->q_lengths || p->kv_lengths;
    const int absent[] = {0, 0, 0, 0, p->no_ggq, p->no_ggk, p->no_ggv};
    int unit_in = 1, unit_out = 1;

    for (size_t n = 0; n < 7; n++)
        unit_in = unit_in && (absent[n] || read[n]->stride[3] == 1);
    for (size_t n = 0; n < 4; n++)
        unit_out = unit_out && written[n]->stride[3] == 1;
    const struct define defines[] = {
        {"DTYPE", (size_t)p->dtype},
        {"BIAS_DTYPE", 0},
        {"DIM_QK", p->dim_qk},
        {"DIM_V", p->dim_v},
        {"UNIT_IN", (size_t)unit_in},
        {"UNIT_OUT", (size_t)unit_out},
        {"HAS_GGQ", !p->no_ggq},
        {"HAS_GGK", !p->no_ggk},
        {"HAS_GGV", !p->no_ggv},
        {"HAS_Q_LENGTHS", p->q_lengths != 0},
        {"HAS_KV_LENGTHS", p->kv_lengths != 0},
        {"HAS_WINDOW_LEFT", p->window_left != CLATTN_UNLIMITED},
        {"HAS_WINDOW_RIGHT", p->window_right != CLATTN_UNLIMITED},
        {"DIAGONAL_FOLLOWS_LENGTHS", p->diagonal == CLATTN_BOTTOM_RIGHT && lengths},
    };

    PUT_DEFINES(writer, defines);
}

/* Options of an indexer (see src/families/indexer/indexer_cpu.cl). */
static void put_indexer_options(struct ca_writer *writer, const clattn_problem *problem)
{
    const clattn_indexer_problem *p = &problem->indexer;
    const int lengths = p->q_lengths || p->kv_lengths || p->total_q || p->total_kv;
    const struct define defines[] = {
        {"DTYPE", (size_t)p->dtype},
        {"BIAS_DTYPE", 0},
        {"HEADS", p->heads},
        {"DIM_QK", p->dim},
        {"PAGE_SIZE", p->page_size},
        {"UNIT_Q", p->q.stride[3] == 1 || p->dim == 1},
        {"UNIT_K", p->k.stride[3] == 1 || p->dim == 1},
        {"CAUSAL", p->causal != 0},
        {"DIAGONAL_FOLLOWS_LENGTHS", p->causal && p->diagonal == CLATTN_BOTTOM_RIGHT && lengths},
        {"HAS_Q_LENGTHS", p->q_lengths != 0},
        {"HAS_KV_LENGTHS", p->kv_lengths != 0},
        {"HAS_TOTAL_Q", p->total_q != 0},
        {"HAS_TOTAL_KV", p->total_kv != 0},
        {"HAS_SCORES", p->scores != 0},
    };

    PUT_DEFINES(writer, defines);
}

/* Options of attention (see cl/common/common.h and cl/common/backward.h). */
static void put_attention_options(struct ca_writer *writer, const clattn_problem *p)
{
    const int lengths = p->q_lengths || p->kv_lengths || p->total_q || p->total_kv;
    const struct define defines[] = {
        {"DTYPE", (size_t)p->dtype},
        {"BIAS_DTYPE", p->bias ? (size_t)p->bias_dtype : 0},
        {"K_CACHE", (size_t)ca_problem_cache(p, CA_K)},
        {"V_CACHE", (size_t)ca_problem_cache(p, CA_V)},
        {"K_DTYPE", (size_t)ca_problem_dtype(p, CA_K)},
        {"V_DTYPE", (size_t)ca_problem_dtype(p, CA_V)},
        {"PAGE_SIZE", p->page_size},
        {"DIM_QK", p->dim_qk},
        {"DIM_V", p->dim_v},
        {"UNIT_Q", p->q.stride[3] == 1 || p->dim_qk == 1},
        {"UNIT_K", p->k.stride[3] == 1 || p->dim_qk == 1},
        {"UNIT_V", p->v.stride[3] == 1 || p->dim_v == 1},
        {"UNIT_O", p->o.stride[3] == 1 || p->dim_v == 1},
        {"HAS_SOFTCAP", p->softcap > 0.0f},
        {"HAS_BIAS", p->bias != 0},
        {"HAS_MASK", p->mask != 0},
        {"HAS_BLOCKS", p->block_q != 0},
        {"HAS_SCORE_FUNCTION", p->score_function != NULL},
        {"HAS_MASK_FUNCTION", p->mask_function != NULL},
        {"HAS_WINDOW_LEFT", p->window_left != CLATTN_UNLIMITED},
        {"HAS_WINDOW_RIGHT", p->window_right != CLATTN_UNLIMITED},
        {"DIAGONAL_FOLLOWS_LENGTHS", p->diagonal == CLATTN_BOTTOM_RIGHT && lengths},
        {"SCORES", (size_t)p->scores},
#define FLAG(ID, member, word, OF, difference) CA_IF_ATTENTION(OF, {"HAS_" #ID, p->member != 0}, )
        CA_FLAGS(FLAG) CA_SIZES(FLAG)
#undef FLAG
            {"IS_BACKWARD", p->operation == CLATTN_BACKWARD},
#define FLAG(ID, member, word, OF, difference) CA_IF_BACKWARD(OF, {"HAS_" #ID, p->member != 0}, )
        CA_FLAGS(FLAG)
#undef FLAG
            {"HAS_DROPOUT", p->dropout > 0.0f},
    };
    const struct define blocks[] = {{"BLOCK_Q", p->block_q}, {"BLOCK_KV", p->block_kv}};
    const struct define backward[] = {{"UNIT_DO", p->d_o.stride[3] == 1 || p->dim_v == 1},
                                      {"UNIT_DQ", p->dq.stride[3] == 1 || p->dim_qk == 1},
                                      {"UNIT_DK", p->dk.stride[3] == 1 || p->dim_qk == 1},
                                      {"UNIT_DV", p->dv.stride[3] == 1 || p->dim_v == 1}};

    PUT_DEFINES(writer, defines);
    if (p->score_function) /* so that the options tell programs apart */
        ca_put(writer, " -DSCORE_FUNCTION_HASH=0x%llx", p->score_function->hash);
    if (p->mask_function)
        ca_put(writer, " -DMASK_FUNCTION_HASH=0x%llx", p->mask_function->hash);
    if (p->block_q)
        PUT_DEFINES(writer, blocks);
    if (p->operation == CLATTN_BACKWARD)
        PUT_DEFINES(writer, backward);
}

static void put_problem_options(struct ca_writer *writer, const struct ca_problem *p)
{
    static void (*const of[])(struct ca_writer *, const clattn_problem *) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = put_##name##_options,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    ca_put(writer, "-cl-std=CL1.2");
    if (p)
        of[p->normal.operation](writer, &p->normal);
}

size_t ca_program_problem_options(const struct ca_problem *p, char *text, size_t text_bytes)
{
    struct ca_writer writer = {text, text_bytes, 0};

    put_problem_options(&writer, p);
    return writer.length;
}

int ca_program_options(const struct ca_candidate *candidate, const struct ca_problem *p,
                       const clattn_device_info *dev, char *text, size_t text_bytes)
{
    const struct ca_family *family = candidate->family;
    struct ca_writer writer = {text, text_bytes, 0};

    put_problem_options(&writer, p);
    for (size_t n = 0; n < family->num_tunables; n++)
        ca_put(&writer, " -D%s=%zu", family->tunables[n].name, candidate->values[n]);
    if (family->options)
        ca_put(&writer, "%s", family->options(candidate->values, dev));
    return writer.length < text_bytes;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler's options of a program (see src/program/program.h). */
#include "program/program_options.h"
#include "families/candidate.h"
#include "problem/operations.h"
#include "problem/problem.h"
#include "problem/problem_append.h"

#include <stdio.h>

struct define {
    const char *name;
    size_t value;
};

/* How many characters it adds, or would. */
static size_t print_defines(const struct define *defines, size_t count, char *text,
                            size_t text_bytes, size_t length)
{
    size_t more = 0;

    for (size_t n = 0; n < count; n++) {
        const size_t at = length + more < text_bytes ? length + more : text_bytes;
        more += (size_t)snprintf(text + at, text_bytes - at, " -D%s=%zu", defines[n].name,
                                 defines[n].value);
    }
    return more;
}

/* The -D options of a projection (see cl/common/projection.h). */
static size_t print_projection_options(const clattn_problem *problem, char *text, size_t text_bytes,
                                       size_t length)
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

    return print_defines(defines, sizeof defines / sizeof *defines, text, text_bytes, length);
}

/* Those of a merge (see src/families/merge_rows/merge_rows.cl). */
static size_t print_merge_options(const clattn_problem *problem, char *text, size_t text_bytes,
                                  size_t length)
{
    const clattn_merge_problem *p = &problem->merge;
    const struct define defines[] = {{"DTYPE", (size_t)p->dtype},
                                     {"BIAS_DTYPE", 0},
                                     {"UNIT_PARTS", p->parts.stride[3] == 1},
                                     {"UNIT_O", p->o.stride[3] == 1},
                                     {"HAS_SINKS", p->sinks != 0},
                                     {"HAS_ACCUMULATE", p->accumulate != 0}};

    return print_defines(defines, sizeof defines / sizeof *defines, text, text_bytes, length);
}

/* Those of an append (see src/families/append_tokens/append_tokens.cl). */
static size_t print_append_options(const clattn_problem *problem, char *text, size_t text_bytes,
                                   size_t length)
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
                                     {"HAS_KV_LENGTHS", p->kv_lengths != 0}};

    return print_defines(defines, sizeof defines / sizeof *defines, text, text_bytes, length);
}

/* Those of attention (see cl/common/common.h and cl/common/backward.h). */
static size_t print_attention_options(const clattn_problem *p, char *text, size_t text_bytes,
                                      size_t length)
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
        {"HAS_WINDOW_LEFT", p->window_left != CLATTN_UNLIMITED},
        {"HAS_WINDOW_RIGHT", p->window_right != CLATTN_UNLIMITED},
        {"DIAGONAL_FOLLOWS_LENGTHS", p->diagonal == CLATTN_BOTTOM_RIGHT && lengths},
        {"SCORES", (size_t)p->scores},
#define FLAG(ID, member, word, OF, difference) CA_IF_ATTENTION(OF, {"HAS_" #ID, p->member != 0}, )
        CA_FLAGS(FLAG) CA_SIZES(FLAG)
#undef FLAG
            {"HAS_DROPOUT", p->dropout > 0.0f},
    };
    const struct define blocks[] = {{"BLOCK_Q", p->block_q}, {"BLOCK_KV", p->block_kv}};
    const struct define backward[] = {{"UNIT_DO", p->d_o.stride[3] == 1 || p->dim_v == 1},
                                      {"UNIT_DQ", p->dq.stride[3] == 1 || p->dim_qk == 1},
                                      {"UNIT_DK", p->dk.stride[3] == 1 || p->dim_qk == 1},
                                      {"UNIT_DV", p->dv.stride[3] == 1 || p->dim_v == 1},
#define FLAG(ID, member, word, OF, difference) CA_IF_BACKWARD(OF, {"HAS_" #ID, p->member != 0}, )
                                      CA_FLAGS(FLAG)
#undef FLAG
    };
    size_t more =
        print_defines(defines, sizeof defines / sizeof *defines, text, text_bytes, length);

    if (p->block_q)
        more +=
            print_defines(blocks, sizeof blocks / sizeof *blocks, text, text_bytes, length + more);
    if (p->operation == CLATTN_BACKWARD)
        more += print_defines(backward, sizeof backward / sizeof *backward, text, text_bytes,
                              length + more);
    return more;
}

size_t ca_program_problem_options(const clattn_problem *p, char *text, size_t text_bytes)
{
    static size_t (*const of[])(const clattn_problem *, char *, size_t, size_t) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = print_##name##_options,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };
    const size_t length = (size_t)snprintf(text, text_bytes, "-cl-std=CL1.2");

    return p ? length + of[p->operation](p, text, text_bytes, length) : length;
}

int ca_program_options(const struct ca_candidate *candidate, const clattn_problem *p,
                       const clattn_device_info *dev, char *text, size_t text_bytes)
{
    size_t length = ca_program_problem_options(p, text, text_bytes);

    if (length + 2 >= text_bytes)
        return 0;
    text[length++] = ' ';
    length +=
        (size_t)ca_tunables_print(candidate->family->tunables, candidate->family->num_tunables,
                                  candidate->values, "-D", text + length, text_bytes - length);
    if (candidate->family->options && length < text_bytes)
        length += (size_t)snprintf(text + length, text_bytes - length, "%s",
                                   candidate->family->options(candidate->values, dev));
    return length < text_bytes;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Likeness of problem classes. */
#include "problem/classes/problem_class.h"
#include "problem/function.h"
#include "problem/operations.h"
#include "problem/problem.h"
#include "problem/tensors.h"

#include <math.h>
#include <string.h>

/* From this many queries on a problem does not count as decoding a few. */
#define MANY_QUERIES 16

/* The list of all that distinguishes classes. Each entry says whether it is defined to the
 * compiler, so that classes that differ in it are not alike. It also says what a difference costs
 * in ca_class_distance(), in doublings of seq_q, and what a factor of two costs besides. Costs are
 * estimates; only their order matters much. Each comment says why a difference changes the time. */
#define FACTS(FACT)                                                                                \
    FACT(OPERATION, 1, INFINITY, 0)     /* other kernels altogether */                             \
    FACT(SCORES_WANTED, 1, INFINITY, 0) /* most families cannot */                                 \
    FACT(SCORES, 1, 0.5, 0)             /* one more store in another place */                      \
    FACT(DTYPE, 1, 1, 0)                /* conversions */                                          \
    FACT(ELEMENT_BYTES, 1, 0, 3)        /* memory traffic, width of loads */                       \
    FACT(K_CACHE, 1, 3, 0)              /* likewise */                                             \
    FACT(V_CACHE, 1, 3, 0)              /* likewise */                                             \
    FACT(PAGED, 1, 2, 0)                /* needs a look-up for each tile or each key */            \
    FACT(PAGE_SIZE, 1, 0.25, 0.25)      /* decides between these two kinds of look-up */           \
    FACT(DIM_QK, 1, 0.5, 2)             /* local tiles, loop over dims */                          \
    FACT(DIM_V, 1, 0.5, 2)              /* registers for the output, local tiles */                \
    FACT(UNIT_Q, 1, 0.5, 0)             /* read once per block */                                  \
    FACT(UNIT_K, 1, 2, 0)               /* each block reads it, in vectors or not */               \
    FACT(UNIT_V, 1, 2, 0)               /* likewise */                                             \
    FACT(UNIT_O, 1, 0.5, 0)             /* written once */                                         \
    FACT(UNIT_DO, 1, 2, 0)              /* read by every block of keys */                          \
    FACT(UNIT_DQ, 1, 0.5, 0)            /* written once, like the next two */                      \
    FACT(UNIT_DK, 1, 0.5, 0)                                                                       \
    FACT(UNIT_DV, 1, 0.5, 0)                                                                       \
    FACT(SOFTCAP, 1, 1, 0)            /* a tanh per score outweighs the exponential */             \
    FACT(BIAS, 1, 2, 0)               /* four bytes per score, each read once */                   \
    FACT(BIAS_DTYPE, 1, 0.5, 0)       /* or two bytes */                                           \
    FACT(MASK, 1, 1.5, 0)             /* a byte per score */                                       \
    FACT(SCORE_FUNCTION, 1, 2, 0)     /* some operations per score */                              \
    FACT(MASK_FUNCTION, 1, 1.5, 0)    /* likewise, or tiles that are skipped */                    \
    FACT(BLOCK_Q, 1, 2, 0.5)          /* blocks of queries fit it, tiles are cut */                \
    FACT(BLOCK_KV, 1, 2, 0.5)         /* likewise */                                               \
    FACT(BLOCKS, 0, 0, 0.25)          /* how many tiles are skipped */                             \
    FACT(FOLLOWS_LENGTHS, 1, 0.25, 0) /* a few operations per group */                             \
    FACT(DROPOUT, 1, 2, 0)            /* random numbers outweigh the exponential */                \
    FACT(LIMIT_LEFT, 1, 2, 0)         /* tiles are skipped, and cut at the limit */                \
    FACT(LIMIT_RIGHT, 1, 1, 0)        /* likewise */                                               \
    FACT(CAUSAL, 0, 2, 0)             /* groups with unequal work */                               \
    FACT(WINDOW_LEFT, 0, 0, 0.5)      /* how many tiles are skipped */                             \
    FACT(WINDOW_RIGHT, 0, 0, 0.5)     /* likewise */                                               \
    FACT(SEQ_Q, 0, 0, 1)              /* blocks of queries: how many groups, how full */           \
    FACT(FEW_QUERIES, 0, 0, 8)        /* all of them in registers: how many these hold */          \
    FACT(SEQ_KV, 0, 0, 0.5)        /* length of a loop, and how much of K and V the cache holds */ \
    FACT(HEADS, 0, 0, 1)           /* number of work-groups: too few leave units idle */           \
    FACT(RATIO, 0, 0, 0.25)        /* heads that share K and V, and so the cache */                \
    FACT(ACCUMULATE, 1, 0.25, 0)   /* projections and merges: one load per result */               \
    FACT(X_AXIS, 1, 1, 0)          /* projections, to Y_HEADS: tile loading or packing */          \
    FACT(W_AXIS, 1, 1, 0)          /* likewise */                                                  \
    FACT(ROWS, 0, 0, 1)            /* number of work-groups, and how full they are */              \
    FACT(TERMS, 0, 0, 0.5)         /* the length of a loop */                                      \
    FACT(COLUMNS, 0, 0, 1)         /* as ROWS */                                                   \
    FACT(X_HEADS, 0, 0, 0.1)       /* seams between heads */                                       \
    FACT(Y_HEADS, 0, 0, 0.1)       /* likewise */                                                  \
    FACT(CACHE_DTYPE, 1, 1, 0)     /* appends from here on: conversions */                         \
    FACT(ROTARY, 1, 1, 0)          /* the columns that are rotated together */                     \
    FACT(ROTARY_DIM, 1, 0.5, 1)    /* number of rotated columns */                                 \
    FACT(ROTARY_TABLES, 1, 0.5, 0) /* loads in place of powers */                                  \
    FACT(QUERIES, 1, 1, 0)         /* a launch of its own */                                       \
    FACT(SLOTS, 1, 0.5, 0)         /* the place of each token is read */                           \
    FACT(POSITIONS, 1, 0.25, 0)    /* the position of each token is read */                        \
    FACT(NO_GGQ, 1, 0.25, 0)       /* double backward from here on: one product less */            \
    FACT(NO_GGK, 1, 0.25, 0)       /* likewise */                                                  \
    FACT(NO_GGV, 1, 0.25, 0)       /* likewise */                                                  \
    FACT(LISTED, 0, 0, 0.5)        /* indexers: keys that are kept of a query */                   \
    FACT(GRADIENTS, 1, 8, 0)       /* likewise: another family */

#define FLAG(ID, member, word, OF, difference) ID,
#define FACT(ID, exact, difference, doubling) ID,
enum fact { FACTS(FACT) CA_FLAGS(FLAG) CA_SIZES(FLAG) NUM_FACTS };
#undef FACT
#undef FLAG

static const struct {
    int exact;
    double difference, doubling;
} weights[NUM_FACTS] = {
#define FLAG(ID, member, word, OF, difference) [ID] = {1, difference, 0},
#define FACT(ID, exact, difference, doubling) [ID] = {exact, difference, doubling},
    FACTS(FACT) CA_FLAGS(FLAG) CA_SIZES(FLAG)
#undef FACT
#undef FLAG
};

/* The ratio of the keys to a window's side. */
static size_t window_share(int64_t side, size_t seq_kv)
{
    if (side == CLATTN_UNLIMITED)
        return 1;
    return side == 0 ? 2 * seq_kv : seq_kv / (size_t)side;
}

/* The ratio of all blocks to listed ones. */
static size_t blocks_share(const clattn_problem *p)
{
    const double blocks = (double)ca_block_rows(p) * (double)ca_block_columns(p);

    return p->block_q && blocks > (double)p->max_blocks ? (size_t)(blocks / (double)p->max_blocks)
                                                        : 1;
}

/* The contiguous one of two axes: 0 neither, 1 the first, 2 the last. */
static size_t contiguous(const clattn_layout *layout, int first)
{
    return layout->stride[3] == 1 ? 2 : layout->stride[first] == 1;
}

/* Facts about the number of rows, including whether they are few. */
static void examine_rows(size_t rows, size_t facts[NUM_FACTS])
{
    facts[SEQ_Q] = rows;
    facts[FEW_QUERIES] = rows < MANY_QUERIES ? rows : MANY_QUERIES;
}

static void examine_dtype(const clattn_problem *p, size_t facts[NUM_FACTS])
{
    facts[OPERATION] = (size_t)p->operation;
    facts[DTYPE] = (size_t)ca_problem_own_dtype(p);
    facts[ELEMENT_BYTES] = ca_dtype_bytes(ca_problem_own_dtype(p));
}

static void examine_projection(const clattn_problem *problem, size_t facts[NUM_FACTS])
{
    const clattn_projection_problem *p = &problem->projection;
    struct ca_tensor tensors[CA_WORKSPACE]; /* filled in with their strides */

    ca_problem_tensors(problem, tensors);
    facts[UNIT_O] = tensors[CA_PROJECTION_Y].layout.stride[3] == 1;
    facts[BIAS] = p->bias != 0;
    facts[BIAS_DTYPE] = (size_t)p->bias_dtype;
    facts[ACCUMULATE] = p->accumulate != 0;
    facts[X_AXIS] = contiguous(&tensors[CA_PROJECTION_X].layout, 2);
    facts[W_AXIS] = contiguous(&tensors[CA_PROJECTION_W].layout, 1);
    facts[ROWS] = p->rows;
    facts[TERMS] = p->x_heads * p->x_dim;
    facts[COLUMNS] = p->y_heads * p->y_dim;
    facts[X_HEADS] = p->x_heads;
    facts[Y_HEADS] = p->y_heads;
}

static void examine_merge(const clattn_problem *problem, size_t facts[NUM_FACTS])
{
    const clattn_merge_problem *p = &problem->merge;

    facts[DIM_QK] = facts[DIM_V] = p->dim;
    facts[UNIT_Q] = p->parts.stride[3] <= 1; /* 0 in a packed layout */
    facts[UNIT_O] = p->o.stride[3] <= 1;
    facts[SEQ_KV] = p->states;
    facts[HEADS] = p->heads;
    facts[SINKS] = p->sinks != 0;
    facts[ACCUMULATE] = p->accumulate != 0;
    examine_rows(p->seq_q, facts);
}

static void examine_append(const clattn_problem *problem, size_t facts[NUM_FACTS])
{
    const clattn_append_problem *p = &problem->append;

    facts[K_CACHE] = (size_t)p->k_format;
    facts[V_CACHE] = (size_t)p->v_format;
    facts[PAGED] = p->page_size != 0;
    facts[PAGE_SIZE] = p->page_size ? p->page_size : 1;
    facts[DIM_QK] = p->dim_qk;
    facts[DIM_V] = p->dim_v;
    facts[UNIT_Q] = p->q.stride[3] <= 1;
    facts[UNIT_K] = p->k.stride[3] <= 1;
    facts[UNIT_V] = p->v.stride[3] <= 1;
    facts[UNIT_O] = p->q_out.stride[3] <= 1;
    facts[UNIT_DK] = p->k_cache.stride[3] <= 1;
    facts[UNIT_DV] = p->v_cache.stride[3] <= 1;
    facts[SEQ_KV] = p->capacity;
    facts[HEADS] = p->heads;
    facts[RATIO] = p->heads / p->kv_heads;
    facts[KV_LENGTHS] = p->kv_lengths != 0;
    facts[CACHE_DTYPE] = (size_t)p->cache_dtype;
    facts[ROTARY] = (size_t)p->rotary;
    facts[ROTARY_DIM] = p->rotary ? p->rotary_dim : 1;
    facts[ROTARY_TABLES] = p->rotary_length != 0;
    facts[QUERIES] = (size_t)p->queries;
    facts[SLOTS] = p->slots != 0;
    facts[POSITIONS] = p->positions != 0;
    examine_rows(p->tokens, facts);
}

static void examine_double_backward(const clattn_problem *problem, size_t facts[NUM_FACTS])
{
    const clattn_double_backward_problem *p = &problem->double_backward;

    facts[DIM_QK] = p->dim_qk;
    facts[DIM_V] = p->dim_v;
    facts[UNIT_Q] = p->q.stride[3] <= 1; /* 0 in a packed layout */
    facts[UNIT_K] = p->k.stride[3] <= 1;
    facts[UNIT_V] = p->v.stride[3] <= 1;
    facts[UNIT_DO] = p->d_o.stride[3] <= 1;
    facts[UNIT_O] = p->gdo.stride[3] <= 1;
    facts[UNIT_DQ] = p->gq.stride[3] <= 1;
    facts[UNIT_DK] = p->gk.stride[3] <= 1;
    facts[UNIT_DV] = p->gv.stride[3] <= 1;
    facts[NO_GGQ] = p->no_ggq != 0;
    facts[NO_GGK] = p->no_ggk != 0;
    facts[NO_GGV] = p->no_ggv != 0;
    facts[SEQ_KV] = p->seq_kv;
    facts[HEADS] = p->heads;
    facts[RATIO] = p->heads / p->kv_heads;
    facts[LIMIT_LEFT] = p->window_left != CLATTN_UNLIMITED;
    facts[LIMIT_RIGHT] = p->causal || p->window_right != CLATTN_UNLIMITED;
    facts[CAUSAL] = p->causal != 0;
    facts[WINDOW_LEFT] = window_share(p->window_left, p->seq_kv);
    facts[WINDOW_RIGHT] = window_share(p->window_right, p->seq_kv);
    facts[FOLLOWS_LENGTHS] = (p->q_lengths || p->kv_lengths) && p->diagonal == CLATTN_BOTTOM_RIGHT;
    facts[Q_LENGTHS] = p->q_lengths != 0;
    facts[KV_LENGTHS] = p->kv_lengths != 0;
    examine_rows(p->seq_q, facts);
}

static void examine_indexer(const clattn_problem *problem, size_t facts[NUM_FACTS])
{
    const clattn_indexer_problem *p = &problem->indexer;

    facts[PAGED] = p->page_size != 0;
    facts[PAGE_SIZE] = p->page_size ? p->page_size : 1;
    facts[DIM_QK] = facts[DIM_V] = p->dim;
    facts[UNIT_Q] = p->q.stride[3] <= 1; /* 0 in a packed layout */
    facts[UNIT_K] = p->k.stride[3] <= 1;
    facts[SEQ_KV] = p->seq_kv;
    facts[HEADS] = p->heads;
    facts[CAUSAL] = p->causal != 0;
    facts[FOLLOWS_LENGTHS] = (p->q_lengths || p->kv_lengths) && p->diagonal == CLATTN_BOTTOM_RIGHT;
    facts[Q_LENGTHS] = p->q_lengths != 0;
    facts[KV_LENGTHS] = p->kv_lengths != 0;
    facts[TOTAL_Q] = p->total_q != 0;
    facts[TOTAL_KV] = p->total_kv != 0;
    facts[SCORES_WANTED] = p->scores != 0;
    facts[LISTED] = p->topk;
    facts[GRADIENTS] = p->gradients != 0;
    examine_rows(p->seq_q, facts);
}

static void examine_attention(const clattn_problem *p, size_t facts[NUM_FACTS])
{
    const int lengths = p->q_lengths || p->kv_lengths;
    const size_t all[NUM_FACTS] = {
        [SCORES_WANTED] = p->scores != CLATTN_SCORES_NONE,
        [SCORES] = (size_t)p->scores,
        [K_CACHE] = (size_t)p->k_cache,
        [V_CACHE] = (size_t)p->v_cache,
        [PAGED] = p->page_size != 0,
        [PAGE_SIZE] = p->page_size ? p->page_size : 1,
        [DIM_QK] = p->dim_qk,
        [DIM_V] = p->dim_v,
        [UNIT_Q] = p->q.stride[3] <= 1, /* 0 in a packed layout */
        [UNIT_K] = p->k.stride[3] <= 1,
        [UNIT_V] = p->v.stride[3] <= 1,
        [UNIT_O] = p->o.stride[3] <= 1,
        [UNIT_DO] = p->d_o.stride[3] <= 1,
        [UNIT_DQ] = p->dq.stride[3] <= 1,
        [UNIT_DK] = p->dk.stride[3] <= 1,
        [UNIT_DV] = p->dv.stride[3] <= 1,
        [SOFTCAP] = p->softcap > 0.0f,
        [BIAS] = p->bias != 0,
        [BIAS_DTYPE] = (size_t)p->bias_dtype,
        [MASK] = p->mask != 0,
        [SCORE_FUNCTION] = p->score_function ? (size_t)p->score_function->hash : 0,
        [MASK_FUNCTION] = p->mask_function ? (size_t)p->mask_function->hash : 0,
        [BLOCK_Q] = p->block_q + 1,
        [BLOCK_KV] = p->block_kv + 1,
        [BLOCKS] = blocks_share(p),
        [FOLLOWS_LENGTHS] = lengths && p->diagonal == CLATTN_BOTTOM_RIGHT,
        [DROPOUT] = p->dropout > 0.0f,
        [LIMIT_LEFT] = p->window_left != CLATTN_UNLIMITED,
        [LIMIT_RIGHT] = p->causal || p->window_right != CLATTN_UNLIMITED,
        [CAUSAL] = p->causal != 0,
        [WINDOW_LEFT] = window_share(p->window_left, p->seq_kv),
        [WINDOW_RIGHT] = window_share(p->window_right, p->seq_kv),
        [SEQ_KV] = p->seq_kv,
        [HEADS] = p->heads,
        [RATIO] = p->heads / p->kv_heads,
        [ROWS] = 1,
        [TERMS] = 1,
        [COLUMNS] = 1,
        [X_HEADS] = 1,
        [Y_HEADS] = 1,
        [ROTARY_DIM] = 1,
#define FLAG(ID, member, word, OF, difference) [ID] = p->member != 0,
        CA_FLAGS(FLAG) CA_SIZES(FLAG)
#undef FLAG
    };

    memcpy(facts, all, sizeof all);
    examine_rows(p->seq_q, facts);
}

/* The facts of a representative. None is 0 where doublings count. */
static void examine(const clattn_problem *p, size_t facts[NUM_FACTS])
{
    static void (*const of[])(const clattn_problem *, size_t[NUM_FACTS]) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = examine_##name,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    for (size_t n = 0; n < NUM_FACTS; n++)
        facts[n] = 1;
    of[p->operation](p, facts);
    examine_dtype(p, facts);
}

int ca_classes_alike(const clattn_problem *a, const clattn_problem *b)
{
    size_t of_a[NUM_FACTS], of_b[NUM_FACTS];

    examine(a, of_a);
    examine(b, of_b);
    for (size_t n = 0; n < NUM_FACTS; n++)
        if (weights[n].exact && of_a[n] != of_b[n])
            return 0;
    return 1;
}

double ca_class_distance(const clattn_problem *a, const clattn_problem *b)
{
    size_t of_a[NUM_FACTS], of_b[NUM_FACTS];
    double distance = 0.0;

    examine(a, of_a);
    examine(b, of_b);
    for (size_t n = 0; n < NUM_FACTS; n++) {
        if (of_a[n] == of_b[n])
            continue;
        distance += weights[n].difference;
        if (weights[n].doubling > 0.0)
            distance += weights[n].doubling * fabs(log2((double)of_a[n]) - log2((double)of_b[n]));
    }
    return distance;
}

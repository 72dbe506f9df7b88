/* SPDX-License-Identifier: Apache-2.0 */
/* A family: one way to compute attention. Its .cl file holds the kernels, its .def file the
 * tunables, and its C file a struct ca_family for each unit that says when it applies and how it is launched.
 * Nothing here enqueues: src/execute/execute.c does that the same way for every family. */
#ifndef CA_FAMILY_H
#define CA_FAMILY_H

#include "base/log.h"
#include "families/tunables.h"
#include "problem/operations.h"
#include "problem/problem.h"
#include <clattn/context.h>
#include <clattn/device.h>
#include <clattn/problem.h>

enum { CA_MAX_STAGES = 10, CA_ONLY_IF_FORCED = -1 };

#define CA_FUNCTION_BITS                                                                           \
    (CA_BIT(CA_FUNCTION_0) | CA_BIT(CA_FUNCTION_1) | CA_BIT(CA_FUNCTION_2) |                       \
     CA_BIT(CA_FUNCTION_3) | CA_BIT(CA_FUNCTION_4) | CA_BIT(CA_FUNCTION_5))
/* The operands of the scores of a forward or backward kernel, besides q and k. */
#define CA_SCORE_OPERANDS                                                                          \
    (CA_BIT(CA_BIAS) | CA_BIT(CA_MASK) | CA_BIT(CA_SLOPES) | CA_BIT(CA_BLOCK_OFFSETS) |            \
     CA_BIT(CA_BLOCK_ENTRIES) | CA_FUNCTION_BITS)
/* These operands, and the lengths, which decide which pairs exist. */
#define CA_SCORE_ARGUMENTS (CA_SCORE_OPERANDS | CA_BIT(CA_Q_LENGTHS) | CA_BIT(CA_KV_LENGTHS))
/* The tables of sequence starts in a packed batch. */
#define CA_STARTS (CA_BIT(CA_Q_STARTS) | CA_BIT(CA_KV_STARTS))
/* Keys and values with their scales. */
#define CA_SCALED_K (CA_BIT(CA_K) | CA_BIT(CA_K_SCALES))
#define CA_SCALED_V (CA_BIT(CA_V) | CA_BIT(CA_V_SCALES))
#define CA_FUSED_ARGUMENTS                                                                         \
    (CA_BIT(CA_Q) | CA_SCALED_K | CA_SCALED_V | CA_BIT(CA_O) | CA_SCORE_ARGUMENTS |                \
     CA_BIT(CA_SINKS) | CA_BIT(CA_LSE) | CA_BIT(CA_PAGE_TABLE) | CA_STARTS)
/* The arguments of split-K: of the kernel that divides the keys, and of the one that combines. */
#define CA_SPLIT_ARGUMENTS                                                                         \
    (CA_BIT(CA_Q) | CA_SCALED_K | CA_SCALED_V | CA_SCORE_ARGUMENTS | CA_BIT(CA_PAGE_TABLE) |       \
     CA_STARTS | CA_BIT(CA_WORKSPACE))
#define CA_COMBINE_OUTPUTS (CA_BIT(CA_O) | CA_BIT(CA_SINKS) | CA_BIT(CA_LSE))
#define CA_COMBINE_ARGUMENTS (CA_COMBINE_OUTPUTS | CA_STARTS | CA_BIT(CA_WORKSPACE) | CA_READ_ONLY)
/* The arguments of the three kernels of families that keep scores in memory: Q K^T, softmax and P V. */
#define CA_UNFUSED_SCORES_ARGUMENTS                                                                \
    (CA_BIT(CA_Q) | CA_SCALED_K | CA_SCORE_ARGUMENTS | CA_BIT(CA_PAGE_TABLE) | CA_BIT(CA_SCORES) | \
     CA_BIT(CA_WORKSPACE))
#define CA_UNFUSED_SOFTMAX_ARGUMENTS                                                               \
    (CA_BIT(CA_SINKS) | CA_BIT(CA_Q_LENGTHS) | CA_BIT(CA_KV_LENGTHS) | CA_BIT(CA_LSE) |            \
     CA_BIT(CA_SCORES) | CA_BIT(CA_WORKSPACE))
#define CA_UNFUSED_VALUES_ARGUMENTS                                                                \
    (CA_SCALED_V | CA_BIT(CA_O) | CA_SCORE_ARGUMENTS | CA_BIT(CA_PAGE_TABLE) | CA_BIT(CA_SCORES) | \
     CA_BIT(CA_WORKSPACE))
/* Operands from which gradients recompute the scores. */
#define CA_BACKWARD_ARGUMENTS                                                                      \
    (CA_BIT(CA_Q) | CA_BIT(CA_K) | CA_BIT(CA_V) | CA_SCORE_ARGUMENTS | CA_BIT(CA_DO) | CA_STARTS | \
     CA_BIT(CA_WORKSPACE))
/* These operands, the results of forward, and the gradient of lse. */
#define CA_BACKWARD_ROWS_ARGUMENTS                                                                 \
    (CA_BACKWARD_ARGUMENTS | CA_BIT(CA_O) | CA_BIT(CA_LSE) | CA_BIT(CA_DLSE) | CA_BIT(CA_SINKS))

/* A flag beside the workspace's bit: the stage only reads the workspace. */
#define CA_READ_ONLY CA_BIT(CA_NUM_ARGUMENTS)
/* A flag instead of the workspace's bit: only problems with block lists have the stage or, with
 * CA_READ_ONLY, its use of the workspace (src/families/block_bits.h). */
#define CA_OF_BLOCKS CA_BIT(CA_NUM_ARGUMENTS + 1)
/* A flag instead of the workspace's bit: only in problems with marks does the stage use the workspace (ca_has_pair_marks()). */
#define CA_OF_MARKS CA_BIT(CA_NUM_ARGUMENTS + 2)
/* The same for problems of f32 in a family that multiplies f32 as parts. */
#define CA_OF_PARTS CA_BIT(CA_NUM_ARGUMENTS + 3)

/* The refusal of tunables with which an invariant problem would have other bits than in other plans. */
#define CA_OTHER_BITS                                                                              \
    "with these tiles, threads or exponential an invariant problem would have other bits than in " \
    "other plans"

/* The refusal of a packed batch by a family that counts rows by batches. */
#define CA_READS_NO_STARTS                                                                         \
    "sequences follow each other in one buffer, whose starts this family does not read"

/* The same for problems with means of keys (ca_has_key_means()). */
#define CA_OF_MEANS CA_BIT(CA_NUM_ARGUMENTS + 4)
/* The same for problems with precision=int8. */
#define CA_OF_BYTES CA_BIT(CA_NUM_ARGUMENTS + 5)

/* A launch: its work-items, and the work-items of a group. */
struct ca_ndrange {
    size_t global[3], local[3];
};

/* A launch of x * y * z groups of one work-item each. */
static inline struct ca_ndrange ca_single_items(size_t x, size_t y, size_t z)
{
    return (struct ca_ndrange){{x, y, z}, {1, 1, 1}};
}

/* A launch of `groups` groups of `items` work-items each. */
static inline struct ca_ndrange ca_groups(size_t groups, size_t items)
{
    return (struct ca_ndrange){{groups * items, 1, 1}, {items, 1, 1}};
}

/* A launch of at least `items` independent work-items; the device decides how many form a group
 * (ca_stage_range()). */
static inline struct ca_ndrange ca_any_groups(size_t items)
{
    return (struct ca_ndrange){{items, 1, 1}, {0, 1, 1}};
}

/* One kernel of a family; stages run one after the other. */
struct ca_stage {
    const char *kernel; /* its name in the .cl file */
    uint64_t arguments; /* CA_BIT()s: its parameters (src/program/program_parameters.h) */
    /* The launch for a problem that is not empty; one of its sizes is 0 if the stage has nothing to
     * do. */
    struct ca_ndrange (*ndrange)(const struct ca_problem *p, const size_t *values);
};

/* Returns whether programs can mark tiles of the mask and the bias in a first pass
 * (src/families/pair_marks.c); sizes decide whether they do. */
int ca_has_pair_marks(const struct ca_problem *p);

/* Returns whether programs find means of keys in a first pass, to round keys' distances from them to bytes. */
static inline int ca_has_key_means(const struct ca_problem *p)
{
    return ca_is_attention(&p->normal) && p->normal.int8 && p->normal.k_cache != CLATTN_CACHE_INT8;
}

/* Returns whether the problem needs the stage, or its use of the workspace. */
static inline int ca_stage_is_of(const struct ca_stage *stage, const struct ca_problem *p)
{
    return !(stage->arguments &
             (CA_OF_BLOCKS | CA_OF_MARKS | CA_OF_PARTS | CA_OF_MEANS | CA_OF_BYTES)) ||
           ((stage->arguments & CA_OF_BYTES) && p->normal.int8) ||
           ((stage->arguments & CA_OF_MEANS) && ca_has_key_means(p)) ||
           ((stage->arguments & CA_OF_PARTS) && ca_problem_own_dtype(&p->normal) == CLATTN_F32) ||
           ((stage->arguments & CA_OF_BLOCKS) && p->normal.block_q) ||
           ((stage->arguments & CA_OF_MARKS) && ca_has_pair_marks(p));
}

/* Returns whether the program has the stage at all. */
static inline int ca_stage_exists(const struct ca_stage *stage, const struct ca_problem *p)
{
    return (stage->arguments & CA_READ_ONLY) || ca_stage_is_of(stage, p);
}

/* The CA_BIT()s of the buffers that the stage takes; tensors are those of the problem (ca_problem_tensors()). */
static inline uint64_t ca_stage_takes(const struct ca_stage *stage, const struct ca_problem *p,
                                      const struct ca_tensor tensors[CA_WORKSPACE])
{
    uint64_t takes = ca_stage_is_of(stage, p) ? CA_BIT(CA_WORKSPACE) : 0;

    for (unsigned n = 0; n < CA_WORKSPACE; n++)
        takes |= tensors[n].present ? CA_BIT(n) : 0;
    return takes & stage->arguments;
}

/* A family with one of its units of multiplication (families/units.h): structs of one name are one
 * family, and the tunable UNIT tells them apart. */
struct ca_family {
    const char *name;      /* "fused_cpu" */
    const char *full_name; /* "fused_cpu UNIT=amx"; the name where there is no such tunable */
    clattn_operation operation;
    /* OpenCL C in pieces, ended by NULL: the .cl file and its includes (families/source.h). */
    const char *const *source;
    const struct ca_tunable *tunables;
    size_t num_tunables;
    struct ca_stage stages[CA_MAX_STAGES];
    size_t num_stages;
    /* Whether a query's bits depend on its own keys alone where the problem is invariant. */
    int keeps_invariant;
    /* Whether it multiplies bytes, and so computes problems with precision=int8, and whether others too. */
    enum { CA_NO_BYTES, CA_BYTES_ALONE, CA_BYTES_TOO } multiplies_bytes;
    /* NULL if the family can compute p on dev, else why not; an invariant p only where
     * keeps_invariant is set, likewise bytes (ca_family_unsupported()). */
    const char *(*unsupported)(const struct ca_problem *p, const clattn_device_info *dev);
    /* values holds the .def's defaults; adjusts them to the problem and the device. */
    void (*adapt)(const struct ca_problem *p, const clattn_device_info *dev, size_t *values);
    /* NULL if the values fit, else why not. Candidate lists were checked before. */
    const char *(*reject)(const struct ca_problem *p, const clattn_device_info *dev,
                          const size_t *values);
    /* Bytes of the workspace; NULL: none. */
    size_t (*workspace_bytes)(const struct ca_problem *p, const size_t *values);
    /* Local memory of a work-group, at most; NULL: none. */
    size_t (*local_bytes)(const struct ca_problem *p, const size_t *values);
    /* Bytes that a work-item keeps in registers or private memory throughout; NULL: little. */
    size_t (*private_bytes)(const struct ca_problem *p, const size_t *values);
    /* Further options of the compiler, with a blank before each; NULL: none. */
    const char *(*options)(const size_t *values, const clattn_device_info *dev);
    /* The NVIDIA architecture ("sm_90a") with instructions of its own that the kernels use
     * (src/program/ptx.h); NULL, or a result of NULL: none. */
    const char *(*ptx_target)(const size_t *values);
    /* Whether the kernels have a separate path for problems in pieces (ca_trust_has_pieces()); the
     * self-check then tries that, too. */
    int copies_pieces;
    /* Asks the operating system for resources that the process needs before a kernel runs: NULL if
     * granted, else why not. NULL: nothing is needed. */
    const char *(*refused_by_system)(const clattn_device_info *dev);
    /* How well the family suits the problem, judged by the device's facts: 0 (only if forced or if no other family can) to
     * 100. With CA_ONLY_IF_FORCED neither a choice nor a tuning considers it. */
    int (*preference)(const struct ca_problem *p, const clattn_device_info *dev);
};

/* Members of a struct ca_family: its names, as one of the units of a family or as a family that has no
 * such tunable; its table of tunables (families/table.h); its stages. */
#define CA_UNIT_OF(family, unit) .name = family, .full_name = family " UNIT=" unit
#define CA_FAMILY(family) .name = family, .full_name = family
#define CA_TUNABLES(table) .tunables = table, .num_tunables = sizeof table / sizeof *table
#define CA_STAGES(...)                                                                             \
    .stages = {__VA_ARGS__},                                                                       \
    .num_stages = sizeof((const struct ca_stage[]){__VA_ARGS__}) / sizeof(struct ca_stage)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The plan: all facts about a computation that are known before its buffers. */
#ifndef CA_PLAN_H
#define CA_PLAN_H

#include "context/context.h"
#include "families/candidate.h"
#include "families/family.h"
#include "problem/chosen_keys.h"
#include "problem/problem.h"
#include <clattn/plan.h>

/* clSetKernelArg is not thread-safe on one kernel, so a plan holds several copies and a thread
 * takes a free one while it sets arguments and enqueues. */
enum { CA_KERNEL_COPIES = 8 };

struct ca_kernels {
    atomic_flag taken;
    cl_kernel stage[CA_MAX_STAGES];
};

/* A tensor as the execution checks it. */
struct ca_operand {
    const char *name;
    int present, written; /* the same as in struct ca_tensor */
    size_t element_bytes; /* bytes of an element; of a block, if quantized */
    size_t span;          /* elements from first to last; 0 if there are none */
    int optional;         /* not 0: present, but the caller may leave it out */
    clattn_cache cache;
    size_t sizes[4];      /* with the strides in layout: which places of the span hold elements; */
    clattn_layout layout; /* four zero sizes: all places do */
};

struct clattn_plan {
    clattn_context *context;
    struct ca_candidate candidate;
    /* from ca_program_get(), put back when the plan ends; NULL: the caller owns the program */
    cl_program program;
    char *why; /* a sentence: why this candidate was chosen */
    struct ca_problem problem;
    struct ca_operand operands[CA_NUM_ARGUMENTS];
    uint64_t takes[CA_MAX_STAGES]; /* by stage, the CA_BIT()s of its buffers */
    struct ca_ndrange range[CA_MAX_STAGES];
    int runs[CA_MAX_STAGES]; /* by stage; 0: the stage has nothing to do */
    int empty;               /* not 0: no stage runs */
    size_t workspace_bytes;
    struct ca_kernels *
        kernels; /* CA_KERNEL_COPIES; with the marks it keeps all that an execution changes. NULL where a
                                   profile stands in for a device. */
    struct ca_kept_marks *kept; /* NULL: none; has a lock of its own (execute/kept_marks.h) */
    clattn_plan *then;          /* NULL, or what runs after it on the same tensors; its own */
    clattn_plan *
        lists; /* NULL, or what reads lists of chosen keys before it, on the tensors as given; its own */
    clattn_plan *copies;          /* NULL, or what runs around each execution by copies; its own */
    struct ca_chosen_keys chosen; /* with lists: how this plan's problem was derived */
    char *problem_text;
    char tunables_text[CA_TUNABLES_TEXT];
};

/* The plan whose operands and text are those of the problem as it was given. */
static inline const clattn_plan *ca_plan_whole(const clattn_plan *plan)
{
    return plan->lists ? plan->lists : plan->then ? plan->then : plan;
}

/* Makes a plan from a candidate and the program that was built for it, NULL where a profile stands in
 * for a device. why: a sentence, which is copied. keep: the program is of ca_program_get(), and the plan puts it back, also
 * if it cannot be made; else it must outlive the plan. */
clattn_status ca_plan_make(clattn_context *context, const struct ca_candidate *candidate,
                           const char *why, const struct ca_problem *problem, cl_program program,
                           int keep, clattn_plan **plan);

/* Takes one of the copies of the plan's kernels for the calling thread, without a lock. If all are taken, it waits until
 * another thread has enqueued its kernels. */
struct ca_kernels *ca_kernels_take(const clattn_plan *plan);
void ca_kernels_give_back(struct ca_kernels *kernels);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The computation of one part by clattn: its problem, its plan, and the integers of its lengths. */
#ifndef MPI_PART_PLAN_H
#define MPI_PART_PLAN_H

#include "mpi/device.h"

/* The problem of a part, with layouts still those of this rank's tensors. */
clattn_problem part_problem(const clattn_mpi_plan *plan, const struct part *part);
clattn_layout layout_of(struct tensor tensor);

/* The plan of a part's problem, made at the first call; NULL with a fault. Borrowed until the next
 * call. */
const clattn_plan *part_plan(clattn_mpi_plan *plan, const clattn_problem *p);
void part_plans_release(clattn_mpi_plan *plan);

/* The plan's workspace, which the next part may share: the plan's queue is in order. */
clattn_buffer part_workspace(clattn_mpi_plan *plan, const clattn_plan *of);

/* q_lengths, kv_lengths, q_starts and kv_starts of a part; NULL where its problem has none. */
struct part_ints {
    cl_mem at[4];
};

void part_ints_make(clattn_mpi_plan *plan, const struct lengths *lengths, const struct part *part,
                    const clattn_problem *p, struct part_ints *ints);
void part_ints_release(struct part_ints *ints);

#endif

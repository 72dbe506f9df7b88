/* SPDX-License-Identifier: Apache-2.0 */
/* The marks of a mask function (cl/score/mark_pairs.h) that a plan keeps for its next executions, on any queue: those of the
 * last few values of parameters, places and versions. They are copied to the workspace in place of the stage that makes
 * them. */
#ifndef CA_KEPT_MARKS_H
#define CA_KEPT_MARKS_H

#include "execute/launch.h"
#include "families/candidate.h"

struct ca_kept_marks;

/* What a plan keeps of a problem, which outlives it: NULL, which ca_kept_marks_release() takes, if it has no marks of a mask
 * function alone in its workspace, or if there is no memory. Then each execution makes its marks. */
struct ca_kept_marks *ca_kept_marks_make(cl_context opencl, const struct ca_candidate *candidate,
                                         const struct ca_problem *problem, size_t workspace_bytes);
void ca_kept_marks_release(struct ca_kept_marks *kept);

/* Returns whether the stage makes what is kept, and this execution may keep it. kept may be NULL. */
int ca_marks_can_be_kept(const struct ca_kept_marks *kept, const struct ca_stage *stage,
                         const struct ca_tensors *tensors);

/* Enqueues the copy of kept marks to the workspace, after the wait list. Returns 0, with nothing that matters enqueued, if
 * these tensors' marks are not there. event may be NULL. */
int ca_kept_marks_copy(struct ca_kept_marks *kept, cl_command_queue queue,
                       const struct ca_tensors *tensors, cl_uint num_wait, const cl_event *wait,
                       cl_event *event);

/* Keeps the marks that a stage was enqueued to write. *made is the stage's event, and becomes that of the copy; made is NULL in
 * a queue that keeps the order. Without memory nothing is kept. */
void ca_kept_marks_add(struct ca_kept_marks *kept, cl_command_queue queue,
                       const struct ca_tensors *tensors, cl_event *made);

#endif

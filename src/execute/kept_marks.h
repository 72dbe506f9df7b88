/* SPDX-License-Identifier: Apache-2.0 */
/* The marks of a mask function (cl/score/mark_pairs.h) that a plan keeps for its next executions, on any queue: those of the last
 * few values of parameters, places and versions. They are copied to the workspace in place of the stage that makes them. */
#ifndef CA_KEPT_MARKS_H
#define CA_KEPT_MARKS_H

#include "execute/launch.h"
#include "execute/plan.h"

struct ca_kept_marks;

/* What a plan of these stages and this workspace keeps: NULL, which the functions below take, if it has no marks of a mask
 * function alone, or if there is no memory. Then each execution makes its marks. */
struct ca_kept_marks *ca_kept_marks_make(const clattn_plan *plan);
void ca_kept_marks_release(struct ca_kept_marks *kept);

/* Returns whether the stage makes what is kept, and this execution may keep it. */
int ca_marks_can_be_kept(const clattn_plan *plan, size_t stage, const struct ca_tensors *tensors);

/* Enqueues the copy of kept marks to the workspace, after the wait list. Returns 0, with nothing that matters enqueued, if these
 * tensors' marks are not there. event may be NULL. */
int ca_kept_marks_copy(const clattn_plan *plan, cl_command_queue queue,
                       const struct ca_tensors *tensors, cl_uint num_wait, const cl_event *wait,
                       cl_event *event);

/* Keeps the marks that a stage was enqueued to write. *made is the stage's event, and becomes that of the copy; made is NULL in a queue that
 * keeps the order. Without memory nothing is kept. */
void ca_kept_marks_add(const clattn_plan *plan, cl_command_queue queue,
                       const struct ca_tensors *tensors, cl_event *made);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Measures an execution beside its OpenCL calls. The one header of src/ that bench/ includes. */
#ifndef CA_BARE_H
#define CA_BARE_H

#include <clattn/plan.h>

/* Enqueues the kernels of the plan's last execution again, with the same arguments: nothing is
 * checked, set or waited for. The queue is in-order, only one thread uses the plan, and the memory
 * of that execution, its workspace included, still exists. */
cl_int ca_enqueue_bare(const clattn_plan *plan, cl_command_queue queue);

#endif

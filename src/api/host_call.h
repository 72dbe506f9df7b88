/* SPDX-License-Identifier: Apache-2.0 */
/* Executions on host memory: every operation's public function calls these with its own struct. */
#ifndef CA_HOST_CALL_H
#define CA_HOST_CALL_H

#include "execute/execute.h"
#include "problem/tensors.h"
#include <clattn/plan.h>

/* A host tensor and its copy on the device. One of the first two is not null if there is such a
 * tensor; the rest is cleared. */
struct ca_transfer {
    const void *input;
    void *output;
    cl_mem buffer;
    size_t bytes;
};

/* The checks that every such call begins with: there is a context, and the struct of tensors is
 * sound: mistake is NULL (ca_struct_read()). */
clattn_status ca_host_check(const clattn_context *context, const char *mistake);

/* Plans, and if the problem is of that operation copies, computes and copies back. with: dropout's seed,
 * stream and place; its buffers are not looked at. */
clattn_status ca_host_call(clattn_context *context, const clattn_problem *problem,
                           const clattn_plan_options *options, clattn_operation operation,
                           struct ca_transfer transfers[CA_WORKSPACE],
                           const struct ca_tensors *with);

#endif

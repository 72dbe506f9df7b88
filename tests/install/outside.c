/* SPDX-License-Identifier: Apache-2.0 */
/* A program outside the tree that knows only the installed headers and library. */
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The package leaves OpenCL's version to its user: a type newer than what clattn needs is there. */
static const cl_queue_properties no_properties[] = {0};

int main(void)
{
    const float q[1] = {1}, k[2] = {3, 3}, v[2] = {4, 8};
    float o[1] = {0};
    clattn_context *context;
    clattn_problem problem;
    const clattn_host_forward_tensors tensors = {
        .struct_size = sizeof tensors, .q = q, .k = k, .v = v, .o = o};

    if (strcmp(clattn_version_string(), CLATTN_VERSION_STRING) != 0 ||
        clattn_context_create_default(NULL, NULL, &context) != CLATTN_SUCCESS)
        return 1;
    clattn_problem_init(&problem);
    problem.seq_kv = 2;
    clattn_status status = clattn_attention_forward_host(context, &problem, NULL, &tensors);
    clattn_context_release(context);
    printf("clattn %s: %s, o = %g\n", clattn_version_string(), clattn_status_string(status), o[0]);
    return status == CLATTN_SUCCESS && no_properties[0] == 0 && fabsf(o[0] - 6) < 1e-5f ? 0 : 1;
}

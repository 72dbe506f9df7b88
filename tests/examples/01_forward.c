/* SPDX-License-Identifier: Apache-2.0 */
/* 01: attention in one call, on host memory. Keys are looked up, values come back. */
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>

/* Errors come as a status for the program and as a sentence for a person. */
static void print_message(clattn_log_level level, const char *message, void *user_data)
{
    (void)user_data;
    if (level <= CLATTN_LOG_WARNING)
        fprintf(stderr, "clattn: %s\n", message);
}

int main(void)
{
    const float k[3][4] = {{20, 0, 0, 0}, {0, 20, 0, 0}, {0, 0, 20, 0}};
    const float v[3][2] = {{1, 2}, {3, 4}, {5, 9}};
    const float q[2][4] = {{0, 20, 0, 0}, {0, 0, 0, 20}}; /* like key 1; like none of them */
    const float want[2][2] = {{3, 4}, {3, 5}};            /* value 1; the values' mean */
    float o[2][2];

    const clattn_context_options options = {.struct_size = sizeof options, .log = print_message};
    clattn_context *context;
    clattn_status status = clattn_context_create_default(NULL, &options, &context);
    if (status != CLATTN_SUCCESS) {
        fprintf(stderr, "%s: is an OpenCL driver installed?\n", clattn_status_string(status));
        return 1;
    }
    clattn_problem problem;
    clattn_problem_init(&problem); /* one batch, one head, f32 */
    problem.seq_q = 2;
    problem.seq_kv = 3;
    problem.dim_qk = 4;
    problem.dim_v = 2;
    const clattn_host_forward_tensors tensors = {
        .struct_size = sizeof tensors, .q = q, .k = k, .v = v, .o = o};
    status = clattn_attention_forward_host(context, &problem, NULL, &tensors);
    clattn_context_release(context);

    printf("%s\n", clattn_status_string(status));
    for (int i = 0; status == CLATTN_SUCCESS && i < 2; i++) {
        printf("query %d gets %.3f %.3f\n", i, o[i][0], o[i][1]);
        if (!(fabsf(o[i][0] - want[i][0]) < 1e-5f && fabsf(o[i][1] - want[i][1]) < 1e-5f))
            return 1;
    }
    return status;
}

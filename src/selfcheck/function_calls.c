/* SPDX-License-Identifier: Apache-2.0 */
#include "selfcheck/function_calls.h"
#include "context/in_flight.h"
#include "execute/launch.h"
#include "families/function_values.h"
#include "problem/function.h"
#include "problem/problem.h"
#include "program/program.h"
#include "program/program_parameters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)MOST_LOADS == (int)CA_FUNCTION_LOADS, "a record has room for all loads");

enum { NUM_PLACES = 6, SCORE = NUM_PLACES, SCORE_ERROR, FIRST_CALLS = 1024 };

struct ca_function_calls {
    float (*records)[RECORD];
    size_t count, room, next; /* next: the first that was not looked up yet */
    int computed;
    int failed; /* there was no memory for one */
};

extern const char *const ca_source_function_values[];

/* A family of the kernel that all programs with functions have (src/program/program_parameters.c), which is not checked
 * itself. */
static const struct ca_family function_values = {
    CA_FAMILY("function_values"),
    .source = ca_source_function_values,
};

int ca_function_calls_begin(struct ca_trust_case *c)
{
    return (c->calls = calloc(1, sizeof *c->calls)) != NULL;
}

void ca_function_calls_free(struct ca_function_calls *calls)
{
    if (calls)
        free(calls->records);
    free(calls);
}

/* ---- the device ------------------------------------------------------------------------------ */

/* A small problem with the same functions, so that all problems with them share a program. */
static struct ca_problem without_layouts(const clattn_problem *p)
{
    clattn_problem small;

    clattn_problem_init(&small);
    small.operation = p->operation;
    small.lse = p->operation == CLATTN_BACKWARD;
    small.score_function = p->score_function;
    small.mask_function = p->mask_function;
    small.dfunction = p->dfunction;
    return ca_problem_own(&small);
}

static cl_int set_arguments(const struct ca_trust_case *c, const struct ca_problem *of_program,
                            cl_kernel kernel, const cl_mem buffers[CA_WORKSPACE], cl_mem records)
{
    struct ca_tensors tensors = ca_trust_case_tensors(c, buffers);
    struct ca_tensor operands[CA_WORKSPACE];
    union ca_shape shape;
    cl_long offsets[CA_MOST_OFFSETS];

    ca_problem_tensors(&of_program->normal, operands);
    const uint64_t taken = ca_stage_takes(&ca_function_values_stage, of_program, operands);
    const size_t shape_bytes = ca_shape_of(&c->problem, &of_program->normal, &shape);
    const size_t offset_bytes = ca_offsets_of(&c->problem, taken, &tensors, offsets);
    cl_uint index = 0;
    cl_int err = clSetKernelArg(kernel, index++, shape_bytes, &shape);

    if (err == CL_SUCCESS)
        err = clSetKernelArg(kernel, index++, offset_bytes, offsets);
    for (unsigned n = CA_FUNCTION_0; err == CL_SUCCESS && n <= CA_FUNCTION_5; n++)
        if (buffers[n])
            err = clSetKernelArg(kernel, index++, sizeof(cl_mem), &buffers[n]);
    return err != CL_SUCCESS ? err : clSetKernelArg(kernel, index, sizeof records, &records);
}

/* Computes the calls with a program. */
static cl_int run(const clattn_context *ctx, const struct ca_trust_case *c,
                  const struct ca_problem *of_program, cl_program program,
                  const cl_mem buffers[CA_WORKSPACE])
{
    struct ca_function_calls *calls = c->calls;
    const size_t bytes = calls->count * sizeof *calls->records;
    cl_kernel kernel = NULL;
    cl_mem records = NULL;
    const size_t global[3] = {calls->count, 1, 1}, alone[3] = {1, 1, 1};
    cl_int err;

    cl_command_queue queue = clCreateCommandQueue(ctx->cl, ctx->device.device, 0, &err);
    if (err == CL_SUCCESS)
        records = clCreateBuffer(ctx->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes,
                                 calls->records, &err);
    if (err == CL_SUCCESS)
        kernel = clCreateKernel(program, "function_values", &err);
    if (err == CL_SUCCESS)
        err = set_arguments(c, of_program, kernel, buffers, records);
    if (err == CL_SUCCESS)
        err = ca_enqueue_kernel(ctx, queue, kernel, global, alone, 0, NULL, NULL);
    if (err == CL_SUCCESS)
        err = clEnqueueReadBuffer(queue, records, CL_TRUE, 0, bytes, calls->records, 0, NULL, NULL);
    if (queue)
        ca_finish(ctx, queue); /* after a failure too: the kernel may still use the buffers */
    if (kernel)
        clReleaseKernel(kernel);
    if (records)
        clReleaseMemObject(records);
    if (queue)
        clReleaseCommandQueue(queue);
    return err;
}

clattn_status ca_function_calls_compute(clattn_context *ctx, struct ca_trust_case *c)
{
    const struct ca_candidate candidate = {.family = &function_values};
    const struct ca_problem small = without_layouts(&c->problem);
    cl_mem buffers[CA_WORKSPACE] = {NULL};
    cl_program own = NULL;

    c->calls->computed = 1;
    if (c->calls->failed)
        return ca_fail(&ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for a self-check");
    if (c->calls->count == 0)
        return CLATTN_SUCCESS;
    clattn_status status = CLATTN_SUCCESS;
    if (!c->program)
        status = ca_program_get(ctx, &candidate, &small, ca_program_unchecked, &own);
    if (status != CLATTN_SUCCESS)
        return status;
    status = ca_trust_case_upload(ctx, c, buffers);
    if (status == CLATTN_SUCCESS) {
        const struct ca_problem checked = ca_problem_own(&c->problem);
        const cl_int err = run(ctx, c, own ? &small : &checked, own ? own : c->program, buffers);
        if (err != CL_SUCCESS)
            status = ca_fail_cl(&ctx->log, err, "computing functions for a self-check");
    }
    ca_trust_case_release(buffers);
    ca_program_put_back(ctx, own);
    return status;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void collect(struct ca_function_calls *calls, const float record[RECORD])
{
    if (calls->count == calls->room) {
        const size_t room = calls->room ? 2 * calls->room : FIRST_CALLS;
        void *more = realloc(calls->records, room * sizeof *calls->records);
        calls->failed |= more == NULL;
        if (!more)
            return;
        calls->records = more;
        calls->room = room;
    }
    memcpy(calls->records[calls->count++], record, sizeof *calls->records);
}

/* The results of a call; while calls are collected, those of a function that changes nothing. A pair that turns out
 * to be hidden has no further calls, so that some are skipped. */
static void call(const struct ca_trust_case *c, const struct ca_function_pair pair, float s,
                 float error, float record[RECORD])
{
    const int places[NUM_PLACES] = {(int)pair.b, (int)pair.h,       (int)pair.i,
                                    (int)pair.j, (int)pair.queries, (int)pair.keys};
    struct ca_function_calls *calls = c->calls;

    memset(record, 0, RECORD * sizeof *record);
    memcpy(record, places, sizeof places);
    record[SCORE] = s;
    record[SCORE_ERROR] = error;
    if (!calls->computed) {
        collect(calls, record);
        record[VALUE] = s;
        record[VALUE_ERROR] = error;
        record[DERIVATIVE] = record[VISIBLE] = 1.0f;
        return;
    }
    while (calls->next < calls->count &&
           memcmp(calls->records[calls->next], record, VALUE * sizeof *record) != 0)
        calls->next++;
    if (calls->next < calls->count)
        memcpy(record, calls->records[calls->next++], RECORD * sizeof *record);
    else
        record[VALUE] = NAN; /* a mistake of this file: no result is right */
}

int ca_function_sees(const struct ca_trust_case *c, const struct ca_function_pair pair)
{
    float record[RECORD];

    if (!c->calls || !c->problem.mask_function)
        return 1;
    call(c, pair, 0.0f, 0.0f, record);
    return record[VISIBLE] != 0.0f;
}

/* Rounding in the function, which may be compiled otherwise in another kernel. */
static const double rounding = 64.0 * CA_TRUST_ROUNDOFF;

/* The loads of a record. */
static void look_up_loads(const clattn_problem *p, const float record[RECORD],
                          struct ca_function_loads *loads)
{
    const size_t count = p->dfunction ? p->score_function->num_loads : 0;

    for (size_t n = 0; n < count; n++) {
        const float *load = record + LOADS + n * LOAD_RECORD;
        const double slope = (double)load[LOAD_DERIVATIVE];
        int32_t place;
        memcpy(&place, load + LOAD_PLACE, sizeof place);
        if (place < 0 || (size_t)place >= ca_function_gradients(p))
            continue;
        loads->place[loads->count] = (size_t)place;
        loads->derivative[loads->count++] =
            (struct ca_bounded){slope, (double)load[LOAD_ERROR] + rounding * (1.0 + fabs(slope))};
    }
}

struct ca_bounded ca_function_scores(const struct ca_trust_case *c,
                                     const struct ca_function_pair pair, struct ca_bounded s,
                                     struct ca_bounded *derivative, struct ca_function_loads *loads)
{
    float record[RECORD];

    loads->count = 0;
    *derivative = (struct ca_bounded){1.0, 0.0};
    if (!c->calls || !c->problem.score_function)
        return s;
    call(c, pair, (float)s.value, (float)(s.bound + CA_TRUST_ROUNDOFF * fabs(s.value)), record);
    if (c->calls->computed)
        look_up_loads(&c->problem, record, loads);
    const double value = (double)record[VALUE], slope = (double)record[DERIVATIVE];
    *derivative = (struct ca_bounded){slope, (double)record[DERIVATIVE_ERROR] +
                                                 rounding * (1.0 + fabs(slope))};
    if (value == -INFINITY)
        return (struct ca_bounded){value, 0.0};
    return (struct ca_bounded){value, (double)record[VALUE_ERROR] +
                                          rounding * (fabs(s.value) + fabs(value))};
}

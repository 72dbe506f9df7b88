/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/rows.h"
#include "mpi/part_plan.h"

#include <stdio.h>
#include <stdlib.h>

extern const char *const ca_source_shards[]; /* cl/elementwise/shards.cl */

static const char *const names[KERNELS] = {
    [KERNEL_COPY_ROWS] = "copy_rows",     [KERNEL_COPY_FLOATS] = "copy_floats",
    [KERNEL_ADD_FLOATS] = "add_floats",   [KERNEL_STORE_ROWS] = "store_rows",
    [KERNEL_WIDEN_ROWS] = "widen_rows",   [KERNEL_MERGE_STATE] = "merge_state",
    [KERNEL_STORE_STATE] = "store_state", [KERNEL_SINK_GRADIENTS] = "sink_gradients",
};

static void compile_kernels(clattn_mpi_plan *plan)
{
    const clattn_device_info *device = clattn_context_device(plan->context);
    char options[128];
    cl_uint pieces = 0;
    cl_int error;

    /* CPUs take a row at a time, which their compilers vectorise; drivers that have groups of one item
     * (doc/design/drivers.md) get these. */
    plan->columns = device->type == CL_DEVICE_TYPE_CPU ? 1 : 32;
    plan->rows = device->max_work_group_size >= 128 ? 128 / plan->columns : 1;
    if (device->max_work_group_size < plan->columns * plan->rows)
        plan->columns = 1;
    snprintf(options, sizeof options,
             "-cl-std=CL1.2 -DDTYPE=%d -DBIAS_DTYPE=0 -DCOLUMNS=%zu -DROWS=%zu",
             (int)plan->whole.dtype, plan->columns, plan->rows);
    while (ca_source_shards[pieces])
        pieces++;
    plan->program = clCreateProgramWithSource(clattn_context_opencl(plan->context), pieces,
                                              (const char **)ca_source_shards, NULL, &error);
    if (!fault_cl(&plan->fault, error, "clCreateProgramWithSource"))
        return;
    if (clBuildProgram(plan->program, 1, &device->device, options, NULL, NULL) != CL_SUCCESS)
        fault_set(&plan->fault, CLATTN_BUILD_FAILED, "cl/elementwise/shards.cl does not compile");
    for (int n = 0; n < KERNELS && fault_none(&plan->fault); n++) {
        plan->kernels[n] = clCreateKernel(plan->program, names[n], &error);
        fault_cl(&plan->fault, error, "clCreateKernel");
    }
}

void device_open(clattn_mpi_plan *plan)
{
    const clattn_device_info *device = clattn_context_device(plan->context);
    cl_bool shared = CL_FALSE;
    cl_int error;

    if (!clattn_context_opencl(plan->context)) {
        fault_set(&plan->fault, CLATTN_NO_DEVICE, "its context has no device, only a profile");
        return;
    }
    cl_command_queue *const queues[] = {&plan->queue, &plan->copies};
    for (size_t n = 0; n < sizeof queues / sizeof *queues && fault_none(&plan->fault); n++) {
        *queues[n] =
            clCreateCommandQueue(clattn_context_opencl(plan->context), device->device, 0, &error);
        fault_cl(&plan->fault, error, "clCreateCommandQueue");
    }
    if (fault_none(&plan->fault) &&
        fault_cl(&plan->fault,
                 clGetDeviceInfo(device->device, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof shared,
                                 &shared, NULL),
                 "clGetDeviceInfo"))
        compile_kernels(plan);
    plan->shares_memory = shared == CL_TRUE;
}

void device_close(clattn_mpi_plan *plan)
{
    if (plan->queue)
        clFinish(plan->queue);
    part_plans_release(plan);
    for (int n = 0; n < KERNELS; n++)
        if (plan->kernels[n])
            clReleaseKernel(plan->kernels[n]);
    for (int n = 0; n < POOLS; n++)
        if (plan->pools[n].buffer)
            clReleaseMemObject(plan->pools[n].buffer);
    if (plan->program)
        clReleaseProgram(plan->program);
    if (plan->queue)
        clReleaseCommandQueue(plan->queue);
    if (plan->copies)
        clReleaseCommandQueue(plan->copies);
    for (int n = 0; n < STAGINGS; n++)
        free(plan->stagings[n].bytes);
}

/* ---- arguments -------------------------------------------------------------------------------- */

static void rows_size(struct rows_call *call, const size_t size[4])
{
    const cl_ulong4 of = {{size[0], size[1], size[2], size[3]}};

    rows_argument(call, sizeof of, &of);
}

void rows_begin(struct rows_call *call, clattn_mpi_plan *plan, const enum kernel kernel,
                const size_t size[4])
{
    *call = (struct rows_call){.plan = plan,
                               .kernel = plan->kernels[kernel],
                               .count = size[0] * size[1] * size[2],
                               .tensors = 1};
    rows_size(call, size);
}

void rows_argument(struct rows_call *call, const size_t bytes, const void *value)
{
    if (!call->plan->dry && fault_none(&call->plan->fault))
        fault_cl(&call->plan->fault, clSetKernelArg(call->kernel, call->argument++, bytes, value),
                 "clSetKernelArg");
}

void rows_tensor(struct rows_call *call, const struct tensor tensor)
{
    const cl_ulong4 at = {{tensor.offset, tensor.stride[0], tensor.stride[1], tensor.stride[2]}};

    rows_argument(call, sizeof tensor.buffer, &tensor.buffer);
    rows_argument(call, sizeof at, &at);
}

void rows_run(struct rows_call *call)
{
    const clattn_mpi_plan *plan = call->plan;
    const size_t global[3] = {
        plan->columns, (call->count + plan->rows - 1) / plan->rows * plan->rows, call->tensors};
    const size_t local[3] = {plan->columns, plan->rows, 1};

    if (!plan->dry && fault_none(&plan->fault) && call->count > 0)
        fault_cl(&call->plan->fault,
                 clEnqueueNDRangeKernel(plan->queue, call->kernel, 3, NULL, global, local, 0, NULL,
                                        NULL),
                 "clEnqueueNDRangeKernel");
}

void device_move_both(clattn_mpi_plan *plan, const enum kernel kernel, const struct move moves[2])
{
    struct rows_call call;
    size_t count[2];

    for (int n = 0; n < 2; n++)
        count[n] = moves[n].size[0] * moves[n].size[1] * moves[n].size[2];
    if (count[0] == 0)
        return;
    rows_begin(&call, plan, kernel, moves[0].size);
    rows_tensor(&call, moves[0].from);
    rows_tensor(&call, moves[0].to);
    const struct move *second = count[1] > 0 ? &moves[1] : &moves[0];
    rows_size(&call, second->size);
    rows_tensor(&call, second->from);
    rows_tensor(&call, second->to);
    call.count = count[1] > count[0] ? count[1] : count[0];
    call.tensors = count[1] > 0 ? 2 : 1;
    rows_run(&call);
}

void device_move(clattn_mpi_plan *plan, const enum kernel kernel, const size_t size[4],
                 const struct tensor from, const struct tensor to)
{
    const struct move moves[2] = {
        {.size = {size[0], size[1], size[2], size[3]}, .from = from, .to = to}, {.size = {0}}};

    device_move_both(plan, kernel, moves);
}

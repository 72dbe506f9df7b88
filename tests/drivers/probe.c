/* SPDX-License-Identifier: Apache-2.0 */
/* Builds one kernel, runs it, and tells whether it did what OpenCL promises:
 *   probe KERNEL.cl [OPTIONS]
 * The file's kernel `probe` writes 1 to right[] of each work-item that found what it should, in four groups
 * of the size that the kernel requires. Exit status: 0 right, 1 wrong, 2 it could not be tried. Some
 * drivers end the process: a shell sees that. */
#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 4, MOST_ITEMS = 1024 };

/* The device of which CLATTN_DEVICE names the platform or the device, in part; the first without. */
static cl_device_id find_device(void)
{
    const char *wanted = getenv("CLATTN_DEVICE");
    cl_platform_id platforms[16];
    cl_uint num_platforms = 0;

    if (clGetPlatformIDs(16, platforms, &num_platforms) != CL_SUCCESS)
        return NULL;
    for (cl_uint p = 0; p < num_platforms && p < 16; p++) {
        cl_device_id devices[16];
        cl_uint num_devices = 0;
        char platform[256] = "", device[256] = "";

        clGetPlatformInfo(platforms[p], CL_PLATFORM_NAME, sizeof platform, platform, NULL);
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, devices, &num_devices) !=
            CL_SUCCESS)
            continue;
        for (cl_uint d = 0; d < num_devices && d < 16; d++) {
            clGetDeviceInfo(devices[d], CL_DEVICE_NAME, sizeof device, device, NULL);
            if (!wanted || strstr(platform, wanted) || strstr(device, wanted))
                return devices[d];
        }
    }
    return NULL;
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);

    if (f && text)
        text[fread(text, 1, (1 << 16) - 1, f)] = 0;
    if (f)
        fclose(f);
    return text;
}

static void print_log(cl_program program, cl_device_id device)
{
    static char log[8192];

    if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL) ==
        CL_SUCCESS)
        fprintf(stderr, "%s\n", log);
}

/* Runs the kernel; -1 if it could not, else how many items were wrong. */
static long run(cl_context context, cl_command_queue queue, cl_device_id device, cl_kernel kernel)
{
    size_t local[3] = {0}, items;
    cl_int err, right[GROUPS * MOST_ITEMS] = {0};
    long wrong = 0;

    err = clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof local,
                                   local, NULL);
    if (err != CL_SUCCESS || local[0] == 0 || local[0] > MOST_ITEMS)
        return -1;
    items = GROUPS * local[0];
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof right,
                                   right, &err);
    if (err != CL_SUCCESS)
        return -1;
    if (clSetKernelArg(kernel, 0, sizeof buffer, &buffer) != CL_SUCCESS ||
        clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, local, 0, NULL, NULL) !=
            CL_SUCCESS ||
        clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof right, right, 0, NULL, NULL) !=
            CL_SUCCESS)
        wrong = -1;
    for (size_t n = 0; wrong >= 0 && n < items; n++)
        wrong += right[n] != 1;
    clReleaseMemObject(buffer);
    return wrong;
}

int main(int argc, char **argv)
{
    const char *options = argc > 2 ? argv[2] : "";
    cl_device_id device = find_device();
    char *source = argc > 1 ? read_file(argv[1]) : NULL;
    cl_kernel kernel = NULL;
    long wrong = -1;

    if (!device || !source || !*source) {
        fprintf(stderr, "usage: probe KERNEL.cl [OPTIONS], with an OpenCL device\n");
        free(source);
        return 2;
    }
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = context ? clCreateCommandQueue(context, device, 0, NULL) : NULL;
    cl_program program =
        queue ? clCreateProgramWithSource(context, 1, (const char **)&source, NULL, NULL) : NULL;
    if (program && clBuildProgram(program, 1, &device, options, NULL, NULL) == CL_SUCCESS)
        kernel = clCreateKernel(program, "probe", NULL);
    else if (program)
        print_log(program, device);
    if (kernel) {
        wrong = run(context, queue, device, kernel);
        clReleaseKernel(kernel);
    }
    if (program)
        clReleaseProgram(program);
    if (queue)
        clReleaseCommandQueue(queue);
    if (context)
        clReleaseContext(context);
    free(source);
    if (wrong > 0)
        printf("%ld work-items are wrong\n", wrong);
    return wrong < 0 ? 2 : wrong > 0;
}

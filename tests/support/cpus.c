/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/cpus.h"

#include <stdio.h>

/* As PoCL, Intel's and AMD's runtimes and Mesa's llvmpipe have it, and one that nobody knows. */
static const char *const vendors[NUM_CPU_VENDORS] = {
    "GenuineIntel", "AuthenticAMD",         "ARM",
    "unknown",      "Intel(R) Corporation", "Advanced Micro Devices, Inc.",
    "Mesa",         "NVIDIA Corporation"};

clattn_device_info cpu_described(size_t index)
{
    clattn_device_info cpu = {.struct_size = sizeof cpu,
                              .device_version = "OpenCL 3.0",
                              .driver_version = "1",
                              .platform_name = "CPUs",
                              .platform_version = "OpenCL 3.0",
                              .extensions = "cl_khr_byte_addressable_store cl_khr_fp64",
                              .type = CL_DEVICE_TYPE_CPU,
                              .opencl_version = 30,
                              .opencl_c_version = 12,
                              .compute_units = 8,
                              .address_bits = 64,
                              .vector_width_float = 4u << index / NUM_CPU_VENDORS,
                              .max_work_group_size = 4096,
                              .max_work_item_sizes = {4096, 4096, 4096},
                              .max_parameter_bytes = 1024,
                              .local_memory_bytes = 512 << 10,
                              .global_memory_bytes = (cl_ulong)16 << 30,
                              .max_allocation_bytes = (cl_ulong)4 << 30,
                              .compiler_available = CL_TRUE,
                              .fp64 = CL_TRUE,
                              .little_endian = CL_TRUE};

    const char *vendor = vendors[index % NUM_CPU_VENDORS];
    snprintf(cpu.vendor, sizeof cpu.vendor, "%s", vendor);
    snprintf(cpu.name, sizeof cpu.name, "CPU with vectors of %u by %.40s", cpu.vector_width_float,
             vendor);
    return cpu;
}

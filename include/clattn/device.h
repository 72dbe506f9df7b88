/* SPDX-License-Identifier: Apache-2.0 */
/** @file device.h  Finding an OpenCL device and the facts that decide how attention runs on it, or
 *  reading such facts from a file (a profile) where the device is not at hand. @ingroup preparing */
#ifndef CLATTN_DEVICE_H
#define CLATTN_DEVICE_H

#include <clattn/export.h>
#include <clattn/status.h>
#include <stddef.h>

CLATTN_BEGIN

/** Facts about a device, as its driver states them. Texts are cut at their array's size. */
typedef struct clattn_device_info {
    size_t struct_size;         /**< Set by the caller to sizeof(clattn_device_info). */
    cl_platform_id platform;    /**< NULL where a profile stands in for a device. */
    cl_device_id device;        /**< NULL where a profile stands in for a device. */
    char name[128];             /**< CL_DEVICE_NAME. */
    char vendor[128];           /**< CL_DEVICE_VENDOR. */
    char driver_version[128];   /**< CL_DRIVER_VERSION. */
    char device_version[128];   /**< CL_DEVICE_VERSION, for example "OpenCL 3.0 PoCL ...". */
    char platform_name[128];    /**< CL_PLATFORM_NAME. */
    char platform_version[128]; /**< CL_PLATFORM_VERSION. */
    /** What instructions it has, as its vendor's extensions state it: "sm_90", "gfx90a",
     *  "intel_12.55"; "" if they don't. Of a CPU whose name is that of the processor that the library
     *  runs on, as the processor itself states it, words with a space between: "avx512_bf16", with
     *  AVX512-BF16; "amx_bf16", with AMX-BF16, AMX-INT8 and a Linux that keeps their tiles; "amx_bf16_off", with
     *  both and a system that keeps no tiles; "vnni", with AVX512-VNNI; "avx_vnni", with
     *  AVX-VNNI alone; or "". */
    char architecture[32];
    char extensions[4096];       /**< Names with a space between; whole ones only if cut. */
    cl_device_type type;         /**< Bits CL_DEVICE_TYPE_CPU, _GPU, _ACCELERATOR. */
    unsigned opencl_version;     /**< 10 * major + minor of the device: 12, 20, 21, 30. */
    unsigned opencl_c_version;   /**< The same for its OpenCL C. */
    unsigned compute_units;      /**< CL_DEVICE_MAX_COMPUTE_UNITS. */
    unsigned address_bits;       /**< Bits of an address in a kernel: 32 or 64. */
    unsigned vector_width_float; /**< CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT. */
    unsigned sub_group_size; /**< Work-items that run in lockstep (warp, wavefront), the least if
                                  there is a choice; 0 if no vendor's extension states it. */
    /** As the driver states it, or 1 where it is known to compile larger work-groups wrongly (PoCL
     *  newer than 3 on CPUs). */
    size_t max_work_group_size;
    /** Most work-items along each dimension; like max_work_group_size. */
    size_t max_work_item_sizes[3];
    size_t max_parameter_bytes; /**< Most bytes of all arguments of a kernel. */
    /** Of a work-group, at most: as the driver states it, or where arrays that kernels declare are known
     *  to be allowed more than arguments (NVIDIA's sm_90, from driver 580 on), that. */
    cl_ulong local_memory_bytes;
    cl_ulong global_memory_bytes;   /**< Bytes of the device's global memory. */
    cl_ulong max_allocation_bytes;  /**< Most bytes of one buffer. */
    cl_bool local_memory_dedicated; /**< CL_LOCAL, not a part of global memory. */
    cl_bool compiler_available;     /**< Whether it can build programs from source. */
    cl_bool fp16;                   /**< cl_khr_fp16. f16 storage works without it. */
    cl_bool fp64;                   /**< cl_khr_fp64. */
    cl_bool little_endian;          /**< Whether it is little-endian; other devices are refused. */
} clattn_device_info;

/**
 * The facts of one device.
 *
 * @param device  Not null.
 * @param info    Not null; its struct_size says how much of it the caller knows. Filled on
 *                success, cleared but for struct_size on failure.
 * @retval CLATTN_SUCCESS           Filled.
 * @retval CLATTN_INVALID_ARGUMENT  A null, a struct_size of none of this library's versions, or
 *                                  not a device.
 * @retval CLATTN_OUT_OF_MEMORY     No host memory.
 * @retval CLATTN_OPENCL_ERROR      The driver refused a query that OpenCL 1.2 demands.
 */
CLATTN_API clattn_status clattn_device_query(cl_device_id device, clattn_device_info *info);

/**
 * Facts of a device that is not at hand, from the text of a profile: a JSON document whose form
 * bench/profiles/README.md describes. For clattn_context_options::profile.
 *
 * @param text          @p text_bytes bytes; need not end with 0.
 * @param text_bytes    The size of @p text.
 * @param info          Not null; its struct_size as for clattn_device_query(). Filled on success,
 *                      with null platform and device; cleared but for struct_size on failure.
 * @param reason        NULL, or receives one sentence ("" on success), cut to @p reason_bytes.
 * @param reason_bytes  The size of @p reason.
 * @retval CLATTN_SUCCESS           Filled.
 * @retval CLATTN_INVALID_ARGUMENT  A null, or a struct_size of none of this library's versions.
 * @retval CLATTN_FILE_ERROR        Not a profile, or a fact is missing, unknown or beyond its
 *                                  limits: the reason names it.
 * @retval CLATTN_OUT_OF_MEMORY     No host memory.
 */
CLATTN_API clattn_status clattn_device_profile_parse(const char *text, size_t text_bytes,
                                                     clattn_device_info *info, char *reason,
                                                     size_t reason_bytes);

/**
 * Every device of every platform, in the loader's order; an index here is the index that
 * clattn_device_select() takes. A platform that fails has none here, as long as another has one.
 *
 * @param devices   NULL, or room for @p capacity devices.
 * @param capacity  0 if @p devices is NULL.
 * @param count     Not null; receives how many there are, which may exceed @p capacity.
 * @retval CLATTN_SUCCESS           @p count is set; at most @p capacity entries were written.
 * @retval CLATTN_INVALID_ARGUMENT  @p count is null, or @p devices is null and @p capacity not 0.
 * @retval CLATTN_NO_DEVICE         There is none, and no platform failed; @p count is 0.
 * @retval CLATTN_OPENCL_ERROR      There is none, and a platform (or the loader) failed when asked
 *                                  for its devices: a driver is installed, but does not work.
 * @retval CLATTN_OUT_OF_MEMORY     No memory for the list.
 */
CLATTN_API clattn_status clattn_device_list(cl_device_id *devices, size_t capacity, size_t *count);

/**
 * Chooses a device.
 *
 * @param selector  An index into clattn_device_list(), or a part of the device's, vendor's or
 *                  platform's name (case is ignored; the first match wins). NULL or "" means: the
 *                  environment variable CLATTN_DEVICE, read likewise; where that is unset the
 *                  first GPU, else the first accelerator, else the first CPU.
 * @param device    Not null; receives the device, or NULL on failure.
 * @retval CLATTN_SUCCESS           Chosen.
 * @retval CLATTN_INVALID_ARGUMENT  @p device is null.
 * @retval CLATTN_NO_DEVICE         No device matches.
 * @retval CLATTN_OPENCL_ERROR      No device matches, and one of them or a platform failed when it
 *                                  was asked: it may be the one.
 * @retval CLATTN_OUT_OF_MEMORY     No memory for the list.
 */
CLATTN_API clattn_status clattn_device_select(const char *selector, cl_device_id *device);

CLATTN_END

#endif

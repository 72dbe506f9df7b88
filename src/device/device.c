/* SPDX-License-Identifier: Apache-2.0 */
#include "base/structs.h"
#include "base/utf8.h"
#include "base/variables.h"
#include "device/facts.h"
#include "device/processor.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- facts ----------------------------------------------------------------------------------- */

/* A fact of a device, or of a platform where that is NULL. */
static cl_int ask(cl_device_id device, cl_platform_id platform, cl_uint what, size_t bytes,
                  void *value, size_t *needed)
{
    return device ? clGetDeviceInfo(device, what, bytes, value, needed)
                  : clGetPlatformInfo(platform, what, bytes, value, needed);
}

/* Texts that do not fit are cut: drivers put build details into them. They are for people to read as well. */
static cl_int query_text(cl_device_id device, cl_platform_id platform, cl_uint what, char *text,
                         size_t text_bytes)
{
    size_t bytes = 0;
    cl_int err = ask(device, platform, what, 0, NULL, &bytes);
    char *whole = err == CL_SUCCESS ? calloc(bytes + 1, 1) : NULL;

    if (err == CL_SUCCESS && !whole)
        return CL_OUT_OF_HOST_MEMORY;
    if (err == CL_SUCCESS)
        err = ask(device, platform, what, bytes, whole, NULL);
    if (err == CL_SUCCESS)
        strncat(text, whole, text_bytes - 1);
    ca_make_printable(text);
    free(whole);
    return err;
}

/* "OpenCL 3.0 ..." and "OpenCL C 1.2 ..." give 30 and 12; 0 for anything else. */
static unsigned version_number(const char *text)
{
    while (*text && !isdigit((unsigned char)*text))
        text++;
    char *end;
    const unsigned long major = strtoul(text, &end, 10);
    if (end == text || *end != '.' || !isdigit((unsigned char)end[1]))
        return 0;
    return (unsigned)major * 10 + (unsigned)(end[1] - '0');
}

/* Lists the names of extensions, without a last name that was cut off. */
static cl_int query_extensions(cl_device_id device, clattn_device_info *info)
{
    const cl_int err =
        query_text(device, NULL, CL_DEVICE_EXTENSIONS, info->extensions, sizeof info->extensions);
    const size_t length = strlen(info->extensions);
    char *last = strrchr(info->extensions, ' ');

    if (length == sizeof info->extensions - 1 && last)
        *last = '\0';
    info->fp16 = ca_facts_have(info, "cl_khr_fp16");
    info->fp64 = ca_facts_have(info, "cl_khr_fp64");
    return err;
}

static unsigned query_uint(cl_device_id device, cl_device_info what)
{
    cl_uint value = 0;

    return clGetDeviceInfo(device, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

/* Queries the facts of vendors' extensions. Only newer headers have their constants, in cl_ext.h.
 * */
static void query_vendor(cl_device_id device, clattn_device_info *info)
{
    enum {
        COMPUTE_CAPABILITY_MAJOR_NV = 0x4000,
        COMPUTE_CAPABILITY_MINOR_NV = 0x4001,
        WARP_SIZE_NV = 0x4003,
        WAVEFRONT_WIDTH_AMD = 0x4043,
        SUB_GROUP_SIZES_INTEL = 0x4108,
        IP_VERSION_INTEL = 0x4250
    };
    char *const architecture = info->architecture;
    size_t sizes[16] = {0};

    if (ca_facts_have(info, "cl_nv_device_attribute_query")) {
        const unsigned major = query_uint(device, COMPUTE_CAPABILITY_MAJOR_NV);
        info->sub_group_size = query_uint(device, WARP_SIZE_NV);
        if (major > 0)
            snprintf(architecture, sizeof info->architecture, "sm_%u%u", major,
                     query_uint(device, COMPUTE_CAPABILITY_MINOR_NV));
    }
    if (ca_facts_have(info, "cl_amd_device_attribute_query")) {
        info->sub_group_size = query_uint(device, WAVEFRONT_WIDTH_AMD);
        if (strncmp(info->name, "gfx", 3) == 0) /* "gfx90a:sramecc+:xnack-" */
            snprintf(architecture, sizeof info->architecture, "%.*s", (int)strcspn(info->name, ":"),
                     info->name);
    }
    if (ca_facts_have(info, "cl_intel_device_attribute_query")) {
        const unsigned version = query_uint(device, IP_VERSION_INTEL);
        if (version > 0)
            snprintf(architecture, sizeof info->architecture, "intel_%u.%u", version >> 22,
                     version >> 14 & 0xff);
    }
    if (ca_facts_have(info, "cl_intel_required_subgroup_size") &&
        clGetDeviceInfo(device, SUB_GROUP_SIZES_INTEL, sizeof sizes, sizes, NULL) == CL_SUCCESS)
        for (size_t n = 0; n < sizeof sizes / sizeof *sizes && sizes[n]; n++)
            if (info->sub_group_size == 0 || sizes[n] < info->sub_group_size)
                info->sub_group_size = (unsigned)sizes[n];
}

/* The local memory that NVIDIA's driver states, 48 KB, is the limit of kernel arguments. Arrays
 * that a kernel declares may be as large as the multiprocessor allows (CUDA C++ Programming Guide,
 * "Technical Specifications per Compute Capability"), and clattn's kernels declare theirs. This
 * holds only where it was seen (doc/design/drivers.md): other drivers, or for other architectures, may
 * refuse it, as ptxas by itself does. */
static void query_declared_local_memory(clattn_device_info *info)
{
    static const struct {
        const char *architecture;
        long driver;
        unsigned kilobytes;
    } limits[] = {{"sm_90", 580, 227}};
    const size_t drivers_own = 1024; /* 16 bytes were seen beside a kernel's */

    if (!ca_facts_have(info, "cl_nv_device_attribute_query"))
        return;
    for (size_t n = 0; n < sizeof limits / sizeof *limits; n++)
        if (strcmp(info->architecture, limits[n].architecture) == 0 &&
            strtol(info->driver_version, NULL, 10) >= limits[n].driver)
            info->local_memory_bytes = 1024 * limits[n].kilobytes - drivers_own;
}

static cl_int query_numbers(cl_device_id device, clattn_device_info *info)
{
    cl_uint units = 0, bits = 0, width = 0;
    size_t item_sizes[16] = {0};
    cl_device_local_mem_type local_type = CL_GLOBAL;
    const struct {
        cl_device_info what;
        size_t bytes;
        void *value;
    } facts[] = {
        {CL_DEVICE_PLATFORM, sizeof info->platform, &info->platform},
        {CL_DEVICE_TYPE, sizeof info->type, &info->type},
        {CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units},
        {CL_DEVICE_ADDRESS_BITS, sizeof bits, &bits},
        {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, sizeof width, &width},
        {CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof info->max_work_group_size,
         &info->max_work_group_size},
        {CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof item_sizes, item_sizes},
        {CL_DEVICE_MAX_PARAMETER_SIZE, sizeof info->max_parameter_bytes,
         &info->max_parameter_bytes},
        {CL_DEVICE_LOCAL_MEM_SIZE, sizeof info->local_memory_bytes, &info->local_memory_bytes},
        {CL_DEVICE_LOCAL_MEM_TYPE, sizeof local_type, &local_type},
        {CL_DEVICE_GLOBAL_MEM_SIZE, sizeof info->global_memory_bytes, &info->global_memory_bytes},
        {CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof info->max_allocation_bytes,
         &info->max_allocation_bytes},
        {CL_DEVICE_COMPILER_AVAILABLE, sizeof info->compiler_available, &info->compiler_available},
        {CL_DEVICE_ENDIAN_LITTLE, sizeof info->little_endian, &info->little_endian},
    };

    for (size_t n = 0; n < sizeof facts / sizeof *facts; n++) {
        const cl_int err =
            clGetDeviceInfo(device, facts[n].what, facts[n].bytes, facts[n].value, NULL);
        if (err != CL_SUCCESS)
            return err;
    }
    info->compute_units = units;
    info->address_bits = bits;
    info->vector_width_float = width;
    memcpy(info->max_work_item_sizes, item_sizes, sizeof info->max_work_item_sizes);
    info->local_memory_dedicated = local_type == CL_LOCAL;
    return CL_SUCCESS;
}

static cl_int query_texts(cl_device_id device, clattn_device_info *info)
{
    char c_version[64] = "";
    const struct {
        cl_device_id device; /* NULL: the platform */
        cl_uint what;
        char *text;
        size_t bytes;
    } texts[] = {
        {device, CL_DEVICE_NAME, info->name, sizeof info->name},
        {device, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor},
        {device, CL_DRIVER_VERSION, info->driver_version, sizeof info->driver_version},
        {device, CL_DEVICE_VERSION, info->device_version, sizeof info->device_version},
        {device, CL_DEVICE_OPENCL_C_VERSION, c_version, sizeof c_version},
        {NULL, CL_PLATFORM_NAME, info->platform_name, sizeof info->platform_name},
        {NULL, CL_PLATFORM_VERSION, info->platform_version, sizeof info->platform_version},
    };
    cl_int err = CL_SUCCESS;

    for (size_t n = 0; n < sizeof texts / sizeof *texts && err == CL_SUCCESS; n++)
        err = query_text(texts[n].device, info->platform, texts[n].what, texts[n].text,
                         texts[n].bytes);
    if (err == CL_SUCCESS)
        err = query_extensions(device, info);
    if (err != CL_SUCCESS)
        return err;
    query_vendor(device, info);
    query_declared_local_memory(info);
    if (info->type & CL_DEVICE_TYPE_CPU && !info->architecture[0])
        ca_processor_architecture(info->name, info->architecture, sizeof info->architecture);
    info->opencl_version = version_number(info->device_version);
    info->opencl_c_version = version_number(c_version);
    return CL_SUCCESS;
}

/* On CPUs PoCL newer than 3 computes wrong results: it takes some values that live across a barrier, at random, for the same
 * in all items of a group (doc/design/drivers.md). Groups of one item are right, and clattn's families for CPUs need no
 * others. */
static void limit_groups(clattn_device_info *info)
{
    if (!ca_facts_of_pocl(info) || !(info->type & CL_DEVICE_TYPE_CPU) ||
        strtol(info->driver_version, NULL, 10) <= 3)
        return;
    info->max_work_group_size = 1;
    for (size_t n = 0; n < 3; n++)
        info->max_work_item_sizes[n] = 1;
}

static void clear(clattn_device_info *info)
{
    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
}

clattn_status clattn_device_query(cl_device_id device, clattn_device_info *info)
{
    clattn_device_info found;
    char why[CA_REASON_BYTES];

    if (!CA_FILLABLE(clattn_device_info, "info", info, why))
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "%s", why);
    clear(&found);
    ca_struct_fill(info, &found, sizeof found);
    if (!device)
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "device is null");
    found.device = device;
    cl_int err = query_numbers(device, &found);
    if (err == CL_SUCCESS)
        err = query_texts(device, &found);
    if (err == CL_SUCCESS) {
        limit_groups(&found);
        ca_struct_fill(info, &found, sizeof found);
        return CLATTN_SUCCESS;
    }
    return ca_refuse(err == CL_INVALID_DEVICE       ? CLATTN_INVALID_ARGUMENT
                     : err == CL_OUT_OF_HOST_MEMORY ? CLATTN_OUT_OF_MEMORY
                                                    : CLATTN_OPENCL_ERROR,
                     "the device cannot be asked for its facts: OpenCL's error %d", err);
}

/* ---- finding --------------------------------------------------------------------------------- */

/* A loader without any platform returns this code, which newer headers have in cl_ext.h. */
enum { PLATFORM_NOT_FOUND_KHR = -1001 };

static clattn_status failure_status(cl_int err)
{
    return err == CL_OUT_OF_HOST_MEMORY ? CLATTN_OUT_OF_MEMORY : CLATTN_OPENCL_ERROR;
}

/* Returns the number of devices of a platform. A platform that fails has none, and sets *failure;
 * having none is no failure. */
static cl_uint platform_devices(cl_platform_id platform, cl_uint capacity, cl_device_id *devices,
                                cl_int *failure)
{
    cl_uint count = 0;
    const cl_int err =
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, capacity, capacity ? devices : NULL, &count);

    if (err != CL_SUCCESS && err != CL_DEVICE_NOT_FOUND)
        *failure = err;
    return err == CL_SUCCESS ? count : 0;
}

static clattn_status list_platforms(cl_platform_id **platforms, cl_uint *count)
{
    cl_int err = clGetPlatformIDs(0, NULL, count);

    *platforms = NULL;
    if (err == PLATFORM_NOT_FOUND_KHR || (err == CL_SUCCESS && *count == 0))
        return CLATTN_NO_DEVICE;
    if (err == CL_SUCCESS) {
        *platforms = calloc(*count, sizeof **platforms);
        err = *platforms ? clGetPlatformIDs(*count, *platforms, NULL) : CL_OUT_OF_HOST_MEMORY;
    }
    if (err == CL_SUCCESS)
        return CLATTN_SUCCESS;
    free(*platforms);
    return failure_status(err);
}

static clattn_status refuse_list(clattn_status status)
{
    return ca_refuse(status, status == CLATTN_NO_DEVICE ? "no OpenCL platform has a device"
                             : status == CLATTN_OUT_OF_MEMORY
                                 ? "no memory for a list of devices"
                                 : "a driver fails when it is asked for its devices");
}

clattn_status clattn_device_list(cl_device_id *devices, size_t capacity, size_t *count)
{
    cl_platform_id *platforms;
    cl_uint num_platforms = 0;
    cl_int failure = CL_SUCCESS;

    if (count)
        *count = 0;
    if (!count || (!devices && capacity > 0))
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "count or devices is null");
    clattn_status status = list_platforms(&platforms, &num_platforms);
    if (status != CLATTN_SUCCESS)
        return refuse_list(status);
    for (cl_uint n = 0; n < num_platforms; n++) {
        const cl_uint here = platform_devices(platforms[n], 0, NULL, &failure);
        cl_device_id *own = here ? calloc(here, sizeof *own) : NULL;
        if (here && !own) {
            *count = 0;
            status = CLATTN_OUT_OF_MEMORY;
            break;
        }
        const cl_uint found = here ? platform_devices(platforms[n], here, own, &failure) : 0;
        for (cl_uint d = 0; d < found && d < here; d++, ++*count)
            if (*count < capacity)
                devices[*count] = own[d];
        free(own);
    }
    free(platforms);
    if (status == CLATTN_SUCCESS && *count == 0)
        status = failure == CL_SUCCESS ? CLATTN_NO_DEVICE : failure_status(failure);
    return status == CLATTN_SUCCESS ? status : refuse_list(status);
}

static int contains(const char *text, const char *part)
{
    const size_t length = strlen(part);

    for (; *text; text++) {
        size_t n = 0;
        while (n < length && text[n] &&
               tolower((unsigned char)text[n]) == tolower((unsigned char)part[n]))
            n++;
        if (n == length)
            return 1;
    }
    return 0;
}

/* Returns the first device that the selector names; count if there is none. A device that cannot be
 * queried does not match, and sets *failure. */
static size_t select_named(const cl_device_id *devices, size_t count, const char *selector,
                           clattn_status *failure)
{
    char *end;
    const unsigned long index = strtoul(selector, &end, 10);

    if (isdigit((unsigned char)*selector) && *end == '\0')
        return index < count ? (size_t)index : count;
    for (size_t n = 0; n < count; n++) {
        clattn_device_info info = {.struct_size = sizeof info};
        const clattn_status status = clattn_device_query(devices[n], &info);
        if (status != CLATTN_SUCCESS)
            *failure = status;
        else if (contains(info.name, selector) || contains(info.vendor, selector) ||
                 contains(info.platform_name, selector))
            return n;
    }
    return count;
}

/* The index of the first device of the most preferred type. */
static size_t select_default(const cl_device_id *devices, size_t count, clattn_status *failure)
{
    static const cl_device_type order[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR,
                                           CL_DEVICE_TYPE_CPU};

    for (size_t t = 0; t < sizeof order / sizeof *order; t++) {
        for (size_t n = 0; n < count; n++) {
            cl_device_type type = 0;
            const cl_int err =
                clGetDeviceInfo(devices[n], CL_DEVICE_TYPE, sizeof type, &type, NULL);
            if (err != CL_SUCCESS)
                *failure = failure_status(err);
            else if (type & order[t])
                return n;
        }
    }
    return count;
}

clattn_status clattn_device_select(const char *selector, cl_device_id *device)
{
    size_t count, chosen;

    if (!device)
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "device is null");
    *device = NULL;
    clattn_status status = clattn_device_list(NULL, 0, &count);
    if (status != CLATTN_SUCCESS)
        return status;
    cl_device_id *devices = calloc(count, sizeof *devices);
    if (!devices)
        return refuse_list(CLATTN_OUT_OF_MEMORY);
    const size_t capacity = count;
    status = clattn_device_list(devices, capacity, &count);
    if (count > capacity)
        count = capacity;
    if (status == CLATTN_SUCCESS) {
        if (!selector || !*selector)
            selector = ca_environment(CA_VARIABLE_DEVICE);
        clattn_status failure = CLATTN_NO_DEVICE;
        chosen = selector && *selector ? select_named(devices, count, selector, &failure)
                                       : select_default(devices, count, &failure);
        if (chosen < count)
            *device = devices[chosen];
        else
            status = ca_refuse(failure, "no OpenCL device is chosen by '%.200s'",
                               selector ? selector : "");
    }
    free(devices);
    return status;
}

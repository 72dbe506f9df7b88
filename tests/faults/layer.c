/* SPDX-License-Identifier: Apache-2.0 */
/* An OpenCL layer (OPENCL_LAYERS=libclattn_fault_layer.so): calls that fail.
 *
 * FAULT=NAME:N fails the N-th call of that name, and FAULT=NAME:N+ that one and all after it.
 * The error is that of calls.def, or with NAME:N:CODE another. A call that fails is not carried
 * out. FAULT_COUNTS=FILE counts in a file, which all processes of a run share: a 64-bit counter
 * for each call in the order of calls.def. So a call fails once in a run, whichever process
 * makes it. Without the file each process counts for itself. */
#define _POSIX_C_SOURCE 200809L /* ftruncate, mmap */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 200      /* of what calls.def has */
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS /* the dispatch table has them all */
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "layer_info.h"

#include <CL/cl_layer.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum call {
#define CALL(name, code, parameters, arguments) CALL_##name,
#define MAKE(type, name, code, parameters, arguments) CALL_##name,
#include "calls.def"
    NUM_CALLS
};

static const char *const names[] = {
#define CALL(name, code, parameters, arguments) #name,
#define MAKE(type, name, code, parameters, arguments) #name,
#include "calls.def"
};

static struct fault {
    enum call call; /* NUM_CALLS: none fails. */
    uint64_t first;
    int lasts; /* From then on. */
    cl_int code;
} fault = {.call = NUM_CALLS};

static _Atomic uint64_t own[NUM_CALLS], *counts = own;
static struct _cl_icd_dispatch driver, faulty;

/* Returns whether this call fails; *code is its usual error, and becomes the one that was asked
 * for. */
static int fails(enum call call, cl_int *code)
{
    const uint64_t n = atomic_fetch_add(&counts[call], 1) + 1;

    if (call != fault.call || n < fault.first || (n > fault.first && !fault.lasts))
        return 0;
    *code = fault.code != CL_SUCCESS ? fault.code : *code;
    return 1;
}

#define CALL(name, usual, parameters, arguments)                                                   \
    static cl_int CL_API_CALL faulty_##name parameters                                             \
    {                                                                                              \
        cl_int code = usual;                                                                       \
        return fails(CALL_##name, &code) ? code : driver.name arguments;                           \
    }
#define MAKE(type, name, usual, parameters, arguments)                                             \
    static type CL_API_CALL faulty_##name parameters                                               \
    {                                                                                              \
        cl_int code = usual;                                                                       \
        if (!fails(CALL_##name, &code))                                                            \
            return driver.name arguments;                                                          \
        if (error)                                                                                 \
            *error = code;                                                                         \
        return NULL;                                                                               \
    }
#include "calls.def"

static void read_fault(const char *text)
{
    const size_t length = text ? strcspn(text, ":") : 0;
    char *end;

    for (enum call n = 0; length > 0 && text[length] && n < NUM_CALLS; n++)
        if (strlen(names[n]) == length && strncmp(names[n], text, length) == 0)
            fault.call = n;
    if (fault.call == NUM_CALLS)
        return;
    fault.first = strtoull(text + length + 1, &end, 10);
    fault.lasts = *end == '+';
    end += fault.lasts;
    fault.code = *end == ':' ? (cl_int)strtol(end + 1, NULL, 10) : CL_SUCCESS;
}

static void share_counts(const char *path)
{
    const int file = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;

    if (file < 0)
        return;
    void *shared = ftruncate(file, sizeof own) == 0
                       ? mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                       : MAP_FAILED;
    if (shared != MAP_FAILED)
        counts = shared;
    close(file);
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t bytes, void *value,
                                               size_t *needed)
{
    return layer_info("clattn's faults", what, bytes, value, needed);
}

/* The loader calls this once, before any other call gets through. */
CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries, const struct _cl_icd_dispatch *next,
                                            cl_uint *own_entries,
                                            const struct _cl_icd_dispatch **own_table)
{
    if (entries < sizeof driver / sizeof(void *) || !next || !own_entries || !own_table)
        return CL_INVALID_VALUE;
    driver = faulty = *next;
#define CALL(name, code, parameters, arguments) faulty.name = faulty_##name;
#define MAKE(type, name, code, parameters, arguments) faulty.name = faulty_##name;
#include "calls.def"
    read_fault(getenv("FAULT"));
    share_counts(getenv("FAULT_COUNTS"));
    *own_entries = sizeof faulty / sizeof(void *);
    *own_table = &faulty;
    return CL_SUCCESS;
}

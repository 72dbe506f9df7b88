/* SPDX-License-Identifier: Apache-2.0 */
/* An OpenCL layer (OPENCL_LAYERS=libclattn_build_layer.so): where CLATTN_BUILD_SERVER names server.c's socket, a program
 * of one device is built there before the process does so itself, which then finds it in PoCL's cache. Whatever goes wrong with
 * that, the process builds as it would without. */
#define _POSIX_C_SOURCE 200809L
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 200      /* of what the dispatch table has */
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS /* the dispatch table has them all */
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "request.h"
#include "tests/faults/layer_info.h"

#include <CL/cl_layer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { PATIENCE = 120 }; /* seconds */

static struct _cl_icd_dispatch driver, own;

static int is_pocl(const cl_device_id device)
{
    char version[256] = "";

    driver.clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof version - 1, version, NULL);
    return strstr(version, "pocl") != NULL || strstr(version, "PoCL") != NULL;
}

/* NULL unless the program was made of a text; the caller frees it. */
static char *source_of(cl_program program)
{
    size_t bytes = 0;

    if (driver.clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &bytes) != CL_SUCCESS ||
        bytes < 2)
        return NULL;
    char *text = malloc(bytes);
    if (text &&
        driver.clGetProgramInfo(program, CL_PROGRAM_SOURCE, bytes, text, NULL) == CL_SUCCESS)
        return text;
    free(text);
    return NULL;
}

static int connected(const char *path)
{
    const struct timeval patience = {.tv_sec = PATIENCE};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int server = strlen(path) < sizeof address.sun_path
                           ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
                           : -1;

    if (server < 0)
        return -1;
    strcpy(address.sun_path, path);
    if (connect(server, (const struct sockaddr *)&address, sizeof address) == 0 &&
        setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0)
        return server;
    close(server);
    return -1;
}

static int send_all(const int server, const void *at, const size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        const ssize_t sent = send(server, (const char *)at + done, bytes - done, MSG_NOSIGNAL);
        if (sent <= 0)
            return 0;
        done += (size_t)sent;
    }
    return 1;
}

/* Returns when the server has built the program, or will not. */
static void have_built(const char *source, const char *options)
{
    const char *path = getenv("CLATTN_BUILD_SERVER"), *flags = getenv("POCL_EXTRA_BUILD_FLAGS");
    const char *cache = getenv("POCL_CACHE_DIR");
    const char *const texts[REQUEST_TEXTS] = {source, options ? options : "", flags ? flags : "",
                                              cache ? cache : ""};
    struct request request;
    const int server = path && path[0] ? connected(path) : -1;
    char answer;

    if (server < 0)
        return;
    for (int n = 0; n < REQUEST_TEXTS; n++)
        request.bytes[n] = (uint32_t)strlen(texts[n]);
    int whole = send_all(server, &request, sizeof request);
    for (int n = 0; whole && n < REQUEST_TEXTS; n++)
        whole = send_all(server, texts[n], request.bytes[n]);
    if (whole && recv(server, &answer, 1, 0) != 1)
        fprintf(stderr, "the server of builds did not answer\n");
    close(server);
}

static cl_int CL_API_CALL build(cl_program program, cl_uint count, const cl_device_id *devices,
                                const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                void *user)
{
    char *source = count == 1 && devices && is_pocl(devices[0]) ? source_of(program) : NULL;

    if (source)
        have_built(source, options);
    free(source);
    return driver.clBuildProgram(program, count, devices, options, notify, user);
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t bytes, void *value,
                                               size_t *needed)
{
    return layer_info("clattn's server of builds", what, bytes, value, needed);
}

/* The loader calls this once, before any other call gets through. */
CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries, const struct _cl_icd_dispatch *next,
                                            cl_uint *own_entries,
                                            const struct _cl_icd_dispatch **own_table)
{
    if (entries < sizeof driver / sizeof(void *) || !next || !own_entries || !own_table)
        return CL_INVALID_VALUE;
    driver = own = *next;
    own.clBuildProgram = build;
    *own_entries = sizeof own / sizeof(void *);
    *own_table = &own;
    return CL_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* clattn_build_server SOCKET PROCESSES: builds programs for the processes of a run of the tests, so that PoCL finds them
 * in its cache when a process builds them itself. PoCL reads a library of 9 MB in each context in which it compiles, which
 * takes a processor a second; here that is done once in each of a few processes. They run until their group is killed. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "request.h"

#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 26, BUILDS_OF_A_CONTEXT = 200, MOST_KNOWN = 1 << 16 };

static cl_device_id device;
static cl_context context;

static void build(char *const texts[REQUEST_TEXTS])
{
    static unsigned builds;
    const char *source = texts[REQUEST_SOURCE];

    if (texts[REQUEST_FLAGS][0])
        setenv("POCL_EXTRA_BUILD_FLAGS", texts[REQUEST_FLAGS], 1);
    else
        unsetenv("POCL_EXTRA_BUILD_FLAGS");
    if (builds++ % BUILDS_OF_A_CONTEXT == 0) { /* what a context keeps of programs is never much */
        if (context)
            clReleaseContext(context);
        context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    }
    const cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, NULL);
    if (!program)
        return;
    clBuildProgram(program, 1, &device, texts[REQUEST_OPTIONS], NULL, NULL);
    clReleaseProgram(program);
}

/* Returns whether it was asked for just that before, and remembers it. */
static int is_known(char *const texts[REQUEST_TEXTS])
{
    static uint64_t known[MOST_KNOWN]; /* by FNV-1a; 0: none */
    uint64_t sum = 0xcbf29ce484222325;
    size_t at;

    for (int n = 0; n < REQUEST_TEXTS; n++)
        for (const char *c = texts[n];; c++) {
            sum = (sum ^ (unsigned char)*c) * 0x100000001b3;
            if (!*c)
                break;
        }
    at = sum % MOST_KNOWN;
    const int before = known[at] == sum;
    known[at] = sum; /* whatever else had the place is built once more */
    return before;
}

static int read_all(const int file, void *at, const size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        const ssize_t got = read(file, (char *)at + done, bytes - done);
        if (got <= 0)
            return 0;
        done += (size_t)got;
    }
    return 1;
}

/* Builds what the process at the other end wants, if that has PoCL's cache in the same place. */
static void serve(const int other, const char *cache)
{
    char *texts[REQUEST_TEXTS] = {NULL};
    struct request request;
    int whole = read_all(other, &request, sizeof request);

    for (int n = 0; whole && n < REQUEST_TEXTS; n++) {
        whole = request.bytes[n] < MOST_BYTES &&
                (texts[n] = calloc(1, request.bytes[n] + (size_t)1)) != NULL &&
                read_all(other, texts[n], request.bytes[n]);
    }
    if (whole && strcmp(texts[REQUEST_CACHE], cache) == 0 && !is_known(texts))
        build(texts);
    send(other, "", 1, MSG_NOSIGNAL);
    for (int n = 0; n < REQUEST_TEXTS; n++)
        free(texts[n]);
}

static int listening(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int door = socket(AF_UNIX, SOCK_STREAM, 0);

    if (door < 0 || strlen(path) >= sizeof address.sun_path)
        return -1;
    strcpy(address.sun_path, path);
    if (bind(door, (const struct sockaddr *)&address, sizeof address) != 0 || listen(door, 64) != 0)
        return -1;
    return door;
}

int main(int argc, char **argv)
{
    const char *cache = getenv("POCL_CACHE_DIR");
    cl_platform_id platform;

    if (argc != 3 || !cache) {
        fprintf(stderr, "usage: POCL_CACHE_DIR=FOLDER clattn_build_server SOCKET PROCESSES\n");
        return 2;
    }
    const int door = listening(argv[1]);
    if (door < 0) {
        perror(argv[1]);
        return 1;
    }
    setpgid(0, 0);                   /* fails where it leads a session, and with that its group */
    unsetenv("CLATTN_BUILD_SERVER"); /* it would ask itself where the layer is loaded here, too */
    for (int n = atoi(argv[2]); n > 1 && fork() > 0; n--)
        ;
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
        fprintf(stderr, "clattn_build_server: there is no device\n");
        return 1;
    }
    for (;;) {
        const int other = accept(door, NULL, NULL);
        if (other < 0)
            continue;
        serve(other, cache);
        close(other);
    }
}

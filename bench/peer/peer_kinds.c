/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peer/peer.h"
#include "os/environment.h"
#include "os/file.h"
#include "os/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One thread on each core. Left to the system, threads that have been stopped often wake up on one
 * core, and wait for each other there by spinning: that took a thousand times as long. OpenBLAS has
 * threads of ours beside, which would inherit the one core of the thread that starts them. */
#define BOUND "OMP_PROC_BIND=spread"

/* GNU's OpenMP has threads wait for each other in a loop of some milliseconds. On a machine that is
 * not theirs alone the one that they wait for does not run meanwhile, for each of oneDNN's
 * primitives; a loop of some microseconds costs nothing where it is. */
#define SPIN_LESS "GOMP_SPINCOUNT=10000"

const struct peer_kind peer_kinds[] = {
    {.key = "clblast",
     .name = "CLBlast",
     .program = "clattn-peer-clblast",
     .install = "apt-get install libclblast-dev, then build again"},
    {.key = "openblas",
     .name = "OpenBLAS",
     .program = "clattn-peer-openblas",
     .on_cpu = true,
     .install = "apt-get install libopenblas-dev, then build again"},
    {.key = "onednn",
     .name = "oneDNN",
     .program = "clattn-peer-onednn",
     .variable = {BOUND, SPIN_LESS},
     .on_cpu = true,
     .install = "apt-get install libdnnl-dev, then build again"},
    {.key = "ggml",
     .name = "ggml",
     .program = "clattn-peer-ggml",
     .variable = {BOUND, SPIN_LESS},
     .on_cpu = true,
     .install = "build with -DCLATTN_GGML_SOURCE=FOLDER of its sources"},
    {.key = "torch",
     .name = "PyTorch",
     .program = "peers.py",
     .argument = "torch",
     .variable = {BOUND},
     .install = "pip install numpy torch"},
    {.key = "onnxruntime",
     .name = "ONNX Runtime",
     .program = "peers.py",
     .argument = "onnxruntime",
     .install = "pip install numpy onnxruntime onnx"},
    {.key = NULL},
};

const struct peer_kind *peer_kind_find(const char *key)
{
    for (const struct peer_kind *kind = peer_kinds; kind->key != NULL; kind++)
        if (strcmp(kind->key, key) == 0)
            return kind;
    return NULL;
}

struct peer_kind peer_kind_path(const char *path)
{
    return (struct peer_kind){
        .key = path, .name = ca_path_name(path), .program = path, .install = ""};
}

bool peer_kind_suits(const struct peer_kind *kind, cl_device_type type)
{
    return !kind->on_cpu || (type & CL_DEVICE_TYPE_CPU) != 0;
}

/* Returns whether that file is there; leaves its path, or "". */
static bool is_there(char *path, size_t bytes, const char *folder, const char *between,
                     const char *name)
{
    const int length = snprintf(path, bytes, "%s%s%s", folder, between, name);
    struct ca_file_facts facts;

    if (length > 0 && (size_t)length < bytes && ca_file_follow(path, &facts))
        return true;
    path[0] = '\0';
    return false;
}

bool peer_kind_program(const struct peer_kind *kind, char *path, size_t bytes)
{
    static const char *const between[] = {"", "peers/", "../libexec/clattn/"};
    const char *chosen = ca_environment_value("CLATTN_PEERS");
    char folder[1024];

    if (ca_path_name(kind->program) != kind->program)
        return is_there(path, bytes, "", "", kind->program);
    if (chosen != NULL && *chosen != '\0' && is_there(path, bytes, chosen, "/", kind->program))
        return true;
    ca_own_folder(folder);
    for (size_t n = 0; n < sizeof between / sizeof *between; n++)
        if (*folder != '\0' && is_there(path, bytes, folder, between[n], kind->program))
            return true;
    path[0] = '\0';
    return false;
}

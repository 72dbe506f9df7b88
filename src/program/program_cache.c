/* SPDX-License-Identifier: Apache-2.0 */
#include "program/program_cache.h"
#include "base/disk.h"
#include "device/facts.h"
#include "families/registry.h"
#include "program/program_file.h"
#include "program/verdict.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { MOST_BYTES = 64 << 20 };

static void add_hash(struct ca_program_key *key, const char *name, const char *text)
{
    char hash[32];

    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)XXH3_64bits(text, strlen(text)));
    ca_program_key_add(key, name, hash);
}

static void describe(const clattn_context *ctx, const struct ca_program *made,
                     struct ca_program_key *key)
{
    const clattn_device_info *dev = &ctx->device;
    char hash[CA_HASH_TEXT];

    *key = (struct ca_program_key){.length = 0};
    ca_program_key_add(key, "clattn-program", "3");
    ca_program_key_add(key, "platform", dev->platform_name);
    ca_program_key_add(key, "platform-version", dev->platform_version);
    ca_program_key_add(key, "vendor", dev->vendor);
    ca_program_key_add(key, "device", dev->name);
    ca_program_key_add(key, "device-version", dev->device_version);
    ca_program_key_add(key, "driver", dev->driver_version);
    ca_program_key_add(key, "family", made->family->full_name);
    ca_family_source_hash(made->family, hash);
    ca_program_key_add(key, "source", hash);
    if (ca_facts_of_pocl(dev)) {
        ca_source_hash(ca_source_builtins, hash);
        ca_program_key_add(key, "builtins", hash);
    }
    add_hash(key, "parameters", made->parameters);
    add_hash(key, "functions", made->functions);
    ca_program_key_add(key, "options", made->options);
}

/* NULL without a cache or memory; the caller frees it. */
static char *path_of(const clattn_context *ctx, const struct ca_program_key *key,
                     const char *ending)
{
    const XXH128_hash_t hash = XXH3_128bits(key->text, key->length);
    const size_t bytes = ctx->cache_directory ? strlen(ctx->cache_directory) + 64 : 0;
    char *path = bytes ? malloc(bytes) : NULL;

    if (path)
        snprintf(path, bytes, "%s/programs/%016llx%016llx.%s", ctx->cache_directory,
                 (unsigned long long)hash.high64, (unsigned long long)hash.low64, ending);
    return path;
}

char *ca_program_cache_begun(const clattn_context *ctx, const struct ca_program *made,
                             char what[CA_PROGRAM_HEADER_BYTES])
{
    struct ca_program_key key;

    describe(ctx, made, &key);
    ca_program_file_print_begun(&key, what);
    return path_of(ctx, &key, "begun");
}

cl_program ca_program_of_binary(const clattn_context *ctx, const unsigned char *binary,
                                size_t bytes)
{
    cl_int state, err;
    cl_program program =
        clCreateProgramWithBinary(ctx->cl, 1, &ctx->device.device, &bytes, &binary, &state, &err);

    if (err != CL_SUCCESS)
        return NULL;
    if (state == CL_SUCCESS)
        return program;
    clReleaseProgram(program);
    return NULL;
}

static cl_program from_binary(const clattn_context *ctx, const unsigned char *binary, size_t bytes,
                              const char *options)
{
    cl_program program = ca_program_of_binary(ctx, binary, bytes);

    if (!program ||
        clBuildProgram(program, 1, &ctx->device.device, options, NULL, NULL) == CL_SUCCESS)
        return program;
    clReleaseProgram(program);
    return NULL;
}

int ca_program_cache_load(const clattn_context *ctx, const struct ca_program *made,
                          cl_program *program, struct ca_verdict *verdict)
{
    char why[CA_REASON_BYTES] = "";
    struct ca_program_key key;
    size_t bytes, begin;

    *program = NULL;
    describe(ctx, made, &key);
    char *path = path_of(ctx, &key, "clbin");
    unsigned char *data = path ? ca_disk_read(path, MOST_BYTES, &bytes, why, sizeof why) : NULL;
    int known = data && ca_program_file_recognise(&key, data, bytes, &verdict->status, &begin);
    if (known && verdict->status == CLATTN_SUCCESS && begin < bytes) {
        *program = from_binary(ctx, data + begin, bytes - begin, made->options);
        known = *program != NULL;
    } else if (known) { /* empty of a good one */
        ca_reason(verdict->reason, sizeof verdict->reason, "%.*s", (int)(bytes - begin),
                  (const char *)data + begin);
    }
    if (known)
        ca_disk_touch(path);
    else if (data || why[0])
        ca_warn(&ctx->log, "the cached program %.600s is not used, and made anew: %s", path,
                data ? "it is damaged or refused by the driver" : why);
    free(data);
    free(path);
    return known;
}

unsigned char *ca_program_binary(const clattn_context *ctx, cl_program program, size_t *bytes)
{
    cl_uint count = 0;
    cl_device_id devices[64];
    size_t sizes[64] = {0};
    unsigned char *binaries[64] = {NULL}, *binary = NULL;

    if (clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof count, &count, NULL) ||
        count > 64 ||
        clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof devices, devices, NULL) ||
        clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL))
        return NULL;
    for (cl_uint n = 0; n < count; n++) {
        if (devices[n] != ctx->device.device || sizes[n] == 0)
            continue; /* a null pointer asks for no binary */
        binary = binaries[n] = malloc(sizes[n]);
        *bytes = sizes[n];
    }
    if (binary && clGetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof *binaries, binaries,
                                   NULL) == CL_SUCCESS)
        return binary;
    free(binary);
    return NULL;
}

int ca_program_binary_is_dear(const clattn_context *ctx)
{
    return ca_facts_of_pocl(&ctx->device);
}

/* Looks at the cache's size after the first program of a context and every so many; the end of the
 * context looks again. */
static void keep_small(clattn_context *ctx)
{
    enum { EVERY = 64 };

    if (atomic_fetch_add(&ctx->cache_writes, 1) % EVERY == 0 && ctx->cache_bytes > 0)
        ca_program_cache_trim(ctx, ctx->cache_bytes);
}

void ca_program_cache_store(clattn_context *ctx, const struct ca_program *made, cl_program program)
{
    const struct ca_verdict *verdict = &made->verdict;
    char header[CA_PROGRAM_HEADER_BYTES];
    struct ca_program_key key;
    size_t bytes = 0;

    if (atomic_load(&ctx->cache_unwritable))
        return;
    describe(ctx, made, &key);
    char *path = path_of(ctx, &key, "clbin");
    unsigned char *binary = path && program ? ca_program_binary(ctx, program, &bytes) : NULL;
    if (path && (binary || !program)) {
        const unsigned char *contents = binary ? binary : (const unsigned char *)verdict->reason;
        if (!binary)
            bytes = strlen(verdict->reason);
        const size_t length =
            ca_program_file_header(&key, verdict->status, contents, bytes, header);
        if (ca_disk_write(path, header, length, contents, bytes, CA_DISK_IN_CACHE))
            keep_small(ctx);
        else if (!atomic_exchange(&ctx->cache_unwritable, 1)) /* once is enough */
            ca_warn(
                &ctx->log,
                "the cache directory %.600s cannot be written (%s): the next process will compile "
                "again",
                ctx->cache_directory, strerror(errno));
    }
    free(binary);
    free(path);
}

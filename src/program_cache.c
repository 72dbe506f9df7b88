#include "program_cache.h"
#include "disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { KEY_BYTES = 4096, HEADER_BYTES = KEY_BYTES + 256, MOST_BYTES = 64 << 20 };

static const char *const verdict_names[] = {
    [CLATTN_SUCCESS] = "right",
    [CLATTN_BUILD_FAILED] = "does-not-build",
    [CLATTN_MISCOMPILED] = "miscompiled",
};

/* Texts of drivers go into lines of a header: no line may end early. */
static void put_line(char *text, size_t *length, const char *name, const char *value)
{
    const int more = snprintf(text + *length, KEY_BYTES - *length, "%s %s\n", name, value);

    for (size_t n = *length; n + 1 < *length + (size_t)more && n < KEY_BYTES; n++)
        if (text[n] == '\n' || text[n] == '\r')
            text[n] = ' ';
    *length += (size_t)more;
    if (*length >= KEY_BYTES)
        *length = KEY_BYTES - 1; /* cut: two such keys would have to be equal up to here */
}

static void print_key(const clattn_context *ctx, const struct ca_family *family,
                      const char *options, char key[KEY_BYTES])
{
    const clattn_device_info *dev = &ctx->device;
    char source[32];
    size_t length = 0;

    snprintf(source, sizeof source, "%016llx",
             (unsigned long long)XXH3_64bits(family->source, strlen(family->source)));
    put_line(key, &length, "clattn-program", "1");
    put_line(key, &length, "platform", dev->platform_name);
    put_line(key, &length, "platform-version", dev->platform_version);
    put_line(key, &length, "vendor", dev->vendor);
    put_line(key, &length, "device", dev->name);
    put_line(key, &length, "device-version", dev->device_version);
    put_line(key, &length, "driver", dev->driver_version);
    put_line(key, &length, "family", family->name);
    put_line(key, &length, "source", source);
    put_line(key, &length, "options", options);
}

/* NULL without a cache or memory; the caller frees it. */
static char *path_of(const clattn_context *ctx, const char *key)
{
    const XXH128_hash_t hash = XXH3_128bits(key, strlen(key));
    const size_t bytes = ctx->cache_directory ? strlen(ctx->cache_directory) + 64 : 0;
    char *path = bytes ? malloc(bytes) : NULL;

    if (path)
        snprintf(path, bytes, "%s/programs/%016llx%016llx.clbin", ctx->cache_directory,
                 (unsigned long long)hash.high64, (unsigned long long)hash.low64);
    return path;
}

static void print_header(const char *key, clattn_status verdict, const unsigned char *binary,
                         size_t bytes, char header[HEADER_BYTES])
{
    snprintf(header, HEADER_BYTES, "%sverdict %s\nbytes %zu\nchecksum %016llx\n\n", key,
             verdict_names[verdict], bytes, (unsigned long long)XXH3_64bits(binary, bytes));
}

/* Whether a file is what would have been written for this key with some verdict; then the verdict
 * and where the binary begins. */
static int recognise(const unsigned char *data, size_t bytes, const char *key,
                     clattn_status *verdict, size_t *begin)
{
    static const clattn_status verdicts[] = {CLATTN_SUCCESS, CLATTN_BUILD_FAILED,
                                             CLATTN_MISCOMPILED};
    char header[HEADER_BYTES];

    /* The header ends at the first empty line; keys have none. */
    for (*begin = 1; *begin < bytes && *begin < HEADER_BYTES; ++*begin)
        if (data[*begin - 1] == '\n' && data[*begin] == '\n')
            break;
    ++*begin;
    if (*begin > bytes)
        return 0;
    for (size_t n = 0; n < sizeof verdicts / sizeof *verdicts; n++) {
        *verdict = verdicts[n];
        print_header(key, *verdict, data + *begin, bytes - *begin, header);
        if (strlen(header) == *begin && memcmp(header, data, *begin) == 0)
            return (*verdict == CLATTN_SUCCESS) == (bytes > *begin);
    }
    return 0;
}

static cl_program from_binary(const clattn_context *ctx, const unsigned char *binary, size_t bytes,
                              const char *options)
{
    cl_int state, err;
    cl_program program =
        clCreateProgramWithBinary(ctx->cl, 1, &ctx->device.device, &bytes, &binary, &state, &err);

    if (err != CL_SUCCESS)
        return NULL;
    if (state == CL_SUCCESS &&
        clBuildProgram(program, 1, &ctx->device.device, options, NULL, NULL) == CL_SUCCESS)
        return program;
    clReleaseProgram(program);
    return NULL;
}

int ca_program_cache_load(const clattn_context *ctx, const struct ca_family *family,
                          const char *options, cl_program *program, clattn_status *verdict)
{
    char key[KEY_BYTES];
    size_t bytes, begin;

    *program = NULL;
    print_key(ctx, family, options, key);
    char *path = path_of(ctx, key);
    unsigned char *data = path ? ca_disk_read(path, MOST_BYTES, &bytes) : NULL;
    int known = data && recognise(data, bytes, key, verdict, &begin);
    if (known && *verdict == CLATTN_SUCCESS) {
        *program = from_binary(ctx, data + begin, bytes - begin, options);
        known = *program != NULL;
    }
    if (data && !known) {
        ca_warn(&ctx->log,
                "the cached program %.800s is damaged or refused by the driver and is made anew",
                path);
    }
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

void ca_program_cache_store(clattn_context *ctx, const struct ca_family *family,
                            const char *options, cl_program program, clattn_status verdict)
{
    char key[KEY_BYTES], header[HEADER_BYTES];
    size_t bytes = 0;

    print_key(ctx, family, options, key);
    char *path = path_of(ctx, key);
    unsigned char *binary = path && program ? ca_program_binary(ctx, program, &bytes) : NULL;
    if (path && (binary || !program)) {
        print_header(key, verdict, binary ? binary : (const unsigned char *)"", bytes, header);
        if (!ca_disk_write(path, header, strlen(header), binary ? binary : (unsigned char *)header,
                           bytes)) {
            ca_warn(&ctx->log,
                    "the cache directory %.800s cannot be written: the next process will compile "
                    "again",
                    ctx->cache_directory);
            free(ctx->cache_directory); /* once is enough */
            ctx->cache_directory = NULL;
        }
    }
    free(binary);
    free(path);
}

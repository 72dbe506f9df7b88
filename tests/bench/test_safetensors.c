/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors reader against sound, truncated, lying and hostile files. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "bench/cases/safetensors.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOUND                                                                                      \
    "{\"__metadata__\":{\"scale\":\"0.5\"},"                                                       \
    "\"b\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[8,11]},"                            \
    "\"e\":{\"dtype\":\"F64\",\"shape\":[0,7],\"data_offsets\":[8,8]},"                            \
    "\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}"

/* The bytes of a file in memory of exactly their size, so that ASan sees a byte too many. */
static unsigned char *make_file(const char *header, uint64_t length, size_t data, size_t *size)
{
    const size_t header_bytes = strlen(header);
    unsigned char *bytes = malloc(8 + header_bytes + data);

    *size = 8 + header_bytes + data;
    for (int n = 0; n < 8; n++)
        bytes[n] = (unsigned char)(length >> 8 * n);
    memcpy(bytes + 8, header, header_bytes);
    memset(bytes + 8 + header_bytes, 1, data);
    return bytes;
}

Test(safetensors, reads_a_sound_file) {
    struct safetensors file;
    struct message why;
    size_t size;
    unsigned char *bytes = make_file(SOUND, strlen(SOUND), 11, &size);

    cr_assert(safetensors_parse(&file, bytes, size, &why), "%s", why.text);
    cr_assert(eq(sz, file.count, 3));
    const struct safetensor *a = safetensors_find(&file, "a"), *b = safetensors_find(&file, "b");
    cr_assert(a != NULL && b != NULL);
    cr_assert(strcmp(a->dtype, "F32") == 0);
    cr_assert(eq(sz, a->rank, 2));
    cr_assert(eq(sz, a->shape[1], 2));
    cr_assert(eq(sz, a->bytes, 8));
    cr_assert(eq(ptr, (void *)a->data, bytes + size - 11));
    cr_assert(eq(ptr, (void *)b->data, bytes + size - 3));
    cr_assert(eq(sz, safetensors_find(&file, "e")->count, 0));
    cr_assert(strcmp(safetensors_attribute(&file, "scale"), "0.5") == 0);
    cr_assert(safetensors_attribute(&file, "softcap") == NULL);
    cr_assert(safetensors_find(&file, "__metadata__") == NULL);
    safetensors_free(&file);
    free(bytes);
}

#define WHOLE UINT64_MAX /* The header's true length. */
#define ENTRY(dtype, shape, offsets)                                                               \
    "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

struct lie {
    char header[300];
    uint64_t length;
    size_t data;
    char reason[60]; /* A part of the sentence that must come. */
};

ParameterizedTestParameters(safetensors, refuses) {
    static struct lie lies[] = {
        {"", 0, 0, "JSON"},
        {"{}", 3, 0, "does not fit"},
        {"{}", UINT64_C(1) << 63, 0, "does not fit"},
        {"{}", UINT64_MAX - 1, 0, "does not fit"},
        {"{", WHOLE, 0, "JSON"},
        {"[]", WHOLE, 0, "not a JSON object"},
        {"{} {}", WHOLE, 0, "JSON"},
        {"{}", WHOLE, 4, "belong to no tensor"},
        {"{\"a\":7}", WHOLE, 0, "no dtype"},
        {"{\"__metadata__\":7}", WHOLE, 0, "not an object"},
        {"{\"__metadata__\":{\"scale\":1}}", WHOLE, 0, "not a text"},
        {"{\"a\\u0000\":{}}", WHOLE, 0, "JSON"},
        {ENTRY("7", "[2]", "[0,8]"), WHOLE, 8, "no dtype"},
        {ENTRY("\"F31\"", "[2]", "[0,8]"), WHOLE, 8, "unknown dtype"},
        {ENTRY("\"F32\"", "2", "[0,8]"), WHOLE, 8, "no shape"},
        {ENTRY("\"F32\"", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), WHOLE, 8, "no shape"},
        {ENTRY("\"F32\"", "[-2]", "[0,8]"), WHOLE, 8, "whole number"},
        {ENTRY("\"F32\"", "[2.0]", "[0,8]"), WHOLE, 8, "whole number"},
        {ENTRY("\"F32\"", "[99999999999999999999]", "[0,8]"), WHOLE, 8, "JSON"},
        {ENTRY("\"F32\"", "[4294967296,4294967296]", "[0,8]"), WHOLE, 8, "overflows"},
        {ENTRY("\"F32\"", "[4611686018427387906]", "[0,8]"), WHOLE, 8, "do not fit"},
        {ENTRY("\"F32\"", "[2]", "[0,4]"), WHOLE, 4, "do not fit"},
        {ENTRY("\"F32\"", "[2]", "[0,12]"), WHOLE, 12, "do not fit"},
        {ENTRY("\"F32\"", "[2]", "[0,8]"), WHOLE, 7, "ends at byte 8 of 7"},
        {ENTRY("\"F32\"", "[2]", "[8,0]"), WHOLE, 8, "no data_offsets"},
        {ENTRY("\"F32\"", "[2]", "[-8,0]"), WHOLE, 8, "no data_offsets"},
        {ENTRY("\"F32\"", "[2]", "[0]"), WHOLE, 8, "no data_offsets"},
        {ENTRY("\"F32\"", "[2]", "[4,12]"), WHOLE, 12, "leaves a hole"},
        {ENTRY("\"F32\"", "[2]", "[9223372036854775800,9223372036854775807]"), WHOLE, 8,
         "ends at byte"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}",
         WHOLE, 7, "overlaps"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
         WHOLE, 8, "duplicate"},
        {"{\"\\u001b[2J\":{\"dtype\":\"no\"}}", WHOLE, 0, "tensor '?[2J'"},
    };
    return cr_make_param_array(struct lie, lies, sizeof lies / sizeof *lies);
}

ParameterizedTest(struct lie *lie, safetensors, refuses) {
    const uint64_t length = lie->length == WHOLE ? strlen(lie->header) : lie->length;
    struct safetensors file;
    struct message why = {""};
    size_t size;
    unsigned char *bytes = make_file(lie->header, length, lie->data, &size);

    cr_assert(not(safetensors_parse(&file, bytes, size, &why)), "accepted: %s", lie->header);
    cr_assert(strstr(why.text, lie->reason) != NULL, "%s: got '%s', want '%s'", lie->header,
              why.text, lie->reason);
    cr_assert(eq(sz, file.count, 0));
    cr_assert(file.tensors == NULL && file.header == NULL);
    free(bytes);
}

Test(safetensors, refuses_every_truncation) {
    struct safetensors file;
    struct message why;
    size_t size;
    unsigned char *bytes = make_file(SOUND, strlen(SOUND), 11, &size);

    for (size_t cut = 0; cut < size; cut++) {
        unsigned char *part = malloc(cut + 1);
        memcpy(part, bytes, cut);
        cr_assert(not(safetensors_parse(&file, part, cut, &why)), "accepted %zu bytes", cut);
        free(part);
    }
    free(bytes);
}

Test(safetensors, says_why_a_path_cannot_be_read, .timeout = 10) {
    static const struct {
        const char *path, *reason;
    } cases[] = {
        {"/nonexistent/x", "/nonexistent/x: cannot be found"},
        {"/", "/: is not a regular file"},
        {"/dev/zero", "/dev/zero: is not a regular file"},
    };
    char fifo[] = "/tmp/clattn_test_XXXXXX/fifo";
    struct safetensors file;
    struct message why;

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        cr_assert(not(safetensors_read(&file, cases[n].path, &why)), "%s", cases[n].path);
        cr_assert(strcmp(why.text, cases[n].reason) == 0, "%s", why.text);
    }
    *strrchr(fifo, '/') = '\0';
    cr_assert(mkdtemp(fifo) != NULL);
    fifo[strlen(fifo)] = '/';
    cr_assert(eq(int, mkfifo(fifo, 0600), 0));
    cr_assert(not(safetensors_read(&file, fifo, &why))); /* and returns */
    remove(fifo);
    *strrchr(fifo, '/') = '\0';
    rmdir(fifo);
}

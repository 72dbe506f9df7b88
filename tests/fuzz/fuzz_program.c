/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: whatever the bytes are, a file of a built program is taken only if it is the
 * one that would be written, bit for bit: what is damaged never reaches a driver. */
#include "program/program_file.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

/* A driver may call itself anything. */
static void describe(struct ca_program_key *key, const uint8_t *name, size_t length)
{
    char text[2 * CA_PROGRAM_KEY_BYTES] = "";

    *key = (struct ca_program_key){.length = 0};
    memcpy(text, name, length < sizeof text ? length : sizeof text - 1);
    ca_program_key_add(key, "clattn-program", "1");
    ca_program_key_add(key, "driver", text);
    ca_program_key_add(key, "options", "-cl-std=CL1.2");
    require(key->length < sizeof key->text && strlen(key->text) == key->length);
    require(strstr(key->text, "\n\n") == NULL);
}

/* As it is. */
static void read_raw(const uint8_t *bytes, size_t size)
{
    char header[CA_PROGRAM_HEADER_BYTES];
    struct ca_program_key key;
    clattn_status verdict;
    size_t begin;

    describe(&key, (const uint8_t *)"3.1", 3);
    if (!ca_program_file_recognise(&key, bytes, size, &verdict, &begin))
        return;
    require(begin < size || (begin == size && verdict == CLATTN_SUCCESS));
    require(ca_program_file_header(&key, verdict, bytes + begin, size - begin, header) == begin);
    require(memcmp(header, bytes, begin) == 0);
}

/* Written, read back, damaged: a bit is flipped, the end is cut off or something is added. The
 * bytes are where and how, then the driver's name and the binary. */
static void damage(const uint8_t *bytes, size_t size)
{
    const size_t place = bytes[0] | (size_t)bytes[1] << 8, name = bytes[2], kind = bytes[3];
    const uint8_t *rest = bytes + 4;
    const size_t left = size - 4, name_bytes = name < left ? name : left;
    char header[CA_PROGRAM_HEADER_BYTES];
    struct ca_program_key key, other;
    clattn_status verdict = CLATTN_SUCCESS, found;
    size_t begin, count = left - name_bytes;

    if (count == 0)
        return;
    if (kind & 64)
        verdict = kind & 128 ? CLATTN_BUILD_FAILED : CLATTN_MISCOMPILED;
    describe(&key, rest, name_bytes);
    const size_t length = ca_program_file_header(&key, verdict, rest + name_bytes, count, header);
    uint8_t *file = malloc(length + count + 1);
    require(file != NULL && length < sizeof header);
    memcpy(file, header, length);
    memcpy(file + length, rest + name_bytes, count);
    count += length;
    require(ca_program_file_recognise(&key, file, count, &found, &begin));
    require(found == verdict && begin == length);
    describe(&other, rest, 0);
    if (strcmp(other.text, key.text) != 0)
        require(!ca_program_file_recognise(&other, file, count, &found, &begin));
    if (kind % 3 == 0) {
        file[place % count] ^= (uint8_t)(1u << kind % 8);
    } else if (kind % 3 == 1) {
        count = place % count;
    } else {
        file[count++] = (uint8_t)place;
    }
    require(!ca_program_file_recognise(&key, file, count, &found, &begin));
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    read_raw(bytes, size);
    if (size >= 4)
        damage(bytes, size);
    return 0;
}

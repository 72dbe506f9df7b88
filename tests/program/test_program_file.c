/* SPDX-License-Identifier: Apache-2.0 */
/* Files of built programs: what is not whole is not taken, however many write at once. */
#include "base/disk.h"
#include "program/program_file.h"
#include "tests/support/programs/scratch.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(program_file, .timeout = 60);

static struct ca_program_key key_of(const char *driver)
{
    struct ca_program_key key = {.length = 0};

    ca_program_key_add(&key, "clattn-program", "1");
    ca_program_key_add(&key, "driver", driver);
    return key;
}

/* A whole file with count bytes of binary, each of this value. Returns its size. */
static size_t fill(const struct ca_program_key *key, clattn_status verdict, unsigned char value,
                   size_t count, unsigned char *file)
{
    char header[CA_PROGRAM_HEADER_BYTES];

    unsigned char *binary = malloc(count + 1);
    cr_assert(binary != NULL);
    memset(binary, value, count + 1);
    const size_t length = ca_program_file_header(key, verdict, binary, count, header);
    memcpy(file, header, length);
    memcpy(file + length, binary, count);
    free(binary);
    return length + count;
}

/* Each bit of it, and each end. */
Test(program_file, any_damage_is_seen) {
    const struct ca_program_key key = key_of("3.1");
    unsigned char file[512];
    const size_t size = fill(&key, CLATTN_SUCCESS, 7, 40, file);
    clattn_status verdict;
    size_t begin;

    cr_assert(ca_program_file_recognise(&key, file, size, &verdict, &begin));
    cr_assert(verdict == CLATTN_SUCCESS && begin == size - 40);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        file[bit / 8] ^= (unsigned char)(1 << bit % 8);
        cr_expect(!ca_program_file_recognise(&key, file, size, &verdict, &begin), "bit %zu", bit);
        file[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t bytes = 0; bytes < size; bytes++)
        cr_expect(!ca_program_file_recognise(&key, file, bytes, &verdict, &begin), "%zu", bytes);
    file[size] = 7;
    cr_expect(!ca_program_file_recognise(&key, file, size + 1, &verdict, &begin));
}

/* A program's own key alone; and a verdict fits what follows. */
Test(program_file, other_keys_and_verdicts) {
    const struct ca_program_key key = key_of("3.1"), other = key_of("3.10");
    static const clattn_status bad[] = {CLATTN_BUILD_FAILED, CLATTN_MISCOMPILED};
    unsigned char file[512];
    clattn_status verdict;
    size_t begin, size = fill(&key, CLATTN_SUCCESS, 7, 40, file);

    cr_expect(!ca_program_file_recognise(&other, file, size, &verdict, &begin));
    for (int n = 0; n < 2; n++) {
        size = fill(&key, bad[n], 'x', 3, file);
        cr_expect(ca_program_file_recognise(&key, file, size, &verdict, &begin));
        cr_expect(verdict == bad[n] && begin == size - 3);
        size = fill(&key, bad[n], 7, 0, file); /* an earlier version's, which gave no reason */
        cr_expect(!ca_program_file_recognise(&key, file, size, &verdict, &begin));
    }
    size = fill(&key, CLATTN_SUCCESS, 7, 0, file); /* its binary is still to come */
    cr_expect(ca_program_file_recognise(&key, file, size, &verdict, &begin));
    cr_expect(verdict == CLATTN_SUCCESS && begin == size);
}

/* Verdicts against programs of one device, by this version or an earlier one. */
Test(program_file, condemns) {
    static const char *const mine[] = {"driver 3.1\n", "driv"}, *const other[] = {"driver 3\n"};
    const struct ca_program_key key = key_of("3.1");
    unsigned char file[512];
    size_t size = fill(&key, CLATTN_SUCCESS, 7, 40, file);

    cr_expect(!ca_program_file_condemns(file, size, mine, 2));
    size = fill(&key, CLATTN_BUILD_FAILED, 'x', 3, file);
    cr_expect(ca_program_file_condemns(file, size, mine, 2));
    cr_expect(!ca_program_file_condemns(file, size, other, 1));
    for (size_t bytes = 0; bytes + 3 < size; bytes++)
        cr_expect(!ca_program_file_condemns(file, bytes, mine, 2), "%zu", bytes);
    size = fill(&key, CLATTN_MISCOMPILED, 'x', 0, file);
    cr_expect(ca_program_file_condemns(file, size, mine, 2));
    memcpy(file, "clottn", 6);
    cr_expect(!ca_program_file_condemns(file, size, mine, 2));
}

/* Names of drivers neither end a line nor the header, however long. */
Test(program_file, hostile_names) {
    char name[2 * CA_PROGRAM_KEY_BYTES];
    struct ca_program_key key = key_of("\n\nverdict right\r\n");

    cr_expect_str_eq(key.text, "clattn-program 1\ndriver   verdict right  \n");
    memset(name, '\n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ca_program_key_add(&key, "device", name);
    ca_program_key_add(&key, "options", "-DA=1");
    cr_expect(key.length == sizeof key.text - 1 && strlen(key.text) == key.length);
    cr_expect(strstr(key.text, "\n\n") == NULL);
}

/* ---- several at once ------------------------------------------------------------------------- */

enum { WRITERS = 3, WRITES = 300, MOST = 200000 };

struct writer {
    pthread_t thread;
    const char *path;
    int number;
    atomic_int *running;
};

static size_t binary_bytes(int number)
{
    return 1000 + 60000 * (size_t)number;
}

static void *write_often(void *argument)
{
    const struct writer *w = argument;
    const struct ca_program_key key = key_of("3.1");
    unsigned char *file = malloc(MOST);
    const size_t bytes = binary_bytes(w->number);
    const size_t size = fill(&key, CLATTN_SUCCESS, (unsigned char)w->number, bytes, file);

    for (int n = 0; n < WRITES; n++)
        if (!ca_disk_write(w->path, file, size - bytes, file + size - bytes, bytes,
                           CA_DISK_IN_CACHE))
            break;
    free(file);
    atomic_fetch_sub(w->running, 1);
    return NULL;
}

/* Programs of other sizes under one name: a reader finds a whole one at any time. */
Test(program_file, written_at_once) {
    const char *path;
    const struct ca_program_key key = key_of("3.1");
    struct writer writers[WRITERS];
    atomic_int running = WRITERS;
    size_t reads = 0;

    scratch_open();
    path = scratch_path("program");
    for (int n = 0; n < WRITERS; n++) {
        writers[n] = (struct writer){.path = path, .number = n, .running = &running};
        cr_assert(pthread_create(&writers[n].thread, NULL, write_often, &writers[n]) == 0);
    }
    while (atomic_load(&running) > 0) {
        size_t size, begin;
        clattn_status verdict;
        char why[256];
        unsigned char *file = ca_disk_read(path, MOST, &size, why, sizeof why);
        if (!file && reads == 0)
            continue; /* not yet written */
        cr_assert(file != NULL);
        cr_assert(ca_program_file_recognise(&key, file, size, &verdict, &begin));
        cr_assert(size - begin == binary_bytes(file[begin]));
        free(file);
        reads++;
    }
    for (int n = 0; n < WRITERS; n++)
        pthread_join(writers[n].thread, NULL);
    cr_expect(reads > 0);
    cr_expect(scratch_entries(scratch) == 1, "something was left behind");
    scratch_close();
}

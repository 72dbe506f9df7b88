/* SPDX-License-Identifier: Apache-2.0 */
#include "context/first_run.h"
#include "base/disk.h"
#include "os/circumstances.h"
#include "os/lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file is a digit and the circumstances in a line, then a description of the program. A count
 * is valid if it is recent and its circumstances are today's. */
static int read_count(ca_file file, const char *circumstances, time_t *until)
{
    const size_t length = strlen(circumstances);
    char text[CA_CIRCUMSTANCES_TEXT + 3];
    const time_t now = time(NULL);
    struct ca_file_facts facts;

    if (!ca_file_ask(file, &facts) || facts.written > now + CA_FIRST_RUN_SECONDS ||
        facts.written <= now - CA_FIRST_RUN_SECONDS)
        return 0;
    *until = facts.written + CA_FIRST_RUN_SECONDS;
    if (ca_file_read(file, text, length + 3, 0) != (ptrdiff_t)length + 3 || text[1] != ' ' ||
        memcmp(text + 2, circumstances, length) != 0 || text[length + 2] != '\n')
        return 0;
    return text[0] >= '1' && text[0] <= '9' ? text[0] - '0' : 0;
}

static int write_count(ca_file file, int count)
{
    const char digit = (char)('0' + count);

    return ca_file_write(file, &digit, 1, 0);
}

/* Writes the file of a first attempt, with the count 1. */
static int write_file(ca_file file, const char *circumstances, const char *what)
{
    const size_t bytes = strlen(circumstances) + strlen(what) + 4;
    char *text = malloc(bytes);
    int written = 0;

    if (text) {
        const int length = snprintf(text, bytes, "1 %s\n%s", circumstances, what);
        written = ca_file_truncate(file) && ca_file_write(file, text, (size_t)length, 0);
    }
    free(text);
    return written;
}

/* Lists the run for ca_first_runs_excuse(), if there is room. */
static void enter(struct ca_first_runs *runs, struct ca_first_run *run, int deaths)
{
    run->entry = (run->file + 1) * 10 + deaths;
    for (size_t n = 0; n < CA_FIRST_RUNS && !run->slot; n++) {
        intptr_t none = 0;
        if (atomic_compare_exchange_strong(&runs->slots[n], &none, run->entry))
            run->slot = &runs->slots[n];
    }
}

/* Returns false if the run has been excused: the file then belongs to the handler until the process
 * ends. */
static int leave(struct ca_first_run *run)
{
    return !run->slot || atomic_compare_exchange_strong(run->slot, &run->entry, 0);
}

/* Opens the file; *locked: this run now holds its lock. CA_NO_FILE on failure, and where there are no locks. */
static ca_file open_file(char *path, int *locked)
{
    char why[CA_REASON_BYTES];
    struct ca_file_facts facts;
    ca_file file;
    int gone;

    do { /* another run may end, and remove it, between the two calls */
        file = ca_disk_open(path, why, sizeof why);
        const enum ca_lock lock = file != CA_NO_FILE ? ca_lock_try(file) : CA_LOCK_OTHERS;
        *locked = lock == CA_LOCK_TAKEN;
        if (lock == CA_LOCK_MISSING) {
            ca_file_remove(CA_NO_FILE, path);
            ca_file_close(file);
            return CA_NO_FILE;
        }
        gone = *locked && ca_file_ask(file, &facts) && facts.removed;
        if (gone)
            ca_file_close(file);
    } while (gone);
    return file;
}

int ca_first_run_begin(struct ca_first_runs *runs, struct ca_first_run *run, char *path,
                       const char *what, time_t *until)
{
    char circumstances[CA_CIRCUMSTANCES_TEXT];
    int locked;

    *run = (struct ca_first_run){.path = path, .file = CA_NO_FILE};
    *until = 0;
    const ca_file file = path ? open_file(path, &locked) : CA_NO_FILE;
    if (file == CA_NO_FILE)
        return 0;
    ca_circumstances(circumstances);
    const int count = read_count(file, circumstances, until);
    if (!locked) { /* the last attempt is not over */
        ca_file_close(file);
        return count > 0 ? count - 1 : 0;
    }
    run->file = file;
    run->stays = count >= CA_FIRST_RUN_DEATHS;
    if (run->stays)
        return count;
    enter(runs, run, count); /* first: a signal may come at any moment from now on */
    if (!(count > 0 ? write_count(file, count + 1) : write_file(file, circumstances, what)))
        ca_first_run_end(run);
    else if (run->slot && atomic_load(run->slot) != run->entry) /* excused meanwhile */
        write_count(file, count);
    return count;
}

void ca_first_run_end(struct ca_first_run *run)
{
    if (run->file != CA_NO_FILE && leave(run)) {
        if (!run->stays) {
            ca_file_truncate(
                run->file); /* Windows keeps it while others have it open: it counts none */
            ca_file_remove(CA_NO_FILE, run->path);
        }
        ca_lock_release(run->file);
        ca_file_close(run->file);
    }
    free(run->path);
    *run = (struct ca_first_run){.file = CA_NO_FILE};
}

void ca_first_runs_excuse(struct ca_first_runs *runs)
{
    for (size_t n = 0; n < CA_FIRST_RUNS; n++) {
        const intptr_t entry = atomic_exchange(&runs->slots[n], 0);
        if (entry != 0)
            write_count(entry / 10 - 1, (int)(entry % 10));
    }
}

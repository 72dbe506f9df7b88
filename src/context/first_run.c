#define _POSIX_C_SOURCE 200809L /* fstat, pread, pwrite */
#include "context/first_run.h"
#include "base/disk.h"
#include "context/circumstances.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file is a digit and the circumstances in a line, then what is made. What counts of it is as long as the
 * circumstances of today; of an older file, or of others, nothing does. */
static int read_count(int descriptor, const char *circumstances, time_t *until)
{
    const size_t length = strlen(circumstances);
    char text[CA_CIRCUMSTANCES_TEXT + 3];
    const time_t now = time(NULL);
    struct stat status;

    if (fstat(descriptor, &status) != 0 || status.st_mtime > now + CA_FIRST_RUN_SECONDS ||
        status.st_mtime <= now - CA_FIRST_RUN_SECONDS)
        return 0;
    *until = status.st_mtime + CA_FIRST_RUN_SECONDS;
    if (pread(descriptor, text, length + 3, 0) != (ssize_t)length + 3 || text[1] != ' ' ||
        memcmp(text + 2, circumstances, length) != 0 || text[length + 2] != '\n')
        return 0;
    return text[0] >= '1' && text[0] <= '9' ? text[0] - '0' : 0;
}

static int write_count(int descriptor, int count)
{
    const char digit = (char)('0' + count);

    return pwrite(descriptor, &digit, 1, 0) == 1;
}

/* The first attempt's whole file. */
static int write_file(int descriptor, const char *circumstances, const char *what)
{
    const size_t bytes = strlen(circumstances) + strlen(what) + 4;
    char *text = malloc(bytes);
    int written = 0;

    if (text) {
        const int length = snprintf(text, bytes, "1 %s\n%s", circumstances, what);
        written = ftruncate(descriptor, 0) == 0 &&
                  pwrite(descriptor, text, (size_t)length, 0) == (ssize_t)length;
    }
    free(text);
    return written;
}

/* Puts the run where ca_first_runs_excuse() finds it, if there is room. */
static void enter(struct ca_first_runs *runs, struct ca_first_run *run, int deaths)
{
    run->entry = (run->descriptor + 1) * 10 + deaths;
    for (size_t n = 0; n < CA_FIRST_RUNS && !run->slot; n++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&runs->slots[n], &none, run->entry))
            run->slot = &runs->slots[n];
    }
}

/* False if the run has been excused: then the descriptor is the handler's until the process ends. */
static int leave(struct ca_first_run *run)
{
    return !run->slot || atomic_compare_exchange_strong(run->slot, &run->entry, 0);
}

/* Opens the file; *locked: this run now holds its lock. -1 on failure, and where there are no locks. */
static int open_file(char *path, int *locked)
{
    char why[CA_REASON_BYTES];
    struct stat status;
    int descriptor, gone;

    do { /* another run may end, and remove it, between the two calls */
        descriptor = ca_disk_open(path, why, sizeof why);
        *locked = descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0;
        if (descriptor >= 0 && !*locked && errno != EWOULDBLOCK) {
            unlink(path);
            close(descriptor);
            return -1;
        }
        gone = *locked && fstat(descriptor, &status) == 0 && status.st_nlink == 0;
        if (gone)
            close(descriptor);
    } while (gone);
    return descriptor;
}

int ca_first_run_begin(struct ca_first_runs *runs, struct ca_first_run *run, char *path,
                       const char *what, time_t *until)
{
    char circumstances[CA_CIRCUMSTANCES_TEXT];
    int locked;

    *run = (struct ca_first_run){.path = path, .descriptor = -1};
    *until = 0;
    const int descriptor = path ? open_file(path, &locked) : -1;
    if (descriptor < 0)
        return 0;
    ca_circumstances(circumstances);
    const int count = read_count(descriptor, circumstances, until);
    if (!locked) { /* the last attempt is not over */
        close(descriptor);
        return count > 0 ? count - 1 : 0;
    }
    run->descriptor = descriptor;
    run->stays = count >= CA_FIRST_RUN_DEATHS;
    if (run->stays)
        return count;
    enter(runs, run, count); /* first: a signal may come at any moment from now on */
    if (!(count > 0 ? write_count(descriptor, count + 1)
                    : write_file(descriptor, circumstances, what)))
        ca_first_run_end(run);
    else if (run->slot && atomic_load(run->slot) != run->entry) /* excused meanwhile */
        write_count(descriptor, count);
    return count;
}

void ca_first_run_end(struct ca_first_run *run)
{
    if (run->descriptor >= 0 && leave(run)) {
        if (!run->stays)
            unlink(run->path);
        flock(run->descriptor,
              LOCK_UN); /* a process forked meanwhile holds the descriptor as well */
        close(run->descriptor);
    }
    free(run->path);
    *run = (struct ca_first_run){.descriptor = -1};
}

void ca_first_runs_excuse(struct ca_first_runs *runs)
{
    for (size_t n = 0; n < CA_FIRST_RUNS; n++) {
        const int entry = atomic_exchange(&runs->slots[n], 0);
        if (entry != 0)
            write_count(entry / 10 - 1, entry % 10);
    }
}

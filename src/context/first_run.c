#define _POSIX_C_SOURCE 200809L /* fstat, pread, pwrite */
#include "context/first_run.h"
#include "base/disk.h"

#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file is one digit. */
static int read_count(int descriptor)
{
    char digit;

    return pread(descriptor, &digit, 1, 0) == 1 && digit >= '1' && digit <= '9' ? digit - '0' : 0;
}

static int write_count(int descriptor, int count)
{
    const char digit = (char)('0' + count);

    return pwrite(descriptor, &digit, 1, 0) == 1;
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

/* Opens the file; *locked: this run now holds its lock. -1 on failure. */
static int open_file(char *path, int *locked)
{
    struct stat status;
    int descriptor, gone;

    do { /* another run may end, and remove it, between the two calls */
        descriptor = ca_disk_open(path);
        *locked = descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0;
        gone = *locked && fstat(descriptor, &status) == 0 && status.st_nlink == 0;
        if (gone)
            close(descriptor);
    } while (gone);
    return descriptor;
}

int ca_first_run_begin(struct ca_first_runs *runs, struct ca_first_run *run, char *path)
{
    int locked;

    *run = (struct ca_first_run){.path = path, .descriptor = -1};
    const int descriptor = path ? open_file(path, &locked) : -1;
    if (descriptor < 0)
        return 0;
    const int count = read_count(descriptor);
    if (!locked) { /* the last attempt is not over */
        close(descriptor);
        return count > 0 ? count - 1 : 0;
    }
    run->descriptor = descriptor;
    enter(runs, run, count); /* first: a signal may come at any moment from now on */
    if (count <= CA_FIRST_RUN_DEATHS && !write_count(descriptor, count + 1))
        ca_first_run_end(run);
    else if (run->slot && atomic_load(run->slot) != run->entry) /* excused meanwhile */
        write_count(descriptor, count);
    return count;
}

void ca_first_run_end(struct ca_first_run *run)
{
    if (run->descriptor >= 0 && leave(run)) {
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

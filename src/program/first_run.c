#define _POSIX_C_SOURCE 200809L /* fstat, pread, pwrite */
#include "first_run.h"
#include "disk.h"

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

int ca_first_run_begin(struct ca_first_run *run, char *path)
{
    int locked;

    *run = (struct ca_first_run){path, -1};
    const int descriptor = path ? open_file(path, &locked) : -1;
    if (descriptor < 0)
        return 0;
    const int count = read_count(descriptor);
    if (!locked) { /* the last attempt is not over */
        close(descriptor);
        return count > 0 ? count - 1 : 0;
    }
    run->descriptor = descriptor;
    if (count <= CA_FIRST_RUN_DEATHS && !write_count(descriptor, count + 1))
        ca_first_run_end(run);
    return count;
}

void ca_first_run_end(struct ca_first_run *run)
{
    if (run->descriptor >= 0) {
        unlink(run->path);
        flock(run->descriptor,
              LOCK_UN); /* a process forked meanwhile holds the descriptor as well */
        close(run->descriptor);
    }
    free(run->path);
    *run = (struct ca_first_run){NULL, -1};
}

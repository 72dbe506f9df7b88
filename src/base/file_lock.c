#define _XOPEN_SOURCE 700 /* flock, lstat, nanosleep */
#include "base/file_lock.h"
#include "base/clock.h"
#include "base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#if defined(__linux__)
#include <sys/sysmacros.h>
#endif
#include <time.h>
#include <unistd.h>

static void nap(void)
{
    nanosleep(&(struct timespec){0, 2000000}, NULL);
}

/* For so long while a file stays the same. */
struct waiting {
    double seconds, since; /* 0: it has not begun */
    struct stat file;
};

static int is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int is_over(struct waiting *waiting, const struct stat *file)
{
    const double now = ca_stopwatch_now();

    if (waiting->since == 0.0 || !is_same(&waiting->file, file)) {
        waiting->since = now;
        waiting->file = *file;
    }
    return now - waiting->since >= waiting->seconds;
}

/* ---- the kernel's lock ------------------------------------------------------------------------ */

/* Which process holds a lock on the file, as Linux tells of this machine's; 0 if that is not known. */
static long find_holder(int descriptor)
{
    long holder = 0;
#if defined(__linux__)
    char line[256];
    struct stat status;
    FILE *locks = fstat(descriptor, &status) == 0 ? fopen("/proc/locks", "re") : NULL;

    /* "1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF" */
    while (locks && holder == 0 && fgets(line, sizeof line, locks)) {
        unsigned first, second;
        unsigned long long number;
        long process;
        if (sscanf(line, "%*d: FLOCK %*s %*s %ld %x:%x:%llu", &process, &first, &second, &number) ==
                4 &&
            number == status.st_ino && makedev(first, second) == status.st_dev)
            holder = process;
    }
    if (locks)
        fclose(locks);
#else
    (void)descriptor;
#endif
    return holder;
}

static void say_busy(struct ca_file_lock *lock, const char *path, long holder, double seconds)
{
    char who[64] = "somebody else";

    if (holder > 0)
        snprintf(who, sizeof who, "process %ld", holder);
    lock->state = CA_LOCK_BUSY;
    ca_reason(lock->why, sizeof lock->why, "%s holds its lock %.120s, for more than %g seconds",
              who, path, seconds);
}

/* True unless the file system has no locks. Each holder writes into the file, so that who waits sees that it passes from
 * hand to hand. */
static int lock_file(struct ca_file_lock *lock, const char *path, double seconds)
{
    struct waiting waiting = {.seconds = seconds};
    struct stat status;

    while (flock(lock->descriptor, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return 0;
        if (fstat(lock->descriptor, &status) == 0 && is_over(&waiting, &status)) {
            say_busy(lock, path, find_holder(lock->descriptor), seconds);
            return 1;
        }
        nap();
    }
    lock->state = CA_LOCK_HELD;
    if (pwrite(lock->descriptor, "", 1, 0) != 1)
        futimens(lock->descriptor, NULL);
    return 1;
}

/* ---- a file in its place ---------------------------------------------------------------------- */

/* 1: made; 0: it is there; -1: neither. */
static int make_file(const char *path)
{
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    char text[32];

    if (descriptor < 0)
        return errno == EEXIST ? 0 : -1;
    const int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (write(descriptor, text, (size_t)length) != length) /* it only tells whose it is */
        errno = 0;
    close(descriptor);
    return 1;
}

static long read_holder(const char *path)
{
    char why[CA_REASON_BYTES];
    size_t bytes;
    unsigned char *text = ca_disk_read(path, 32, &bytes, why, sizeof why);
    const long holder = text && text[bytes - 1] == '\n' ? strtol((const char *)text, NULL, 10) : 0;

    free(text);
    return holder;
}

/* One file that is the same for all that time is of a process that died: who lives holds it for milliseconds. */
static void lock_beside(struct ca_file_lock *lock, const char *path, double seconds, int error)
{
    struct waiting waiting = {.seconds = seconds};
    const size_t bytes = strlen(path) + 8;
    struct stat status;
    int made, over = 0;

    lock->beside = malloc(bytes);
    if (!lock->beside) {
        lock->state = CA_LOCK_NO_MEMORY;
        return;
    }
    snprintf(lock->beside, bytes, "%s.held", path);
    while ((made = make_file(lock->beside)) == 0 && !over) {
        over = lstat(lock->beside, &status) == 0 && is_over(&waiting, &status);
        if (!over)
            nap();
    }
    if (made == 0 && seconds > 0.0 && lstat(lock->beside, &status) == 0 &&
        is_same(&waiting.file, &status) && unlink(lock->beside) == 0)
        made = make_file(lock->beside);
    if (made > 0) {
        lock->state = CA_LOCK_HELD_BY_FILE;
        ca_reason(lock->why, sizeof lock->why,
                  "its file system has no locks (%s), and the file %.120s stands in",
                  strerror(error), lock->beside);
        return;
    }
    if (made == 0)
        say_busy(lock, lock->beside, read_holder(lock->beside), seconds);
    else
        ca_reason(lock->why, sizeof lock->why, "its lock %.120s cannot be made: %s", lock->beside,
                  strerror(errno));
    free(lock->beside);
    lock->beside = NULL;
}

/* ---- either ----------------------------------------------------------------------------------- */

void ca_file_lock_acquire(struct ca_file_lock *lock, const char *path, double seconds)
{
    char why[CA_REASON_BYTES], *copy;

    *lock = (struct ca_file_lock){.state = CA_LOCK_NO_MEMORY, .descriptor = -1};
    copy = malloc(strlen(path) + 1); /* ca_disk_open() changes it, and other threads read it */
    if (!copy)
        return;
    lock->descriptor = ca_disk_open(strcpy(copy, path), why, sizeof why);
    lock->state = lock->descriptor < 0 && errno == ENOMEM ? CA_LOCK_NO_MEMORY : CA_LOCK_NONE;
    free(copy);
    if (lock->descriptor < 0) {
        ca_reason(lock->why, sizeof lock->why, "its lock %.100s cannot be used: %.120s", path, why);
        return;
    }
    if (!lock_file(lock, path, seconds))
        lock_beside(lock, path, seconds, errno);
    if (lock->state != CA_LOCK_HELD) {
        close(lock->descriptor);
        lock->descriptor = -1;
    }
}

void ca_file_lock_release(struct ca_file_lock *lock)
{
    if (lock->descriptor >= 0) {
        flock(lock->descriptor,
              LOCK_UN); /* a process forked meanwhile holds the descriptor as well */
        close(lock->descriptor);
    }
    if (lock->beside)
        unlink(lock->beside);
    free(lock->beside);
    lock->descriptor = -1;
    lock->beside = NULL;
    lock->state = CA_LOCK_NONE;
}

int ca_file_lock_is_held(const struct ca_file_lock *lock)
{
    return lock->state == CA_LOCK_HELD || lock->state == CA_LOCK_HELD_BY_FILE;
}

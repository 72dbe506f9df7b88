/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file_lock.h"
#include "base/disk.h"
#include "base/text.h"
#include "os/clock.h"
#include "os/environment.h"
#include "os/lock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAP_SECONDS 0.002

/* A wait of this many seconds during which a file stays unchanged. */
struct waiting {
    double seconds, since; /* 0: it has not begun */
    struct ca_file_facts file;
};

static int is_over(struct waiting *waiting, const struct ca_file_facts *file)
{
    const double now = ca_stopwatch_now();

    if (waiting->since == 0.0 || !ca_file_is_same(&waiting->file, file)) {
        waiting->since = now;
        waiting->file = *file;
    }
    return now - waiting->since >= waiting->seconds;
}

/* ---- the system's lock ----------------------------------------------------------------------- */

static void say_busy(struct ca_file_lock *lock, const char *path, long holder, double seconds)
{
    char who[64] = "somebody else";

    if (holder > 0)
        snprintf(who, sizeof who, "process %ld", holder);
    lock->state = CA_LOCK_BUSY;
    ca_reason(lock->why, sizeof lock->why, "%s holds its lock %.120s, for more than %g seconds",
              who, path, seconds);
}

/* Returns true unless the file system has no locks. Each holder writes into the file, so that
 * others that wait see that the lock passes on. */
static int lock_file(struct ca_file_lock *lock, const char *path, double seconds)
{
    struct waiting waiting = {.seconds = seconds};
    struct ca_file_facts facts;
    enum ca_lock got;

    while ((got = ca_lock_try(lock->file)) == CA_LOCK_OTHERS) {
        if (ca_file_ask(lock->file, &facts) && is_over(&waiting, &facts)) {
            say_busy(lock, path, ca_lock_holder(lock->file), seconds);
            return 1;
        }
        ca_nap(NAP_SECONDS);
    }
    if (got == CA_LOCK_MISSING)
        return 0;
    lock->state = CA_LOCK_HELD;
    if (!ca_file_write(lock->file, "", 1, 0))
        ca_file_touch(lock->file);
    return 1;
}

/* ---- a second file in place of the lock --------------------------------------------------------- */

/* Makes a file that names this process. Returns 1 if it made it, 0 if there is one already, -1 if making it failed. */
static int make_file(const char *path)
{
    const ca_file file = ca_file_open(CA_NO_FILE, path, CA_FILE_MAKE);
    char text[32];

    if (file == CA_NO_FILE)
        return errno == EEXIST ? 0 : -1;
    const int length = snprintf(text, sizeof text, "%ld\n", ca_process_number());
    ca_file_write(file, text, (size_t)length, 0); /* the text only tells who holds the lock */
    ca_file_close(file);
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

/* Live processes hold the file for milliseconds. One that stays the same for `seconds` belongs to a process that died. */
static void lock_beside(struct ca_file_lock *lock, const char *path, double seconds, int error)
{
    struct waiting waiting = {.seconds = seconds};
    const size_t bytes = strlen(path) + 8;
    struct ca_file_facts facts;
    int made, over = 0;

    lock->beside = malloc(bytes);
    if (!lock->beside) {
        lock->state = CA_LOCK_NO_MEMORY;
        return;
    }
    snprintf(lock->beside, bytes, "%s.held", path);
    while ((made = make_file(lock->beside)) == 0 && !over) {
        over = ca_file_find(CA_NO_FILE, lock->beside, &facts) && is_over(&waiting, &facts);
        if (!over)
            ca_nap(NAP_SECONDS);
    }
    if (made == 0 && seconds > 0.0 && ca_file_find(CA_NO_FILE, lock->beside, &facts) &&
        ca_file_is_same(&waiting.file, &facts) && ca_file_remove(CA_NO_FILE, lock->beside))
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

    *lock = (struct ca_file_lock){.state = CA_LOCK_NO_MEMORY, .file = CA_NO_FILE};
    copy = ca_text_copy(path); /* ca_disk_open() changes it, and other threads read it */
    if (!copy)
        return;
    lock->file = ca_disk_open(copy, why, sizeof why);
    lock->state = lock->file == CA_NO_FILE && errno == ENOMEM ? CA_LOCK_NO_MEMORY : CA_LOCK_NONE;
    free(copy);
    if (lock->file == CA_NO_FILE) {
        ca_reason(lock->why, sizeof lock->why, "its lock %.100s cannot be used: %.120s", path, why);
        return;
    }
    if (!lock_file(lock, path, seconds))
        lock_beside(lock, path, seconds, errno);
    if (lock->state != CA_LOCK_HELD) {
        ca_file_close(lock->file);
        lock->file = CA_NO_FILE;
    }
}

void ca_file_lock_release(struct ca_file_lock *lock)
{
    if (lock->file != CA_NO_FILE) {
        ca_lock_release(lock->file);
        ca_file_close(lock->file);
    }
    if (lock->beside)
        ca_file_remove(CA_NO_FILE, lock->beside);
    free(lock->beside);
    lock->file = CA_NO_FILE;
    lock->beside = NULL;
    lock->state = CA_LOCK_NONE;
}

int ca_file_lock_is_held(const struct ca_file_lock *lock)
{
    return lock->state == CA_LOCK_HELD || lock->state == CA_LOCK_HELD_BY_FILE;
}

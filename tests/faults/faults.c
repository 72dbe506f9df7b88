/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/faults.h"
#include "base/log.h"
#include "os/clock.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const kind_names[NUM_OBJECT_KINDS] = {"contexts", "queues",  "buffers",
                                                         "programs", "kernels", "events"};

static atomic_long objects[NUM_OBJECT_KINDS], allocations, commands, waits;

static struct {
    atomic_int kind;
    atomic_long left; /* calls until the one that fails */
    cl_int error;
    _Atomic(const char *) fired;
} armed;

void faults_arm(const enum fault_kind kind, const size_t n, const cl_int error)
{
    armed.error = error;
    atomic_store(&armed.fired, NULL);
    atomic_store(&armed.left, (long)n);
    atomic_store(&armed.kind, kind);
}

const char *faults_disarm(void)
{
    atomic_store(&armed.kind, FAULT_NONE);
    return atomic_load(&armed.fired);
}

static struct {
    cl_device_info what;
    const void *value;
    size_t bytes;
} pretences[8];
static size_t num_pretences;

void faults_pretend(cl_device_info what, const void *value, size_t bytes)
{
    if (!value)
        num_pretences = 0;
    if (!value || num_pretences == sizeof pretences / sizeof *pretences)
        return;
    pretences[num_pretences].what = what;
    pretences[num_pretences].value = value;
    pretences[num_pretences++].bytes = bytes;
}

int faults_pretended(cl_device_info what, size_t size, void *value, size_t *needed)
{
    for (size_t n = 0; n < num_pretences; n++) {
        if (pretences[n].what != what)
            continue;
        if (needed)
            *needed = pretences[n].bytes;
        if (value && size >= pretences[n].bytes)
            memcpy(value, pretences[n].value, pretences[n].bytes);
        return 1;
    }
    return 0;
}

enum { MOST_WAITS = 16 };

/* Commands in the order in which they were handed over, each after those that it waits for. */
static struct {
    struct {
        cl_event event, wait[MOST_WAITS];
        cl_uint num_wait;
    } commands[FAULTS_MOST_COMMANDS];
    size_t count;
    int on;
} recorded;

cl_int __real_clRetainEvent(cl_event event);
cl_int __real_clReleaseEvent(cl_event event);

void faults_record(void)
{
    recorded.count = 0;
    recorded.on = 1;
}

/* Keeps the event, so that no later one has its handle. */
static void record(cl_uint num_wait, const cl_event *wait, cl_event event)
{
    if (!recorded.on || recorded.count == FAULTS_MOST_COMMANDS || num_wait > MOST_WAITS)
        return;
    recorded.commands[recorded.count].event = event;
    recorded.commands[recorded.count].num_wait = num_wait;
    for (cl_uint n = 0; n < num_wait; n++)
        recorded.commands[recorded.count].wait[n] = wait[n];
    recorded.count++;
    if (event)
        __real_clRetainEvent(event);
}

size_t faults_recorded(cl_event event, size_t *loose)
{
    int over[FAULTS_MOST_COMMANDS] = {0};

    recorded.on = 0;
    *loose = recorded.count;
    for (size_t n = recorded.count; n-- > 0;) {
        over[n] |= recorded.commands[n].event == event;
        *loose -= over[n] != 0;
        for (cl_uint k = 0; over[n] && k < recorded.commands[n].num_wait; k++)
            for (size_t m = 0; m < n; m++)
                over[m] |= recorded.commands[m].event == recorded.commands[n].wait[k];
    }
    for (size_t n = 0; n < recorded.count; n++)
        if (recorded.commands[n].event)
            __real_clReleaseEvent(recorded.commands[n].event);
    return recorded.count;
}

static struct {
    faults_build_hook ask;
    void *user;
} on_build; /* set while no other thread builds */

void faults_on_build(const faults_build_hook hook, void *user)
{
    on_build.ask = hook;
    on_build.user = user;
}

static int fails(const enum fault_kind kind, const char *call)
{
    if (atomic_load(&armed.kind) != (int)kind || atomic_fetch_sub(&armed.left, 1) != 0)
        return 0;
    atomic_store(&armed.fired, call);
    return 1;
}

static int stays_failed(const char *call)
{
    if (atomic_load(&armed.kind) != FAULT_STICKY || atomic_fetch_sub(&armed.left, 1) > 0)
        return 0;
    atomic_store(&armed.fired, call);
    return 1;
}

cl_int faults_opencl(const char *call)
{
    if (atomic_load(&armed.kind) == FAULT_DELAY && strcmp(call, "clSetKernelArg") == 0)
        ca_nap(2e-5);
    if (fails(FAULT_OPENCL, call) || stays_failed(call))
        return armed.error;
    return on_build.ask && strcmp(call, "clBuildProgram") == 0 ? on_build.ask(on_build.user)
                                                               : CL_SUCCESS;
}

int faults_memory(const char *call)
{
    return fails(FAULT_MEMORY, call);
}

int faults_lie(const char *call)
{
    return atomic_load(&armed.kind) == FAULT_LIES || fails(FAULT_LIE, call);
}

void faults_object(const enum object_kind kind, const long change)
{
    atomic_fetch_add(&objects[kind], change);
}

void faults_allocation(const long change)
{
    atomic_fetch_add(&allocations, change);
}

void faults_command(const cl_uint num_wait, const cl_event *wait, cl_event event)
{
    record(num_wait, wait, event);
    atomic_fetch_add(&commands, 1);
    atomic_fetch_add(&waits, (long)num_wait);
}

long faults_objects_alive(char *text, const size_t text_bytes)
{
    long sum = 0;
    size_t at = 0;

    if (text_bytes > 0)
        text[0] = 0;
    for (int k = 0; k < NUM_OBJECT_KINDS; k++) {
        const long alive = atomic_load(&objects[k]);
        sum += alive < 0 ? -alive : alive; /* released once too often is as bad */
        if (alive != 0 && at < text_bytes)
            at += (size_t)snprintf(text + at, text_bytes - at, "%ld %s ", alive, kind_names[k]);
    }
    return sum;
}

long faults_allocations_alive(void)
{
    return atomic_load(&allocations);
}

struct faults_alive faults_alive(void)
{
    return (struct faults_alive){faults_objects_alive(NULL, 0), faults_allocations_alive()};
}

void faults_expect_alive(const struct faults_alive before, const char *call, const size_t n)
{
    const struct faults_alive now = faults_alive();

    cr_assert(now.objects == before.objects && now.allocations == before.allocations,
              "%s, call %zu, failed: %ld objects and %ld allocations stay behind", call, n,
              now.objects - before.objects, now.allocations - before.allocations);
}

/* Keeps an error of this thread, so that later allocations can be compared: mingw's gcc allocates a thread's variables
 * at their first use, until the thread ends. */
static void settle(void)
{
    const struct ca_log nobody = {.printed = 0};

    ca_fail(&nobody, CLATTN_SUCCESS, "%s", "");
}

int faults_next(struct faults_rounds *rounds)
{
    if (!rounds->begun) {
        settle();
        return 1;
    }
    cr_assert(rounds->kept || faults_allocations_alive() == rounds->alive,
              "allocation %zu, of %s, failed: %ld allocations stay behind", rounds->n,
              rounds->failed ? rounds->failed : "none", faults_allocations_alive() - rounds->alive);
    rounds->n++;
    return rounds->failed != NULL;
}

void faults_begin(struct faults_rounds *rounds)
{
    rounds->begun = 1;
    rounds->alive = faults_allocations_alive();
    faults_arm(FAULT_MEMORY, rounds->n, 0);
}

int faults_failed(struct faults_rounds *rounds)
{
    rounds->failed = faults_disarm();
    return rounds->failed != NULL;
}

long faults_commands(void)
{
    return atomic_load(&commands);
}

long faults_waits(void)
{
    return atomic_load(&waits);
}

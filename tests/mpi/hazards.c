/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* pthread */
#include "tests/mpi/hazards.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct access {
    enum hazard_agent agent;
    const void *who;
    struct hazard_range range;
    bool writes;
    const char *call;
};

/* The memory to which a buffer's bytes were mapped, and whether they still are. */
struct place {
    cl_mem buffer;
    const char *pointer;
    size_t bytes;
    bool open, writes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct access *accesses;
static size_t count, room;
static struct place places[256];
static size_t num_places;
static unsigned long found, overlaps;

/* ---- what is under way ------------------------------------------------------------------------ */

static bool ranges_overlap(const struct hazard_range *a, const struct hazard_range *b)
{
    if (a->buffer || b->buffer)
        return a->buffer == b->buffer && a->first < b->first + b->bytes &&
               b->first < a->first + a->bytes;
    return a->host < b->host + b->bytes && b->host < a->host + a->bytes;
}

static void complain(const char *call, const char *what, const char *other)
{
    if (++found <= 10)
        fprintf(stderr, "hazard: %s %s%s\n", call, what, other);
}

/* The lock is held. */
static void check(const struct access *later)
{
    for (size_t n = 0; n < count; n++) {
        const struct access *earlier = &accesses[n];
        const bool ordered = later->agent == AGENT_QUEUE && earlier->agent == AGENT_QUEUE &&
                             later->who == earlier->who;
        if (!ordered && (later->writes || earlier->writes) &&
            ranges_overlap(&later->range, &earlier->range))
            complain(later->call,
                     later->writes ? "writes what is in use by " : "reads what is written by ",
                     earlier->call);
    }
}

static void add(const struct access later)
{
    if (count == room) {
        struct access *more = realloc(accesses, (room = 2 * room + 64) * sizeof *more);
        if (!more)
            abort();
        accesses = more;
    }
    accesses[count++] = later;
}

static void drop(const enum hazard_agent agent, const void *who)
{
    size_t kept = 0;

    for (size_t n = 0; n < count; n++)
        if (accesses[n].agent != agent || accesses[n].who != who)
            accesses[kept++] = accesses[n];
    count = kept;
}

void hazard_access(const enum hazard_agent agent, const void *who, const struct hazard_range range,
                   const bool writes, const bool ends, const char *call)
{
    const struct access later = {agent, who, range, writes, call};

    if (range.bytes == 0)
        return;
    pthread_mutex_lock(&lock);
    check(&later);
    if (!ends)
        add(later);
    pthread_mutex_unlock(&lock);
}

void hazard_end(const enum hazard_agent agent, const void *who)
{
    pthread_mutex_lock(&lock);
    drop(agent, who);
    pthread_mutex_unlock(&lock);
}

/* ---- what is mapped ---------------------------------------------------------------------------- */

/* The place that has one of the bytes, or NULL. */
static struct place *place_of(const char *bytes, const size_t number)
{
    for (size_t n = 0; n < num_places; n++)
        if (bytes < places[n].pointer + places[n].bytes && places[n].pointer < bytes + number)
            return &places[n];
    return NULL;
}

void hazard_message(const void *request, const void *bytes, const size_t number, const bool comes,
                    const bool ends, const char *call)
{
    const struct hazard_range range = {.host = bytes, .bytes = number};

    if (number == 0)
        return;
    pthread_mutex_lock(&lock);
    const struct place *place = place_of(bytes, number);
    if (place && (!place->open || (const char *)bytes < place->pointer ||
                  (const char *)bytes + number > place->pointer + place->bytes))
        complain(call, "has bytes of a buffer that are not mapped", "");
    else if (place && comes && !place->writes)
        complain(call, "writes what is mapped for reading", "");
    pthread_mutex_unlock(&lock);
    hazard_access(AGENT_MESSAGE, request, range, comes, ends, call);
}

void hazard_map(const cl_mem buffer, const size_t first, const size_t bytes, const void *pointer,
                const bool writes)
{
    const struct hazard_range range = {.buffer = buffer, .first = first, .bytes = bytes};

    hazard_access(AGENT_HOST, pointer, range, writes, false, "clEnqueueMapBuffer");
    pthread_mutex_lock(&lock);
    struct place *place = place_of(pointer, bytes);
    if (!place && num_places == sizeof places / sizeof *places)
        abort();
    if (!place)
        place = &places[num_places++];
    *place = (struct place){buffer, pointer, bytes, true, writes};
    pthread_mutex_unlock(&lock);
}

void hazard_unmap(const void *queue, const void *pointer)
{
    struct hazard_range range = {.bytes = 0};
    bool wrote = false;

    pthread_mutex_lock(&lock);
    struct place *place = place_of(pointer, 1);
    if (!place || !place->open)
        complain("clEnqueueUnmapMemObject", "takes what is not mapped", "");
    for (size_t n = 0; place && n < count; n++) {
        const struct hazard_range *r = &accesses[n].range;
        if (accesses[n].agent == AGENT_HOST && accesses[n].who == pointer) {
            range = *r;
            wrote = accesses[n].writes;
        } else if (accesses[n].agent == AGENT_MESSAGE && !r->buffer &&
                   r->host < place->pointer + place->bytes && place->pointer < r->host + r->bytes) {
            complain("clEnqueueUnmapMemObject", "takes bytes from ", accesses[n].call);
        }
    }
    drop(AGENT_HOST, pointer);
    if (place)
        place->open = false;
    pthread_mutex_unlock(&lock);
    hazard_access(AGENT_QUEUE, queue, range, wrote, false, "clEnqueueUnmapMemObject");
}

void hazard_forget(const cl_mem buffer)
{
    size_t kept = 0;

    pthread_mutex_lock(&lock);
    for (size_t n = 0; n < num_places; n++)
        if (places[n].buffer != buffer)
            places[kept++] = places[n];
    num_places = kept;
    kept = 0;
    for (size_t n = 0; n < count; n++)
        if (!accesses[n].range.buffer || accesses[n].range.buffer != buffer)
            accesses[kept++] = accesses[n];
    count = kept;
    pthread_mutex_unlock(&lock);
}

void hazard_complain(const char *call, const char *what)
{
    pthread_mutex_lock(&lock);
    complain(call, what, "");
    pthread_mutex_unlock(&lock);
}

/* ---- figures ----------------------------------------------------------------------------------- */

void hazard_launch(void)
{
    pthread_mutex_lock(&lock);
    for (size_t n = 0; n < count; n++)
        if (accesses[n].agent == AGENT_MESSAGE) {
            overlaps++;
            break;
        }
    pthread_mutex_unlock(&lock);
}

unsigned long hazards_found(void)
{
    return found;
}

unsigned long hazards_overlaps(void)
{
    return overlaps;
}

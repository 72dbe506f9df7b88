/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/kept_marks.h"
#include "os/thread.h"
#include "problem/function.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT = 4, READ = CLATTN_FUNCTION_OPERANDS + 4 };

/* All that marks depend on, but for the problem. It has no gaps: keys are compared by bytes. */
struct key {
    uint64_t version;
    struct {
        uint64_t memory, offset;
    } read[READ]; /* the mask function's operands, the lengths and the starts */
    clattn_function_values values;
    clattn_dropout_place place;
    uint32_t whole_queries, whole_keys, zero;
};
_Static_assert(sizeof(struct key) == sizeof(uint64_t) * (1 + 2 * READ) +
                                         sizeof(clattn_function_values) +
                                         sizeof(clattn_dropout_place) + 3 * sizeof(uint32_t),
               "a key has no gaps");

struct entry {
    struct key key;
    cl_mem marks; /* NULL: empty */
    cl_event made;
};

struct ca_kept_marks {
    cl_context opencl;
    const clattn_problem *problem;
    struct ca_mutex lock; /* guards the entries; never held while a device computes */
    struct entry entries[KEPT];
    size_t oldest;
    int needs_version; /* the function reads what may change unseen */
    size_t begin;      /* the first byte of the marks in the workspace; they are its last ones */
    size_t bytes;
};

/* ---- making and releasing -------------------------------------------------------------------- */

struct ca_kept_marks *ca_kept_marks_make(cl_context opencl, const struct ca_candidate *candidate,
                                         const struct ca_problem *problem, size_t workspace_bytes)
{
    const clattn_problem *p = &problem->normal;
    struct ca_problem without = *problem;

    if (!workspace_bytes || !ca_has_functions(p) || !p->mask_function || p->mask || p->bias)
        return NULL;
    without.normal.mask_function = NULL;
    const size_t begin = candidate->family->workspace_bytes(&without, candidate->values);
    struct ca_kept_marks *kept = begin < workspace_bytes ? calloc(1, sizeof *kept) : NULL;
    if (!kept || !ca_mutex_init(&kept->lock)) {
        free(kept);
        return NULL;
    }
    kept->opencl = opencl;
    kept->problem = p;
    kept->begin = begin;
    kept->bytes = workspace_bytes - begin;
    kept->needs_version = p->mask_function->num_operands > 0 || p->q_lengths || p->kv_lengths ||
                          p->total_q || p->total_kv;
    return kept;
}

static void empty_entry(struct entry *entry)
{
    if (!entry->marks)
        return;
    clReleaseMemObject(entry->marks); /* which lives until enqueued commands are done with it */
    clReleaseEvent(entry->made);
    entry->marks = NULL;
}

void ca_kept_marks_release(struct ca_kept_marks *kept)
{
    for (size_t n = 0; kept && n < KEPT; n++)
        empty_entry(&kept->entries[n]);
    if (kept)
        ca_mutex_destroy(&kept->lock);
    free(kept);
}

/* ---- executions ------------------------------------------------------------------------------ */

int ca_marks_can_be_kept(const struct ca_kept_marks *kept, const struct ca_stage *stage,
                         const struct ca_tensors *tensors)
{
    return kept && strcmp(stage->kernel, "mark_pairs") == 0 && tensors->at[CA_WORKSPACE].buffer &&
           (tensors->function_version != 0 || !kept->needs_version);
}

/* What a memory is known by: buffers that are made over the host's own, anew for each execution, by the address there. */
static uint64_t memory_of(const clattn_buffer *at)
{
    cl_mem_flags flags = 0;
    void *host = NULL;

    if (!at->buffer)
        return (uint64_t)(uintptr_t)at->pointer;
    if (clGetMemObjectInfo(at->buffer, CL_MEM_FLAGS, sizeof flags, &flags, NULL) == CL_SUCCESS &&
        (flags & CL_MEM_USE_HOST_PTR) &&
        clGetMemObjectInfo(at->buffer, CL_MEM_HOST_PTR, sizeof host, &host, NULL) == CL_SUCCESS &&
        host)
        return (uint64_t)(uintptr_t)host;
    return (uint64_t)(uintptr_t)at->buffer;
}

static struct key key_of(const clattn_problem *p, const struct ca_tensors *tensors)
{
    const unsigned first =
        CA_FUNCTION_0 + (p->score_function ? (unsigned)p->score_function->num_operands : 0);
    struct key key;
    size_t count = 0;

    memset(&key, 0, sizeof key);
    key.version = tensors->function_version;
    key.values = ca_mask_function_values(p, tensors->function_values);
    key.place = tensors->place;
    key.whole_queries = tensors->whole_queries;
    key.whole_keys = tensors->whole_keys;
    for (unsigned n = 0; n < CA_WORKSPACE; n++) {
        const clattn_buffer *at = &tensors->at[n];
        if (n != CA_Q_LENGTHS && n != CA_KV_LENGTHS && n != CA_Q_STARTS && n != CA_KV_STARTS &&
            (n < first || n > CA_FUNCTION_5))
            continue;
        key.read[count].memory = memory_of(at);
        key.read[count++].offset = at->offset;
    }
    return key;
}

/* The marks of a key, retained, and the event of the command that wrote them, NULL if it is over; NULL without any. */
static cl_mem find(struct ca_kept_marks *kept, const struct key *key, cl_event *made)
{
    cl_mem marks = NULL;

    *made = NULL;
    ca_mutex_lock(&kept->lock);
    for (size_t n = 0; n < KEPT && !marks; n++) {
        struct entry *entry = &kept->entries[n];
        cl_int status = -1;
        if (!entry->marks || memcmp(&entry->key, key, sizeof *key) != 0)
            continue;
        clGetEventInfo(entry->made, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                       NULL);
        if (status < 0 || clRetainMemObject(entry->marks) != CL_SUCCESS) {
            empty_entry(entry);
            continue;
        }
        marks = entry->marks;
        if (status != CL_COMPLETE && clRetainEvent(entry->made) == CL_SUCCESS)
            *made = entry->made;
    }
    ca_mutex_unlock(&kept->lock);
    return marks;
}

int ca_kept_marks_copy(struct ca_kept_marks *kept, cl_command_queue queue,
                       const struct ca_tensors *tensors, cl_uint num_wait, const cl_event *wait,
                       cl_event *event)
{
    const clattn_buffer *workspace = &tensors->at[CA_WORKSPACE];
    const struct key key = key_of(kept->problem, tensors);
    cl_int err = CL_SUCCESS;
    cl_event made;

    cl_mem marks = find(kept, &key, &made);
    if (!marks)
        return 0;
    if (made) /* perhaps in another queue */
        err = clEnqueueBarrierWithWaitList(queue, 1, &made, NULL);
    if (err == CL_SUCCESS)
        err = clEnqueueCopyBuffer(queue, marks, workspace->buffer, 0,
                                  workspace->offset * sizeof(cl_float) + kept->begin, kept->bytes,
                                  num_wait, wait, event);
    if (made)
        clReleaseEvent(made);
    clReleaseMemObject(marks);
    return err == CL_SUCCESS;
}

void ca_kept_marks_add(struct ca_kept_marks *kept, cl_command_queue queue,
                       const struct ca_tensors *tensors, cl_event *made)
{
    const clattn_buffer *workspace = &tensors->at[CA_WORKSPACE];
    struct entry entry = {.key = key_of(kept->problem, tensors)};
    cl_int err;

    entry.marks = clCreateBuffer(kept->opencl, CL_MEM_READ_WRITE, kept->bytes, NULL, &err);
    if (err != CL_SUCCESS)
        return;
    err = clEnqueueCopyBuffer(queue, workspace->buffer, entry.marks,
                              workspace->offset * sizeof(cl_float) + kept->begin, 0, kept->bytes,
                              made ? 1 : 0, made, &entry.made);
    if (err != CL_SUCCESS) {
        clReleaseMemObject(entry.marks);
        return;
    }
    clFlush(queue); /* another queue may wait for it */
    if (made && clRetainEvent(entry.made) == CL_SUCCESS) {
        clReleaseEvent(*made);
        *made = entry.made;
    }
    ca_mutex_lock(&kept->lock);
    struct entry *place = &kept->entries[kept->oldest];
    kept->oldest = (kept->oldest + 1) % KEPT;
    empty_entry(place);
    *place = entry;
    ca_mutex_unlock(&kept->lock);
}

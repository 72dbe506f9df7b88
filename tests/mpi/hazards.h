/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that computing on a device and messages between ranks do not race. It finds hazards (read
 * after write, write after read, write after write) without waiting for one to happen.
 * hazards_calls.c stands before the calls of OpenCL and MPI in the program that it is linked with,
 * and tells what each reads and writes. Two accesses are a hazard if no call has put them in an
 * order and one of them writes, however they came out this time.
 *
 * The order is that of the standards. Commands of one in-order queue are ordered. Commands are
 * over when the host has waited for their queue, and a message when MPI_Test or a wait has said
 * so. Mapped memory is the host's until it is unmapped. Messages may be only there or in memory
 * that OpenCL does not know. */
#ifndef MPI_HAZARDS_H
#define MPI_HAZARDS_H

#include <CL/cl.h>
#include <stdbool.h>
#include <stddef.h>

/* Bytes that something reads or writes: of a buffer, or of the host's memory if there is none. */
struct hazard_range {
    cl_mem buffer;
    const char *host;
    size_t first, bytes;
};

/* The agent that works on bytes until it has ended. */
enum hazard_agent { AGENT_QUEUE, AGENT_MESSAGE, AGENT_HOST };

/* Checks an access against all that are under way and, unless it has ended when the call returns, adds it to them. `who` is the
 * queue, the request or the mapped pointer. All functions may be called by several threads. */
void hazard_access(enum hazard_agent agent, const void *who, struct hazard_range range, bool writes,
                   bool ends, const char *call);
void hazard_end(enum hazard_agent agent, const void *who);

/* A message's bytes: in what is mapped, with the right to write it if the message comes, or unknown to OpenCL. */
void hazard_message(const void *request, const void *bytes, size_t count, bool comes, bool ends,
                    const char *call);
/* The buffer's bytes from `first` on are at `pointer` from now on, and the host's. */
void hazard_map(cl_mem buffer, size_t first, size_t bytes, const void *pointer, bool writes);
/* Messages to and from there must have ended. */
void hazard_unmap(const void *queue, const void *pointer);
/* The memory of a buffer that ends may be anybody's. */
void hazard_forget(cl_mem buffer);

/* A call that drivers need not accept. */
void hazard_complain(const char *call, const char *what);

/* A kernel is enqueued. */
void hazard_launch(void);

/* Hazards found, each printed to stderr up to the tenth; and kernels that were enqueued while a message was under way. */
unsigned long hazards_found(void);
unsigned long hazards_overlaps(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A plan of libclattn_mpi, and what its files share. Of clattn they use the public headers alone, and how these
 * have structs grow. */
#ifndef MPI_INTERNAL_H
#define MPI_INTERNAL_H

#include "base/structs.h"
#include "mpi/partition/parts.h"

#include <clattn/mpi.h>
#include <stdint.h>

/* The last member that every version of a struct has, as in base/structs.h. */
enum {
    CA_LEAST_clattn_mpi_rates = CA_BYTES_TO(clattn_mpi_rates, bandwidth),
    CA_LEAST_clattn_mpi_options = CA_BYTES_TO(clattn_mpi_options, heads_ranks),
    CA_LEAST_clattn_mpi_shard = CA_BYTES_TO(clattn_mpi_shard, kv_count),
    CA_LEAST_clattn_mpi_plan_info = CA_BYTES_TO(clattn_mpi_plan_info, seconds),
    CA_LEAST_clattn_mpi_prediction = CA_BYTES_TO(clattn_mpi_prediction, seconds)
};

/* ---- what fails ------------------------------------------------------------------------------- */

/* The first failure of this rank since the ranks last agreed. After it everything is skipped but
 * messages that other ranks wait for. */
struct fault {
    clattn_status status;
    char reason[256];
};

/* Keeps the first fault; returns whether there is none. */
bool fault_none(const struct fault *fault);
void fault_set(struct fault *fault, clattn_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
/* Sets the fault of an OpenCL call, or of a call of clattn, unless it succeeded; true if it did. */
bool fault_cl(struct fault *fault, cl_int error, const char *call);
bool fault_call(struct fault *fault, clattn_status status, const char *call);

/* Collective: the status of the lowest rank that has a fault, with its sentence in every rank's log;
 * CLATTN_SUCCESS if none has. Clears the fault. A rank's context may be NULL: it has no log. */
clattn_status fault_agree(MPI_Comm communicator, const clattn_context *context,
                          struct fault *fault);

/* FNV-1a (G. Fowler, L. C. Noll, P. Vo), from HASH_BEGIN on. */
#define HASH_BEGIN UINT64_C(14695981039346656037)
uint64_t hash_more(uint64_t hash, const void *bytes, size_t count);

/* Likewise, and CLATTN_INVALID_ARGUMENT if no rank has a fault but not all have the same hash, of what `unlike` says. */
clattn_status fault_agree_alike(MPI_Comm communicator, const clattn_context *context,
                                struct fault *fault, uint64_t hash, const char *unlike);

/* ---- memory ----------------------------------------------------------------------------------- */

/* A tensor in device memory, (batch, heads, rows, dim) with dim innermost; steps in elements. */
struct tensor {
    cl_mem buffer;
    size_t offset;
    size_t stride[3];
};

/* Device memory that grows as needed and is kept from call to call. */
struct pool {
    cl_mem buffer;
    size_t bytes;
};

/* Host memory that messages come from and go to, likewise; and the device memory that it stands for while it is open. */
struct staging {
    unsigned char *bytes;
    size_t size;
    cl_mem buffer;
    size_t count;      /* Bytes of the buffer that it stands for, from the first on. */
    unsigned char *at; /* Memory of messages: `bytes`, or the mapped buffer. */
    void *mapped;      /* NULL: the host has a copy. */
    cl_map_flags flags;
    bool written; /* The copy has gone to the device, or is on its way. */
};

/* ---- the plan --------------------------------------------------------------------------------- */

#define PART_PLANS 64
struct part_plan { /* the plan of a part's problem, found by the problem's text */
    char *text;
    clattn_plan *plan;
};

enum kernel { /* cl/elementwise/shards.cl */
              KERNEL_COPY_ROWS,
              KERNEL_COPY_FLOATS,
              KERNEL_ADD_FLOATS,
              KERNEL_STORE_ROWS,
              KERNEL_WIDEN_ROWS,
              KERNEL_MERGE_STATE,
              KERNEL_STORE_STATE,
              KERNEL_SINK_GRADIENTS,
              KERNELS
};

enum pool_id {
    POOL_PART_O,
    POOL_PART_LSE,
    POOL_O,         /* f32 sums of this place's queries: dq, or o that is not in the caller's */
    POOL_LSE,       /* lse of this place's queries */
    POOL_WIDE_O,    /* o in f32, as parts of gradients read it */
    POOL_GRADIENTS, /* f32 sums of the present keys: dk, then dv */
    POOL_GRADIENTS_NEXT, /* sums of the next keys, while the present ones travel */
    POOL_GRADIENTS_OWN,
    POOL_GRADIENTS_CAME,
    POOL_GRADIENTS_RETURNED,
    POOL_PART_DK,
    POOL_PART_DV,
    POOL_SLOPES,
    POOL_FUNCTION,
    POOL_SINKS,
    POOL_WORKSPACE,
    POOL_KEYS, /* two blocks of keys and values that were received */
    POOL_KEYS_NEXT,
    POOL_PACKED,  /* packed data on its way to or from the host */
    POOL_HEADS_Q, /* tensors of whole places, of this rank's heads */
    POOL_HEADS_K,
    POOL_HEADS_V,
    POOL_HEADS_O,
    POOL_HEADS_DO,
    POOL_HEADS_LSE,
    POOL_HEADS_DQ,
    POOL_HEADS_DK,
    POOL_HEADS_DV,
    POOLS
};

enum staging_id {
    STAGING_KEYS,
    STAGING_KEYS_NEXT,
    STAGING_GRADIENTS,      /* gradients that are sent on */
    STAGING_GRADIENTS_NEXT, /* gradients that arrive */
    STAGING_GRADIENTS_RETURNED,
    STAGING_SEND,
    STAGING_RECEIVE,
    STAGINGS
};

struct times {
    double begun, all, computing, waiting, staging;
    size_t bytes_sent, parts;
};

struct clattn_mpi_plan {
    MPI_Comm communicator; /* all ranks */
    MPI_Comm members;      /* the ranks of this rank's place, which exchange heads */
    MPI_Comm ring;         /* one rank of each place */
    int rank, ranks, place, member;
    clattn_context *context;
    cl_command_queue queue;  /* the plan's own queue, in-order */
    cl_command_queue copies; /* a second such queue, for copies to the device while it computes */
    bool shares_memory;      /* the device uses the host's memory */
    bool dry;                /* makes plans and memory, but enqueues nothing */
    clattn_problem whole;
    clattn_problem local; /* the problem of this rank's tensors */
    clattn_mpi_mode mode;
    clattn_mpi_prediction prediction;
    const clattn_plan_options *options;
    struct partition partition;
    size_t heads, kv_heads, first_head; /* the heads that this rank computes */
    struct part *parts;                 /* room for parts_room() parts */
    /* counts and displacements of all-to-alls, four times members (heads.c) */
    int *member_messages;
    MPI_Datatype page; /* PAGE_BYTES */
    struct part_plan plans[PART_PLANS];
    size_t num_plans;
    cl_program program;
    cl_kernel kernels[KERNELS];
    size_t columns, rows; /* the work-group size of these kernels */
    struct pool pools[POOLS];
    struct staging stagings[STAGINGS];
    cl_int *ints;           /* lengths or starts of a part */
    float *list_sums;       /* dslopes and dsinks of all heads, and dfunction */
    struct lengths lengths; /* the execution's sequence lengths */
    struct tensor state_o;  /* forward: running output of the place's queries, f32 */
    bool begun[CHUNKS];     /* by chunk of queries: a part has written to their state or gradient */
    bool has_dq;            /* backward: the sums of dq are valid: zero, or written by parts */
    struct fault fault;
    struct times times;
};

/* ---- what travels ----------------------------------------------------------------------------- */

/* The tensors of a place, of the heads that this rank computes. */
struct forward_task {
    struct tensor q, k, v;
    struct tensor o, lse; /* lse.buffer is NULL if lse is not asked for; its rows are floats */
    /* the execution's other tensors: bias, mask, slopes, sinks, seed */
    const clattn_forward_tensors *of;
    struct lengths lengths;
};

struct backward_task {
    struct tensor q, k, v, o, d_o, lse;
    struct tensor dq, dk, dv;
    const clattn_backward_tensors *of;
    struct lengths lengths;
};

#endif

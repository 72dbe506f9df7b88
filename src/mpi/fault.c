#include "mpi/internal.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

bool fault_none(const struct fault *fault)
{
    return fault->status == CLATTN_SUCCESS;
}

void fault_set(struct fault *fault, const clattn_status status, const char *format, ...)
{
    va_list list;

    if (!fault_none(fault))
        return;
    fault->status = status;
    va_start(list, format);
    vsnprintf(fault->reason, sizeof fault->reason, format, list);
    va_end(list);
}

bool fault_cl(struct fault *fault, const cl_int error, const char *call)
{
    const bool memory = error == CL_OUT_OF_HOST_MEMORY || error == CL_OUT_OF_RESOURCES ||
                        error == CL_MEM_OBJECT_ALLOCATION_FAILURE;

    if (error != CL_SUCCESS)
        fault_set(fault, memory ? CLATTN_OUT_OF_MEMORY : CLATTN_OPENCL_ERROR, "%s failed with %d",
                  call, error);
    return error == CL_SUCCESS;
}

bool fault_call(struct fault *fault, const clattn_status status, const char *call)
{
    if (status != CLATTN_SUCCESS)
        fault_set(fault, status, "%s: %s", call, clattn_status_string(status));
    return status == CLATTN_SUCCESS;
}

clattn_status fault_agree(MPI_Comm communicator, const clattn_context *context, struct fault *fault)
{
    struct fault theirs = *fault;
    char message[sizeof fault->reason + 32];
    int rank, first, mine;

    MPI_Comm_rank(communicator, &rank);
    mine = fault_none(fault) ? INT_MAX : rank;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, communicator);
    *fault = (struct fault){.status = CLATTN_SUCCESS};
    if (first == INT_MAX)
        return CLATTN_SUCCESS;
    MPI_Bcast(&theirs, sizeof theirs, MPI_BYTE, first, communicator);
    snprintf(message, sizeof message, "rank %d: %s", first, theirs.reason);
    clattn_context_log(context, CLATTN_LOG_ERROR, message);
    return theirs.status;
}

uint64_t hash_more(uint64_t hash, const void *bytes, const size_t count)
{
    const unsigned char *at = bytes;

    for (size_t n = 0; n < count; n++)
        hash = (hash ^ at[n]) * UINT64_C(1099511628211);
    return hash;
}

bool all_alike(MPI_Comm communicator, const uint64_t hash)
{
    uint64_t mine[2] = {hash, ~hash}, least[2];

    MPI_Allreduce(mine, least, 2, MPI_UINT64_T, MPI_MIN, communicator);
    return least[0] == ~least[1];
}

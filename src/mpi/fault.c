/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

clattn_status fault_agree_alike(MPI_Comm communicator, const clattn_context *context,
                                struct fault *fault, const uint64_t hash, const char *unlike)
{
    struct fault theirs = *fault;
    char message[sizeof fault->reason + 32];
    int rank;

    MPI_Comm_rank(communicator, &rank);
    /* Signed: MPICH 4.0.2 compares MPI_UINT64_T as signed numbers, Open MPI 4.1.4 MPI_UNSIGNED_LONG. */
    int64_t mine[3] = {fault_none(fault) ? INT64_MAX : rank}, least[3];
    memcpy(&mine[1], &hash, sizeof hash);
    mine[2] = ~mine[1];
    MPI_Allreduce(mine, least, 3, MPI_INT64_T, MPI_MIN, communicator);
    *fault = (struct fault){.status = CLATTN_SUCCESS};
    if (least[0] == INT64_MAX && least[1] == ~least[2])
        return CLATTN_SUCCESS;
    /* no rank has failed, but their hashes differ: all ranks see that */
    if (least[0] == INT64_MAX) {
        least[0] = 0;
        fault_set(&theirs, CLATTN_INVALID_ARGUMENT, "ranks do not have the same %s", unlike);
    } else {
        MPI_Bcast(&theirs, sizeof theirs, MPI_BYTE, (int)least[0], communicator);
    }
    snprintf(message, sizeof message, "rank %d: %s", (int)least[0], theirs.reason);
    clattn_context_log(context, CLATTN_LOG_ERROR, message);
    return theirs.status;
}

clattn_status fault_agree(MPI_Comm communicator, const clattn_context *context, struct fault *fault)
{
    return fault_agree_alike(communicator, context, fault, HASH_BEGIN, "");
}

uint64_t hash_more(uint64_t hash, const void *bytes, const size_t count)
{
    const unsigned char *at = bytes;

    for (size_t n = 0; n < count; n++)
        hash = (hash ^ at[n]) * UINT64_C(1099511628211);
    return hash;
}

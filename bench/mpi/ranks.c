/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mpi/ranks.h"
#include "os/clock.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define PIECE_BYTES ((size_t)1 << 30) /* An int counts them. */

enum { TAG_BYTES = 1 };

struct ranks ranks_open(void)
{
    struct ranks ranks;
    MPI_Comm machine;

    MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks.count);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &ranks.local);
    MPI_Comm_free(&machine);
    return ranks;
}

bool ranks_agree(const struct ranks *ranks, bool ok, struct message *why)
{
    const int mine = ok ? INT_MAX : ranks->rank, failed = !ok;
    struct message theirs = *why;
    int first, failures;

    ranks_rest();
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&failed, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (failures == 0)
        return true;
    MPI_Bcast(theirs.text, sizeof theirs.text, MPI_BYTE, first, MPI_COMM_WORLD);
    if (failures == ranks->count)
        return message_set(why, "%s", theirs.text);
    return message_set(why, "rank %d: %.480s", first, theirs.text);
}

void ranks_rest(void)
{
    MPI_Request request;
    int done = 0;

    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done;
         MPI_Test(&request, &done, MPI_STATUS_IGNORE))
        ca_nap(200e-6);
}

double ranks_number(double of_first)
{
    MPI_Bcast(&of_first, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return of_first;
}

void ranks_copy(void *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PIECE_BYTES)
        MPI_Bcast((char *)data + at, (int)(bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES),
                  MPI_BYTE, 0, MPI_COMM_WORLD);
}

void ranks_send(int to, const void *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PIECE_BYTES)
        MPI_Send((const char *)data + at,
                 (int)(bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES), MPI_BYTE, to,
                 TAG_BYTES, MPI_COMM_WORLD);
}

void ranks_receive(int from, void *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PIECE_BYTES)
        MPI_Recv((char *)data + at, (int)(bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES),
                 MPI_BYTE, from, TAG_BYTES, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

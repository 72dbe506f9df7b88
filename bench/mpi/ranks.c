/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mpi/ranks.h"
#include "os/clock.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Returns the string of rank 0, to be freed. */
static char *copied_text(const struct ranks *ranks, const char *of_first)
{
    const size_t bytes = (size_t)ranks_number(ranks->rank == 0 ? (double)strlen(of_first) + 1 : 0);
    char *text = malloc(bytes);

    if (text && ranks->rank == 0)
        memcpy(text, of_first, bytes);
    if (!text)
        MPI_Abort(MPI_COMM_WORLD, 1); /* the other ranks wait for bytes */
    ranks_copy(text, bytes);
    return text;
}

bool ranks_function(const struct ranks *ranks, const clattn_function **function,
                    struct message *why)
{
    const bool first = ranks->rank == 0;

    if (ranks_number(first && *function != NULL) == 0)
        return true;
    char *name = copied_text(ranks, first ? clattn_function_name(*function) : NULL);
    char *source = copied_text(ranks, first ? clattn_function_source(*function) : NULL);
    char *const hash = strrchr(name, ':'); /* the library's functions have none */
    char reason[200] = "";
    if (hash)
        *hash = '\0';
    const bool ok =
        first ||
        (hash ? clattn_function_create(name, source, function, reason, sizeof reason)
              : clattn_function_read(name, function, reason, sizeof reason)) == CLATTN_SUCCESS ||
        message_set(why, "function '%s': %s", name, reason);
    free(source);
    free(name);
    return ranks_agree(ranks, ok, why);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks that clattn-bench-mpi runs on, all of MPI_COMM_WORLD. Rank 0 has the data, the results, and
 * the word. */
#ifndef CLATTN_BENCH_RANKS_H
#define CLATTN_BENCH_RANKS_H

#include "cli/message.h"

#include <clattn/function.h>

#include <mpi.h>
#include <stddef.h>

struct ranks {
    int rank, count;
    int local; /* The rank's index among the ranks of its machine. */
};

/* After MPI_Init(). */
struct ranks ranks_open(void);

/* Collective: whether it went well on all ranks; if not, all have the sentence of the first that failed,
 * with its rank unless that is all of them. */
bool ranks_agree(const struct ranks *ranks, bool ok, struct message *why);

/* Collective: waits for all ranks without taking the processor from those that still compute. */
void ranks_rest(void);

/* Collective: rank 0 has the number or the bytes, all get them. */
double ranks_number(double of_first);
void ranks_copy(void *data, size_t bytes);

/* Collective: rank 0 has a function of the caller's or NULL, and all get one of their own; false if a rank could not make
 * it. */
bool ranks_function(const struct ranks *ranks, const clattn_function **function,
                    struct message *why);

/* Bytes from one rank to another, however many. Only these two take part. */
void ranks_send(int to, const void *data, size_t bytes);
void ranks_receive(int from, void *data, size_t bytes);

/* clattn-bench run --mpi (run.c); all ranks return alike. */
int mpi_run_command(int argc, char **argv);

#endif

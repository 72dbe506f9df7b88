/* SPDX-License-Identifier: Apache-2.0 */
/* The shares of MPI's ranks in the work of an outcome (clattn-bench run --mpi), in memory and in
 * files. */
#ifndef CLATTN_BENCH_DISTRIBUTED_H
#define CLATTN_BENCH_DISTRIBUTED_H

#include "bench/records/archive.h"

#define DISTRIBUTED_MOST_RANKS 1000000

/* The parts of a rank's time in an execution: medians, in seconds. */
struct spent {
    double computing, waiting,
        transfer;   /* The seconds in clattn_mpi_plan_info; transfer is its staging. */
    double host;    /* The rest of the execution's time. */
    double queries; /* Number of query rows in the rank's shard, not a time. */
};

enum { SPENT_NUMBERS = 5 };

/* The numbers of it one by one, in their order. */
double *spent_number(struct spent *spent, size_t key);

struct distributed {
    char mode[16]; /* "ring": what --mode takes, but for "auto". */
    size_t heads_ranks;
    bool weak;                     /* The result is of weak scaling, with */
    char *problem;                 /* a problem larger than the record's; owned. */
    double flops;                  /* Floating-point operations of that problem. */
    double bytes;                  /* Bytes that it must read and write. */
    double predicted;              /* Seconds, by the cost model; 0: unknown. */
    double bytes_sent;             /* Bytes that rank 0 has sent. */
    struct ca_interval efficiency; /* Rate per rank over that of one rank alone; all 0: unknown. */
    size_t ranks;
    struct spent *spent; /* One for each rank; owned. */
};

/* NULL without memory. */
struct distributed *distributed_new(size_t ranks);

/* NULL is allowed. */
void distributed_free(struct distributed *distributed);

/* Under its key in an object; NULL where there is null, or nothing in older files. */
bool distributed_describe(struct archive *archive, const char *key,
                          struct distributed **distributed);

#endif

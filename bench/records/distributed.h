/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks of MPI shared the work of an outcome (clattn-bench run --mpi), in memory and in files. */
#ifndef CLATTN_BENCH_DISTRIBUTED_H
#define CLATTN_BENCH_DISTRIBUTED_H

#include "bench/records/archive.h"

#define DISTRIBUTED_MOST_RANKS 1000000

/* What became of a rank's time in an execution: medians, in seconds. */
struct spent {
    double computing, waiting,
        transfer;   /* As clattn_mpi_plan_info has them; transfer is staging. */
    double host;    /* The rest. */
    double queries; /* Not a time: rows of its shard. */
};

enum { SPENT_NUMBERS = 5 };

/* The numbers of it one by one, in their order. */
double *spent_number(struct spent *spent, size_t key);

struct distributed {
    char mode[16]; /* "ring": what --mode takes, but for "auto". */
    size_t heads_ranks;
    bool weak;                     /* Of weak scaling: ... */
    char *problem;                 /* ... a problem larger than the record's. Owned. */
    double flops;                  /* Of it. */
    double bytes;                  /* Likewise. */
    double predicted;              /* Seconds, by the cost model; 0: unknown. */
    double bytes_sent;             /* By rank 0. */
    struct ca_interval efficiency; /* Of one rank's rate alone; all 0: unknown. */
    size_t ranks;
    struct spent *spent; /* By each of them; owned. */
};

/* NULL without memory. */
struct distributed *distributed_new(size_t ranks);

/* NULL is allowed. */
void distributed_free(struct distributed *distributed);

/* Under its key in an object; NULL where there is null, or nothing in older files. */
bool distributed_describe(struct archive *archive, const char *key,
                          struct distributed **distributed);

#endif

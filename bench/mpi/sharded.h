/* SPDX-License-Identifier: Apache-2.0 */
/* A case whose sequence is cut among ranks: a plan of libclattn_mpi and this rank's tensors. */
#ifndef CLATTN_BENCH_SHARDED_H
#define CLATTN_BENCH_SHARDED_H

#include "bench/cases/case.h"
#include "bench/mpi/ranks.h"
#include "bench/timing/engine.h"
#include "bench/verify/check.h"

#include <clattn/mpi.h>

struct sharded {
    const struct ranks *ranks;
    const struct target *target;
    struct job whole, local; /* The local one's layouts are those of this rank's tensors. */
    clattn_mpi_plan *plan;
    struct tensor_set set;
};

/* All calls but closing are collective, and end on all ranks alike, with the same sentence. */

/* Reads a mode of --mode, such as "ring" or "heads-ring:2"; false if there is none of this name.
 * The rest of *options stays. */
bool sharded_mode(const char *name, clattn_mpi_options *options);

/* Makes the plan and gives each rank its rows of the inputs. The case is there on rank 0, its job on all
 * ranks. *status, if not NULL, is that of the plan. */
bool sharded_open(struct sharded *sharded, const struct ranks *ranks, const struct target *target,
                  const struct job *whole, const struct attention_case *attention,
                  const clattn_mpi_options *options, clattn_status *status, struct message *why);

void sharded_close(struct sharded *sharded);

bool sharded_execute(struct sharded *sharded, struct message *why);

/* Executes on outputs that held NaN, and brings all rows of them to rank 0; to be released there. */
bool sharded_results(struct sharded *sharded, struct results *results, struct message *why);

/* Puts the results of a forward execution into the case of a backward one, on rank 0, as
 * case_forward() does, but computed by all ranks. */
bool sharded_forward(const struct ranks *ranks, const struct target *target,
                     struct attention_case *attention, struct message *why);

#endif

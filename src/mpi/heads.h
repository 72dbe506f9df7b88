/* SPDX-License-Identifier: Apache-2.0 */
/* All-to-all among the members of a place: rows of all heads become all rows of some heads, and back. */
#ifndef MPI_HEADS_H
#define MPI_HEADS_H

#include "mpi/shards.h"

struct exchange {
    size_t heads; /* heads of one member: query heads, or kv heads */
    size_t dim;
    bool of_keys; /* the rows are those of keys, not of queries */
    bool floats;  /* elements are floats, whatever the problem's dtype */
};

/* Collective in plan->members: exchanges this rank's rows of all heads (`own`) and the place's rows
 * of this rank's heads (`place`). `in`: from the first to the second. */
void heads_exchange(clattn_mpi_plan *plan, const struct exchange *exchange, struct tensor own,
                    struct tensor place, bool in);

#endif

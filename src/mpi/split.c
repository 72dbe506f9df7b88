/* SPDX-License-Identifier: Apache-2.0 */
/* Split keys: every rank has all queries and a range of the keys, and all get the whole result. */
#include "mpi/shards.h"

void split_forward(clattn_mpi_plan *plan, const struct forward_task *task)
{
    const int places = plan->partition.places;
    const struct span *chunks = plan->partition.place[plan->place].kv;
    const struct block block = {.k = task->k, .v = task->v, .keys = chunks[0]};
    const size_t bytes = whole_pages(state_bytes(plan));
    unsigned char *mine = staging_take(plan, STAGING_SEND, bytes);
    unsigned char *all = staging_take(plan, STAGING_RECEIVE, bytes * (size_t)places);

    forward_block(plan, task, 0, &block);
    if (places == 1)
        return;
    state_read(plan, mine);
    if (!plan->dry) {
        const double begun = MPI_Wtime();
        const int pages = (int)(bytes / PAGE_BYTES);
        MPI_Allgather(mine, pages, plan->page, all, pages, plan->page, plan->ring);
        plan->times.waiting += MPI_Wtime() - begun;
        plan->times.bytes_sent += bytes * (size_t)(places - 1);
    }
    /* States are merged in the same order on all ranks, so that all get the same bits. */
    for (int n = 0; n < places; n++)
        state_merge(plan, all + (size_t)n * bytes, n == 0);
}

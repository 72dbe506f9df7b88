/* SPDX-License-Identifier: Apache-2.0 */
/* mpirun -n N mpi_speed: clattn_mpi_measure_speed() by a clock of the test's own, on which rank r's
 * device takes r + 1 times as long. The shards that such speeds make are tested as well.
 *
 * Prints a line for each claim and ends with 1 if one is wrong. */
#include <clattn/clattn.h>
#include <clattn/mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct world {
    int rank, ranks, failures;
    clattn_context *context;
};

/* Every look at it is as long after the last one; MPI has a PMPI_Wtime() of its own for those who replace this. */
static double tick, now;

double MPI_Wtime(void)
{
    return now += tick;
}

static void claim(struct world *world, const char *what, const int holds)
{
    int all;

    MPI_Allreduce(&holds, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (world->rank == 0)
        printf("%s %s\n", all ? "ok  " : "FAIL", what);
    fflush(stdout);
    world->failures += !all;
}

static double sum_over_ranks(const double x)
{
    double sum;

    MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* Queries of a shard, and pairs that these and the keys before them are. */
static void count_work(const clattn_mpi_shard *shard, double *rows, double *pairs)
{
    *rows = *pairs = 0;
    for (int n = 0; n < 2; n++)
        for (size_t i = 0; i < shard->q_count[n]; i++) {
            *rows += 1;
            *pairs += (double)(shard->q_first[n] + i + 1);
        }
}

/* Causal work is shared in proportion to speeds: boundaries of chunks are multiples of 16 of 8192 rows. */
static void check_shards(struct world *world, const clattn_problem *p, const double speed)
{
    const clattn_mpi_options options = {
        .struct_size = sizeof options, .mode = CLATTN_MPI_RING, .speed = speed};
    clattn_mpi_shard shard = {.struct_size = sizeof shard};
    clattn_mpi_plan *plan = NULL;
    double rows = 0, pairs = 0;

    const clattn_status status =
        clattn_mpi_plan_create(MPI_COMM_WORLD, world->context, p, &options, &plan);
    claim(world, "a plan with measured speeds", status == CLATTN_SUCCESS);
    if (status != CLATTN_SUCCESS)
        return;
    (void)clattn_mpi_plan_shard(plan, world->rank, &shard);
    count_work(&shard, &rows, &pairs);
    const double share = speed / sum_over_ranks(speed), n = (double)p->seq_q;
    claim(world, "ranks have as many queries as they are fast", fabs(rows / n - share) < 0.01);
    claim(world, "... and as much causal work", fabs(pairs / (n * (n + 1) / 2) - share) < 0.015);
    claim(world, "... and all of it", sum_over_ranks(pairs) == n * (n + 1) / 2);
    clattn_mpi_plan_release(plan);
}

int main(int argc, char **argv)
{
    static const char text[] = "fwd f32 q8192 k8192 d8 causal=tl";
    struct world world = {.failures = 0};
    clattn_problem p;
    double speed = -1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world.ranks);
    tick = 0.05 * (world.rank + 1);
    if (clattn_problem_parse(text, &p, NULL, 0) != CLATTN_SUCCESS ||
        clattn_context_create_default(NULL, NULL, &world.context) != CLATTN_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);

    const clattn_status status =
        clattn_mpi_measure_speed(MPI_COMM_WORLD, world.context, &p, NULL, &speed);
    claim(&world, "speeds are measured", status == CLATTN_SUCCESS && speed > 0);
    const double slowed = speed * (world.rank + 1);
    claim(&world, "a rank whose device takes r + 1 times as long has 1 / (r + 1) of the speed",
          fabs(sum_over_ranks(slowed) / world.ranks - slowed) <= 1e-9 * slowed);
    check_shards(&world, &p, speed);
    if (world.rank == 0)
        printf("%d ranks, %d claims are wrong\n", world.ranks, world.failures);
    clattn_context_release(world.context);
    MPI_Finalize();
    return world.failures > 0;
}

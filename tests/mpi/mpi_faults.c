/* SPDX-License-Identifier: Apache-2.0 */
/* A fault of one rank is reported by all: mpirun -n N mpi_faults
 *
 * The last rank makes a mistake. All ranks must get its status and its sentence, and the next call must be
 * right. The program prints a line for each mistake and ends with 1 if one is not reported. */
#include <clattn/clattn.h>
#include <clattn/mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct world {
    int rank, ranks, last;
    char said[512]; /* the last error */
    clattn_context *context;
    cl_command_queue queue;
};

static void keep_message(clattn_log_level level, const char *message, void *user_data)
{
    struct world *world = user_data;

    if (level == CLATTN_LOG_ERROR)
        snprintf(world->said, sizeof world->said, "%s", message);
}

static cl_mem floats(const struct world *world, const size_t count)
{
    float *zeros = calloc(count ? count : 1, sizeof *zeros);
    cl_int error;
    cl_mem buffer = clCreateBuffer(clattn_context_opencl(world->context),
                                   CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                   (count ? count : 1) * sizeof *zeros, zeros, &error);

    free(zeros);
    if (error != CL_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return buffer;
}

/* One line: whether all ranks got the status and a sentence of the rank that has these words. */
static int expect(struct world *world, const char *what, const clattn_status got,
                  const clattn_status want, const char *words)
{
    int wrong = got != want || (want != CLATTN_SUCCESS && !strstr(world->said, words)), all;

    if (wrong)
        printf("  rank %d: %s, not %s: %s\n", world->rank, clattn_status_string(got),
               clattn_status_string(want), world->said);
    fflush(stdout);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (world->rank == 0)
        printf("%s %s\n", all ? "FAIL" : "ok  ", what);
    fflush(stdout);
    world->said[0] = 0;
    return all != 0;
}

/* A plan with what the last rank does otherwise. */
static int plan_fails(struct world *world, const char *what, const char *text,
                      const char *last_text, clattn_mpi_options options, const clattn_status want,
                      const char *words)
{
    clattn_mpi_plan *plan = NULL;
    clattn_problem p;

    options.struct_size = sizeof options;
    if (clattn_problem_parse(world->rank == world->last ? last_text : text, &p, NULL, 0) !=
        CLATTN_SUCCESS)
        return 1;
    const clattn_status got =
        clattn_mpi_plan_create(MPI_COMM_WORLD, world->context, &p, &options, &plan);
    const int wrong = expect(world, what, got, want, words);
    clattn_mpi_plan_release(plan);
    return wrong;
}

/* The others have all that a plan needs, and get the status and the sentence of the one that has not. */
static int no_problem_on_one_rank(struct world *world, const char *text, const char *rank)
{
    clattn_mpi_plan *plan = NULL;
    clattn_problem p;

    if (clattn_problem_parse(text, &p, NULL, 0) != CLATTN_SUCCESS)
        return 1;
    const clattn_status got = clattn_mpi_plan_create(
        MPI_COMM_WORLD, world->context, world->rank == world->last ? NULL : &p, NULL, &plan);
    return expect(world, "no problem on one rank", got, CLATTN_INVALID_ARGUMENT, rank) +
           (plan != NULL);
}

static int speeds_fail(struct world *world)
{
    clattn_problem p;
    double speed = -1;
    char rank[32];

    snprintf(rank, sizeof rank, "rank %d: ", world->last);
    if (clattn_problem_parse("fwd f32 h2 q40 k40 d8", &p, NULL, 0) != CLATTN_SUCCESS)
        return 1;
    const clattn_status got = clattn_mpi_measure_speed(MPI_COMM_WORLD, world->context, &p, NULL,
                                                       world->rank == world->last ? NULL : &speed);
    return expect(world, "no place for a speed on one rank", got, CLATTN_INVALID_ARGUMENT, rank) +
           (world->rank != world->last && speed != 0);
}

static int plans_fail(struct world *world)
{
    static const char text[] = "fwd f32 h2 q40 k40 d8 causal=tl";
    const clattn_mpi_options none = {.mode = CLATTN_MPI_AUTO};
    const int last = world->rank == world->last, alone = world->ranks == 1;
    char rank[32];
    int wrong = 0;

    wrong += expect(world, "no place for a plan",
                    clattn_mpi_plan_create(MPI_COMM_WORLD, world->context, NULL, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "must not be null");
    snprintf(rank, sizeof rank, "rank %d: ", world->last);
    wrong += no_problem_on_one_rank(world, text, rank);
    wrong += plan_fails(world, "another problem on one rank", text, "fwd f32 h2 q40 k40 d8", none,
                        alone ? CLATTN_SUCCESS : CLATTN_INVALID_ARGUMENT, "the same problem");
    wrong += plan_fails(world, "an unknown mode on one rank", text, text,
                        (clattn_mpi_options){.mode = last ? (clattn_mpi_mode)9 : CLATTN_MPI_AUTO},
                        CLATTN_INVALID_ARGUMENT, alone ? rank : "rank ");
    wrong +=
        plan_fails(world, "a negative speed on one rank", text, text,
                   (clattn_mpi_options){.speed = last ? -1 : 1}, CLATTN_INVALID_ARGUMENT, rank);
    wrong += plan_fails(world, "a speed on one rank only", text, text,
                        (clattn_mpi_options){.speed = last ? 1 : 0},
                        alone ? CLATTN_SUCCESS : CLATTN_INVALID_ARGUMENT, "0 on some ranks");
    const clattn_mpi_rates rates = {sizeof rates, last ? 2e9 : 1e9, 1e9, 0, 1, 0, 1e9, 0, 1e9};
    const clattn_mpi_rates bad_rates = {sizeof rates, 1e9, 1e9, 0, !last, 0, 1e9, 0, 1e9};
    wrong += plan_fails(world, "other rates on one rank", text, text,
                        (clattn_mpi_options){.rates = &rates},
                        alone ? CLATTN_SUCCESS : CLATTN_INVALID_ARGUMENT, "the same problem");
    wrong += plan_fails(world, "rates of no rank a node on one rank", text, text,
                        (clattn_mpi_options){.rates = &bad_rates}, CLATTN_INVALID_ARGUMENT,
                        alone ? rank : "rank ");
    wrong += plan_fails(world, "paged caches", "fwd f32 q4 k8 d8 page=4 klen",
                        "fwd f32 q4 k8 d8 page=4 klen", none, CLATTN_UNSUPPORTED, "paged");
    wrong += plan_fails(world, "three kv_heads for other numbers of ranks", "fwd f32 h3 q9 k9 d8",
                        "fwd f32 h3 q9 k9 d8", (clattn_mpi_options){.mode = CLATTN_MPI_HEADS},
                        3 % world->ranks ? CLATTN_UNSUPPORTED : CLATTN_SUCCESS, "kv_heads");
    wrong += plan_fails(world, "a tensor between others whose rows do not divide its step",
                        "fwd f32 b2 q40 k40 d8 q=337.0.8.1", "fwd f32 b2 q40 k40 d8 q=337.0.8.1",
                        none, CLATTN_UNSUPPORTED, "no multiple");
    return wrong;
}

/* Calls of one plan: each mistake of the last rank, then a right one. */
static int calls_fail(struct world *world)
{
    clattn_mpi_plan *plan = NULL;
    clattn_problem p, local;
    char rank[32];
    int wrong = 0;

    snprintf(rank, sizeof rank, "rank %d: ", world->last);
    if (clattn_problem_parse("fwd f32 b2 h2 q40 k40 d8 klen", &p, NULL, 0) != CLATTN_SUCCESS ||
        clattn_mpi_plan_create(MPI_COMM_WORLD, world->context, &p, NULL, &plan) != CLATTN_SUCCESS ||
        clattn_mpi_plan_problem(plan, &local) != CLATTN_SUCCESS)
        return 1;
    const size_t count = 4 * local.seq_q * 8;
    const cl_int lengths[2][2] = {{30, 40}, {30, 39}};
    cl_mem q = floats(world, count), k = floats(world, count), o = floats(world, count);
    cl_mem small = floats(world, 1), lens = floats(world, 2);
    clEnqueueWriteBuffer(world->queue, lens, CL_TRUE, 0, sizeof *lengths, lengths[0], 0, NULL,
                         NULL);
    const clattn_forward_tensors right = {.struct_size = sizeof right,
                                          .q.buffer = q,
                                          .k.buffer = k,
                                          .v.buffer = k,
                                          .o.buffer = o,
                                          .kv_lengths.buffer = lens};
    size_t *const shorter = malloc(sizeof *shorter); /* behind which nothing may be read */
    if (!shorter)
        MPI_Abort(MPI_COMM_WORLD, 1);
    *shorter = sizeof *shorter;
    for (int n = 0; n < 7; n++) {
        static const char *const what[] = {
            "o is missing", "o is too small", "sinks that there are not",
            "struct_size",  "other lengths",  "no tensors",
            "no queue"};
        clattn_forward_tensors tensors = right;
        const clattn_forward_tensors *given = &tensors;
        const int last = world->rank == world->last;
        if (last && n == 0)
            tensors.o.buffer = NULL;
        else if (last && n == 1)
            tensors.o.buffer = small;
        else if (last && n == 2)
            tensors.sinks.buffer = small;
        else if (last && n == 3)
            given = (const void *)shorter;
        else if (last && n == 4)
            clEnqueueWriteBuffer(world->queue, lens, CL_TRUE, 0, sizeof *lengths, lengths[1], 0,
                                 NULL, NULL);
        else if (last && n == 5)
            given = NULL;
        const int harmless = n == 4 && world->ranks == 1;
        wrong += expect(world, what[n],
                        clattn_mpi_forward(plan, last && n == 6 ? NULL : world->queue, given),
                        harmless ? CLATTN_SUCCESS
                        : n == 1 ? CLATTN_BUFFER_TOO_SMALL
                                 : CLATTN_INVALID_ARGUMENT,
                        n == 4 ? "lengths" : rank);
        clEnqueueWriteBuffer(world->queue, lens, CL_TRUE, 0, sizeof *lengths, lengths[0], 0, NULL,
                             NULL);
        wrong += expect(world, "and the next call", clattn_mpi_forward(plan, world->queue, &right),
                        CLATTN_SUCCESS, "");
    }
    free(shorter);
    clReleaseMemObject(q);
    clReleaseMemObject(k);
    clReleaseMemObject(o);
    clReleaseMemObject(small);
    clReleaseMemObject(lens);
    clattn_mpi_plan_release(plan);
    return wrong;
}

int main(int argc, char **argv)
{
    struct world world = {.said = ""};
    int wrong;
    cl_int error;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world.ranks);
    world.last = world.ranks - 1;
    const clattn_context_options options = {
        .struct_size = sizeof options, .log = keep_message, .log_user_data = &world};
    if (clattn_context_create_default(NULL, &options, &world.context) != CLATTN_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    world.queue = clCreateCommandQueue(clattn_context_opencl(world.context),
                                       clattn_context_device(world.context)->device, 0, &error);
    wrong = plans_fail(&world) + speeds_fail(&world) + calls_fail(&world);
    if (world.rank == 0)
        printf("%d ranks, %d mistakes were not told\n", world.ranks, wrong);
    clReleaseCommandQueue(world.queue);
    clattn_context_release(world.context);
    MPI_Finalize();
    return wrong > 0;
}

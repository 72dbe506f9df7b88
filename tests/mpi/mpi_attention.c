/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over ranks against double precision: mpirun -n N mpi_attention [--own-memory] [CASE]
 *
 * Each case is a problem, forward and backward, computed in every mode that it has with N ranks, with equal
 * and with unequal shards. All ranks make the whole's inputs, take their rows of them and compare their rows
 * of the results; outputs begin as NaN between guard bands. The second run of each has the same bits.
 *
 * With --own-memory the device says that it does not share the host's memory, as GPUs do not: messages are copied then.
 *
 * What the device reads and writes while messages are under way is watched (hazards.h).
 *
 * Of the cases a run takes an eighth, others than the run of the next seed and than on one rank more (CLATTN_TEST_SEED;
 * CLATTN_TEST_ALL=1: all of them).
 *
 * Prints a line for each problem and ends with 1 if one is wrong, or if accesses were in no order. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "bench/judge/gradients.h"
#include "bench/judge/row.h"
#include "bench/judge/values.h"
#include "tests/mpi/hazards.h"
#include "tests/support/inputs.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/tensors.h"

#include <clattn/mpi.h>
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 32 }; /* elements before and after each tensor */

static const char *const cases[] = {
    "f32 b2 h4/2 q150 k150 d24/16",
    "f32 h4 q151 k151 d16 causal=tl lse",
    "f32 b3 h4/2 q90 k120 d16 causal=br qlen klen sinks lse",
    "f32 h4/2 q130 k130 d16 window=30,9 alibi symmetric softcap=3 layout=bshd lse",
    "f32 h2 q128 k128 d12 causal=tl window=20,* sinks dropout=0.3 lse",
    "f32 b2 h4/2 q70 k101 d16 bias=f32:hqk mask=bhqk causal=br",
    "f32 h4 q40 k170 d16 causal=130 mask=qk dropout=0.2",
    "f32 b4 h4/2 q80 k80 d16 causal=tl totalq=200 totalkv=200 lse",
    "f32 b3 h4/2 q80 k100 d16 causal=br totalq=150 totalkv=210 klen",
    "f32 b2 h4 q3 k5 d8 causal=br sinks lse",
    "f32 h4 q1 k37 d8",
    "f16 b2 h4/2 q100 k100 d16 causal=tl lse",
    "bf16 h4/2 q120 k120 d16 window=40,* alibi sinks",
    "f32 b2 h4/2 q90 k110 d16 causal=br klen score=t5 visible=dilated lse",
    "f32 q70 k90 d8 score=sam",
    "f32 b3 h4/2 q60 k80 d8 causal=br qlen klen score=tests/mpi/rows.cl",
    "f32 b3 h4/2 q80 k100 d8 causal=br totalq=150 totalkv=210 score=tests/mpi/rows.cl lse",
    "f32 b4 h4/2 q80 k80 d16 causal=tl totalq=200 totalkv=200 score=t5 visible=dilated",
};

/* Options that need more than the order of rows, so that a ring may not join the chunks of a
 * zigzag. */
static const char *const ring_cases[] = {
    "f32 h2 q80 k80 d8 causal=br alibi",       "f32 h2 q80 k80 d8 causal=tl bias=f32:qk",
    "f32 h2 q80 k80 d8 causal=tl mask=qk",     "f32 h2 q80 k80 d8 causal=0 dropout=0.3",
    "f32 h2 q80 k80 d8 causal=br qlen",        "f32 h2 q80 k80 d8 causal=tl klen",
    "f32 h2 q80 k80 d8 causal=tl window=70,*", "f32 h2 q80 k80 d8 causal=7",
    "f32 h2 q80 k80 d8 causal=tl score=t5",
};

enum {
    NUM_CASES = sizeof cases / sizeof *cases,
    NUM_RING_CASES = sizeof ring_cases / sizeof *ring_cases
};

struct world {
    int rank, ranks;
    clattn_context *context;
    cl_command_queue queue;
};

struct manner {
    clattn_mpi_mode mode;
    int heads_ranks;
    int uneven;
};

/* A problem of the whole, with what it reads and what it should give. */
struct whole {
    clattn_problem problem;
    unsigned char *bytes[NUM_TENSORS];
    struct tensor_view view;
    struct reference_gradients gradients; /* backward */
};

/* A rank's shard of it. */
struct local {
    clattn_mpi_plan *plan;
    clattn_problem problem;
    clattn_mpi_shard shard;
    unsigned char *bytes[NUM_TENSORS]; /* read back, guards included */
    cl_mem buffers[NUM_TENSORS];
};

static int own_memory;

/* Stands before OpenCL's. */
cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info name, size_t bytes,
                                   void *value, size_t *needed)
{
    static CL_API_ENTRY cl_int(CL_API_CALL * next)(cl_device_id, cl_device_info, size_t, void *,
                                                   size_t *);

    if (!next)
        memcpy(&next, (void *[]){dlsym(RTLD_NEXT, "clGetDeviceInfo")}, sizeof next);
    const cl_int error = next(device, name, bytes, value, needed);
    if (own_memory && name == CL_DEVICE_HOST_UNIFIED_MEMORY && value && error == CL_SUCCESS)
        *(cl_bool *)value = CL_FALSE;
    return error;
}

static void print_message(clattn_log_level level, const char *message, void *user_data)
{
    if (level <= CLATTN_LOG_WARNING)
        fprintf(stderr, "rank %d: %s\n", *(const int *)user_data, message);
}

/* ---- the whole ---------------------------------------------------------------------------------- */

static int open_whole(struct whole *whole, const char *text, const clattn_operation operation)
{
    struct rng r = rng_seed(7);
    char line[256], reason[200];

    *whole = (struct whole){.view = {.dropout_seed = 5, .dropout_offset = 2}};
    snprintf(line, sizeof line, "%s %s", operation == CLATTN_FORWARD ? "fwd" : "bwd", text);
    if (operation == CLATTN_BACKWARD && strstr(text, "alibi"))
        strcat(line, " dslopes");
    if (operation == CLATTN_BACKWARD && strstr(text, "sinks"))
        strcat(line, " dsinks");
    if (operation == CLATTN_BACKWARD && strstr(text, "score="))
        strcat(line, " dfunction");
    if (clattn_problem_parse(line, &whole->problem, reason, sizeof reason) != CLATTN_SUCCESS) {
        printf("%s: %s\n", line, reason);
        return 0;
    }
    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(&whole->problem, (enum tensor_id)id);
        if (!s.present)
            continue;
        whole->bytes[id] = calloc(s.extent, s.element_bytes);
        whole->view.at[id] = whole->bytes[id];
        if (!whole->bytes[id])
            return 0;
        if (!s.written)
            fill_input(&whole->problem, (enum tensor_id)id, &s, &r, whole->bytes[id]);
    }
    return operation == CLATTN_FORWARD ||
           (fill_results(&whole->problem, &whole->view, whole->bytes) &&
            reference_gradients_open(&whole->problem, &whole->view, &whole->gradients));
}

static void close_whole(struct whole *whole)
{
    if (whole->problem.operation == CLATTN_BACKWARD)
        reference_gradients_close(&whole->gradients);
    for (int id = 0; id < NUM_TENSORS; id++)
        free(whole->bytes[id]);
}

/* ---- shards ------------------------------------------------------------------------------------- */

/* The rows of a tensor: queries, keys, or rows that are not divided. */
enum rows { ROWS_NONE, ROWS_Q, ROWS_KV };

static enum rows rows_of(const enum tensor_id id)
{
    switch (id) {
    case TENSOR_Q:
    case TENSOR_O:
    case TENSOR_DO:
    case TENSOR_DQ:
    case TENSOR_BIAS:
    case TENSOR_MASK:
    case TENSOR_LSE:
        return ROWS_Q;
    case TENSOR_K:
    case TENSOR_V:
    case TENSOR_DK:
    case TENSOR_DV:
        return ROWS_KV;
    default:
        return ROWS_NONE;
    }
}

/* The row of the whole that a row of the shard is. */
static size_t whole_row(const struct local *local, const enum rows of, const size_t row)
{
    const clattn_mpi_shard *s = &local->shard;
    const size_t *first = of == ROWS_Q ? s->q_first : s->kv_first;
    const size_t *count = of == ROWS_Q ? s->q_count : s->kv_count;

    return row < count[0] ? first[0] + row : first[1] + row - count[0];
}

/* Bias and mask have all columns. */
static struct tensor_shape local_shape(const struct whole *whole, const struct local *local,
                                       const enum tensor_id id)
{
    clattn_problem p = local->problem;

    if ((id >= TENSOR_FUNCTION_0 && id <= TENSOR_FUNCTION_5) || id == TENSOR_DFUNCTION)
        p = whole->problem;
    if (id == TENSOR_BIAS || id == TENSOR_MASK)
        p.seq_kv = whole->problem.seq_kv;
    return tensor_shape_of(&p, id);
}

/* Calls visit for each element of a local tensor with its index there and in the whole's. */
typedef void visit_element(void *data, size_t here, size_t there, const size_t at[4]);

static void each_element(const struct whole *whole, const struct local *local,
                         const enum tensor_id id, visit_element *visit, void *data)
{
    const struct tensor_shape s = local_shape(whole, local, id);
    const struct tensor_shape all = tensor_shape_of(&whole->problem, id);
    const enum rows of = rows_of(id);
    const size_t count = s.size[0] * s.size[1] * s.size[2] * s.size[3];

    for (size_t n = 0; s.present && n < count; n++) {
        const size_t here[4] = {n / s.size[3] / s.size[2] / s.size[1],
                                n / s.size[3] / s.size[2] % s.size[1], n / s.size[3] % s.size[2],
                                n % s.size[3]};
        size_t there[4] = {here[0], here[1], here[2], here[3]};
        const int axis = id == TENSOR_LSE ? 3 : 2;
        if (of != ROWS_NONE && all.size[axis] > 1)
            there[axis] = whole_row(local, of, here[axis]);
        visit(data, tensor_index(&s, here[0], here[1], here[2], here[3]),
              tensor_index(&all, there[0], there[1], there[2], there[3]), there);
    }
}

struct copying {
    unsigned char *to;
    const unsigned char *from;
    size_t bytes;
};

static void copy_element(void *data, const size_t here, const size_t there, const size_t at[4])
{
    const struct copying *c = data;

    (void)at;
    memcpy(c->to + (here + GUARD) * c->bytes, c->from + there * c->bytes, c->bytes);
}

static int make_tensors(const struct world *world, const struct whole *whole, struct local *local)
{
    for (int n = 0; n < NUM_TENSORS; n++) {
        const enum tensor_id id = (enum tensor_id)n;
        const struct tensor_shape s = local_shape(whole, local, id);
        const size_t bytes = (s.extent + 2 * GUARD) * s.element_bytes;
        cl_int error;
        if (!tensor_shape_of(&whole->problem, id).present)
            continue;
        local->bytes[n] = malloc(bytes);
        if (!local->bytes[n])
            return 0;
        memset(local->bytes[n], 0xff, bytes);
        struct copying c = {local->bytes[n], whole->bytes[n], s.element_bytes};
        if (!s.written && s.present)
            each_element(whole, local, id, copy_element, &c);
        local->buffers[n] = clCreateBuffer(clattn_context_opencl(world->context),
                                           CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes,
                                           local->bytes[n], &error);
        if (error != CL_SUCCESS)
            return 0;
    }
    return 1;
}

static void close_local(struct local *local)
{
    for (int id = 0; id < NUM_TENSORS; id++) {
        free(local->bytes[id]);
        if (local->buffers[id])
            clReleaseMemObject(local->buffers[id]);
    }
    clattn_mpi_plan_release(local->plan);
}

/* ---- executing ---------------------------------------------------------------------------------- */

static clattn_status execute(const struct world *world, const struct whole *whole,
                             struct local *local)
{
    clattn_forward_tensors forward = {
        .struct_size = sizeof forward, .dropout_seed = 5, .dropout_offset = 2};
    clattn_backward_tensors backward = {
        .struct_size = sizeof backward, .dropout_seed = 5, .dropout_offset = 2};
    const int is_backward = whole->problem.operation == CLATTN_BACKWARD;

    for (int n = 0; n < NUM_TENSORS; n++) {
        const enum tensor_id id = (enum tensor_id)n;
        clattn_buffer *place =
            is_backward ? tensor_backward_buffer(&backward, id) : tensor_buffer(&forward, id);
        if (place && local->buffers[n])
            *place = (clattn_buffer){.buffer = local->buffers[n], .offset = GUARD};
    }
    const clattn_status status = is_backward
                                     ? clattn_mpi_backward(local->plan, world->queue, &backward)
                                     : clattn_mpi_forward(local->plan, world->queue, &forward);
    return status;
}

static int read_back(const struct world *world, const struct whole *whole, struct local *local)
{
    for (int n = 0; n < NUM_TENSORS; n++) {
        const struct tensor_shape s = local_shape(whole, local, (enum tensor_id)n);
        if (local->buffers[n] && clEnqueueReadBuffer(world->queue, local->buffers[n], CL_TRUE, 0,
                                                     (s.extent + 2 * GUARD) * s.element_bytes,
                                                     local->bytes[n], 0, NULL, NULL) != CL_SUCCESS)
            return 0;
    }
    return 1;
}

/* ---- comparing ---------------------------------------------------------------------------------- */

static int report(const struct world *world, const char *name, const size_t at[4], const double got,
                  const struct bounded want)
{
    printf("  rank %d: %s (%zu, %zu, %zu, %zu): got %.9g, want %.9g +- %.2g\n", world->rank, name,
           at[0], at[1], at[2], at[3], got, want.value, want.bound);
    return 1;
}

/* The bound of the whole's arithmetic, and what sums of several ranks' shares add, which are carried in f32. The shares
 * of a row are no larger than its largest element, of which `scale` tells. */
static struct bounded relaxed(const struct world *world, struct bounded want, const double scale)
{
    want.bound += 2 * (world->ranks + 1) * 0x1p-24 * (fabs(want.value) + scale);
    return want;
}

/* Rows of o and lse that are this rank's. */
static int compare_forward(const struct world *world, const struct whole *whole,
                           const struct local *local)
{
    const clattn_problem *p = &whole->problem;
    const struct tensor_shape o = local_shape(whole, local, TENSOR_O),
                              lse = local_shape(whole, local, TENSOR_LSE);
    struct reference_row row;
    int wrong = reference_row_open(p, PRECISION_SINGLE, &row) ? 0 : 1;
    const size_t rows = local->shard.q_count[0] + local->shard.q_count[1];

    for (size_t n = 0; wrong == 0 && n < p->batch * p->heads * p->seq_q; n++) {
        const size_t b = n / p->seq_q / p->heads, h = n / p->seq_q % p->heads, i = n % p->seq_q;
        size_t block, place, here = 0;
        if (!tensor_locate_query(p, &whole->view, b, i, &block, &place))
            continue;
        while (here < rows && whole_row(local, ROWS_Q, here) != place)
            here++;
        if (here == rows)
            continue;
        reference_row_compute(p, &whole->view, b, h, i, &row);
        for (size_t d = 0; wrong == 0 && d < p->dim_v; d++) {
            const double got = value_get(o.dtype, local->bytes[TENSOR_O],
                                         GUARD + tensor_index(&o, block, h, here, d));
            const struct bounded want = relaxed(world, row.o[d], 1);
            if (!within(got, want))
                wrong += report(world, "o", (size_t[]){b, h, i, d}, got, want);
        }
        if (lse.present) {
            const double got = value_get(lse.dtype, local->bytes[TENSOR_LSE],
                                         GUARD + tensor_index(&lse, block, h, 0, here));
            const struct bounded want = relaxed(world, row.lse, 1);
            if (!within(got, want))
                wrong += report(world, "lse", (size_t[]){b, h, i, 0}, got, want);
        }
    }
    reference_row_close(&row);
    return wrong;
}

struct comparing {
    const struct world *world;
    const struct whole *whole;
    const struct local *local;
    enum tensor_id id;
    struct tensor_shape here, there;
    double scale;
    int wrong;
};

static void compare_element(void *data, const size_t here, const size_t there, const size_t at[4])
{
    struct comparing *c = data;
    const double got = value_get(c->here.dtype, c->local->bytes[c->id], GUARD + here);
    const size_t n = tensor_packed(&c->there, at[0], at[1], at[2], at[3]);
    const struct bounded want = relaxed(c->world, c->whole->gradients.at[c->id][n], c->scale);

    (void)there;
    if (c->wrong == 0 && !within(got, want))
        c->wrong += report(c->world, c->here.name, at, got, want);
}

static int compare_backward(const struct world *world, const struct whole *whole,
                            const struct local *local)
{
    int wrong = 0;

    for (int n = 0; n < NUM_TENSORS; n++) {
        const enum tensor_id id = (enum tensor_id)n;
        struct comparing c = {.world = world,
                              .whole = whole,
                              .local = local,
                              .id = id,
                              .here = local_shape(whole, local, id),
                              .there = tensor_shape_of(&whole->problem, id)};
        if (!c.there.present || !c.there.written)
            continue;
        for (size_t m = 0; m < tensor_count(&c.there); m++)
            c.scale = fmax(c.scale, fabs(whole->gradients.at[id][m].value));
        each_element(whole, local, id, compare_element, &c);
        wrong += c.wrong;
    }
    return wrong;
}

/* Checks that the bytes before and behind each tensor are unchanged. */
static int compare_guards(const struct world *world, const struct whole *whole,
                          const struct local *local)
{
    int wrong = 0;

    for (int n = 0; n < NUM_TENSORS; n++) {
        const struct tensor_shape s = local_shape(whole, local, (enum tensor_id)n);
        const size_t guard = GUARD * s.element_bytes;
        for (size_t m = 0; local->bytes[n] && wrong == 0 && m < guard; m++)
            if (local->bytes[n][m] != 0xff ||
                local->bytes[n][guard + s.extent * s.element_bytes + m] != 0xff) {
                printf("  rank %d: the guard of %s was written\n", world->rank, s.name);
                wrong++;
            }
    }
    return wrong;
}

/* ---- cases -------------------------------------------------------------------------------------- */

static const char *mode_name(const clattn_mpi_mode mode)
{
    static const char *const names[] = {"auto", "ring", "heads", "heads and ring", "split keys"};

    return names[mode];
}

/* By these a rank that sends to itself alone would be as fast as one that computes: AUTO takes several modes. */
static const clattn_mpi_rates rates = {.struct_size = sizeof rates,
                                       .flops = 1e9,
                                       .copy_bandwidth = 1e9,
                                       .overhead = 1e-4,
                                       .node_ranks = 2,
                                       .node_latency = 1e-6,
                                       .node_bandwidth = 1e9,
                                       .latency = 1e-4,
                                       .bandwidth = 1e8};

/* Returns how many elements are wrong, on all ranks; negative if the mode cannot be had. */
static int run_manner(const struct world *world, const struct whole *whole, struct manner manner)
{
    const clattn_mpi_options options = {.struct_size = sizeof options,
                                        .mode = manner.mode,
                                        .heads_ranks = manner.heads_ranks,
                                        .speed = manner.uneven ? 1 + world->rank % 3 : 0,
                                        .rates = &rates};
    const unsigned long hazards = hazards_found();
    struct local local = {.shard.struct_size = sizeof local.shard};
    int wrong, all = 0;

    const clattn_status made = clattn_mpi_plan_create(MPI_COMM_WORLD, world->context,
                                                      &whole->problem, &options, &local.plan);
    if (made != CLATTN_SUCCESS)
        return made == CLATTN_UNSUPPORTED ? -1 : 1;
    clattn_mpi_plan_shard(local.plan, world->rank, &local.shard);
    clattn_mpi_plan_problem(local.plan, &local.problem);
    wrong = !make_tensors(world, whole, &local);
    for (int again = 0; again < 2 && wrong == 0; again++) {
        const clattn_status status = execute(world, whole, &local);
        if (status != CLATTN_SUCCESS || !read_back(world, whole, &local)) {
            printf("  rank %d: %s\n", world->rank, clattn_status_string(status));
            wrong++;
        }
    }
    if (wrong == 0)
        wrong =
            (whole->problem.operation == CLATTN_BACKWARD ? compare_backward(world, whole, &local)
                                                         : compare_forward(world, whole, &local)) +
            compare_guards(world, whole, &local);
    wrong += hazards_found() > hazards;
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    close_local(&local);
    return all;
}

/* Runs a case in the first so many manners, of which the first is the ring. */
static int run_case(const struct world *world, const char *text, const clattn_operation operation,
                    const size_t num_manners)
{
    const struct manner manners[] = {
        {CLATTN_MPI_RING, 0, 0},       {CLATTN_MPI_RING, 0, 1},       {CLATTN_MPI_HEADS, 0, 0},
        {CLATTN_MPI_HEADS_RING, 2, 1}, {CLATTN_MPI_HEADS_RING, 2, 0}, {CLATTN_MPI_SPLIT_KV, 0, 1},
        {CLATTN_MPI_AUTO, 0, 1},
    };
    struct whole whole;
    int failures = 0;

    if (!open_whole(&whole, text, operation))
        return 1;
    for (size_t n = 0; n < sizeof manners / sizeof *manners && n < num_manners; n++) {
        const struct manner m = manners[n];
        const int members = m.mode == CLATTN_MPI_HEADS ? world->ranks
                            : m.heads_ranks            ? m.heads_ranks
                                                       : 1;
        if ((m.mode == CLATTN_MPI_SPLIT_KV && operation == CLATTN_BACKWARD) ||
            world->ranks % members != 0 || whole.problem.kv_heads % (size_t)members != 0 ||
            (members > 1 && (whole.problem.bias || whole.problem.mask)))
            continue;
        const int wrong = run_manner(world, &whole, m);
        failures += wrong != 0;
        if (world->rank == 0)
            printf("%s %s%s: %s %s\n",
                   wrong == 0  ? "ok  "
                   : wrong < 0 ? "none"
                               : "FAIL",
                   mode_name(m.mode), m.uneven ? ", uneven" : "",
                   operation == CLATTN_FORWARD ? "fwd" : "bwd", text);
        fflush(stdout);
    }
    close_whole(&whole);
    return failures;
}

int main(int argc, char **argv)
{
    struct world world;
    int failures = 0, runs = 0;
    cl_int error;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world.ranks);
    own_memory = argc > 1 && strcmp(argv[1], "--own-memory") == 0;
    argv += own_memory;
    argc -= own_memory;
    const clattn_context_options options = {.struct_size = sizeof options,
                                            .log = print_message,
                                            .log_user_data = &world.rank,
                                            .skip_self_checks = 1};
    if (clattn_context_create_default(NULL, &options, &world.context) != CLATTN_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    world.queue = clCreateCommandQueue(clattn_context_opencl(world.context),
                                       clattn_context_device(world.context)->device, 0, &error);
    for (int n = 0; n < NUM_CASES + NUM_RING_CASES; n++) {
        const bool of_ring = n >= NUM_CASES;
        const char *text = of_ring ? ring_cases[n - NUM_CASES] : cases[n];
        if (argc > 1 ? atoi(argv[1]) != n
                     : (of_ring && own_memory) ||
                           !run_takes((uint64_t)n + (uint64_t)world.ranks + own_memory, 4))
            continue;
        failures += run_case(&world, text, CLATTN_FORWARD, of_ring ? 1 : SIZE_MAX);
        failures += run_case(&world, text, CLATTN_BACKWARD, of_ring ? 1 : SIZE_MAX);
        runs++;
    }
    unsigned long overlaps = hazards_overlaps(), most = 0;
    MPI_Allreduce(&overlaps, &most, 1, MPI_UNSIGNED_LONG, MPI_MAX, MPI_COMM_WORLD);
    failures += world.ranks > 1 && argc == 1 && most == 0; /* or nothing was watched */
    if (world.rank == 0)
        printf(
            "%d ranks%s, %d problems, %d failures; %lu kernels enqueued while messages travelled\n",
            world.ranks, own_memory ? ", memory of their own" : "", runs, failures, most);
    clReleaseCommandQueue(world.queue);
    clattn_context_release(world.context);
    MPI_Finalize();
    return failures > 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* 22: training over MPI. The model of 12 and its task, writing a sequence backwards, with the sequence cut
 * among ranks: each embeds its own places, multiplies its own rows, and attention alone looks at all places
 * (clattn/mpi.h). Gradients of parameters are summed over ranks, so that all follow the same ones: the losses
 * are those of one rank, on however many.
 *
 *     mpirun -n 4 example_22_ring_training */
#include "backwards.h"
#include "example.h"
#include <clattn/mpi.h>

/* Parameters lie as in 12. */
enum {
    W_QKV = LAYER,                    /* (3 * MODEL, MODEL) */
    W_O = W_QKV + 3 * MODEL * MODEL,  /* (MODEL, MODEL) */
    CLASSIFIER = W_O + MODEL * MODEL, /* (TOKENS, MODEL) */
    COUNT = CLASSIFIER + TOKENS * MODEL,
};

/* q, k and v of a row lie one behind the other, as one product gives them; heads of 16. Layouts are the
 * whole's: a rank's tensors have its places only. */
#define QKV(x) " " x "=768.16.96.1"
#define OUT(x) " " x "=256.16.32.1"
#define ATTENTION "f32 b32 h2 q8 d16" QKV("q") QKV("k") QKV("v") OUT("o")

/* y = x w^T of (rows, in) and (out, in), and the gradients of that. */
struct product {
    clattn_plan *y, *dx, *dw;
};

struct model {
    struct device device;
    struct places places; /* this rank's */
    int rank, rows;       /* of all batches */
    clattn_mpi_plan *forward, *backward;
    struct product qkv, out, classify;
    clattn_buffer parameters, gradients;
    clattn_buffer x, dx, o, d_o, y, dy; /* (BATCH, places, MODEL) */
    clattn_buffer qkv_rows, dqkv_rows;  /* (BATCH, places, 3 * MODEL) */
    clattn_buffer lse;                  /* (BATCH, 2, places) */
    clattn_buffer scores, dscores;      /* (BATCH, places, TOKENS) */
};

static clattn_buffer at(clattn_buffer whole, size_t offset)
{
    return (clattn_buffer){.buffer = whole.buffer, .offset = whole.offset + offset};
}

/* ---- plans and buffers ---------------------------------------------------------------------- */

static clattn_plan *plan_product(const struct device *d, const char *format, int a, int b, int c)
{
    char text[128];

    snprintf(text, sizeof text, format, a, b, c);
    return plan_of(d, text);
}

static struct product plan_products(const struct device *d, int rows, int in, int out)
{
    struct product p = {plan_product(d, "proj f32 q%d d%d/%d w=oi", rows, in, out),
                        plan_product(d, "proj f32 q%d d%d/%d", rows, out, in), NULL};
    char transposed[96];

    /* dw = dy^T x: dy is read along its columns. */
    snprintf(transposed, sizeof transposed, "proj f32 q%%d d%%d/%%d x=%d.%d.1.%d", rows * out,
             rows * out, out);
    p.dw = plan_product(d, transposed, out, rows, in);
    return p;
}

static clattn_mpi_plan *plan_attention(const struct device *d, const char *text)
{
    const clattn_mpi_options options = {.struct_size = sizeof options, .mode = CLATTN_MPI_RING};
    clattn_mpi_plan *plan;

    const clattn_problem whole = problem_of(text);
    check(clattn_mpi_plan_create(MPI_COMM_WORLD, d->context, &whole, &options, &plan) ==
              CLATTN_SUCCESS,
          "plan over ranks");
    return plan;
}

static void open_model(struct model *m)
{
    clattn_mpi_shard shard = {.struct_size = sizeof shard};
    const struct device *d = &m->device;

    m->device = open_device();
    MPI_Comm_rank(MPI_COMM_WORLD, &m->rank);
    m->forward = plan_attention(d, "fwd " ATTENTION " lse");
    m->backward = plan_attention(d, "bwd " ATTENTION OUT("do") QKV("dq") QKV("dk") QKV("dv"));
    check(clattn_mpi_plan_shard(m->forward, m->rank, &shard) == CLATTN_SUCCESS, "shard");
    /* No causality: one range. */
    m->places = (struct places){(int)shard.q_first[0], (int)shard.q_count[0]};
    m->rows = BATCH * m->places.count;
    check(m->rows > 0, "a place for each rank");
    m->qkv = plan_products(d, m->rows, MODEL, 3 * MODEL);
    m->out = plan_products(d, m->rows, MODEL, MODEL);
    m->classify = plan_products(d, m->rows, MODEL, TOKENS);

    const size_t rows = (size_t)m->rows;
    clattn_buffer *const of_model[] = {&m->x, &m->dx, &m->o, &m->d_o, &m->y, &m->dy};
    for (size_t n = 0; n < sizeof of_model / sizeof *of_model; n++)
        *of_model[n] = make_buffer(d, rows * MODEL, NULL);
    m->parameters = make_buffer(d, COUNT, NULL);
    m->gradients = make_buffer(d, COUNT, NULL);
    m->qkv_rows = make_buffer(d, rows * 3 * MODEL, NULL);
    m->dqkv_rows = make_buffer(d, rows * 3 * MODEL, NULL);
    m->lse = make_buffer(d, rows * 2, NULL);
    m->scores = make_buffer(d, rows * TOKENS, NULL);
    m->dscores = make_buffer(d, rows * TOKENS, NULL);
}

static void close_model(struct model *m)
{
    const clattn_buffer buffers[] = {m->parameters, m->gradients, m->x,        m->dx,  m->o,
                                     m->d_o,        m->y,         m->dy,       m->lse, m->scores,
                                     m->dscores,    m->qkv_rows,  m->dqkv_rows};
    const struct product *const products[] = {&m->qkv, &m->out, &m->classify};

    for (size_t n = 0; n < sizeof buffers / sizeof *buffers; n++)
        clReleaseMemObject(buffers[n].buffer);
    for (size_t n = 0; n < sizeof products / sizeof *products; n++) {
        clattn_plan_release(products[n]->y);
        clattn_plan_release(products[n]->dx);
        clattn_plan_release(products[n]->dw);
    }
    clattn_mpi_plan_release(m->forward);
    clattn_mpi_plan_release(m->backward);
    close_device(&m->device);
}

/* ---- a step --------------------------------------------------------------------------------- */

/* Scores of tokens for each of this rank's places. */
static void run_forward(const struct model *m)
{
    const clattn_forward_tensors tensors = {.struct_size = sizeof tensors,
                                            .q = m->qkv_rows,
                                            .k = at(m->qkv_rows, MODEL),
                                            .v = at(m->qkv_rows, 2 * MODEL),
                                            .o = m->o,
                                            .lse = m->lse};

    project(&m->device, m->qkv.y, m->x, at(m->parameters, W_QKV), m->qkv_rows);
    check(clattn_mpi_forward(m->forward, m->device.queue, &tensors) == CLATTN_SUCCESS,
          "attention over ranks");
    project(&m->device, m->out.y, m->o, at(m->parameters, W_O), m->y);
    project(&m->device, m->classify.y, m->y, at(m->parameters, CLASSIFIER), m->scores);
}

/* From the scores' gradient to that of this rank's share of all parameters, and of x. */
static void run_backward(const struct model *m)
{
    const clattn_backward_tensors tensors = {.struct_size = sizeof tensors,
                                             .q = m->qkv_rows,
                                             .k = at(m->qkv_rows, MODEL),
                                             .v = at(m->qkv_rows, 2 * MODEL),
                                             .o = m->o,
                                             .lse = m->lse,
                                             .d_o = m->d_o,
                                             .dq = m->dqkv_rows,
                                             .dk = at(m->dqkv_rows, MODEL),
                                             .dv = at(m->dqkv_rows, 2 * MODEL)};

    project(&m->device, m->classify.dw, m->dscores, m->y, at(m->gradients, CLASSIFIER));
    project(&m->device, m->classify.dx, m->dscores, at(m->parameters, CLASSIFIER), m->dy);
    project(&m->device, m->out.dw, m->dy, m->o, at(m->gradients, W_O));
    project(&m->device, m->out.dx, m->dy, at(m->parameters, W_O), m->d_o);
    check(clattn_mpi_backward(m->backward, m->device.queue, &tensors) == CLATTN_SUCCESS,
          "gradients over ranks");
    project(&m->device, m->qkv.dw, m->dqkv_rows, m->x, at(m->gradients, W_QKV));
    project(&m->device, m->qkv.dx, m->dqkv_rows, at(m->parameters, W_QKV), m->dx);
}

/* One batch of random sequences; loss and right rows of all ranks before the step. */
static void train(const struct model *m, float *parameters, int step, float sums[2])
{
    static float x[ALL_ROWS * MODEL], scores[ALL_ROWS * TOKENS], gradients[COUNT],
        moments[2][COUNT];
    const struct device *d = &m->device;
    const size_t rows = (size_t)m->rows;
    int tokens[ALL_ROWS], right;

    for (int r = 0; r < ALL_ROWS; r++)
        tokens[r] = (int)(draw() * TOKENS);
    embed(m->places, parameters, tokens, x);
    write_buffer(d, m->parameters, COUNT, parameters);
    write_buffer(d, m->x, rows * MODEL, x);
    run_forward(m);
    read_buffer(d, m->scores, rows * TOKENS, scores);
    sums[0] = loss_of(m->places, scores, tokens, &right);
    sums[1] = (float)right;
    write_buffer(d, m->dscores, rows * TOKENS, scores);
    run_backward(m);
    read_buffer(d, m->gradients, COUNT, gradients);
    read_buffer(d, m->dx, rows * MODEL, x);
    embed_backward(m->places, x, tokens, gradients);
    MPI_Allreduce(MPI_IN_PLACE, gradients, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    adam(COUNT, parameters, gradients, step, moments[0], moments[1]);
}

int main(int argc, char **argv)
{
    static float parameters[COUNT];
    float first = 0.0f, sums[2] = {0.0f, 0.0f};
    struct model m;

    MPI_Init(&argc, &argv);
    for (int n = 0; n < COUNT; n++)
        parameters[n] = n < W_QKV ? draw() - 0.5f : 0.4f * (draw() - 0.5f);
    open_model(&m);
    for (int step = 1; step <= STEPS; step++) {
        train(&m, parameters, step, sums);
        first = step == 1 ? sums[0] : first;
        if (m.rank == 0 && (step == 1 || step % 10 == 0))
            printf("step %2d: loss %.4f, %5.1f %% right\n", step, (double)sums[0],
                   100.0 * (double)sums[1] / ALL_ROWS);
    }
    check(first > 2.0f && sums[0] < 0.1f * first, "learning");
    check(sums[1] > 0.9f * ALL_ROWS, "writing backwards");
    close_model(&m);
    MPI_Finalize();
    return 0;
}

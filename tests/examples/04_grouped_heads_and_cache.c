/* 04: generating text. Query heads share key and value heads, and keys stay in a cache.
 *
 * The cache has room for CAPACITY tokens and holds them as (batch, seq, heads, dim). Tokens come in
 * pieces: first a prompt, then one at a time. Piece after piece must give what one pass over the
 * whole text gives. */
#define CL_TARGET_OPENCL_VERSION 120
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 4, KV_HEADS = 2, DIM = 8, TOKENS = 9, PROMPT = 6, CAPACITY = 16 };

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

static cl_mem make_buffer(cl_context opencl, size_t bytes, void *host)
{
    cl_int err;
    cl_mem buffer = clCreateBuffer(
        opencl, CL_MEM_READ_WRITE | (host != NULL ? CL_MEM_COPY_HOST_PTR : 0), bytes, host, &err);

    check(err == CL_SUCCESS, "buffer");
    return buffer;
}

/* Attention of tokens [past, past + count) over tokens [0, past + count). */
static void run(clattn_context *context, cl_command_queue queue, const cl_mem qkvo[4], size_t past,
                size_t count)
{
    clattn_problem problem;
    clattn_plan *plan;

    clattn_problem_init(&problem);
    problem.heads = HEADS;
    problem.kv_heads = KV_HEADS; /* heads 0 and 1 use kv head 0, heads 2 and 3 use kv head 1 */
    problem.seq_q = count;
    problem.seq_kv = past + count;
    problem.dim_qk = problem.dim_v = DIM;
    problem.causal = 1;
    problem.diagonal = CLATTN_OFFSET; /* query i is token past + i and sees keys 0..past + i */
    problem.diagonal_offset = (int64_t)past;
    problem.q = problem.o = (clattn_layout){{0, DIM, HEADS * DIM, 1}};
    problem.k = problem.v = (clattn_layout){{0, DIM, KV_HEADS * DIM, 1}};
    check(clattn_plan_create(context, &problem, NULL, &plan) == CLATTN_SUCCESS, "plan");

    const size_t first = past * HEADS * DIM; /* of the piece, in elements */
    const clattn_forward tensors = {
        .struct_size = sizeof tensors,
        .q = {qkvo[0], first},
        .k = {qkvo[1], 0},
        .v = {qkvo[2], 0},
        .o = {qkvo[3], first},
    };
    check(clattn_attention_forward(plan, queue, &tensors, 0, NULL, NULL) == CLATTN_SUCCESS,
          "forward");
    clattn_plan_release(plan); /* what was enqueued goes on */
}

int main(void)
{
    static float q[TOKENS][HEADS][DIM], k[CAPACITY][KV_HEADS][DIM], v[CAPACITY][KV_HEADS][DIM];
    static float whole[TOKENS * HEADS * DIM], pieces[TOKENS * HEADS * DIM];
    clattn_context *context;
    cl_int err;

    for (size_t n = 0; n < TOKENS * HEADS * DIM; n++)
        (&q[0][0][0])[n] = sinf(0.7f * (float)n);
    for (size_t n = 0; n < CAPACITY * KV_HEADS * DIM; n++) {
        /* What lies in the cache beyond the tokens so far is never read. */
        (&k[0][0][0])[n] = n < TOKENS * KV_HEADS * DIM ? cosf(1.1f * (float)n) : NAN;
        (&v[0][0][0])[n] = n < TOKENS * KV_HEADS * DIM ? sinf(0.3f * (float)n) : NAN;
    }
    check(clattn_context_create_default(NULL, NULL, &context) == CLATTN_SUCCESS, "context");
    cl_context opencl = clattn_context_opencl(context);
    cl_command_queue queue =
        clCreateCommandQueue(opencl, clattn_context_device(context)->device, 0, &err);
    check(err == CL_SUCCESS, "queue");
    const cl_mem qkvo[4] = {make_buffer(opencl, sizeof q, q), make_buffer(opencl, sizeof k, k),
                            make_buffer(opencl, sizeof v, v),
                            make_buffer(opencl, sizeof whole, NULL)};

    run(context, queue, qkvo, 0, TOKENS);
    err = clEnqueueReadBuffer(queue, qkvo[3], CL_TRUE, 0, sizeof whole, whole, 0, NULL, NULL);
    check(err == CL_SUCCESS, "read");

    run(context, queue, qkvo, 0, PROMPT);
    for (size_t token = PROMPT; token < TOKENS; token++)
        run(context, queue, qkvo, token, 1);
    err = clEnqueueReadBuffer(queue, qkvo[3], CL_TRUE, 0, sizeof pieces, pieces, 0, NULL, NULL);
    check(err == CL_SUCCESS, "read");

    float difference = 0;
    for (int n = 0; n < TOKENS * HEADS * DIM; n++) {
        const float d = fabsf(whole[n] - pieces[n]);
        check(d < 1e-5f, "comparison");
        difference = d > difference ? d : difference;
    }
    printf("%d tokens at once and in pieces differ by at most %.1e\n", TOKENS, difference);

    for (int n = 0; n < 4; n++)
        clReleaseMemObject(qkvo[n]);
    clReleaseCommandQueue(queue);
    clattn_context_release(context);
    return 0;
}

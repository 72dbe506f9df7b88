/* Every kernel on small shapes, for Oclgrind to watch (run.sh): races on local and global memory,
 * values that were never written, accesses outside a buffer. PoCL adds barriers of its own and so
 * hides missing ones. Results are compared with the reference too, because Oclgrind interprets
 * kernels and shares no code generator with PoCL.
 *
 *   races         runs all items; 0 if all results are right
 *   races N       runs item N; 3 if there is none
 *   races --racy  runs a kernel that lacks a barrier, which shows that Oclgrind would tell
 */
#include "race_projection.h"
#include "reference.h"
#include "rng.h"
#include "storage.h"
#include <clattn/clattn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item {
    const char *family; /* NULL: each family that can do it */
    const char *tunables;
    const char *problem;
};

/* Small tiles, so that even these shapes have several along every dimension. */
#define SMALL_TILES "BLOCK_Q=8 BLOCK_KV=8 LANES=4 ROWS=4 STAGE_D=8 STAGE_V=4 LOAD_WIDTH=4 PADDING=4"
#define SMALL_GROUPS "GROUP_X=4 GROUP_Y=2 ITEM_X=4 ITEM_Y=4 VECTOR=4 DEPTH=8"
#define SMALL_ROWS "WIDTH=4 MV=1 ROWS=2 DEPTH=64 BLOCK_ROWS=16 BLOCK_COLUMNS=16"
#define SMALL_SQUARES "BLOCK_ROWS=16 BLOCK_COLUMNS=16 ITEM_ROWS=4 ITEM_COLUMNS=4 STAGE=8 RASTER=4"
#define SMALL_LANES "WIDTH=4 MV=2 NB=4 DB=4 BN=24"
#define SMALL_SPLITS "WIDTH=4 BN=16 SCORE_ROWS=2 VALUE_ROWS=2 VALUE_VECTORS=2"

static const struct item items[] = {
    {NULL, NULL, "fwd f32 q7 k9 d5"},
    {NULL, NULL, "fwd f32 b2 h2 q9 k10 d8/4 causal=br lse"},
    {NULL, NULL, "fwd f16 h2/1 q5 k12 d9 bias=f16:qk mask=bk klen qlen b2"},
    {NULL, NULL, "fwd bf16 h2 q6 k6 d4 softcap=2 alibi sinks window=2,1 scores=weights lse"},
    {NULL, NULL, "fwd f32 q4 k6 d4 scores=raw"},
    {NULL, NULL, "fwd f32 q4 k6 d4 scores=softcap softcap=3"},
    {NULL, NULL, "fwd f32 q4 k6 d4 scores=bias bias=f32:qk causal=tl"},
    {NULL, NULL, "fwd f32 b2 q5 k6 d4 q=bshd k=120.0.20.2 v=sbhd o=bshd"},
    {"fused_tiles", SMALL_TILES " Q_RESIDENT=0 SHARE_KV=1", "fwd f32 q19 k21 d11/13 lse"},
    {"fused_tiles", SMALL_TILES " Q_RESIDENT=1 SHARE_KV=0", "fwd f32 q19 k21 d11/13 causal=br"},
    {"fused_tiles", SMALL_TILES " Q_RESIDENT=1 SHARE_KV=1", "fwd f16 q9 k18 d16 mask=qk klen"},
    {"fused_tiles", SMALL_TILES " Q_RESIDENT=0 SHARE_KV=0", "fwd bf16 q9 k18 d12 window=3,4 sinks"},
    {"fused_tiles", SMALL_TILES " Q_RESIDENT=0 SHARE_KV=1", "fwd f32 q19 k5 d4 causal=-12 lse"},
    {"unfused", SMALL_GROUPS " SWEEPS=1 SOFTMAX_ITEMS=16", "fwd f32 h2/1 q11 k39 d19/21 lse sinks"},
    {"unfused", SMALL_GROUPS " SWEEPS=4 SOFTMAX_ITEMS=1",
     "fwd f16 q19 k21 d19/21 causal=br mask=qk"},
    {"unfused", SMALL_GROUPS " SWEEPS=1 SOFTMAX_ITEMS=16", "fwd f32 q9 k18 d5 scores=raw klen"},
    {"fused_lanes", SMALL_LANES " BLOCKS=2 PAIRS=0", "fwd f32 h2/1 q13 k30 d6 lse bias=bf16:hqk"},
    {"fused_lanes", SMALL_LANES " BLOCKS=1 PAIRS=1", "fwd f32 q19 k19 d6/5 causal=tl klen"},
    {"split_lanes", SMALL_SPLITS " ROWS=4 AHEAD=0 SPLITS=2",
     "fwd f32 b2 h4/2 q3 k37 d10/9 causal=br klen lse sinks"},
    {"split_lanes", SMALL_SPLITS " ROWS=8 AHEAD=1 SPLITS=1",
     "fwd f16 h6/2 q2 k20 d7/3 bias=f32:hqk mask=qk window=7,*"},
    {"unfused", SMALL_GROUPS " SWEEPS=1 SOFTMAX_ITEMS=16",
     "fwd f32 h2/1 q5 k9 d32 kcache=q8_0 vcache=q4_0 window=5,*"},
    {"fused_lanes", SMALL_LANES " BLOCKS=2 PAIRS=0",
     "fwd f32 h2/1 q5 k9 d32 kcache=q8_0 vcache=q4_0 mask=qk"},
    {"fused_tiles", SMALL_TILES " Q_RESIDENT=1 SHARE_KV=1",
     "fwd f16 q9 k18 d64/32 kcache=q4_0 vcache=q8_0 causal=br klen"},
    {"split_lanes", SMALL_SPLITS " ROWS=4 AHEAD=0 SPLITS=2",
     "fwd f16 h4/2 q2 k37 d32/64 kcache=q4_0 vcache=q8_0 lse"},
    {"projection_lanes", SMALL_ROWS " SPLITS=1", "proj f32 b2 h3/2 q9 d5/7 w=oi bias=f32"},
    {"projection_lanes", SMALL_ROWS " SPLITS=2",
     "proj f16 h2 q5 d70/9 x=bhds bias=bf16 accumulate"},
    {"projection_tiles", SMALL_SQUARES " BUFFERS=1 SPLITS=1", "proj f32 b2 h3/2 q19 d9/7 bias=f32"},
    {"projection_tiles", SMALL_SQUARES " BUFFERS=2 SPLITS=1",
     "proj f32 q35 d20/33 w=oi accumulate"},
    {"projection_tiles", SMALL_SQUARES " BUFFERS=2 SPLITS=2",
     "proj bf16 h2 q5 d70/9 x=bhds w=0.9.630.1 y=90.45.9.1 bias=f32"},
};

enum { NUM_ITEMS = sizeof items / sizeof *items, NO_SUCH_ITEM = -1 };

static void print_message(clattn_log_level level, const char *message, void *user_data)
{
    (void)user_data;
    if (level <= CLATTN_LOG_WARNING)
        fprintf(stderr, "clattn: %s\n", message);
}

/* Numbers for one input: lengths up to the sequence, half of a mask, the rest within 1. */
static void fill(const clattn_problem *p, enum tensor_id id, const struct tensor_shape *s,
                 struct rng *r, unsigned char *bytes)
{
    for (size_t n = 0; n < s->extent; n += s->cache ? 32 : 1) {
        if (s->cache != CLATTN_CACHE_PLAIN)
            storage_store_block(s->cache, bytes, n / 32, 0.01, r);
        else if (id == TENSOR_MASK)
            bytes[n] = (unsigned char)rng_below(r, 2);
        else if (id == TENSOR_Q_LENGTHS || id == TENSOR_KV_LENGTHS)
            ((cl_int *)(void *)bytes)[n] =
                (cl_int)rng_below(r, (id == TENSOR_Q_LENGTHS ? p->seq_q : p->seq_kv) + 1);
        else
            storage_store(s->dtype, bytes, n, rng_uniform(r, -1, 1));
    }
}

/* Compares count elements from (b, h, i, d) on along dim; how many are out of bounds. */
static size_t compare(const clattn_problem *p, const struct tensor_view *view, enum tensor_id id,
                      const size_t at[4], const struct bounded *want, size_t count)
{
    const struct tensor_shape s = tensor_shape_of(p, id);
    size_t wrong = 0;

    for (size_t n = 0; s.present && n < count; n++) {
        const size_t index = tensor_index(&s, at[0], at[1], at[2], at[3] + n);
        const double got = storage_load(s.dtype, view->at[id], index);
        if (!within(got, want[n]) && wrong++ == 0)
            printf("  %s (%zu, %zu, %zu, %zu): got %.9g, want %.9g +- %.2g\n", s.name, at[0], at[1],
                   at[2], at[3] + n, got, want[n].value, want[n].bound);
    }
    return wrong;
}

/* How many elements of the results are out of bounds. */
static size_t compare_all(const clattn_problem *p, const struct tensor_view *view)
{
    struct reference_row row;
    size_t wrong = reference_row_open(p, &row) ? 0 : 1;

    for (size_t n = 0; wrong == 0 && n < p->batch * p->heads * p->seq_q; n++) {
        const size_t b = n / p->seq_q / p->heads, h = n / p->seq_q % p->heads, i = n % p->seq_q;
        reference_row_compute(p, view, b, h, i, &row);
        wrong += compare(p, view, TENSOR_O, (size_t[]){b, h, i, 0}, row.o, p->dim_v);
        wrong += compare(p, view, TENSOR_LSE, (size_t[]){b, h, 0, i}, &row.lse, 1);
        wrong += compare(p, view, TENSOR_SCORES, (size_t[]){b, h, i, 0}, row.scores, p->seq_kv);
    }
    reference_row_close(&row);
    return wrong;
}

/* Computes the problem and compares; true if all went well. Tensors have exactly their size, so
 * that Oclgrind sees each access outside. */
static int run(clattn_context *context, const clattn_problem *p, const clattn_plan_options *options)
{
    struct rng r = rng_seed(1);
    unsigned char *bytes[NUM_TENSORS] = {NULL};
    struct tensor_view view = {.at = {NULL}};
    int ok = 1;

    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct tensor_shape s = tensor_shape_of(p, (enum tensor_id)id);
        if (!s.present)
            continue;
        bytes[id] = calloc(s.extent, s.element_bytes);
        view.at[id] = bytes[id];
        ok = ok && bytes[id] != NULL;
        if (bytes[id] != NULL && !s.written)
            fill(p, (enum tensor_id)id, &s, &r, bytes[id]);
    }
    if (ok) {
        const clattn_host_forward tensors = tensor_host_forward(&view);
        ok = clattn_attention_forward_host(context, p, options, &tensors) == CLATTN_SUCCESS &&
             compare_all(p, &view) == 0;
    }
    for (int id = 0; id < NUM_TENSORS; id++)
        free(bytes[id]);
    return ok;
}

/* Runs one item on each family that it is for; the number of failures. */
static int run_item(clattn_context *context, const struct item *item, int *runs)
{
    clattn_problem p;
    char reason[256];
    const char *family;
    int failures = 0, before = *runs;

    if (clattn_problem_parse(item->problem, &p, reason, sizeof reason) != CLATTN_SUCCESS) {
        printf("FAIL %s: %s\n", item->problem, reason);
        return 1;
    }
    for (size_t n = 0; (family = clattn_family_name(p.operation, n)) != NULL; n++) {
        const clattn_plan_options options = {
            .struct_size = sizeof options, .family = family, .tunables = item->tunables};
        if (item->family != NULL && strcmp(item->family, family) != 0)
            continue;
        if (clattn_plan_supports(context, &p, &options, reason, sizeof reason) != CLATTN_SUCCESS) {
            if (item->family != NULL)
                printf("  %s\n", reason);
            continue;
        }
        const int ok = p.operation == CLATTN_PROJECTION ? race_projection(context, &p, &options)
                                                        : run(context, &p, &options);
        printf("%s %s: %s\n", ok ? "ok  " : "FAIL", family, item->problem);
        failures += !ok;
        ++*runs;
    }
    if (*runs == before) {
        printf("FAIL no family did: %s\n", item->problem);
        failures++;
    }
    return failures;
}

/* A kernel whose work-items read each other's local memory without a barrier between. */
static int run_racy(clattn_context *context)
{
    static const char *source = "__kernel void racy(__global int *out) {"
                                "    __local int tile[4];"
                                "    const int n = get_local_id(0);"
                                "    tile[n] = n;"
                                "    out[n] = tile[3 - n];"
                                "}";
    cl_context opencl = clattn_context_opencl(context);
    cl_device_id device = clattn_context_device(context)->device;
    const size_t size = 4;
    cl_program program = clCreateProgramWithSource(opencl, 1, &source, NULL, NULL);
    int ok = program != NULL && clBuildProgram(program, 1, &device, "", NULL, NULL) == CL_SUCCESS;
    cl_kernel kernel = ok ? clCreateKernel(program, "racy", NULL) : NULL;
    cl_mem out = clCreateBuffer(opencl, CL_MEM_WRITE_ONLY, size * sizeof(cl_int), NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(opencl, device, 0, NULL);

    ok =
        kernel != NULL && out != NULL && queue != NULL &&
        clSetKernelArg(kernel, 0, sizeof out, &out) == CL_SUCCESS &&
        clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &size, &size, 0, NULL, NULL) == CL_SUCCESS &&
        clFinish(queue) == CL_SUCCESS;
    printf("%s racy\n", ok ? "ok  " : "FAIL");
    return ok ? 0 : 1; /* the process ends here; its OpenCL objects end with it */
}

int main(int argc, char **argv)
{
    const clattn_context_options options = {
        .struct_size = sizeof options, .log = print_message, .skip_self_checks = 1};
    clattn_context *context;
    int failures = 0, runs = 0;

    if (clattn_context_create_default(NULL, &options, &context) != CLATTN_SUCCESS)
        return 1;
    printf("on %s\n", clattn_context_device(context)->name);
    if (argc > 1 && strcmp(argv[1], "--racy") == 0)
        failures = run_racy(context);
    else if (argc > 1 && strtoul(argv[1], NULL, 10) >= NUM_ITEMS)
        failures = NO_SUCH_ITEM;
    else if (argc > 1)
        failures = run_item(context, &items[strtoul(argv[1], NULL, 10)], &runs);
    else
        for (size_t n = 0; n < NUM_ITEMS; n++)
            failures += run_item(context, &items[n], &runs);
    clattn_context_release(context);
    if (failures == NO_SUCH_ITEM)
        return 3;
    printf("%d runs, %d failures\n", runs, failures);
    return failures == 0 ? 0 : 1;
}

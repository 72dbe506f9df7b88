/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors whose elements lie between those of others. The library's answer whether two share a byte is compared with marks
 * on each byte; and results are written into one buffer, on the device and on the host. */
#include "problem/layout.h"
#include "problem/overlap.h"
#include "tests/support/fixture.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(overlap, .init = unoptimised, .timeout = 120);

/* ---- which share a byte --------------------------------------------------------------------- */

enum { BYTES = 1 << 16 };

/* Marks the bytes of all elements. */
static void mark(const struct ca_places *p, unsigned char bytes[BYTES])
{
    const size_t block = p->cache == CLATTN_CACHE_PLAIN ? 1 : 32, *step = p->layout.stride;

    memset(bytes, 0, BYTES);
    for (size_t b = 0; b < p->sizes[0]; b++)
        for (size_t h = 0; h < p->sizes[1]; h++)
            for (size_t s = 0; s < p->sizes[2]; s++)
                for (size_t d = 0; d < p->sizes[3]; d += block) {
                    const size_t n = b * step[0] + h * step[1] + s * step[2] + d * step[3];
                    const size_t at = (size_t)p->begin + n / block * p->element_bytes;
                    cr_assert(at + p->element_bytes <= BYTES);
                    memset(bytes + at, 1, p->element_bytes);
                }
}

static int share(const struct ca_places *a, const struct ca_places *b)
{
    static unsigned char of_a[BYTES], of_b[BYTES];

    mark(a, of_a);
    mark(b, of_b);
    for (size_t n = 0; n < BYTES; n++)
        if (of_a[n] && of_b[n])
            return 1;
    return 0;
}

/* Nested strides with gaps in some order of the axes, as real tensors have them, or any at all. */
static struct ca_places draw(struct rng *r)
{
    struct ca_places p = {.element_bytes = RNG_PICK(r, 1, 2, 4)};
    int order[4] = {0, 1, 2, 3};
    size_t step = RNG_PICK(r, 1, 1, 1, 2, 3);

    for (int n = 0; n < 4; n++)
        p.sizes[n] = RNG_PICK(r, 1, 2, 3, 4);
    for (int n = 3; n > 0; n--) {
        const size_t other = rng_below(r, (size_t)n + 1);
        const int kept = order[n];
        order[n] = order[other];
        order[other] = kept;
    }
    for (int n = 3; n >= 0; n--) {
        p.layout.stride[order[n]] = step;
        step = step * p.sizes[order[n]] * RNG_PICK(r, 1, 1, 1, 2, 3) + RNG_PICK(r, 0, 0, 0, 1, 5);
    }
    if (rng_one_in(r, 4))
        for (int n = 0; n < 4; n++)
            p.layout.stride[n] = rng_below(r, 40);
    p.begin = rng_below(r, 600);
    if (rng_one_in(r, 8)) { /* quantized */
        p.cache = CLATTN_CACHE_Q4_0;
        p.element_bytes = 18;
        p.sizes[3] = 32 * RNG_PICK(r, 1, 2);
        p.layout = (clattn_layout){{32 * rng_below(r, 9), 32 * rng_below(r, 9), 64, 1}};
    }
    return p;
}

/* The second of two is often the first one shifted: then they lie between each other, or nearly. */
Test(overlap, as_the_bytes_say) {
    size_t counts[3] = {0};
    struct rng r = rng_seed(17);

    for (int n = 0; n < 20000; n++) {
        const struct ca_places a = draw(&r);
        struct ca_places b = rng_one_in(&r, 3) ? draw(&r) : a;
        b.begin = rng_below(&r, 600);
        for (int axis = 0; axis < 3 && rng_one_in(&r, 2); axis++)
            b.sizes[axis] = 1 + rng_below(&r, a.sizes[axis]);
        const enum ca_overlap found = ca_places_overlap(&a, &b);
        counts[found]++;
        cr_assert(found == (share(&a, &b) ? CA_SHARED : CA_APART), "pair %d: %d", n, (int)found);
        cr_assert(ca_places_overlap(&b, &a) == found);
    }
    cr_expect(counts[CA_APART] > 4000 && counts[CA_SHARED] > 4000, "%zu, %zu", counts[CA_APART],
              counts[CA_SHARED]);
}

/* Sizes of real problems take no longer; strides that have nothing in common are given up. */
Test(overlap, large_tensors) {
    const size_t heads = 32, dim = 128, seq = 1 << 20, row = 3 * heads * dim;
    struct ca_places dq = {
        .element_bytes = 2, .sizes = {64, heads, seq, dim}, .layout = {{seq * row, dim, row, 1}}};
    struct ca_places dk = dq, odd = {.element_bytes = 4,
                                     .sizes = {1, 1, 1, 1 << 20},
                                     .layout = {{0, 0, 0, 1009}}};

    dk.begin = 2 * heads * dim;
    cr_expect(ca_places_overlap(&dq, &dk) == CA_APART);
    dk.begin -= 2;
    cr_expect(ca_places_overlap(&dq, &dk) == CA_SHARED);
    dk.begin += 2 * row; /* a row further on */
    cr_expect(ca_places_overlap(&dq, &dk) == CA_SHARED);
    dk.begin += 2 + 2 * seq * row * 63;
    cr_expect(ca_places_overlap(&dq, &dk) == CA_APART);
    dk.begin = UINT64_MAX; /* further apart than a signed number tells */
    cr_expect(ca_places_overlap(&dq, &dk) == CA_APART);
    struct ca_places other = odd;
    other.layout.stride[3] = 1013;
    other.begin = 2;
    cr_expect(ca_places_overlap(&odd, &other) != CA_APART, "they meet in the end");
    other.layout.stride[3] = 2018;
    other.begin = 4;
    cr_expect(ca_places_overlap(&odd, &other) == CA_APART, "a multiple, and another remainder");
    /* Four axes of odd steps that never meet, but nothing short says so. */
    odd.sizes[0] = odd.sizes[1] = odd.sizes[2] = 64;
    odd.layout = (clattn_layout){{100003 * 2, 100019 * 2, 100043 * 2, 100049 * 2}};
    other = odd;
    other.layout = (clattn_layout){{100057 * 2, 100069 * 2, 100103 * 2, 100109 * 2}};
    other.begin = 4;
    const enum ca_overlap found = ca_places_overlap(&odd, &other);
    cr_expect(found != CA_SHARED);
}

/* ---- results in one buffer ------------------------------------------------------------------ */

enum { BATCH = 2, HEADS = 3, SEQ = 5, DIM = 8, ROW = HEADS * DIM, ELEMENTS = BATCH * SEQ * ROW };

/* q, k, v, o and do of (batch, seq, heads, dim), and lse. */
struct inputs {
    float x[5][ELEMENTS], lse[BATCH * HEADS * SEQ];
};

static void fill(struct inputs *in)
{
    struct rng r = rng_seed(4);

    for (int t = 0; t < 5; t++)
        for (size_t n = 0; n < ELEMENTS; n++)
            in->x[t][n] = (float)rng_uniform(&r, -1, 1);
    for (size_t n = 0; n < BATCH * HEADS * SEQ; n++)
        in->lse[n] = 2.5f;
}

/* dq, dk and dv of one problem side by side in the rows of (batch, seq, 3 * heads, dim). */
static void side_by_side(clattn_problem *p)
{
    const clattn_layout layout = {{SEQ * 3 * ROW, DIM, 3 * ROW, 1}};

    p->dq = p->dk = p->dv = layout;
}

static clattn_host_backward_tensors backward_of(const struct inputs *in, float results[3][ELEMENTS])
{
    return (clattn_host_backward_tensors){.struct_size = sizeof(clattn_host_backward_tensors),
                                          .q = in->x[0],
                                          .k = in->x[1],
                                          .v = in->x[2],
                                          .o = in->x[3],
                                          .d_o = in->x[4],
                                          .lse = in->lse,
                                          .dq = results[0],
                                          .dk = results[1],
                                          .dv = results[2]};
}

static void same_rows(const float *packed, const float *wide, size_t which)
{
    for (size_t row = 0; row < BATCH * SEQ; row++)
        cr_expect(memcmp(packed + row * ROW, wide + (3 * row + which) * ROW, ROW * sizeof(float)) ==
                      0,
                  "row %zu of gradient %zu", row, which);
}

static const char training[] = "bwd f32 b2 h3 q5 d8 layout=bshd";

Test(overlap, gradients_side_by_side) {
    static struct inputs in;
    static float apart[3][ELEMENTS], wide[3 * ELEMENTS];
    clattn_problem p = fixture_problem(training);
    struct fixture f;
    cl_mem buffers[6];

    fill(&in);
    fixture_open(&f);
    const clattn_host_backward_tensors h = backward_of(&in, apart);
    cr_assert(clattn_attention_backward_host(f.context, &p, NULL, &h) == CLATTN_SUCCESS, "%s",
              f.log.last);
    side_by_side(&p);
    for (int t = 0; t < 5; t++)
        buffers[t] = fixture_buffer(&f, sizeof in.x[t], in.x[t]);
    buffers[5] = fixture_buffer(&f, sizeof in.lse, in.lse);
    cl_mem results = fixture_buffer(&f, sizeof wide, wide);
    clattn_plan *plan;
    cr_assert(clattn_plan_create(f.context, &p, NULL, &plan) == CLATTN_SUCCESS, "%s", f.log.last);
    clattn_backward_tensors t = {.struct_size = sizeof t,
                                 .q = {.buffer = buffers[0]},
                                 .k = {.buffer = buffers[1]},
                                 .v = {.buffer = buffers[2]},
                                 .o = {.buffer = buffers[3]},
                                 .d_o = {.buffer = buffers[4]},
                                 .lse = {.buffer = buffers[5]},
                                 .dq = {.buffer = results},
                                 .dk = {.buffer = results, .offset = ROW},
                                 .dv = {.buffer = results, .offset = 2 * ROW}};
    cr_assert(clattn_attention_backward(plan, f.queue, &t, 0, NULL, NULL) == CLATTN_SUCCESS, "%s",
              f.log.last);
    fixture_read(&f, results, sizeof wide, wide);
    for (size_t n = 0; n < 3; n++)
        same_rows(apart[n], wide, n);
    t.dk.offset = ROW - 1;
    fixture_refused(&f, clattn_attention_backward(plan, f.queue, &t, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "dq, which is written, overlaps dk");
    for (int n = 0; n < 6; n++)
        clReleaseMemObject(buffers[n]);
    clReleaseMemObject(results);
    clattn_plan_release(plan);
    fixture_close(&f);
}

/* Each result is copied back without what lies between its elements. */
Test(overlap, gradients_side_by_side_on_the_host) {
    static struct inputs in;
    static float apart[3][ELEMENTS], wide[3 * ELEMENTS];
    clattn_problem p = fixture_problem(training);
    struct fixture f;

    fill(&in);
    fixture_open(&f);
    clattn_host_backward_tensors h = backward_of(&in, apart);
    cr_assert(clattn_attention_backward_host(f.context, &p, NULL, &h) == CLATTN_SUCCESS);
    side_by_side(&p);
    h.dq = wide;
    h.dk = wide + ROW;
    h.dv = wide + 2 * ROW;
    cr_assert(clattn_attention_backward_host(f.context, &p, NULL, &h) == CLATTN_SUCCESS, "%s",
              f.log.last);
    for (size_t n = 0; n < 3; n++)
        same_rows(apart[n], wide, n);
    h.dv = wide + ROW;
    fixture_refused(&f, clattn_attention_backward_host(f.context, &p, NULL, &h),
                    CLATTN_INVALID_ARGUMENT, "dk, which is written, overlaps dv");
    fixture_close(&f);
}

/* o lies between q and k, where a fused projection leaves room for it. */
Test(overlap, forward_beside_its_inputs) {
    static struct inputs in;
    static float apart[ELEMENTS], wide[4 * ELEMENTS];
    const clattn_problem packed = fixture_problem("fwd f32 b2 h3 q5 d8 layout=bshd");
    const clattn_layout layout = {{SEQ * 4 * ROW, DIM, 4 * ROW, 1}};
    static const int places[3] = {0, 2, 3}; /* of q, k and v */
    clattn_problem p = packed;
    struct fixture f;

    fill(&in);
    for (int t = 0; t < 3; t++)
        for (size_t row = 0; row < BATCH * SEQ; row++)
            memcpy(wide + (4 * row + (size_t)places[t]) * ROW, in.x[t] + row * ROW,
                   ROW * sizeof(float));
    fixture_open(&f);
    clattn_host_forward_tensors h = {
        .struct_size = sizeof h, .q = in.x[0], .k = in.x[1], .v = in.x[2], .o = apart};
    cr_assert(clattn_attention_forward_host(f.context, &packed, NULL, &h) == CLATTN_SUCCESS);
    p.q = p.k = p.v = p.o = layout;
    h.q = wide;
    h.o = wide + ROW;
    h.k = wide + 2 * ROW;
    h.v = wide + 3 * ROW;
    cr_assert(clattn_attention_forward_host(f.context, &p, NULL, &h) == CLATTN_SUCCESS, "%s",
              f.log.last);
    for (size_t row = 0; row < BATCH * SEQ; row++) {
        cr_expect(memcmp(apart + row * ROW, wide + (4 * row + 1) * ROW, ROW * sizeof(float)) == 0);
        cr_expect(memcmp(in.x[2] + row * ROW, wide + (4 * row + 3) * ROW, ROW * sizeof(float)) ==
                  0);
    }
    fixture_close(&f);
}

/* y in the columns of its rows that x leaves. */
DeviceTest(overlap, projection_beside_its_input)
{
    static float wide[4 * 5];
    const float w[3 * 2] = {1, 0, 0, 1, 1, 1}; /* (3, 2) */
    const clattn_problem p = fixture_problem("proj f32 q4 d3/2 x=20.20.5.1 y=20.20.5.1");
    const clattn_host_projection_tensors h = {
        .struct_size = sizeof h, .x = wide, .w = w, .y = wide + 3};

    for (size_t n = 0; n < 4; n++)
        for (size_t d = 0; d < 3; d++)
            wide[n * 5 + d] = (float)(n + 10 * d);
    cr_assert(clattn_project_host(f->context, &p, NULL, &h) == CLATTN_SUCCESS, "%s", f->log.last);
    for (size_t n = 0; n < 4; n++) {
        const float *row = wide + n * 5;
        cr_expect(row[0] == (float)n && row[3] == row[0] + row[2] && row[4] == row[1] + row[2]);
    }
    clattn_host_projection_tensors wrong = h;
    wrong.y = wide + 2;
    fixture_refused(f, clattn_project_host(f->context, &p, NULL, &wrong), CLATTN_INVALID_ARGUMENT,
                    "y, which is written, overlaps x");
}

/* ---- a workspace that nobody needs, an offset of nothing -------------------------------------- */

Test(overlap, offsets_and_workspaces_without_use) {
    struct fixture f, other;

    fixture_open(&f);
    fixture_open(&other);
    clattn_plan *plan = fixture_plan(&f, "fwd f32 q3 d8", "fused_cpu UNIT=vector");
    clattn_plan_info info = {.struct_size = sizeof info};
    cr_assert(clattn_plan_describe(plan, &info) == CLATTN_SUCCESS && info.workspace_bytes == 0);
    cl_mem buffer = fixture_buffer(&f, 4096, NULL), foreign = fixture_buffer(&other, 64, NULL);
    clattn_forward_tensors t = {.struct_size = sizeof t,
                                .q = {.buffer = buffer},
                                .k = {.buffer = buffer, .offset = 24},
                                .v = {.buffer = buffer, .offset = 48},
                                .o = {.buffer = buffer, .offset = 72}};
    t.workspace.offset = 1;
    fixture_refused(&f, clattn_attention_forward(plan, f.queue, &t, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "workspace has an offset, 1, but its buffer is null");
    t.workspace.offset = 0;
    t.bias.offset = 7;
    fixture_refused(&f, clattn_attention_forward(plan, f.queue, &t, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "bias has an offset");
    t.bias.offset = 0;
    t.workspace.buffer = foreign;
    fixture_refused(&f, clattn_attention_forward(plan, f.queue, &t, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "workspace is a buffer of another OpenCL context");
    t.workspace.buffer = buffer; /* of which nothing is used */
    cr_expect(clattn_attention_forward(plan, f.queue, &t, 0, NULL, NULL) == CLATTN_SUCCESS);
    clFinish(f.queue);
    clReleaseMemObject(buffer);
    clReleaseMemObject(foreign);
    clattn_plan_release(plan);
    clReleaseCommandQueue(other.queue);
    clattn_context_release(other.context);
    fixture_close(&f);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan keeps of a mask function (clattn/function.h): the bits of a plan that kept nothing, whatever changes, on two
 * queues and without memory; and that it is kept, by a caller who breaks the contract. */
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(kept_marks, .init = unoptimised, .timeout = 300);

enum { HEADS = 2, QUERIES = 64, KEYS = 160, DIM = 8, OUTPUTS = HEADS * QUERIES * DIM };

static const char source[] =
    "#pragma clattn operand uchar seen[q][k]\n#pragma clattn parameter int window = 1000\n"
    "bool visible(pair p, operands o)\n{\n"
    "    return seen_of(o, p) && p.query - p.key < o.window && p.key - p.query < o.window;\n}\n";

/* The keys that a mask shows begin here, and none or all tiles of it are partial. */
enum mask { HALF, ALL, RAGGED, NUM_MASKS };

/* An execution; what is 0 is the default. */
struct call {
    enum mask contents;
    int other_buffer, window, keys;
    unsigned query;
    uint64_t version;
};

struct device {
    struct fixture f;
    char text[200];
    cl_mem q, k, v, o, masks[2], lengths;
};

static cl_mem buffer(const struct device *d, size_t bytes, void *contents)
{
    cl_int err;
    cl_mem made =
        clCreateBuffer(d->f.opencl, CL_MEM_READ_WRITE | (contents ? CL_MEM_COPY_HOST_PTR : 0),
                       bytes, contents, &err);

    cr_assert(err == CL_SUCCESS);
    return made;
}

static void begin(struct device *d)
{
    static float numbers[3][HEADS * KEYS * DIM];
    struct rng r = rng_seed(5);
    const clattn_function *function;

    fixture_open(&d->f);
    cr_assert(clattn_function_create("seen", source, &function, NULL, 0) == CLATTN_SUCCESS);
    snprintf(d->text, sizeof d->text, "fwd f32 h%d q%d k%d d%d klen visible=%s", HEADS, QUERIES,
             KEYS, DIM, clattn_function_name(function));
    for (size_t t = 0; t < 3; t++)
        for (size_t n = 0; n < HEADS * KEYS * DIM; n++)
            numbers[t][n] = (float)rng_uniform(&r, -2, 2);
    d->q = buffer(d, sizeof numbers[0], numbers[0]);
    d->k = buffer(d, sizeof numbers[1], numbers[1]);
    d->v = buffer(d, sizeof numbers[2], numbers[2]);
    d->o = buffer(d, OUTPUTS * sizeof(float), NULL);
    d->masks[0] = buffer(d, QUERIES * KEYS, NULL);
    d->masks[1] = buffer(d, QUERIES * KEYS, NULL);
    d->lengths = buffer(d, sizeof(int32_t), NULL);
}

static void end(struct device *d)
{
    cl_mem all[] = {d->q, d->k, d->v, d->o, d->masks[0], d->masks[1], d->lengths};

    for (size_t n = 0; n < sizeof all / sizeof *all; n++)
        clReleaseMemObject(all[n]);
    fixture_close(&d->f);
}

static clattn_plan *plan_of(struct device *d)
{
    return fixture_plan(&d->f, d->text, "fused_cpu UNIT=vector");
}

static void write_mask(const struct device *d, enum mask contents, cl_mem to)
{
    unsigned char mask[QUERIES * KEYS];

    for (size_t n = 0; n < sizeof mask; n++)
        mask[n] = contents == ALL || n % KEYS >= (contents == HALF ? KEYS / 2 : n / KEYS);
    cr_assert(clEnqueueWriteBuffer(d->f.queue, to, CL_TRUE, 0, sizeof mask, mask, 0, NULL, NULL) ==
              CL_SUCCESS);
}

static clattn_status enqueue(const struct device *d, const clattn_plan *plan, const struct call *c,
                             cl_command_queue queue, cl_mem o)
{
    const clattn_function_values values = {.ints = {c->window ? c->window : 1000}};
    const clattn_forward_tensors t = {.struct_size = sizeof t,
                                      .q = {.buffer = d->q},
                                      .k = {.buffer = d->k},
                                      .v = {.buffer = d->v},
                                      .o = {.buffer = o},
                                      .kv_lengths = {.buffer = d->lengths},
                                      .function_0 = {.buffer = d->masks[c->other_buffer]},
                                      .function_values = &values,
                                      .dropout_place.query = c->query,
                                      .function_version = c->version};

    return clattn_attention_forward(plan, queue, &t, 0, NULL, NULL);
}

static void read_outputs(const struct device *d, cl_mem from, float *o)
{
    cr_assert(clEnqueueReadBuffer(d->f.queue, from, CL_TRUE, 0, OUTPUTS * sizeof(float), o, 0, NULL,
                                  NULL) == CL_SUCCESS);
}

/* The operands become those of the call. */
static void attend(const struct device *d, const clattn_plan *plan, const struct call *c, float *o)
{
    const int32_t keys = c->keys ? c->keys : KEYS;

    write_mask(d, c->contents, d->masks[c->other_buffer]);
    clEnqueueWriteBuffer(d->f.queue, d->lengths, CL_TRUE, 0, sizeof keys, &keys, 0, NULL, NULL);
    cr_assert(enqueue(d, plan, c, d->f.queue, d->o) == CLATTN_SUCCESS, "%s", d->f.log.last);
    read_outputs(d, d->o, o);
}

/* The same by a plan that has kept nothing. */
static void expected(struct device *d, const struct call *c, float *o)
{
    struct call unknown = *c;
    clattn_plan *plan = plan_of(d);

    unknown.version = 0;
    attend(d, plan, &unknown, o);
    clattn_plan_release(plan);
}

Test(kept_marks, are_those_of_the_call) {
    /* Each call differs from one before it in a single thing; some come back. */
    static const struct call calls[] = {
        {HALF, .version = 1},
        {ALL, .version = 2},
        {HALF, .version = 1},
        {HALF, .version = 1, .window = 30},
        {HALF, .version = 1, .window = 90},
        {HALF, .version = 1, .window = 30},
        {HALF, .version = 1, .window = 30, .query = 64},
        {ALL, .other_buffer = 1, .version = 1},
        {ALL, .version = 0},
        {RAGGED, .version = 0},
        {RAGGED, .version = 3},
        {RAGGED, .version = 4, .keys = 70},
        {RAGGED, .version = 5, .keys = 150},
        {RAGGED, .version = 4, .keys = 70},
        {HALF, .version = 6, .keys = 10},
    };
    struct device d;
    float o[OUTPUTS], want[OUTPUTS];

    begin(&d);
    clattn_plan *plan = plan_of(&d);
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++) {
        expected(&d, &calls[n], want);
        attend(&d, plan, &calls[n], o);
        cr_expect(memcmp(o, want, sizeof o) == 0, "call %zu", n);
    }
    /* The contents change behind the same version: tiles that were empty are still skipped. */
    const struct call half = {HALF, .version = 7}, all = {ALL, .version = 7};
    attend(&d, plan, &half, want);
    attend(&d, plan, &all, o);
    cr_expect(memcmp(o, want, sizeof o) == 0, "marks were made although they were kept");
    clattn_plan_release(plan);
    end(&d);
}

Test(kept_marks, on_two_queues) {
    enum { CALLS = 24 };
    struct device d;
    cl_command_queue queues[2];
    cl_mem outputs[CALLS];
    float o[OUTPUTS], want[3][OUTPUTS];
    cl_int err;

    begin(&d);
    clattn_plan *plan = plan_of(&d);
    for (int n = 0; n < 3; n++)
        expected(&d, &(struct call){RAGGED, .window = 20 + 30 * n}, want[n]);
    for (int n = 0; n < 2; n++) {
        queues[n] = clCreateCommandQueue(d.f.opencl, d.f.device,
                                         n ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0, &err);
        cr_assert(err == CL_SUCCESS);
    }
    for (int n = 0; n < CALLS; n++) {
        outputs[n] = buffer(&d, sizeof o, NULL);
        const struct call c = {RAGGED, .window = 20 + 30 * (n / 3 % 3), .version = 1};
        cr_assert(enqueue(&d, plan, &c, queues[n % 2], outputs[n]) == CLATTN_SUCCESS);
    }
    clFinish(queues[0]);
    clFinish(queues[1]);
    for (int n = 0; n < CALLS; n++) {
        read_outputs(&d, outputs[n], o);
        cr_expect(memcmp(o, want[n / 3 % 3], sizeof o) == 0, "call %d", n);
        clReleaseMemObject(outputs[n]);
    }
    for (int n = 0; n < 2; n++)
        clReleaseCommandQueue(queues[n]);
    clattn_plan_release(plan);
    end(&d);
}

/* Each call to OpenCL fails once while marks are made, and once while they are copied. */
Test(kept_marks, without_memory) {
    struct device d;
    float o[OUTPUTS], want[OUTPUTS];
    int some = 1; /* whether a call failed */

    begin(&d);
    expected(&d, &(struct call){.contents = RAGGED}, want);
    for (size_t n = 0; some && n < 100; n++) {
        clattn_plan *plan = plan_of(&d);
        const struct call c = {RAGGED, .version = 1};
        some = 0;
        for (int time = 0; time < 3; time++) {
            if (time < 2)
                faults_arm(FAULT_OPENCL, n, CL_OUT_OF_HOST_MEMORY);
            const clattn_status status = enqueue(&d, plan, &c, d.f.queue, d.o);
            const int failed = time < 2 && faults_disarm();
            some |= failed;
            if (status != CLATTN_SUCCESS) {
                cr_expect(failed && status == CLATTN_OUT_OF_MEMORY, "call %zu: %s", n,
                          d.f.log.last);
                continue;
            }
            read_outputs(&d, d.o, o);
            cr_expect(memcmp(o, want, sizeof o) == 0, "call %zu, time %d", n, time);
        }
        clattn_plan_release(plan);
    }
    cr_expect(!some);
    end(&d);
}

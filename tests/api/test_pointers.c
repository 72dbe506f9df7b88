/* SPDX-License-Identifier: Apache-2.0 */
/* Memory by its address: the bits that buffers give, wherever pointers begin; every mistake is refused. The
 * sweep's trials give some of their tensors so. */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 200 /* of the calls that stand in for unified shared memory's */
#include "context/context.h"
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/rng.h"
#include "tests/support/shared_memory.h"
#include "tests/support/unoptimised.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

TestSuite(pointers, .timeout = 300, .init = unoptimised);

#define PROBLEM "fwd f32 b2 h4/2 q5 k37 d24 lse"
enum { Q = 2 * 4 * 5 * 24, K = 2 * 2 * 37 * 24, LSE = 2 * 4 * 5, ROOM = 2 * (2 * Q + 2 * K + LSE) };

/* The first float of each tensor. Between two tensors lies an odd number of floats. */
enum {
    AT_Q = 33,
    AT_K = AT_Q + Q + 1,
    AT_V = AT_K + K + 3,
    AT_O = AT_V + K + 5,
    AT_LSE = AT_O + Q + 7
};

static void need_shared_memory(const struct fixture *f)
{
    if (!shared_memory_is_there(f))
        cr_skip_test("the device has no shared virtual memory");
}

static void fill(float *room)
{
    struct rng r = rng_seed(5);

    for (size_t n = 0; n < ROOM; n++)
        room[n] = (float)rng_uniform(&r, -1, 1);
}

static clattn_buffer at(float *room, size_t begin, size_t count)
{
    return (clattn_buffer){.pointer = room + begin, .bytes = count * sizeof *room};
}

static clattn_forward_tensors in_room(float *room)
{
    return (clattn_forward_tensors){.struct_size = sizeof(clattn_forward_tensors),
                                    .q = at(room, AT_Q, Q),
                                    .k = at(room, AT_K, K),
                                    .v = at(room, AT_V, K),
                                    .o = at(room, AT_O, Q),
                                    .lse = at(room, AT_LSE, LSE)};
}

DeviceTest(pointers, give_the_bits_of_buffers)
{
    static float host[ROOM], by_buffer[ROOM], by_pointer[ROOM];

    need_shared_memory(f);
    fill(host);
    clattn_plan *plan = fixture_plan(f, PROBLEM, NULL);
    const cl_mem buffer = fixture_buffer(f, sizeof host, host);
    float *shared = shared_memory_new(f, sizeof host, host);
    const clattn_forward_tensors pointers = in_room(shared),
                                 buffers = {.struct_size = sizeof buffers,
                                            .q = {.buffer = buffer, .offset = AT_Q},
                                            .k = {.buffer = buffer, .offset = AT_K},
                                            .v = {.buffer = buffer, .offset = AT_V},
                                            .o = {.buffer = buffer, .offset = AT_O},
                                            .lse = {.buffer = buffer, .offset = AT_LSE}};
    cr_assert(clattn_attention_forward(plan, f->queue, &buffers, 0, NULL, NULL) == CLATTN_SUCCESS);
    cr_assert(clattn_attention_forward(plan, f->queue, &pointers, 0, NULL, NULL) == CLATTN_SUCCESS,
              "%s", f->log.last);
    fixture_read(f, buffer, sizeof host, by_buffer);
    shared_memory_read(f, shared, sizeof host, by_pointer);
    cr_expect(memcmp(by_buffer, by_pointer, sizeof host) == 0);
    cr_expect(memcmp(by_buffer + AT_O, host + AT_O, sizeof *host * Q) != 0, "nothing was computed");
    clReleaseMemObject(buffer);
    shared_memory_free(f, shared);
    clattn_plan_release(plan);
}

/* Calls that the sweep does not make: masks of dropout, quantizing, reading tables back. */
DeviceTest(pointers, of_other_calls)
{
    enum { VALUES = 4 * 64, CACHE = VALUES / 32 * 34 };
    const clattn_problem dropped = fixture_problem("fwd f32 h2 q3 k5 d8 dropout=0.5");
    const clattn_quantization q = {.struct_size = sizeof q,
                                   .from = CLATTN_F32,
                                   .to = CLATTN_CACHE_Q8_0,
                                   .size = {1, 1, 4, 64}};
    static float values[VALUES];
    unsigned char want[CACHE], got[CACHE], mask[30], wanted_mask[30];
    cl_int lengths[3] = {3, 99, 4};

    need_shared_memory(f);
    for (size_t n = 0; n < VALUES; n++)
        values[n] = (float)n - 100.5f;
    float *from = shared_memory_new(f, sizeof values, values);
    unsigned char *to = shared_memory_new(f, CACHE + 2, got);
    const clattn_buffer given = {.pointer = from, .bytes = sizeof values};
    const clattn_buffer cache = {.pointer = to + 2, .bytes = CACHE};
    cr_assert(clattn_quantize(f->context, &q, f->queue, &given, &cache, 0, NULL, NULL) ==
                  CLATTN_SUCCESS,
              "%s", f->log.last);
    clFinish(f->queue);
    shared_memory_read(f, to + 2, CACHE, got);
    cr_assert(clattn_quantize_host(&q, values, want) == CLATTN_SUCCESS);
    cr_expect(memcmp(got, want, CACHE) == 0);

    const clattn_buffer dropout = {.pointer = to + 1, .bytes = 30};
    cr_assert(clattn_dropout_mask(f->context, &dropped, 7, 8, f->queue, &dropout, 0, NULL, NULL) ==
                  CLATTN_SUCCESS,
              "%s", f->log.last);
    clFinish(f->queue);
    shared_memory_read(f, to + 1, 30, mask);
    clattn_dropout_mask_host(&dropped, 7, 8, 0, 6, wanted_mask);
    cr_expect(memcmp(mask, wanted_mask, 30) == 0);

    clattn_plan *plan = fixture_plan(f, "fwd f32 b3 q2 k50 d8 klen", NULL);
    cl_int *table = shared_memory_new(f, sizeof lengths, lengths);
    const clattn_forward_tensors tensors = {
        .struct_size = sizeof tensors, .kv_lengths = {.pointer = table, .bytes = sizeof lengths}};
    cr_expect(clattn_check_tables(plan, f->queue, &tensors) == CLATTN_INVALID_ARGUMENT &&
                  strstr(clattn_context_last_error(f->context), "kv_lengths[1] is 99") != NULL,
              "%s", clattn_context_last_error(f->context));
    clattn_plan_release(plan);
    shared_memory_free(f, table);
    shared_memory_free(f, to);
    shared_memory_free(f, from);
}

struct attempt {
    const clattn_plan *plan;
    clattn_forward_tensors tensors;
};

static clattn_status execute(struct fixture *f, void *user)
{
    const struct attempt *a = user;

    return clattn_attention_forward(a->plan, f->queue, &a->tensors, 0, NULL, NULL);
}

/* A call of OpenCL that fails is told and leaves nothing behind; the next execution is right. */
DeviceTest(pointers, failing_calls)
{
    static float host[ROOM], before[ROOM], after[ROOM];

    need_shared_memory(f);
    fill(host);
    clattn_plan *plan = fixture_plan(f, PROBLEM, NULL);
    float *shared = shared_memory_new(f, sizeof host, host);
    struct attempt a = {plan, in_room(shared)};
    cr_assert(execute(f, &a) == CLATTN_SUCCESS);
    shared_memory_read(f, shared, sizeof host, before);
    fixture_fail_each(f, execute, &a, f->queue);
    shared_memory_read(f, shared, sizeof host, after);
    cr_expect(memcmp(before, after, sizeof host) == 0);
    shared_memory_free(f, shared);
    clattn_plan_release(plan);
}

static void expect_refusal(struct fixture *f, clattn_plan *plan,
                           const clattn_forward_tensors *tensors, clattn_status status,
                           const char *words)
{
    cr_expect(clattn_attention_forward(plan, f->queue, tensors, 0, NULL, NULL) == status, "%s",
              words);
    cr_expect(fixture_said(f, words));
}

DeviceTest(pointers, mistakes_are_refused)
{
    static float host[ROOM];
    clattn_forward_tensors t;

    need_shared_memory(f);
    clattn_plan *plan = fixture_plan(f, PROBLEM, NULL);
    float *room = shared_memory_new(f, sizeof host, host);
    const cl_mem buffer = fixture_buffer(f, sizeof host, host);

    t = in_room(room);
    t.k.buffer = buffer;
    expect_refusal(f, plan, &t, CLATTN_INVALID_ARGUMENT, "k is given as a buffer and as a pointer");
    t = in_room(room);
    t.k = (clattn_buffer){.buffer = buffer, .bytes = 4};
    expect_refusal(f, plan, &t, CLATTN_INVALID_ARGUMENT, "k has 4 bytes, but its pointer is null");
    t = in_room(room);
    t.k.pointer = (unsigned char *)t.k.pointer + 2;
    expect_refusal(f, plan, &t, CLATTN_INVALID_ARGUMENT,
                   "k is a pointer that is not aligned to 4 bytes");
    t = in_room(room);
    t.v.bytes -= 1;
    expect_refusal(f, plan, &t, CLATTN_BUFFER_TOO_SMALL,
                   "v reaches over 3552 elements from 0 on, but its memory holds 3551");
    t = in_room(room);
    t.v.offset = 1;
    expect_refusal(f, plan, &t, CLATTN_BUFFER_TOO_SMALL, "v reaches over 3552 elements from 1 on");
    t = in_room(room);
    t.v.bytes = SIZE_MAX;
    expect_refusal(f, plan, &t, CLATTN_INVALID_ARGUMENT, "which are more than there are addresses");
    t = in_room(room);
    t.o = at(room, AT_O - 9, Q); /* five floats follow v */
    expect_refusal(f, plan, &t, CLATTN_INVALID_ARGUMENT, "o, which is written, overlaps v");
    t = in_room(room);
    t.k = (clattn_buffer){.offset = 3};
    expect_refusal(f, plan, &t, CLATTN_INVALID_ARGUMENT,
                   "k has an offset, 3, but its buffer is null");
    clReleaseMemObject(buffer);
    shared_memory_free(f, room);
    clattn_plan_release(plan);
}

/* Memory of the host that a buffer was made over, and a pointer into the same. */
DeviceTest(pointers, overlap_buffers_over_the_same_memory)
{
    static float host[ROOM] __attribute__((aligned(128)));
    cl_int err;

    need_shared_memory(f);
    clattn_plan *plan = fixture_plan(f, PROBLEM, NULL);
    float *room = shared_memory_new(f, sizeof host, host);
    const cl_mem over =
        clCreateBuffer(f->opencl, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, sizeof host, room, &err);
    cr_assert(err == CL_SUCCESS);
    clattn_forward_tensors t = in_room(room);
    t.o = (clattn_buffer){.buffer = over, .offset = AT_K};
    expect_refusal(f, plan, &t, CLATTN_INVALID_ARGUMENT, "o, which is written, overlaps k");
    t.o.offset = AT_O;
    cr_expect(clattn_attention_forward(plan, f->queue, &t, 0, NULL, NULL) == CLATTN_SUCCESS, "%s",
              f->log.last);
    clFinish(f->queue);
    clReleaseMemObject(over);
    shared_memory_free(f, room);
    clattn_plan_release(plan);
}

/* ---- unified shared memory, which shared virtual memory stands in for -------------------------- */

static struct {
    const unsigned char *begin; /* of the only allocation */
    size_t bytes, set, copied;
    cl_int error; /* of the next argument that is set */
} usm;

static cl_int CL_API_CALL set_usm(cl_kernel kernel, cl_uint index, const void *address)
{
    usm.set++;
    return usm.error != CL_SUCCESS ? usm.error : clSetKernelArgSVMPointer(kernel, index, address);
}

static cl_int CL_API_CALL find_usm(cl_context context, const void *address, cl_uint what,
                                   size_t bytes, void *value, size_t *needed)
{
    enum { ALLOCATION_TYPE = 0x419A, UNKNOWN = 0x4196, SHARED = 0x4199 };
    const uintptr_t at = (uintptr_t)address, begin = (uintptr_t)usm.begin;

    (void)context;
    cr_assert(what == ALLOCATION_TYPE && bytes == sizeof(cl_uint) && needed == NULL);
    *(cl_uint *)value = at >= begin && at - begin < usm.bytes ? SHARED : UNKNOWN;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL copy_usm(cl_command_queue queue, cl_bool blocking, void *to,
                                   const void *from, size_t bytes, cl_uint num_wait,
                                   const cl_event *wait, cl_event *done)
{
    usm.copied++;
    return clEnqueueSVMMemcpy(queue, blocking, to, from, bytes, num_wait, wait, done);
}

/* Devices that have unified shared memory only, and both: there k alone lies in an allocation of it. */
DeviceTest(pointers, into_unified_shared_memory)
{
    static float host[ROOM], got[ROOM], want[ROOM];
    cl_int lengths[3] = {3, 99, 4};

    need_shared_memory(f);
    fill(host);
    clattn_plan *plan = fixture_plan(f, PROBLEM, NULL);
    clattn_plan *long_plan = fixture_plan(f, "fwd f32 b3 q2 k50 d8 klen", NULL);
    float *room = shared_memory_new(f, sizeof host, host);
    float *keys = shared_memory_new(f, K * sizeof *host, host + AT_K);
    cl_int *table = shared_memory_new(f, sizeof lengths, lengths);
    clattn_forward_tensors t = in_room(room);
    const clattn_forward_tensors tables = {
        .struct_size = sizeof tables, .kv_lengths = {.pointer = table, .bytes = sizeof lengths}};
    cr_assert(clattn_attention_forward(plan, f->queue, &t, 0, NULL, NULL) == CLATTN_SUCCESS);
    clFinish(f->queue);
    shared_memory_read(f, room, sizeof host, want);
    t.k = at(keys, 0, K);

    const struct ca_pointers own = f->context->pointers;
    for (int svm = 0; svm < 2; svm++) {
        memset(&usm, 0, sizeof usm);
        usm.begin = (const unsigned char *)keys;
        usm.bytes = K * sizeof *keys;
        f->context->pointers = (struct ca_pointers){
            .set_svm = svm ? own.set_svm : NULL,
            .copy_svm = svm ? own.copy_svm : NULL,
            .set_usm = set_usm,
            .find_usm = find_usm,
            .copy_usm = copy_usm,
        };
        cr_assert(clattn_attention_forward(plan, f->queue, &t, 0, NULL, NULL) == CLATTN_SUCCESS,
                  "%s", f->log.last);
        clFinish(f->queue);
        shared_memory_read(f, room, sizeof host, got);
        cr_expect(memcmp(got, want, sizeof host) == 0);
        cr_expect(svm ? usm.set == 1 : usm.set >= 5, "%zu arguments", usm.set);
        cr_expect(clattn_check_tables(long_plan, f->queue, &tables) == CLATTN_INVALID_ARGUMENT &&
                      strstr(clattn_context_last_error(f->context), "kv_lengths[1] is 99") != NULL,
                  "%s", clattn_context_last_error(f->context));
        cr_expect(usm.copied == !svm);
        usm.error = CL_INVALID_ARG_VALUE;
        expect_refusal(f, plan, &t, CLATTN_OPENCL_ERROR, "clSetKernelArg for ");
    }
    shared_memory_free(f, table);
    shared_memory_free(f, keys);
    shared_memory_free(f, room);
    clattn_plan_release(long_plan);
    clattn_plan_release(plan);
}

/* The driver's own, where it has some. */
DeviceTest(pointers, into_what_the_driver_allocates)
{
    typedef void *(CL_API_CALL * allocate_usm)(cl_context, const cl_bitfield *, size_t, cl_uint,
                                               cl_int *);
    typedef cl_int(CL_API_CALL * free_usm)(cl_context, void *);
    static float host[ROOM], want[ROOM];
    const cl_platform_id platform = clattn_context_device(f->context)->platform;
    allocate_usm allocate = NULL;
    free_usm release = NULL;
    cl_int err = CL_SUCCESS;

    need_shared_memory(f);
    void *call = clGetExtensionFunctionAddressForPlatform(platform, "clHostMemAllocINTEL");
    memcpy(&allocate, &call, sizeof call);
    call = clGetExtensionFunctionAddressForPlatform(platform, "clMemFreeINTEL");
    memcpy(&release, &call, sizeof call);
    if (!f->context->pointers.set_usm || !allocate || !release)
        cr_skip_test("the device has no unified shared memory");
    fill(host);
    clattn_plan *plan = fixture_plan(f, PROBLEM, NULL);
    float *shared = shared_memory_new(f, sizeof host, host);
    float *room = allocate(f->opencl, NULL, sizeof host, 0, &err);
    cr_assert(err == CL_SUCCESS && room != NULL);
    memcpy(room, host, sizeof host);
    const clattn_forward_tensors by_svm = in_room(shared), by_usm = in_room(room);
    cr_assert(clattn_attention_forward(plan, f->queue, &by_svm, 0, NULL, NULL) == CLATTN_SUCCESS);
    cr_assert(clattn_attention_forward(plan, f->queue, &by_usm, 0, NULL, NULL) == CLATTN_SUCCESS,
              "%s", f->log.last);
    clFinish(f->queue);
    shared_memory_read(f, shared, sizeof host, want);
    cr_expect(memcmp(room, want, sizeof host) == 0);
    cr_expect(release(f->opencl, room) == CL_SUCCESS);
    shared_memory_free(f, shared);
    clattn_plan_release(plan);
}

/* A device without any: as far as the context knows. */
DeviceTest(pointers, need_a_device_that_takes_them)
{
    static float host[ROOM];
    clattn_plan *plan = fixture_plan(f, PROBLEM, NULL);
    const clattn_forward_tensors t = in_room(host);

    memset(&f->context->pointers, 0, sizeof f->context->pointers);
    expect_refusal(f, plan, &t, CLATTN_UNSUPPORTED, "q is a pointer, but device '");
    clattn_plan_release(plan);
}

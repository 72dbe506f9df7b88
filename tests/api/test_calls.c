/* SPDX-License-Identifier: Apache-2.0 */
/* Every mistake in the tensors and the other arguments of each call that enqueues, and of those with host pointers:
 * status, sentence, that no event is left behind and that nothing was enqueued. What a call takes is read from its
 * operation's list of operands. */
#include "families/registry.h"
#include "problem/tensors.h"
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/multihead_case.h"
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(calls, .init = unoptimised, .timeout = 300);

enum { MOST_PLACES = 64, STRUCT_ROOM = 128, BLOCK = 32 };

/* A tensor of a call. */
struct place {
    const char *name;
    size_t at, host; /* in the struct of tensors, and in that of host pointers */
    int present;     /* in the problem */
    int written, optional;
    size_t bytes, element_bytes, step; /* step: offsets are multiples of it */
};

/* A sound call, and a copy of its tensors that each test spoils in one place. */
struct call {
    struct fixture f;
    const struct operation *of;
    clattn_problem problem;
    void *plan;
    struct place place[MOST_PLACES];
    size_t count, workspace_bytes;
    long commands; /* enqueued before the call under test */
    clattn_buffer sound[STRUCT_ROOM], spoilt[STRUCT_ROOM];
};

struct operation {
    const char *name,
        *others; /* others: what is said of plans of other operations; NULL: not asked */
    const char *everything,
        *plain;         /* problems: with all tensors that go with each other, and with few */
    const char *family; /* one with a workspace, if there is one */
    void (*open)(struct call *c, const char *problem);
    clattn_status (*execute)(const void *plan, cl_command_queue queue, const void *tensors,
                             cl_uint num_wait, const cl_event *wait, cl_event *done);
    clattn_status (*execute_host)(clattn_context *context, const clattn_problem *problem,
                                  const clattn_plan_options *options, const void *tensors);
    size_t bytes, host_bytes; /* of the library's structs of tensors; 0: there is none */
    size_t workspace;         /* in the first; 0: there is none */
    const struct member *members;
};

/* ---- the calls ------------------------------------------------------------------------------- */

#define CALL(name, call)                                                                           \
    static clattn_status name(const void *plan, cl_command_queue queue, const void *tensors,       \
                              cl_uint num_wait, const cl_event *wait, cl_event *done)              \
    {                                                                                              \
        return call(plan, queue, tensors, num_wait, wait, done);                                   \
    }
#define CALL_WITH_HOST(name, call)                                                                 \
    CALL(name, call)                                                                               \
    static clattn_status name##_host(clattn_context *context, const clattn_problem *problem,       \
                                     const clattn_plan_options *options, const void *tensors)      \
    {                                                                                              \
        return call##_host(context, problem, options, tensors);                                    \
    }
CALL_WITH_HOST(forward, clattn_attention_forward)
CALL_WITH_HOST(backward, clattn_attention_backward)
#define OPERATION(ID, name, word, noun, call, execute, ...) CALL_WITH_HOST(name, execute)
CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
#define LAYER_FORWARD(...) layer_execute(CLATTN_FORWARD, __VA_ARGS__)
#define LAYER_BACKWARD(...) layer_execute(CLATTN_BACKWARD, __VA_ARGS__)
CALL(execute_layer, LAYER_FORWARD)
CALL(execute_layer_backward, LAYER_BACKWARD)

/* Those without a struct and a plan: of a context, which stands in the plan's place. */
static clattn_status quantize(const void *context, cl_command_queue queue, const void *tensors,
                              cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    const clattn_quantization q = {
        .struct_size = sizeof q, .to = CLATTN_CACHE_Q8_0, .size = {1, 1, 1, BLOCK}};
    const clattn_buffer *values = tensors;

    return clattn_quantize((clattn_context *)(uintptr_t)context, &q, queue, values, values + 1,
                           num_wait, wait, done);
}

static clattn_status drop(const void *context, cl_command_queue queue, const void *mask,
                          cl_uint num_wait, const cl_event *wait, cl_event *done)
{
    const clattn_problem p = fixture_problem("fwd f32 h2 q3 k5 d8 dropout=0.5");

    return clattn_dropout_mask((clattn_context *)(uintptr_t)context, &p, 1, 2, queue, mask,
                               num_wait, wait, done);
}

/* ---- their tensors ----------------------------------------------------------------------------- */

/* The byte of an operand in both structs; 0: it is in neither. */
struct member {
    size_t device, host;
};
#define MEMBER(number, member, type)                                                               \
    [number] = {offsetof(clattn_##type, member), offsetof(clattn_host_##type, member)},
#define OF_FORWARD(ID, member, GIVEN, ...)                                                         \
    CA_OF_FORWARD(GIVEN, MEMBER(CA_##ID, member, forward_tensors))
#define OF_BACKWARD(ID, member, GIVEN, ...)                                                        \
    CA_OF_BACKWARD(GIVEN, MEMBER(CA_##ID, member, backward_tensors))
static const struct member of_forward[CA_WORKSPACE] = {CA_OPERANDS(OF_FORWARD)};
static const struct member of_backward[CA_WORKSPACE] = {CA_OPERANDS(OF_BACKWARD)};
#define OPERAND(name, ID, member, ...)                                                             \
    {offsetof(clattn_##name##_tensors, member), offsetof(clattn_host_##name##_tensors, member)},
#define OPERATION(ID, name, ...)                                                                   \
    static const struct member of_##name[CA_WORKSPACE] = {CA_##ID##_OPERANDS(OPERAND, name)};
CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
#undef OPERAND

static void open_problem(struct call *c, const char *text)
{
    clattn_plan_info info = {.struct_size = sizeof info};
    struct ca_tensor tensors[CA_WORKSPACE];

    c->problem = fixture_problem(text);
    c->plan = fixture_plan(&c->f, text, c->of->family);
    cr_assert(clattn_plan_describe(c->plan, &info) == CLATTN_SUCCESS);
    c->workspace_bytes = info.workspace_bytes;
    ca_problem_tensors(&c->problem, tensors);
    for (unsigned n = 0; n < CA_WORKSPACE; n++) {
        const struct ca_tensor *t = &tensors[n];
        const clattn_cache cache = ca_problem_cache(&c->problem, n);
        size_t extent = 1;
        if (!t->name || !c->of->members[n].device)
            continue;
        for (int axis = 0; axis < 4; axis++)
            extent += t->sizes[axis] ? (t->sizes[axis] - 1) * t->layout.stride[axis] : 0;
        c->place[c->count++] =
            (struct place){t->name,
                           c->of->members[n].device,
                           c->of->members[n].host,
                           t->present,
                           t->written,
                           .bytes = ca_elements_bytes(extent, t->element_bytes, cache),
                           .element_bytes = t->element_bytes,
                           .step = cache == CLATTN_CACHE_PLAIN ? 1 : BLOCK};
    }
}

static void open_layer(struct call *c, const char *text)
{
    const int is_backward = c->of->execute == execute_layer_backward;
    const clattn_multihead layer = layer_parsed(text), gradients = layer_backward(&layer);
    clattn_multihead_info info = {.struct_size = sizeof info};
    struct layer_case sizes;

    c->plan = layer_plan(&c->f, is_backward ? &gradients : &layer);
    cr_assert(clattn_multihead_plan_describe(c->plan, &info) == CLATTN_SUCCESS);
    c->workspace_bytes = info.workspace_bytes;
    layer_case_open(&c->f, &sizes, &layer, 1);
    for (int id = 0; id < NUM_LAYER_TENSORS; id++) {
        const struct layer_buffer *t = &sizes.tensor[id];
        if (layer_argument_of((clattn_operation)is_backward, (enum layer_tensor)id))
            c->place[c->count++] = (struct place){.name = layer_tensor_name((enum layer_tensor)id),
                                                  .at = offsetof(struct layer_arguments, at) +
                                                        (size_t)id * sizeof(clattn_buffer),
                                                  .present = t->elements > 0,
                                                  .written = id >= LAYER_Y,
                                                  .optional = id >= LAYER_DX && id <= LAYER_DB_O,
                                                  .bytes = t->elements * t->element_bytes,
                                                  .element_bytes = t->element_bytes,
                                                  .step = 1};
    }
    layer_case_close(&sizes);
    c->place[c->count++] = (struct place){.name = "reserve",
                                          .at = offsetof(struct layer_arguments, reserve),
                                          .present = info.reserve_bytes > 0,
                                          .written = is_backward ? 0 : CA_UPDATED,
                                          .bytes = info.reserve_bytes,
                                          .element_bytes = 4,
                                          .step = 1};
}

static void open_quantized(struct call *c, const char *text)
{
    (void)text;
    c->plan = c->f.context;
    c->count = 2;
    c->place[0] = (struct place){"values", 0, 0, 1, 0, 0, 4 * BLOCK, 4, 1};
    c->place[1] =
        (struct place){"cache", sizeof(clattn_buffer), 0, 1, 1, 0, BLOCK + 2, BLOCK + 2, BLOCK};
}

static void open_mask(struct call *c, const char *text)
{
    (void)text;
    c->plan = c->f.context;
    c->count = 1;
    c->place[0] = (struct place){"mask", 0, 0, 1, 1, 0, 30, 1, 1};
}

#define STRUCTS(name, type, of)                                                                    \
    .open = open_problem, .execute = name, .execute_host = name##_host,                            \
    .bytes = sizeof(clattn_##type), .host_bytes = sizeof(clattn_host_##type),                      \
    .workspace = offsetof(clattn_##type, workspace), .members = of
#define LAYER                                                                                      \
    "layer fwd f32 b2 h4/2 q3 k5 d5/12 softcap=3 window=4,9 bias=f32:qk mask=bk alibi sinks klen "
#define OF_LAYER "dropout=0.2 model=6 separate=4,7 output=3 biases obias training"

static const struct operation operations[] = {
    {"forward", "not attention",
     "fwd f32 b2 h4/2 q3 k5 d8/4 bias=f16:qk mask=bk alibi sinks qlen klen blocks=2x2:4 lse "
     "scores=weights",
     "fwd f32 q3 k5 d8", "unfused", STRUCTS(forward, forward_tensors, of_forward)},
    {"backward", "not gradients",
     "bwd f32 h2 q4 k7 d8/4 bias=f16:hqk mask=qk alibi sinks qlen klen blocks=3x3:4 dbias dslopes "
     "dsinks dlse",
     "bwd f32 h4/2 q4 k7 d8 causal=br", "backward_cpu UNIT=vector",
     STRUCTS(backward, backward_tensors, of_backward)},
    {"projection", "not a projection", "proj f32 b2 h3/2 q5 d4/6 bias=f32",
     "proj f32 q5 d4/6 accumulate", NULL, STRUCTS(projection, projection_tensors, of_projection)},
    {"merge", "not a merge", "merge f32 h2 q3 d4 n2 sinks accumulate", "merge f32 q2 d4 n2", NULL,
     STRUCTS(merge, merge_tensors, of_merge)},
    {"append", "not an append",
     "append f32 b2 h4/2 q2 k8 d32 kcache=q8_0 klen pos slots rope=halves:16:tables:9 queries",
     "append f32 q1 k4 d4", NULL, STRUCTS(append, append_tensors, of_append)},
    {"double backward", "not double backward", "bwd2 f32 h4/2 b2 q4 k7 d8/4 qlen klen",
     "bwd2 f32 q4 k7 d8 ggk=none", NULL,
     STRUCTS(double_backward, double_backward_tensors, of_double_backward)},
    {"indexer", "not an indexer", "indexer f32 b2 h3 q4 k7 d8 topk=3 qlen klen page=4 scores",
     "indexer f32 q4 k7 d8 topk=2", NULL, STRUCTS(indexer, indexer_tensors, of_indexer)},
    {"layer", NULL, LAYER OF_LAYER " weights=heads", "layer fwd f32 b2 h2 q3 d8 model=5 packed",
     NULL, open_layer, execute_layer, .workspace = offsetof(struct layer_arguments, workspace)},
    {"layer's gradients", NULL, LAYER OF_LAYER, "layer fwd f32 b2 h2 q3 d8 model=5 packed training",
     NULL, open_layer, execute_layer_backward,
     .workspace = offsetof(struct layer_arguments, workspace)},
    {"quantize", .open = open_quantized, .execute = quantize},
    {"dropout mask", .open = open_mask, .execute = drop},
};
enum { NUM_OPERATIONS = sizeof operations / sizeof *operations };

static clattn_buffer *buffer_at(void *tensors, const size_t at)
{
    return (clattn_buffer *)(void *)((char *)tensors + at);
}

static void open(struct call *c, const struct operation *of, const char *problem)
{
    memset(c, 0, sizeof *c);
    fixture_open(&c->f);
    c->of = of;
    of->open(c, problem);
    memcpy(c->sound, &of->bytes, sizeof of->bytes); /* struct_size, or the 0 that is there */
    for (size_t n = 0; n < c->count; n++)
        if (c->place[n].present)
            buffer_at(c->sound, c->place[n].at)->buffer =
                fixture_buffer(&c->f, c->place[n].bytes, NULL);
    c->commands = faults_commands();
}

static void close(struct call *c)
{
    for (size_t n = 0; n < c->count; n++)
        if (c->place[n].present)
            clReleaseMemObject(buffer_at(c->sound, c->place[n].at)->buffer);
    if (c->of->open == open_problem)
        clattn_plan_release(c->plan);
    if (c->of->open == open_layer)
        clattn_multihead_plan_release(c->plan);
    fixture_close(&c->f);
}

/* Makes the copy sound again, and gives the buffer of it that is to be spoilt. */
static clattn_buffer *spoil(struct call *c, const struct place *place)
{
    memcpy(c->spoilt, c->sound, sizeof c->sound);
    return buffer_at(c->spoilt, place->at);
}

/* The event must come back as NULL, the sentence must hold the words, nothing may be enqueued. */
static void refused_with(struct call *c, const void *plan, cl_command_queue queue,
                         const void *tensors, const clattn_status want, const char *words)
{
    cl_event done = (cl_event)(void *)c;
    const clattn_status status = c->of->execute(plan, queue, tensors, 0, NULL, &done);

    cr_expect(status == want, "%s: %s instead of %s (%s)", c->of->name,
              clattn_status_string(status), clattn_status_string(want), words);
    cr_expect(!plan || fixture_said(&c->f, words), "%s: %s", c->of->name, words);
    cr_expect(done == NULL, "%s: done is left behind (%s)", c->of->name, words);
    cr_expect(faults_commands() == c->commands, "%s: something was enqueued (%s)", c->of->name,
              words);
}

static void refused(struct call *c, const clattn_status want, const char *words)
{
    refused_with(c, c->plan, c->f.queue, c->spoilt, want, words);
}

static void works(struct call *c)
{
    cl_event done = NULL;

    cr_assert(c->of->execute(c->plan, c->f.queue, c->spoilt, 0, NULL, &done) == CLATTN_SUCCESS,
              "%s: %s", c->of->name, c->f.log.last);
    cr_assert(done != NULL && clWaitForEvents(1, &done) == CL_SUCCESS);
    clReleaseEvent(done);
    c->commands = faults_commands();
}

#define FOR_EACH_CALL(name)                                                                        \
    static void name##_of(const struct operation *of);                                             \
    Test(calls, name) {                                                                            \
        for (size_t n = 0; n < NUM_OPERATIONS; n++)                                                \
            if (run_takes(n + __COUNTER__, 2))                                                     \
                name##_of(&operations[n]);                                                         \
    }                                                                                              \
    static void name##_of(const struct operation *of)

/* ---- mistakes ---------------------------------------------------------------------------------- */

/* Nothing of what the tests spoil is wrong to begin with. */
FOR_EACH_CALL(the_unspoilt_call_works)
{
    struct call c;

    open(&c, of, of->everything);
    spoil(&c, c.place);
    works(&c);
    close(&c);
}

FOR_EACH_CALL(nulls_and_sizes)
{
    const size_t short_size = of->bytes - 1;
    struct call c;

    open(&c, of, of->plain);
    refused_with(&c, c.plan, NULL, c.sound, CLATTN_INVALID_ARGUMENT, "queue");
    if (of->open != open_layer)
        refused_with(&c, NULL, c.f.queue, c.sound, CLATTN_INVALID_ARGUMENT, "");
    if (of->bytes) {
        refused_with(&c, c.plan, c.f.queue, NULL, CLATTN_INVALID_ARGUMENT, "tensors");
        spoil(&c, c.place);
        memcpy(c.spoilt, &short_size, sizeof short_size);
        refused(&c, CLATTN_INVALID_ARGUMENT, "struct_size");
    }
    close(&c);
}

/* Each tensor left out where the problem has it, and given where it has not. */
FOR_EACH_CALL(missing_and_superfluous_tensors)
{
    struct call c;

    for (int plain = 0; plain < 2; plain++) {
        open(&c, of, plain ? of->plain : of->everything);
        cl_mem extra = fixture_buffer(&c.f, 4096, NULL);
        for (size_t n = 0; n < c.count; n++) {
            if (c.place[n].present == plain || (!plain && c.place[n].optional))
                continue;
            spoil(&c, &c.place[n])->buffer = plain ? extra : NULL;
            refused(&c, CLATTN_INVALID_ARGUMENT, c.place[n].name);
        }
        clReleaseMemObject(extra);
        close(&c);
    }
}

FOR_EACH_CALL(short_buffers)
{
    struct call c;

    open(&c, of, of->everything);
    for (size_t n = 0; n < c.count; n++) {
        const struct place *p = &c.place[n];
        if (!p->present)
            continue;
        spoil(&c, p)->offset = p->step;
        refused(&c, CLATTN_BUFFER_TOO_SMALL, p->name);
        spoil(&c, p)->offset = SIZE_MAX / p->step * p->step;
        refused(&c, CLATTN_BUFFER_TOO_SMALL, "reaches");
        spoil(&c, p)->offset =
            SIZE_MAX / p->element_bytes / p->step * p->step; /* its bytes overflow */
        refused(&c, CLATTN_BUFFER_TOO_SMALL, "reaches");
        if (p->bytes == 1)
            continue;
        cl_mem short_one = spoil(&c, p)->buffer = fixture_buffer(&c.f, p->bytes - 1, NULL);
        refused(&c, CLATTN_BUFFER_TOO_SMALL, "reaches");
        clReleaseMemObject(short_one);
    }
    close(&c);
}

FOR_EACH_CALL(workspace)
{
    struct call c;

    if (!of->workspace || (of->open == open_problem && !of->family))
        return;
    open(&c, of, of->plain);
    const size_t bytes = c.workspace_bytes;
    cr_assert(bytes >= 4, "%s: this test needs a workspace", of->name);
    const struct place workspace = {.at = of->workspace};
    cl_mem short_one = fixture_buffer(&c.f, bytes - 1, NULL),
           whole = fixture_buffer(&c.f, bytes, NULL);
    spoil(&c, &workspace)->buffer = short_one;
    refused(&c, CLATTN_BUFFER_TOO_SMALL, "workspace");
    *spoil(&c, &workspace) = (clattn_buffer){.buffer = whole, .offset = 1};
    refused(&c, CLATTN_BUFFER_TOO_SMALL, "workspace");
    cl_mem shared = fixture_buffer(&c.f, bytes + c.place[0].bytes, NULL);
    spoil(&c, &workspace)->buffer = shared;
    buffer_at(c.spoilt, c.place[0].at)->buffer = shared;
    refused(&c, CLATTN_INVALID_ARGUMENT, "workspace, which is written, overlaps");
    spoil(&c, &workspace)->buffer = whole;
    works(&c);
    clReleaseMemObject(shared);
    clReleaseMemObject(whole);
    clReleaseMemObject(short_one);
    close(&c);
}

/* A tensor that is written may overlap no other. */
FOR_EACH_CALL(overlaps)
{
    struct call c;

    open(&c, of, of->everything);
    cl_mem big = fixture_buffer(&c.f, 1 << 16, NULL);
    for (size_t w = 0; w < c.count; w++)
        for (size_t n = 0; n < c.count; n++) {
            if (n == w || !c.place[w].written || !c.place[w].present || !c.place[n].present)
                continue;
            spoil(&c, &c.place[w])->buffer = big;
            buffer_at(c.spoilt, c.place[n].at)->buffer = big;
            refused(&c, CLATTN_INVALID_ARGUMENT, "which is written, overlaps");
        }
    clReleaseMemObject(big);
    close(&c);
}

/* A buffer that kernels may only write is refused where they read, and the other way around. */
FOR_EACH_CALL(access_flags)
{
    struct call c;
    cl_int err;

    for (int plain = 0; plain < 2; plain++) {
        open(&c, of, plain ? of->plain : of->everything);
        for (size_t n = 0; n < c.count; n++)
            for (int write = 0; c.place[n].present && write < 2; write++) {
                if (write ? c.place[n].written == 1 : !c.place[n].written)
                    continue;
                cl_mem buffer = spoil(&c, &c.place[n])->buffer =
                    clCreateBuffer(c.f.opencl, write ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY,
                                   c.place[n].bytes, NULL, &err);
                cr_assert(err == CL_SUCCESS);
                refused(&c, CLATTN_INVALID_ARGUMENT, write ? "WRITE_ONLY" : "READ_ONLY");
                clReleaseMemObject(buffer);
            }
        close(&c);
    }
}

/* A queue, a buffer and an event of another OpenCL context. */
FOR_EACH_CALL(foreign_objects)
{
    struct call c;
    cl_int err;

    open(&c, of, of->plain);
    cl_context other = clCreateContext(NULL, 1, &c.f.device, NULL, NULL, &err);
    cr_assert(err == CL_SUCCESS);
    cl_command_queue queue = clCreateCommandQueue(other, c.f.device, 0, &err);
    refused_with(&c, c.plan, queue, c.sound, CLATTN_INVALID_ARGUMENT, "another OpenCL context");
    clReleaseCommandQueue(queue);
    const struct place *given = c.place;
    while (!given->present)
        given++;
    cl_mem foreign = spoil(&c, given)->buffer =
        clCreateBuffer(other, CL_MEM_READ_WRITE, 4096, NULL, &err);
    refused(&c, CLATTN_INVALID_ARGUMENT, "another OpenCL context");
    clReleaseMemObject(foreign);
    cl_event event = clCreateUserEvent(other, &err);
    fixture_refused(&c.f, of->execute(c.plan, c.f.queue, c.sound, 1, &event, NULL),
                    CLATTN_INVALID_ARGUMENT, "another OpenCL context");
    cr_expect(faults_commands() == c.commands);
    /* Some drivers keep a context until its events have come. */
    clSetUserEventStatus(event, CL_COMPLETE);
    clReleaseEvent(event);
    clReleaseContext(other);
    close(&c);
}

FOR_EACH_CALL(wait_lists)
{
    struct call c;
    cl_event done = NULL, events[2] = {NULL, NULL};
    cl_int err;

    open(&c, of, of->plain);
    events[0] = clCreateUserEvent(c.f.opencl, &err);
    const struct {
        cl_uint count;
        const cl_event *events;
        const char *words;
    } lists[] = {{1, NULL, "num_wait"},
                 {0, events, "wait"},
                 {2, events, "wait[1]"},
                 {1, events, "failed with -5"}};
    for (size_t n = 0; n < sizeof lists / sizeof *lists; n++) {
        if (n == 3)
            clSetUserEventStatus(events[0], -5);
        fixture_refused(
            &c.f, of->execute(c.plan, c.f.queue, c.sound, lists[n].count, lists[n].events, &done),
            CLATTN_INVALID_ARGUMENT, lists[n].words);
        cr_expect(done == NULL && faults_commands() == c.commands);
    }
    clReleaseEvent(events[0]);
    close(&c);
}

/* Each call takes plans of its operation only. */
FOR_EACH_CALL(plans_of_other_operations)
{
    struct call c;

    if (!of->others)
        return;
    open(&c, of, of->plain);
    for (const struct operation *other = operations; other->others; other++) {
        if (other == of)
            continue;
        clattn_plan *plan = fixture_plan(&c.f, other->plain, NULL);
        refused_with(&c, plan, c.f.queue, c.sound, CLATTN_INVALID_ARGUMENT, of->others);
        clattn_plan_release(plan);
    }
    close(&c);
}

/* ---- buffers that tensors share ------------------------------------------------------------------ */

/* Puts a tensor elsewhere, in what was spoilt before. */
static void put(struct call *c, const char *name, cl_mem buffer, const size_t offset)
{
    size_t n = 0;

    while (strcmp(c->place[n].name, name) != 0)
        n++;
    *buffer_at(c->spoilt, c->place[n].at) = (clattn_buffer){.buffer = buffer, .offset = offset};
}

/* Tensors that are read may overlap, and one that is written may lie right behind them. */
Test(calls, neighbours_in_one_buffer) {
    struct call c;

    open(&c, &operations[CLATTN_FORWARD], "fwd f32 q4 k4 d8 lse"); /* 32 floats each */
    cl_mem big = fixture_buffer(&c.f, 4096, NULL);
    spoil(&c, c.place);
    put(&c, "q", big, 0);
    put(&c, "k", big, 16);
    put(&c, "v", big, 0);
    put(&c, "o", big, 48);
    works(&c);
    put(&c, "o", big, 47);
    refused(&c, CLATTN_INVALID_ARGUMENT, "overlaps k");
    put(&c, "o", big, 48);
    put(&c, "lse", big, 79); /* the last element of o */
    refused(&c, CLATTN_INVALID_ARGUMENT, "overlaps");
    put(&c, "lse", big, 80);
    works(&c);
    clReleaseMemObject(big);
    close(&c);
}

Test(calls, overlaps_of_sub_buffers) {
    struct call c;
    cl_int err;

    open(&c, &operations[CLATTN_FORWARD], "fwd f32 q4 k4 d8");
    cl_uint align = 0; /* in bits */
    clGetDeviceInfo(c.f.device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof align, &align, NULL);
    const size_t step = align / 8 > 128 ? align / 8 : 128;
    cl_mem big = fixture_buffer(&c.f, 4 * step, NULL);
    const cl_buffer_region low = {0, 2 * step}, high = {step, 2 * step};
    cl_mem a = clCreateSubBuffer(big, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &low, &err);
    cr_assert(err == CL_SUCCESS);
    cl_mem b = clCreateSubBuffer(big, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &high, &err);
    cr_assert(err == CL_SUCCESS);
    spoil(&c, c.place);
    put(&c, "q", a, step / 4);
    put(&c, "o", b, 0);
    refused(&c, CLATTN_INVALID_ARGUMENT, "overlaps");
    put(&c, "q", big, step / 4 + 31);
    refused(&c, CLATTN_INVALID_ARGUMENT, "overlaps");
    put(&c, "q", a, 0);
    put(&c, "o", b, step / 4);
    works(&c);
    clReleaseMemObject(b);
    clReleaseMemObject(a);
    clReleaseMemObject(big);
    close(&c);
}

/* Sizes of quantized tensors are those of their blocks, and offsets lead to a block. */
Test(calls, quantized_tensors) {
    static const struct {
        const char *problem;
        size_t v_bytes, element_bytes;
    } cases[] = {{"fwd f16 h2 q3 k5 d64/32 kcache=q8_0 vcache=q4_0", 2 * 5 * 18, 2},
                 {"fwd f32 h2 q3 k5 d64/32 kcache=q4_0 vcache=q8_0", 2 * 5 * 34, 4}};

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct call c;
        open(&c, &operations[CLATTN_FORWARD], cases[n].problem);
        cl_mem big = fixture_buffer(&c.f, 2048, NULL),
               short_one = fixture_buffer(&c.f, cases[n].v_bytes - 1, NULL);
        spoil(&c, &c.place[CA_K])->offset = 16;
        refused(&c, CLATTN_INVALID_ARGUMENT, "k is quantized: its offset, 16,");
        spoil(&c, &c.place[CA_K])->offset = 32;
        refused(&c, CLATTN_BUFFER_TOO_SMALL, "k reaches over 640 elements from 32 on");
        spoil(&c, &c.place[CA_V])->buffer = short_one;
        refused(&c, CLATTN_BUFFER_TOO_SMALL, "v reaches over 320 elements");
        spoil(&c, &c.place[CA_V])->buffer =
            big; /* o starts right behind its last block, or before */
        put(&c, "o", big, cases[n].v_bytes / cases[n].element_bytes);
        works(&c);
        put(&c, "o", big, cases[n].v_bytes / cases[n].element_bytes - 1);
        refused(&c, CLATTN_INVALID_ARGUMENT, "o, which is written, overlaps v");
        clReleaseMemObject(short_one);
        clReleaseMemObject(big);
        close(&c);
    }
}

/* An empty tensor needs no buffer, and the event stands for the wait list. */
Test(calls, empty_projections) {
    struct call c;

    open(&c, &operations[CLATTN_PROJECTION], "proj f32 b0 q5 d4");
    spoil(&c, c.place);
    put(&c, "x", NULL, 0);
    put(&c, "y", NULL, 0);
    works(&c);
    put(&c, "w", NULL, 0);
    refused(&c, CLATTN_INVALID_ARGUMENT, "w must not be null");
    close(&c);
}

/* ---- calls with host pointers -------------------------------------------------------------------- */

static void set_pointer(struct call *c, const struct place *place, const void *pointer)
{
    memcpy((char *)c->spoilt + place->host, &pointer, sizeof pointer);
}

/* All tensors at their places in the memory. */
static void spoil_pointers(struct call *c, unsigned char *const memory[MOST_PLACES])
{
    memset(c->spoilt, 0, sizeof c->spoilt);
    memcpy(c->spoilt, &c->of->host_bytes, sizeof c->of->host_bytes);
    for (size_t n = 0; n < c->count; n++)
        if (c->place[n].present)
            set_pointer(c, &c->place[n], memory[n]);
}

static void host_refused(struct call *c, const clattn_problem *problem, const void *tensors,
                         const char *words)
{
    cr_expect(c->of->execute_host(c->f.context, problem, NULL, tensors) == CLATTN_INVALID_ARGUMENT,
              "%s: %s", c->of->name, words);
    cr_expect(fixture_said(&c->f, words), "%s: %s", c->of->name, words);
}

/* Each left out or superfluous, and the last element of each the first of what is written, or the other way around. */
static void spoil_each_pointer(struct call *c, unsigned char *const memory[MOST_PLACES])
{
    for (size_t n = 0; n < c->count; n++) {
        const struct place *p = &c->place[n];
        char words[64];
        spoil_pointers(c, memory);
        set_pointer(c, p, p->present ? NULL : c);
        snprintf(words, sizeof words, "%s %s", p->name,
                 p->present ? "must not be null" : "is given");
        host_refused(c, &c->problem, c->spoilt, words);
        for (size_t other = 0; p->present && other < c->count; other++) {
            spoil_pointers(c, memory);
            if (other == n || !c->place[other].present || !(c->place[other].written || p->written))
                continue;
            set_pointer(c, &c->place[other], memory[n] + p->bytes - p->element_bytes);
            host_refused(c, &c->problem, c->spoilt, "which is written, overlaps");
        }
    }
}

FOR_EACH_CALL(host_pointers)
{
    const struct operation *other = &operations[of == operations];
    const clattn_problem of_other = fixture_problem(other->plain);
    const size_t short_size = 4;
    struct call c;

    for (int plain = 0; of->execute_host && plain < 2; plain++) {
        unsigned char *memory[MOST_PLACES];
        open(&c, of, plain ? of->plain : of->everything);
        for (size_t n = 0; n < c.count; n++)
            memory[n] = calloc(1, c.place[n].bytes);
        spoil_each_pointer(&c, memory);
        spoil_pointers(&c, memory);
        cr_expect(of->execute_host(NULL, &c.problem, NULL, c.spoilt) == CLATTN_INVALID_ARGUMENT);
        host_refused(&c, NULL, c.spoilt, "problem");
        host_refused(&c, &c.problem, NULL, "tensors");
        host_refused(&c, &of_other, c.spoilt, "not the operation that is called");
        cr_expect(of->execute_host(c.f.context, &c.problem, NULL, c.spoilt) == CLATTN_SUCCESS,
                  "%s: %s", of->name, c.f.log.last);
        memcpy(c.spoilt, &short_size, sizeof short_size);
        host_refused(&c, &c.problem, c.spoilt, "struct_size");
        for (size_t n = 0; n < c.count; n++)
            free(memory[n]);
        close(&c);
    }
}

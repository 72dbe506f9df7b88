/* SPDX-License-Identifier: Apache-2.0 */
/* Programs whose headers are older or newer than the library: their structs are shorter, or longer. */
#include "base/structs.h"
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(struct_sizes, .init = unoptimised, .timeout = 120);

enum { LATER = 16, GARBAGE = 0xee };

/* A call with a struct of the caller's. */
typedef clattn_status call_function(struct fixture *f, void *given);

struct kind {
    const char *name;
    size_t bytes, least;
};
#define KIND(type) (&(struct kind){#type, sizeof(type), CA_LEAST_##type})

static void set_size(void *given, size_t size)
{
    memcpy(given, &size, sizeof size);
}

/* The size of the earliest version's struct: sizes are multiples of a size_t's. */
static size_t first_size(const struct kind *kind)
{
    return (kind->least + sizeof(size_t) - 1) / sizeof(size_t) * sizeof(size_t);
}

/* Memory of a struct that has `size` bytes, with no zeros behind. */
static unsigned char *copy_of(const void *given, const struct kind *kind, size_t size)
{
    unsigned char *memory = malloc(kind->bytes + 2 * LATER);

    cr_assert(memory);
    memset(memory, GARBAGE, kind->bytes + 2 * LATER);
    memcpy(memory, given, size < kind->bytes ? size : kind->bytes);
    set_size(memory, size);
    return memory;
}

static call_function tune;

/* A struct that is read. The call gives the same result with the first version's struct, behind
 * which nothing is read, and with a later version's that has zeros behind. With other bytes
 * there it is refused. */
static void expect_read(struct fixture *f, const struct kind *kind, const void *given,
                        call_function *call)
{
    unsigned char *same = copy_of(given, kind, kind->bytes);
    const clattn_status want = call(f, same);
    cr_expect(want == CLATTN_SUCCESS || call == tune, "%s: %s", kind->name,
              clattn_context_last_error(NULL));
    free(same);

    unsigned char *earlier = copy_of(given, kind, first_size(kind));
    cr_expect(call(f, earlier) == want, "%s of an earlier version: %s", kind->name,
              clattn_context_last_error(NULL));
    set_size(earlier, first_size(kind) - sizeof(size_t));
    cr_expect(call(f, earlier) == CLATTN_INVALID_ARGUMENT, "%s of no version", kind->name);
    cr_expect(strstr(clattn_context_last_error(NULL), "struct_size"));
    free(earlier);

    unsigned char *later = copy_of(given, kind, kind->bytes + LATER);
    memset(later + kind->bytes, 0, LATER);
    cr_expect(call(f, later) == want, "%s of a later version: %s", kind->name,
              clattn_context_last_error(NULL));
    later[kind->bytes + LATER - 1] = 1;
    cr_expect(call(f, later) == CLATTN_INVALID_ARGUMENT, "%s with what is not known", kind->name);
    cr_expect(strstr(clattn_context_last_error(NULL), "newer version"), "%s",
              clattn_context_last_error(NULL));
    free(later);
}

/* A struct that is filled in, as far as the caller's reaches. */
static void expect_filled(struct fixture *f, const struct kind *kind, call_function *call)
{
    unsigned char *full = copy_of("", kind, 0), *other;

    set_size(full, kind->bytes);
    cr_assert(call(f, full) == CLATTN_SUCCESS, "%s: %s", kind->name,
              clattn_context_last_error(NULL));
    other = copy_of("", kind, 0);
    set_size(other, first_size(kind));
    cr_expect(call(f, other) == CLATTN_SUCCESS, "%s of an earlier version", kind->name);
    cr_expect_arr_eq(other + sizeof(size_t), full + sizeof(size_t),
                     first_size(kind) - sizeof(size_t), "%s", kind->name);
    for (size_t n = first_size(kind); n < kind->bytes + 2 * LATER; n++)
        cr_assert_eq(other[n], GARBAGE, "%s: byte %zu is written, which is none of it", kind->name,
                     n);
    set_size(other, kind->bytes + LATER);
    cr_expect(call(f, other) == CLATTN_SUCCESS, "%s of a later version", kind->name);
    cr_expect_arr_eq(other + sizeof(size_t), full + sizeof(size_t), kind->bytes - sizeof(size_t));
    for (size_t n = kind->bytes; n < kind->bytes + 2 * LATER; n++)
        cr_assert_eq(other[n], n < kind->bytes + LATER ? 0 : GARBAGE, "%s: byte %zu", kind->name,
                     n);
    set_size(other, first_size(kind) - sizeof(size_t));
    cr_expect(call(f, other) == CLATTN_INVALID_ARGUMENT, "%s of no version", kind->name);
    free(other);
    free(full);
}

/* ---- what is filled in ------------------------------------------------------------------------ */

static clattn_status query(struct fixture *f, void *given)
{
    return clattn_device_query(f->device, given);
}

static clattn_status describe(struct fixture *f, void *given)
{
    static clattn_plan *plan; /* the texts are its own */

    if (!plan)
        plan = fixture_plan(f, "fwd f32 q2 k3 d4", NULL);
    const clattn_status status = clattn_plan_describe(plan, given);
    if (status != CLATTN_SUCCESS) { /* the last of the calls */
        clattn_plan_release(plan);
        plan = NULL;
    }
    return status;
}

static clattn_status describe_layer(struct fixture *f, void *given)
{
    static clattn_multihead_plan *plan;
    clattn_multihead layer;

    if (!plan) {
        cr_assert(clattn_multihead_parse("layer fwd f32 q2 d4 model=4", &layer, NULL, 0) ==
                  CLATTN_SUCCESS);
        cr_assert(clattn_multihead_plan_create(f->context, &layer, 0, &plan) == CLATTN_SUCCESS);
    }
    const clattn_status status = clattn_multihead_plan_describe(plan, given);
    if (status != CLATTN_SUCCESS) {
        clattn_multihead_plan_release(plan);
        plan = NULL;
    }
    return status;
}

static clattn_status ask_tensor(struct fixture *f, void *given)
{
    const clattn_problem problem = fixture_problem("fwd f32 q2 k3 d4");

    (void)f;
    return clattn_problem_tensor(&problem, 1, given);
}

DeviceTest(struct_sizes, what_the_library_fills_in)
{
    expect_filled(f, KIND(clattn_device_info), query);
    expect_filled(f, KIND(clattn_plan_info), describe);
    expect_filled(f, KIND(clattn_multihead_info), describe_layer);
    expect_filled(f, KIND(clattn_tensor), ask_tensor);
}

/* ---- what keeps its size ---------------------------------------------------------------------- */

Test(struct_sizes, descriptors_have_room) {
    clattn_problem problem = fixture_problem("fwd f32 q2 k3 d4");
    clattn_multihead made;
    char reason[256];

    cr_expect(clattn_problem_check(&problem, NULL, 0) == CLATTN_SUCCESS);
    problem.reserved[5] = 1; /* a later version's option */
    cr_expect(clattn_problem_check(&problem, reason, sizeof reason) == CLATTN_INVALID_ARGUMENT);
    cr_expect(strstr(reason, "reserved[5]") != NULL, "%s", reason);
    cr_assert(clattn_multihead_parse("layer fwd f32 q2 d4 model=4", &made, NULL, 0) ==
              CLATTN_SUCCESS);
    made.reserved[15] = 1;
    cr_expect(clattn_multihead_check(&made, reason, sizeof reason) == CLATTN_INVALID_ARGUMENT);
    cr_expect(strstr(reason, "reserved[15]") != NULL, "%s", reason);
    made.reserved[15] = 0;
    made.attention.reserved[0] = 1;
    cr_expect(clattn_multihead_check(&made, NULL, 0) == CLATTN_INVALID_ARGUMENT);
}

/* ---- options ---------------------------------------------------------------------------------- */

static clattn_status make_context(struct fixture *f, void *given)
{
    clattn_context *context;
    const clattn_status status = clattn_context_create(f->opencl, f->device, given, &context);

    clattn_context_release(context);
    return status;
}

static clattn_status make_narrowed(struct fixture *f, void *given)
{
    const clattn_context_options options = {.struct_size = sizeof options, .profile = given};

    return make_context(f, (void *)(uintptr_t)&options);
}

static clattn_status ask_plan(struct fixture *f, void *given)
{
    const clattn_problem problem = fixture_problem("fwd f32 q2 k3 d4");
    clattn_plan *plan;

    const clattn_status status = clattn_plan_create(f->context, &problem, given, &plan);
    clattn_plan_release(plan);
    return status;
}

static clattn_status tune(struct fixture *f, void *given)
{
    const clattn_problem problem = fixture_problem("fwd f32 q2 k3 d4");

    return clattn_tune(f->context, &problem, 1, given, NULL);
}

DeviceTest(struct_sizes, options)
{
    const clattn_context_options options = {.log = log_message, .log_user_data = &f->log};
    const clattn_plan_options naive = {.family = "naive"};
    const clattn_tuning_options negative = {.seconds = -1.0}; /* refused, whatever follows */
    clattn_device_info info = *clattn_context_device(f->context);

    expect_read(f, KIND(clattn_context_options), &options, make_context);
    expect_read(f, KIND(clattn_device_info), &info, make_narrowed);
    expect_read(f, KIND(clattn_plan_options), &naive, ask_plan);
    expect_read(f, KIND(clattn_tuning_options), &negative, tune);
}

/* ---- tensors ---------------------------------------------------------------------------------- */

static clattn_status quantize(struct fixture *f, void *given)
{
    const float values[32] = {0};
    unsigned char cache[34];

    (void)f;
    return clattn_quantize_host(given, values, cache);
}

/* Each execution's tensors are of one buffer, which is long enough; the status says whether that is all that
 * is wrong with them: outputs that overlap are refused after the struct was read. */
#define EXECUTE(name, text, call)                                                                  \
    static clattn_status name(struct fixture *f, void *given)                                      \
    {                                                                                              \
        clattn_plan *plan = fixture_plan(f, text, NULL);                                           \
        const clattn_status status = call(plan, f->queue, given, 0, NULL, NULL);                   \
        clFinish(f->queue);                                                                        \
        clattn_plan_release(plan);                                                                 \
        return status;                                                                             \
    }
EXECUTE(forward, "fwd f32 q2 k3 d4", clattn_attention_forward)
EXECUTE(backward, "bwd f32 q2 k3 d4", clattn_attention_backward)
#define OPERATION(ID, name, word, noun, call, execute, ...)                                        \
    EXECUTE(name, fixture_examples[CLATTN_##ID], execute)
CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION

#define EXECUTE_HOST(name, text, call)                                                             \
    static clattn_status name(struct fixture *f, void *given)                                      \
    {                                                                                              \
        const clattn_problem problem = fixture_problem(text);                                      \
        return call(f->context, &problem, NULL, given);                                            \
    }
EXECUTE_HOST(host_forward, "fwd f32 q2 k3 d4", clattn_attention_forward_host)
EXECUTE_HOST(host_backward, "bwd f32 q2 k3 d4", clattn_attention_backward_host)
#define OPERATION(ID, name, word, noun, call, execute, execute_host)                               \
    EXECUTE_HOST(host_##name, fixture_examples[CLATTN_##ID], execute_host)
CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION

/* Whether the example of an operation has an operand. */
static int has(clattn_operation operation, unsigned argument)
{
    const clattn_problem p = fixture_problem(fixture_examples[operation]);
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(&p, tensors);
    return tensors[argument].present;
}

DeviceTest(struct_sizes, tensors)
{
    enum { APART = 8192, PLACES = CA_WORKSPACE };
    cl_mem memory = fixture_buffer(f, APART * PLACES * sizeof(float), NULL);
#define AT(n)                                                                                      \
    {                                                                                              \
        .buffer = memory, .offset = (size_t)(n)*APART                                              \
    }
    const clattn_forward_tensors forwards = {.q = AT(0), .k = AT(1), .v = AT(2), .o = AT(3)};
    const clattn_backward_tensors backwards = {.q = AT(0),
                                               .k = AT(1),
                                               .v = AT(2),
                                               .o = AT(3),
                                               .lse = AT(4),
                                               .d_o = AT(5),
                                               .dq = AT(6),
                                               .dk = AT(7),
                                               .dv = AT(8)};

    expect_read(f, KIND(clattn_forward_tensors), &forwards, forward);
    expect_read(f, KIND(clattn_backward_tensors), &backwards, backward);
#define OPERAND(OF, ID, member, ...)                                                               \
    if (has(CLATTN_##OF, CA_##OF##_##ID))                                                          \
        given.member = (clattn_buffer)AT(CA_##OF##_##ID);
#define OPERATION(ID, name, ...)                                                                   \
    {                                                                                              \
        clattn_##name##_tensors given = {0};                                                       \
        CA_##ID##_OPERANDS(OPERAND, ID)                                                            \
            expect_read(f, KIND(clattn_##name##_tensors), &given, name);                           \
    }
    CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
#undef OPERAND
    clReleaseMemObject(memory);
}

DeviceTest(struct_sizes, host_tensors)
{
    static float m[CA_WORKSPACE][8192];
    const clattn_host_forward_tensors forwards = {.q = m[0], .k = m[1], .v = m[2], .o = m[3]};
    const clattn_host_backward_tensors backwards = {.q = m[0],
                                                    .k = m[1],
                                                    .v = m[2],
                                                    .o = m[3],
                                                    .lse = m[4],
                                                    .d_o = m[5],
                                                    .dq = m[6],
                                                    .dk = m[7],
                                                    .dv = m[8]};
    const clattn_quantization what = {.to = CLATTN_CACHE_Q8_0, .size = {1, 1, 1, 32}};

    expect_read(f, KIND(clattn_host_forward_tensors), &forwards, host_forward);
    expect_read(f, KIND(clattn_host_backward_tensors), &backwards, host_backward);
#define OPERAND(OF, ID, member, ...)                                                               \
    if (has(CLATTN_##OF, CA_##OF##_##ID))                                                          \
        given.member = (void *)m[CA_##OF##_##ID];
#define OPERATION(ID, name, ...)                                                                   \
    {                                                                                              \
        clattn_host_##name##_tensors given = {0};                                                  \
        CA_##ID##_OPERANDS(OPERAND, ID)                                                            \
            expect_read(f, KIND(clattn_host_##name##_tensors), &given, host_##name);               \
    }
    CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION
#undef OPERAND
    expect_read(f, KIND(clattn_quantization), &what, quantize);
}

/* ---- layers ----------------------------------------------------------------------------------- */

static clattn_status layer(struct fixture *f, void *given, const char *text, int backward)
{
    clattn_multihead_plan *plan;
    clattn_multihead made;

    cr_assert(clattn_multihead_parse(text, &made, NULL, 0) == CLATTN_SUCCESS);
    cr_assert(clattn_multihead_plan_create(f->context, &made, 0, &plan) == CLATTN_SUCCESS);
    const clattn_status status =
        backward ? clattn_multihead_backward(plan, f->queue, given, 0, NULL, NULL)
                 : clattn_multihead_forward(plan, f->queue, given, 0, NULL, NULL);
    clFinish(f->queue);
    clattn_multihead_plan_release(plan);
    return status;
}

static clattn_status layer_forward(struct fixture *f, void *given)
{
    return layer(f, given, "layer fwd f32 q2 d4 model=4", 0);
}

static clattn_status layer_backward(struct fixture *f, void *given)
{
    return layer(f, given, "layer bwd f32 q2 d4 model=4", 1);
}

DeviceTest(struct_sizes, layers)
{
    enum { APART = 256, PLACES = 8 };
    cl_mem memory = fixture_buffer(f, APART * PLACES * sizeof(float), NULL);
    const clattn_multihead_forward_tensors forwards = {
        .in.x = AT(0),
        .parameters = {.w_q = AT(1), .w_k = AT(2), .w_v = AT(3), .w_o = AT(4)},
        .y = AT(5)};
    const clattn_multihead_backward_tensors backwards = {
        .in.x = AT(0),
        .parameters = {.w_q = AT(1), .w_k = AT(2), .w_v = AT(3), .w_o = AT(4)},
        .reserve = AT(6),
        .dy = AT(5)};

    expect_read(f, KIND(clattn_multihead_forward_tensors), &forwards, layer_forward);
    expect_read(f, KIND(clattn_multihead_backward_tensors), &backwards, layer_backward);
    clReleaseMemObject(memory);
}

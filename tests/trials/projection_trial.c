/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/projection_trial.h"

#include "tests/support/rng.h"
#include "tests/support/storage.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256 }; /* elements kept free on either side */

static void *must(void *memory)
{
    cr_assert(memory != NULL, "out of memory");
    return memory;
}

/* ---- tensors ------------------------------------------------------------------------------- */

static struct projected shape_of(const clattn_projection_problem *p, enum projection_tensor id)
{
    const struct projection_strides s = reference_projection_strides(p);
    const struct projected all[NUM_PROJECTED] = {
        [PROJECTION_X] = {.name = "x",
                          .dtype = p->dtype,
                          .size = {p->batch, p->x_heads, p->rows, p->x_dim},
                          .stride = {s.x[0], s.x[1], s.x[2], s.x[3]},
                          .extent = 1},
        [PROJECTION_W] = {.name = "w",
                          .dtype = p->dtype,
                          .size = {p->x_heads, p->x_dim, p->y_heads, p->y_dim},
                          .stride = {s.w[0], s.w[1], s.w[2], s.w[3]},
                          .extent = 1},
        [PROJECTION_BIAS] = {.name = "bias",
                             .dtype = p->bias_dtype,
                             .size = {1, p->y_heads, 1, p->y_dim},
                             .stride = {0, p->y_dim, 0, 1},
                             .extent = p->bias != 0},
        [PROJECTION_Y] = {.name = "y",
                          .dtype = p->dtype,
                          .size = {p->batch, p->y_heads, p->rows, p->y_dim},
                          .stride = {s.y[0], s.y[1], s.y[2], s.y[3]},
                          .extent = 1},
    };
    struct projected t = all[id];

    for (int n = 0; n < 4 && t.extent; n++)
        t.extent = t.size[n] == 0 ? 0 : t.extent + (t.size[n] - 1) * t.stride[n];
    return t;
}

static size_t index_of(const struct projected *t, size_t n)
{
    size_t index = 0;

    for (int axis = 3; axis >= 0; axis--) {
        index += n % t->size[axis] * t->stride[axis];
        n /= t->size[axis];
    }
    return index;
}

static size_t count_of(const struct projected *t)
{
    return t->extent ? t->size[0] * t->size[1] * t->size[2] * t->size[3] : 0;
}

static unsigned char *first_of(const struct projected *t, unsigned char *bytes)
{
    return bytes ? bytes + t->offset * value_bytes(t->dtype) : NULL;
}

/* Numbers in the elements; NaN stays before, behind and between. */
static void fill_elements(struct projected *t, struct rng *r)
{
    for (size_t n = 0; n < count_of(t); n++)
        value_set(t->dtype, first_of(t, t->bytes), index_of(t, n), rng_uniform(r, -1, 1));
}

static void poison(struct projected *t, struct rng *r, double value)
{
    if (t->bytes)
        value_set(t->dtype, first_of(t, t->bytes), index_of(t, rng_below(r, count_of(t))), value);
}

void projection_fill(struct projection_trial *t)
{
    struct rng r = rng_seed(t->seed);

    for (int id = 0; id < NUM_PROJECTED; id++) {
        struct projected *x = &t->tensor[id];
        *x = shape_of(&t->problem.projection, (enum projection_tensor)id);
        x->offset = GUARD + rng_below(&r, 33);
        if (t->aligned)
            x->offset = (x->offset + 7) / 8 * 8;
        if (x->extent == 0)
            continue;
        x->num_bytes = (x->offset + x->extent + GUARD) * value_bytes(x->dtype);
        x->bytes = must(malloc(x->num_bytes));
        memset(x->bytes, 0xff, x->num_bytes);
        if (id != PROJECTION_Y || t->problem.projection.accumulate)
            fill_elements(x, &r);
    }
    if (t->poisoned) {
        poison(&t->tensor[PROJECTION_X], &r, NAN);
        poison(&t->tensor[PROJECTION_W], &r, INFINITY);
    }
}

void projection_free(struct projection_trial *t)
{
    for (int id = 0; id < NUM_PROJECTED; id++) {
        free(t->tensor[id].bytes);
        free(t->tensor[id].got);
        t->tensor[id].bytes = t->tensor[id].got = NULL;
    }
}

void projection_set(const struct projection_trial *t, enum projection_tensor id, size_t n,
                    double value)
{
    const struct projected *x = &t->tensor[id];

    value_set(x->dtype, first_of(x, x->bytes), index_of(x, n), value);
}

double projection_value(const struct projection_trial *t, enum projection_tensor id, size_t n)
{
    const struct projected *x = &t->tensor[id];

    return value_get(x->dtype, first_of(x, x->got), index_of(x, n));
}

/* ---- running ------------------------------------------------------------------------------- */

static const char *again(const struct projection_trial *t)
{
    return trial_line(&t->problem, t->seed, t->family, t->tunables, "projection/one");
}

static clattn_buffer *buffer_of(clattn_projection_tensors *tensors, int id)
{
    clattn_buffer *const buffers[NUM_PROJECTED] = {&tensors->x, &tensors->w, &tensors->bias,
                                                   &tensors->y};

    return buffers[id];
}

clattn_projection_tensors projection_send(struct fixture *f, const struct projection_trial *t)
{
    clattn_projection_tensors tensors = {.struct_size = sizeof tensors};

    for (int id = 0; id < NUM_PROJECTED; id++) {
        const struct projected *x = &t->tensor[id];
        if (x->bytes)
            *buffer_of(&tensors, id) = (clattn_buffer){
                .buffer = fixture_buffer(f, x->num_bytes, x->bytes), .offset = x->offset};
    }
    return tensors;
}

void projection_receive(struct fixture *f, struct projection_trial *t,
                        clattn_projection_tensors *tensors)
{
    for (int id = 0; id < NUM_PROJECTED; id++) {
        struct projected *x = &t->tensor[id];
        if (!x->bytes)
            continue;
        free(x->got);
        x->got = must(malloc(x->num_bytes));
        fixture_read(f, buffer_of(tensors, id)->buffer, x->num_bytes, x->got);
        clReleaseMemObject(buffer_of(tensors, id)->buffer);
    }
}

void projection_run(struct fixture *f, struct projection_trial *t)
{
    struct trial_workspace workspace = {.bytes = 0};

    clattn_plan *plan = fixture_forced_plan(f, &t->problem, t->family, t->tunables, again(t));
    clattn_projection_tensors tensors = projection_send(f, t);
    if (t->seed % 2) /* the others leave it to the library */
        workspace = trial_workspace_place(f, plan, 0);
    tensors.workspace = workspace.buffer;
    const clattn_status status = clattn_project(plan, f->queue, &tensors, 0, NULL, NULL);
    cr_assert(status == CLATTN_SUCCESS, "execution: %s, %s%s", clattn_status_string(status),
              f->log.last, again(t));
    projection_receive(f, t, &tensors);
    trial_workspace_check(f, &workspace, again(t));
    clattn_plan_release(plan);
}

/* ---- comparing ----------------------------------------------------------------------------- */

static struct projection_view view_of(const struct projection_trial *t)
{
    const struct projected *x = t->tensor;

    return (struct projection_view){first_of(&x[PROJECTION_X], x[PROJECTION_X].bytes),
                                    first_of(&x[PROJECTION_W], x[PROJECTION_W].bytes),
                                    first_of(&x[PROJECTION_BIAS], x[PROJECTION_BIAS].bytes),
                                    first_of(&x[PROJECTION_Y], x[PROJECTION_Y].bytes)};
}

static void check_elements(const struct projection_trial *t)
{
    const struct projected *y = &t->tensor[PROJECTION_Y];
    const struct projection_view view = view_of(t);

    for (size_t n = 0; n < count_of(y); n++) {
        const size_t e = n % y->size[3], i = n / y->size[3] % y->size[2];
        const size_t g = n / y->size[3] / y->size[2] % y->size[1];
        const size_t b = n / y->size[3] / y->size[2] / y->size[1];
        const struct bounded want =
            reference_projection(&t->problem.projection, &view, PRECISION_SINGLE, b, g, i, e);
        const double got = value_get(y->dtype, first_of(y, y->got), index_of(y, n));
        cr_assert(within(got, want), "y[%zu, %zu, %zu, %zu]: got %.9g, want %.9g +- %.3g%s", b, g,
                  i, e, got, want.value, want.bound, again(t));
    }
}

/* Every byte that is not an element of y must be as it was sent. */
static void check_rest(const struct projection_trial *t, enum projection_tensor id)
{
    const struct projected *x = &t->tensor[id];
    const size_t size = value_bytes(x->dtype);
    unsigned char *want = must(malloc(x->num_bytes));

    memcpy(want, x->bytes, x->num_bytes);
    for (size_t n = 0; id == PROJECTION_Y && n < count_of(x); n++)
        memcpy(first_of(x, want) + index_of(x, n) * size,
               first_of(x, x->got) + index_of(x, n) * size, size);
    for (size_t n = 0; n < x->num_bytes; n++)
        cr_assert(want[n] == x->got[n], "byte %td of %s, which is not to be written, was%s",
                  (ptrdiff_t)n - (ptrdiff_t)(x->offset * size), x->name, again(t));
    free(want);
}

void projection_check(const struct projection_trial *t)
{
    check_elements(t);
    for (int id = 0; id < NUM_PROJECTED; id++)
        if (t->tensor[id].bytes)
            check_rest(t, (enum projection_tensor)id);
}

void projection_pass(struct fixture *f, struct projection_trial *t)
{
    projection_fill(t);
    projection_run(f, t);
    projection_check(t);
    projection_free(t);
}

#include "tests/trials/trial.h"

#include "bench/reference/gradients.h"
#include "bench/reference/row.h"
#include "tests/support/families.h"
#include "tests/support/rng.h"
#include "tests/support/shared_memory.h"
#include "tests/support/storage.h"
#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, LINE = 1024 }; /* floats kept free on either side; bytes of text */

static void *must(void *memory)
{
    cr_assert(memory != NULL, "out of memory");
    return memory;
}

/* The seed also decides how a trial is run, with numbers of its own. */
static struct rng run_rng(const struct trial *t)
{
    return rng_seed(~t->seed);
}

/* What to type to see it again. */
static const char *again(const struct trial *t)
{
    static char line[2 * LINE];
    char problem[LINE / 2] = "?";

    clattn_problem_print(&t->problem, problem, sizeof problem, NULL);
    snprintf(line, sizeof line,
             "\n  CLATTN_TEST_PROBLEM=\"%s\" CLATTN_TEST_SEED=%" PRIu64
             " CLATTN_TEST_FAMILY=%s CLATTN_TEST_TUNABLES=\"%s\" clattn_tests --filter sweep/one",
             problem, t->seed, t->family ? t->family : "", t->tunables);
    return line;
}

/* ---- running ------------------------------------------------------------------------------- */

/* The caller's workspace, guarded like a tensor; half of the trials leave it to the library. */
static unsigned char *place_workspace(struct fixture *f, const clattn_plan *plan, struct rng *r,
                                      struct tensor_arguments *tensors, size_t *bytes)
{
    clattn_plan_info info = {.struct_size = sizeof info};

    cr_assert(clattn_plan_describe(plan, &info) == CLATTN_SUCCESS);
    if (info.workspace_bytes == 0 || rng_one_in(r, 2))
        return NULL;
    const size_t floats = (info.workspace_bytes + 3) / 4;
    tensors->workspace.offset = GUARD + rng_below(r, 33);
    *bytes = 4 * (tensors->workspace.offset + floats + GUARD);
    unsigned char *image = must(malloc(*bytes));
    memset(image, 0xff, *bytes);
    tensors->workspace.buffer = fixture_buffer(f, *bytes, image);
    return image;
}

static void check_workspace(struct fixture *f, const struct trial *t, const clattn_plan *plan,
                            const struct tensor_arguments *tensors, unsigned char *image,
                            const size_t bytes)
{
    clattn_plan_info info = {.struct_size = sizeof info};

    clattn_plan_describe(plan, &info);
    fixture_read(f, tensors->workspace.buffer, bytes, image);
    const size_t start = 4 * tensors->workspace.offset;
    for (size_t n = 0; n < bytes; n++)
        cr_assert((n >= start && n < start + info.workspace_bytes) || image[n] == 0xff,
                  "byte %td of the workspace of %zu was written%s", (ptrdiff_t)(n - start),
                  info.workspace_bytes, again(t));
}

/* Bytes of the memory that a tensor's pointer skips: some elements. */
static size_t skipped_of(const struct trial *t, int id)
{
    const struct tensor_shape *shape = &t->tensor[id].shape;
    struct rng r = rng_seed(t->seed + (uint64_t)id);

    return (shape->cache == CLATTN_CACHE_PLAIN ? shape->element_bytes : 2) * rng_below(&r, 70);
}

static void *share(struct fixture *f, const struct trial *t, int id)
{
    const struct host_tensor *x = &t->tensor[id];
    const size_t skipped = skipped_of(t, id);
    unsigned char *image = must(malloc(skipped + x->num_bytes));

    memset(image, 0xff, skipped);
    memcpy(image + skipped, x->bytes, x->num_bytes);
    unsigned char *memory = shared_memory_new(f, skipped + x->num_bytes, image);
    free(image);
    return memory + skipped;
}

/* Some tensors in shared memory, if that is wanted. */
static struct tensor_arguments send(struct fixture *f, const struct trial *t, bool shared)
{
    const struct tensor_view sent = trial_sent(t);
    struct tensor_arguments tensors = {.dropout_seed = sent.dropout_seed,
                                       .dropout_offset = sent.dropout_offset,
                                       .dropout_place = sent.dropout_place};

    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct host_tensor *x = &t->tensor[id];
        if (x->bytes && shared && skipped_of(t, id) % 5 != 0)
            tensors.at[id] = (clattn_buffer){
                .pointer = share(f, t, id), .offset = x->offset, .bytes = x->num_bytes};
        else if (x->bytes)
            tensors.at[id] = (clattn_buffer){.buffer = fixture_buffer(f, x->num_bytes, x->bytes),
                                             .offset = x->offset};
    }
    return tensors;
}

struct tensor_arguments trial_send(struct fixture *f, const struct trial *t)
{
    return send(f, t, false);
}

void trial_receive(struct fixture *f, struct trial *t, const struct tensor_arguments *tensors)
{
    for (int id = 0; id < NUM_TENSORS; id++) {
        struct host_tensor *x = &t->tensor[id];
        unsigned char *memory = tensors->at[id].pointer;
        if (!x->bytes)
            continue;
        free(x->got);
        x->got = must(malloc(x->num_bytes));
        if (memory) {
            shared_memory_read(f, memory, x->num_bytes, x->got);
            shared_memory_free(f, memory - skipped_of(t, id));
        } else {
            fixture_read(f, tensors->at[id].buffer, x->num_bytes, x->got);
            clReleaseMemObject(tensors->at[id].buffer);
        }
    }
}

void trial_run(struct fixture *f, struct trial *t)
{
    struct rng r = run_rng(t);
    size_t workspace_bytes = 0;
    clattn_plan *plan = fixture_forced_plan(f, &t->problem, t->family, t->tunables, again(t));
    const bool shared = rng_one_in(&r, 4) && shared_memory_is_there(f);
    struct tensor_arguments tensors = send(f, t, shared);
    unsigned char *workspace = place_workspace(f, plan, &r, &tensors, &workspace_bytes);

    const clattn_status status =
        tensor_execute(t->problem.operation, plan, f->queue, &tensors, 0, NULL, NULL);
    cr_assert(status == CLATTN_SUCCESS, "execution: %s, %s%s", clattn_status_string(status),
              f->log.last, again(t));
    trial_receive(f, t, &tensors);
    if (workspace) {
        check_workspace(f, t, plan, &tensors, workspace, workspace_bytes);
        clReleaseMemObject(tensors.workspace.buffer);
        free(workspace);
    }
    clattn_plan_release(plan);
}

/* ---- comparing ----------------------------------------------------------------------------- */

/* The first element that is wrong, and how many are. */
struct findings {
    size_t wrong, checked;
    char first[LINE / 2];
};

static void compare(struct findings *found, const struct host_tensor *x, const size_t b,
                    const size_t h, const size_t i, const size_t d, const struct bounded want)
{
    const unsigned char *base = x->got + x->offset * x->shape.element_bytes;
    const double got = value_get(x->shape.dtype, base, tensor_index(&x->shape, b, h, i, d));

    found->checked++;
    if (within(got, want))
        return;
    if (found->wrong++ == 0)
        snprintf(found->first, sizeof found->first,
                 "%s[%zu, %zu, %zu, %zu]: got %.9g, want %.9g +- %.3g", x->shape.name, b, h, i, d,
                 got, want.value, want.bound);
}

static void compare_row(const struct trial *t, const struct tensor_view *view,
                        struct findings *found, const size_t b, const size_t h, const size_t i,
                        const struct reference_row *row)
{
    const struct host_tensor *lse = &t->tensor[TENSOR_LSE], *scores = &t->tensor[TENSOR_SCORES];

    size_t block, place;

    if (!tensor_locate_query(&t->problem, view, b, i, &block, &place))
        return; /* the sequence is shorter */
    for (size_t d = 0; d < t->problem.dim_v; d++)
        compare(found, &t->tensor[TENSOR_O], block, h, place, d, row->o[d]);
    if (lse->bytes)
        compare(found, lse, block, h, 0, place, row->lse);
    if (scores->bytes)
        for (size_t j = 0; j < t->problem.seq_kv; j++)
            compare(found, scores, b, h, i, j, row->scores[j]);
}

static void compare_rows(const struct trial *t, const struct tensor_view *view,
                         struct findings *found)
{
    const clattn_problem *p = &t->problem;
    struct reference_row row;

    cr_assert(reference_row_open(p, PRECISION_SINGLE, &row), "out of memory");
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->heads; h++)
            for (size_t i = 0; i < p->seq_q; i++) {
                reference_row_compute(p, view, b, h, i, &row);
                compare_row(t, view, found, b, h, i, &row);
            }
    reference_row_close(&row);
}

/* Whether a row of a result is to be written: not one of a packed batch that no sequence has. */
static int is_result(const struct trial *t, enum tensor_id id, const size_t row)
{
    const clattn_problem *p = &t->problem;
    const struct tensor_view view = trial_sent(t);
    const int of_keys = id == TENSOR_DK || id == TENSOR_DV;
    const int of_rows = of_keys || id == TENSOR_O || id == TENSOR_LSE || id == TENSOR_DQ;
    size_t block, first;

    if (!of_rows || (of_keys ? p->total_kv : p->total_q) == 0)
        return 1;

    for (size_t b = 0; b < p->batch; b++) {
        const size_t rows = of_keys ? tensor_keys(p, &view, b) : tensor_queries(p, &view, b);
        const int some = of_keys ? tensor_locate_key(p, &view, b, 0, &block, &first)
                                 : tensor_locate_query(p, &view, b, 0, &block, &first);
        if (some && row >= first && row - first < rows)
            return 1;
    }
    return 0;
}

static void compare_gradients(const struct trial *t, const struct tensor_view *view,
                              struct findings *found)
{
    struct reference_gradients want;

    cr_assert(reference_gradients_open(&t->problem, view, &want), "out of memory");
    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct host_tensor *x = &t->tensor[id];
        const size_t *size = x->shape.size;
        size_t n = 0;
        if (!x->bytes || !x->shape.written)
            continue;
        for (size_t b = 0; b < size[0]; b++)
            for (size_t h = 0; h < size[1]; h++)
                for (size_t i = 0; i < size[2]; i++) {
                    const int written = is_result(t, (enum tensor_id)id, i);
                    for (size_t d = 0; d < size[3]; d++, n++)
                        if (written)
                            compare(found, x, b, h, i, d, want.at[id][n]);
                }
    }
    reference_gradients_close(&want);
}

/* Every byte that is not an element of a result must be as it was sent. */
static void check_rest(const struct trial *t, enum tensor_id id)
{
    const struct host_tensor *x = &t->tensor[id];
    const struct tensor_shape *s = &x->shape;
    unsigned char *want = must(malloc(x->num_bytes));

    memcpy(want, x->bytes, x->num_bytes);
    for (size_t b = 0; s->written && b < s->size[0]; b++)
        for (size_t h = 0; h < s->size[1]; h++)
            for (size_t i = 0; i < s->size[2]; i++) {
                const int of_row = id == TENSOR_LSE || is_result(t, id, i);
                for (size_t d = 0; of_row && d < s->size[3]; d++) {
                    const size_t at = x->offset + tensor_index(s, b, h, i, d);
                    if (id != TENSOR_LSE || is_result(t, id, d))
                        memcpy(want + at * s->element_bytes, x->got + at * s->element_bytes,
                               s->element_bytes);
                }
            }
    for (size_t n = 0; n < x->num_bytes; n++)
        cr_assert(want[n] == x->got[n], "byte %td of %s, which is not to be written, was%s",
                  (ptrdiff_t)n - (ptrdiff_t)tensor_bytes(s, x->offset), s->name, again(t));
    free(want);
}

void trial_check(const struct trial *t)
{
    const struct tensor_view view = trial_sent(t);
    struct findings found = {0, 0, ""};

    if (t->problem.operation == CLATTN_BACKWARD)
        compare_gradients(t, &view, &found);
    else
        compare_rows(t, &view, &found);
    cr_assert(found.wrong == 0, "%zu of %zu elements are wrong, the first %s%s", found.wrong,
              found.checked, found.first, again(t));
    for (int id = 0; id < NUM_TENSORS; id++)
        if (t->tensor[id].bytes)
            check_rest(t, (enum tensor_id)id);
}

void trial_pass(struct fixture *f, struct trial *t)
{
    trial_fill(t);
    trial_run(f, t);
    trial_check(t);
    trial_free(t);
}

void trial_pass_with_infinities(struct fixture *f, struct trial *t)
{
    trial_fill(t);
    for (size_t h = 0; h < t->problem.kv_heads && !t->problem.page_size; h++) {
        trial_set(t, TENSOR_V, 0, h, 11, 3, INFINITY);
        trial_set(t, TENSOR_V, 0, h, 37, 5, NAN);
    }
    trial_run(f, t);
    trial_check(t);
    trial_free(t);
}

void trial_pass_with_small_weights(struct fixture *f, struct trial *t)
{
    const clattn_problem *p = &t->problem;

    trial_fill(t);
    for (int id = TENSOR_Q; id <= TENSOR_V; id++)
        trial_set_ordinary(t, id, t->seed);
    for (size_t i = 0; i < p->seq_q; i++)
        for (size_t j = 0; j < p->seq_kv; j++)
            trial_set(t, TENSOR_BIAS, 0, 0, i, j, j == 0 ? 0.0 : -17.0 - (double)(j % 3));
    for (size_t b = 0; b < p->batch; b++)
        for (size_t h = 0; h < p->kv_heads; h++)
            for (size_t d = 0; d < p->dim_v; d++)
                trial_set(t, TENSOR_V, b, h, 0, d, 0.0);
    trial_run(f, t);
    trial_check(t);
    trial_free(t);
}

void trials_pass(const char *family, const char *const *problems, const size_t count,
                 const size_t certain, const uint64_t seeds)
{
    const clattn_plan_options options = {.struct_size = sizeof options, .family = family};
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups_of(&f, family);
    for (size_t n = 0; n < count; n++)
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            struct trial t = {.problem = fixture_problem(family_text(family, problems[n])),
                              .family = family,
                              .seed = seed};
            if (n < certain ||
                clattn_plan_supports(f.context, &t.problem, &options) == CLATTN_SUCCESS)
                trial_pass(&f, &t);
        }
    fixture_close(&f);
}

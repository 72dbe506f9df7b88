/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/trial.h"

#include "bench/judge/judge.h"
#include "tests/support/families.h"
#include "tests/support/rng.h"
#include "tests/support/shared_memory.h"
#include "tests/support/storage.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/random_operation.h"
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

/* Returns the command that repeats the trial. */
static const char *again(const struct trial *t)
{
    static char line[2 * LINE];
    const int projects = t->problem.operation == CLATTN_PROJECTION;
    char problem[LINE / 2] = "?";

    clattn_problem_print(&t->problem, problem, sizeof problem, NULL);
    snprintf(line, sizeof line,
             "\n  CLATTN_TEST_PROBLEM=\"%s\" CLATTN_TEST_SEED=%" PRIu64
             " CLATTN_TEST_FAMILY=\"%s\" CLATTN_TEST_TUNABLES=\"%s\" clattn_tests --filter %s/one",
             problem, t->seed, t->family ? t->family : "", t->tunables,
             projects ? "projection" : "sweep");
    return line;
}

/* ---- running ------------------------------------------------------------------------------- */

/* The caller's workspace, guarded like a tensor; half of the trials leave it to the library. */
static unsigned char *place_workspace(struct fixture *f, size_t bytes, struct rng *r,
                                      clattn_buffer *workspace, size_t *image_bytes)
{
    if (bytes == 0 || rng_one_in(r, 2))
        return NULL;
    workspace->offset = GUARD + rng_below(r, 33);
    *image_bytes = 4 * (workspace->offset + (bytes + 3) / 4 + GUARD);
    unsigned char *image = must(malloc(*image_bytes));
    memset(image, 0xff, *image_bytes);
    workspace->buffer = fixture_buffer(f, *image_bytes, image);
    return image;
}

static void check_workspace(struct fixture *f, const struct trial *t, size_t bytes,
                            const clattn_buffer *workspace, unsigned char *image,
                            size_t image_bytes)
{
    const size_t start = 4 * workspace->offset;

    fixture_read(f, workspace->buffer, image_bytes, image);
    for (size_t n = 0; n < image_bytes; n++)
        cr_assert((n >= start && n < start + bytes) || image[n] == 0xff,
                  "byte %td of the workspace of %zu was written%s", (ptrdiff_t)(n - start), bytes,
                  again(t));
    clReleaseMemObject(workspace->buffer);
    free(image);
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
                                       .dropout_place = sent.dropout_place,
                                       .whole_queries = sent.whole_queries,
                                       .whole_keys = sent.whole_keys,
                                       .function_values = sent.function_values};

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

int trial_is_supported(const struct fixture *f, const struct trial *t)
{
    const clattn_plan_options options = {
        .struct_size = sizeof options, .family = t->family, .tunables = t->tunables};

    return clattn_plan_supports(f->context, &t->problem, &options) == CLATTN_SUCCESS;
}

void trial_run(struct fixture *f, struct trial *t)
{
    struct rng r = run_rng(t);
    clattn_plan_info info = {.struct_size = sizeof info};
    size_t image_bytes = 0;
    clattn_plan *plan = fixture_forced_plan(f, &t->problem, t->family, t->tunables, again(t));
    const bool shared = rng_one_in(&r, 4) && shared_memory_is_there(f);
    struct tensor_arguments tensors = send(f, t, shared);
    cr_assert(clattn_plan_describe(plan, &info) == CLATTN_SUCCESS);
    unsigned char *image =
        place_workspace(f, info.workspace_bytes, &r, &tensors.workspace, &image_bytes);

    const clattn_status status =
        tensor_execute(t->problem.operation, plan, f->queue, &tensors, 0, NULL, NULL);
    cr_assert(status == CLATTN_SUCCESS, "execution: %s, %s%s", clattn_status_string(status),
              f->log.last, again(t));
    trial_receive(f, t, &tensors);
    if (image)
        check_workspace(f, t, info.workspace_bytes, &tensors.workspace, image, image_bytes);
    clattn_plan_release(plan);
}

/* ---- comparing ----------------------------------------------------------------------------- */

/* The first element that is wrong, and how many are. */
struct findings {
    const struct trial *trial;
    unsigned char *rest[NUM_TENSORS]; /* what was sent, and over it, of results, what came back */
    size_t wrong, checked;
    char first[LINE / 2];
};

static void compare(void *user, const int id, const size_t at[4], const struct bounded *want,
                    const size_t count)
{
    struct findings *found = user;
    const struct host_tensor *x = &found->trial->tensor[id];
    const struct tensor_shape *s = &x->shape;

    found->checked += count;
    for (size_t n = 0; n < count; n++) {
        const size_t index = x->offset + tensor_index(s, at[0], at[1], at[2], at[3] + n);
        const size_t begin = tensor_bytes(s, index);
        const double got = tensor_load(s, x->got, index);
        memcpy(found->rest[id] + begin, x->got + begin, s->element_bytes);
        if (within(got, want[n]) || found->wrong++ > 0)
            continue;
        snprintf(found->first, sizeof found->first,
                 "%s[%zu, %zu, %zu, %zu]: got %.9g, want %.9g +- %.3g", s->name, at[0], at[1],
                 at[2], at[3] + n, got, want[n].value, want[n].bound);
    }
}

/* Every byte that is not an element of a result must be as it was sent. */
static void check_rest(const struct findings *found, int id)
{
    const struct host_tensor *x = &found->trial->tensor[id];

    for (size_t n = 0; n < x->num_bytes; n++)
        cr_assert(found->rest[id][n] == x->got[n],
                  "byte %td of %s, which is not to be written, was%s",
                  (ptrdiff_t)n - (ptrdiff_t)tensor_bytes(&x->shape, x->offset), x->shape.name,
                  again(found->trial));
}

void trial_check(const struct trial *t)
{
    struct tensor_view view = trial_sent(t);
    struct findings found = {.trial = t};
    const char *refusal = judge_refusal(&t->problem);

    cr_assert(refusal == NULL, "the judge cannot read a function, %s%s", refusal, again(t));
    for (int id = 0; id < NUM_TENSORS; id++)
        if (t->tensor[id].bytes)
            found.rest[id] = memcpy(must(malloc(t->tensor[id].num_bytes)), t->tensor[id].bytes,
                                    t->tensor[id].num_bytes);
    if (t->problem.operation == CLATTN_INDEXER && !t->problem.indexer.gradients)
        view.chosen = t->tensor[INDEXER_TOPK_INDICES].got +
                      t->tensor[INDEXER_TOPK_INDICES].offset * sizeof(cl_int);
    cr_assert(judge_results(&t->problem, &view, PRECISION_SINGLE, INFINITY, compare, &found),
              "out of memory");
    cr_assert(found.wrong == 0, "%zu of %zu elements are wrong, the first %s%s", found.wrong,
              found.checked, found.first, again(t));
    for (int id = 0; id < NUM_TENSORS; id++) {
        if (found.rest[id])
            check_rest(&found, id);
        free(found.rest[id]);
    }
}

void trial_pass(struct fixture *f, struct trial *t)
{
    trial_fill(t);
    trial_run(f, t);
    trial_check(t);
    trial_free(t);
}

void trial_pass_host(struct fixture *f, struct trial *t)
{
    const clattn_plan_options options = {
        .struct_size = sizeof options, .family = t->family, .tunables = t->tunables};

    trial_fill(t);
    const struct tensor_view view = trial_copy(t);
    const clattn_status status =
        tensor_execute_host(f->context, &t->problem, t->family ? &options : NULL, &view);
    cr_assert(status == CLATTN_SUCCESS, "host call: %s, %s%s", clattn_status_string(status),
              f->log.last, again(t));
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
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups_of(&f, family);
    for (size_t n = 0; n < count; n++)
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            struct trial t = {.problem = fixture_problem(family_text(family, problems[n])),
                              .family = family,
                              .seed = seed};
            if (n < certain || trial_is_supported(&f, &t))
                trial_pass(&f, &t);
        }
    fixture_close(&f);
}

void trials_pass_of(struct fixture *f, const struct trial_base *bases, const size_t count,
                    const unsigned runs, const int each, const unsigned shares)
{
    size_t *numbers = must(malloc(count * sizeof *numbers));
    const size_t taken = numbers_taken(count, 0, runs, numbers);

    for (size_t b = 0; b < taken; b++) {
        const struct trial_base *base = &bases[numbers[b]];
        const clattn_problem problem = fixture_problem(base->problem);
        struct rng r = rng_seed(numbers[b]);
        for (int n = 0; n < each; n++) {
            struct trial t = {
                .problem = random_of(&r, &problem), .family = base->family, .seed = rng_next(&r)};
            snprintf(t.tunables, sizeof t.tunables, "%s", base->tunables ? base->tunables : "");
            if (run_takes((uint64_t)n, shares) && (!base->family || trial_is_supported(f, &t)))
                trial_pass(f, &t);
        }
    }
    free(numbers);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* same_bits_run < CASES: executes each line of same_bits_draw and prints a hash of every tensor that is
 * written, bytes between its strides included. Only the public interface is used, and tunables get the
 * names that they had where the library does not know today's, so that the same program runs with the
 * shared library of any build. */
#include "bench/judge/projection.h"
#include "tests/support/storage.h"
#include "tests/trials/append_trial.h"
#include "tests/trials/merge_trial.h"
#include "tests/trials/trial.h"

#include <clattn/clattn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 4096 };

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* FNV-1a. */
static uint64_t hash_of(const unsigned char *bytes, const size_t count)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t n = 0; n < count; n++)
        hash = (hash ^ bytes[n]) * 0x100000001b3u;
    return hash;
}

/* ---- attention ------------------------------------------------------------------------------- */

static clattn_status run_attention(clattn_context *context, const clattn_plan_options *options,
                                   struct trial *t)
{
    trial_fill(t);
    for (int id = 0; id < NUM_TENSORS; id++) {
        struct host_tensor *x = &t->tensor[id];
        if (x->bytes)
            x->got = memcpy(must(malloc(x->num_bytes)), x->bytes, x->num_bytes);
    }
    const struct tensor_view view = trial_got(t);
    const clattn_status status = tensor_execute_host(context, &t->problem, options, &view);
    for (int id = 0; id < NUM_TENSORS && status == CLATTN_SUCCESS; id++) {
        const struct host_tensor *x = &t->tensor[id];
        if (x->got && x->shape.written)
            printf(" %s=%016" PRIx64, x->shape.name, hash_of(x->got, x->num_bytes));
    }
    trial_free(t);
    return status;
}

/* ---- projections ----------------------------------------------------------------------------- */

/* A tensor of a projection, its elements between -1 and 1 where it is read, else NaN. */
static unsigned char *fill(const clattn_dtype dtype, const size_t sizes[4], const size_t strides[4],
                           const int read, struct rng *r, size_t *bytes)
{
    size_t extent = 1;

    for (int n = 0; n < 4; n++)
        extent += (sizes[n] - 1) * strides[n];
    *bytes = extent * value_bytes(dtype);
    unsigned char *x = memset(must(malloc(*bytes)), 0xff, *bytes);
    for (size_t n = 0; read && n < extent; n++)
        value_set(dtype, x, n, rng_uniform(r, -1, 1));
    return x;
}

static clattn_status run_projection(clattn_context *context, const clattn_plan_options *options,
                                    const clattn_problem *problem, const uint64_t seed)
{
    const clattn_projection_problem *p = &problem->projection;
    const struct projection_strides s = reference_projection_strides(p);
    struct rng r = rng_seed(seed);
    size_t bytes[NUM_PROJECTED];
    unsigned char *const x =
        fill(p->dtype, (size_t[]){p->batch, p->x_heads, p->rows, p->x_dim}, s.x, 1, &r, &bytes[0]);
    unsigned char *const w = fill(p->dtype, (size_t[]){p->x_heads, p->x_dim, p->y_heads, p->y_dim},
                                  s.w, 1, &r, &bytes[1]);
    unsigned char *const bias = p->bias
                                    ? fill(p->bias_dtype, (size_t[]){1, 1, p->y_heads, p->y_dim},
                                           (size_t[]){0, 0, p->y_dim, 1}, 1, &r, &bytes[2])
                                    : NULL;
    unsigned char *const y = fill(p->dtype, (size_t[]){p->batch, p->y_heads, p->rows, p->y_dim},
                                  s.y, p->accumulate, &r, &bytes[3]);
    const clattn_host_projection_tensors tensors = {sizeof tensors, x, w, bias, y};
    const clattn_status status = clattn_project_host(context, problem, options, &tensors);

    if (status == CLATTN_SUCCESS)
        printf(" y=%016" PRIx64, hash_of(y, bytes[3]));
    free(x);
    free(w);
    free(bias);
    free(y);
    return status;
}

/* ---- merges and appends ---------------------------------------------------------------------------------- */

static clattn_status run_merge(clattn_context *context, const clattn_plan_options *options,
                               const clattn_problem *p, const uint64_t seed)
{
    struct rng r = rng_seed(seed);
    struct merge_trial t;

    if (!merge_trial_fill(&t, p, &r, 5.0, 4))
        abort();
    const clattn_status status = merge_trial_run(&t, context, options);
    if (status == CLATTN_SUCCESS)
        printf(" o=%016" PRIx64 " lse=%016" PRIx64,
               hash_of(t.o, t.o_extent * value_bytes(p->merge.dtype)),
               hash_of((const unsigned char *)t.lse, t.rows * sizeof *t.lse));
    merge_trial_free(&t);
    return status;
}

static clattn_status run_append(clattn_context *context, const clattn_plan_options *options,
                                const clattn_problem *p, const uint64_t seed)
{
    struct rng r = rng_seed(seed);
    struct append_trial t;

    if (!append_trial_fill(&t, p, &r, 0))
        abort();
    const clattn_status status = append_trial_run(&t, context, options);
    for (int n = 0; n < APPEND_KINDS && status == CLATTN_SUCCESS; n++)
        if (t.to[n])
            printf(" %c=%016" PRIx64, "kvq"[n], hash_of(t.to[n], t.bytes[n][1]));
    append_trial_free(&t);
    return status;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void complain(const clattn_log_level level, const char *message, void *unused)
{
    (void)unused;
    if (level == CLATTN_LOG_ERROR)
        fprintf(stderr, "same_bits_run: %s\n", message);
}

/* text: problem, family, tunables and seed, with tabs between. */
static void run_line(clattn_context *context, char *text)
{
    struct trial t = {.seed = 0};
    char *part[4] = {text, NULL, NULL, NULL};

    for (int n = 1; n < 4; n++) {
        part[n] = strchr(part[n - 1], '\t');
        if (!part[n])
            abort();
        *part[n]++ = '\0';
    }
    t.seed = strtoull(part[3], NULL, 10);
    if (clattn_problem_parse(part[0], &t.problem, NULL, 0) != CLATTN_SUCCESS)
        abort();
    const clattn_plan_options options = {
        .struct_size = sizeof options, .family = part[1], .tunables = part[2][0] ? part[2] : NULL};
    printf("%s; %s %s;", part[0], part[1], part[2]);
    const clattn_status status =
        t.problem.operation == CLATTN_PROJECTION
            ? run_projection(context, &options, &t.problem, t.seed)
        : t.problem.operation == CLATTN_MERGE  ? run_merge(context, &options, &t.problem, t.seed)
        : t.problem.operation == CLATTN_APPEND ? run_append(context, &options, &t.problem, t.seed)
                                               : run_attention(context, &options, &t);
    printf("%s%s\n", status == CLATTN_SUCCESS ? "" : " ",
           status == CLATTN_SUCCESS ? "" : clattn_status_string(status));
    fflush(stdout);
}

int main(void)
{
    const clattn_context_options options = {
        .struct_size = sizeof options, .log = complain, .skip_self_checks = 1};
    clattn_context *context;
    char line[LINE];

    if (clattn_context_create_default(NULL, &options, &context) != CLATTN_SUCCESS)
        return 2;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        run_line(context, line);
    }
    clattn_context_release(context);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* same_bits_run < CASES: executes each line of same_bits_draw and prints a hash of every tensor
 * that is written, bytes between its strides included. Only the public interface is used. Where
 * the library does not know today's tunables, they get the names that they had. So the same
 * program runs with the shared library of any build. */
#include "tests/trials/trial.h"

#include <clattn/clattn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 4096 };

/* FNV-1a. */
static uint64_t hash_of(const unsigned char *bytes, const size_t count)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t n = 0; n < count; n++)
        hash = (hash ^ bytes[n]) * 0x100000001b3u;
    return hash;
}

static clattn_status run_trial(clattn_context *context, const clattn_plan_options *options,
                               struct trial *t)
{
    trial_fill(t);
    const struct tensor_view view = trial_copy(t);
    const clattn_status status = tensor_execute_host(context, &t->problem, options, &view);
    for (int id = 0; id < NUM_TENSORS && status == CLATTN_SUCCESS; id++) {
        const struct host_tensor *x = &t->tensor[id];
        if (x->got && x->shape.written)
            printf(" %s=%016" PRIx64, x->shape.name, hash_of(x->got, x->num_bytes));
    }
    trial_free(t);
    return status;
}

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
    const clattn_status status = run_trial(context, &options, &t);
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

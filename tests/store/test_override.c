/* SPDX-License-Identifier: Apache-2.0 */
/* Overrides: set, read back and cleared, by class; and the environment's. */
#include "context/context.h"
#include "families/candidate.h"
#include "families/registry.h"
#include "os/process.h"
#include "problem/problem.h"
#include "store/override.h"
#include "store/store_entry.h"
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include <clattn/tuning.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char problem_text[] = "fwd f32 h2 q128 k128 d32";

/* The override of a problem's class, "" if there is none. */
static const char *get(struct fixture *f, const char *problem)
{
    static char text[CA_CANDIDATE_TEXT];
    const clattn_problem p = fixture_problem(problem);
    size_t needed;

    cr_assert(clattn_tuning_override_get(f->context, &p, text, sizeof text, &needed) ==
              CLATTN_SUCCESS);
    cr_assert(needed == strlen(text) + 1);
    return text;
}

static clattn_status set(struct fixture *f, const char *problem, const char *family,
                         const char *tunables)
{
    const clattn_problem p = fixture_problem(problem);

    return clattn_tuning_override_set(f->context, &p, family, tunables);
}

static clattn_status clear(struct fixture *f, const char *problem)
{
    const clattn_problem p = fixture_problem(problem);

    return clattn_tuning_override_clear(f->context, &p);
}

DeviceTest(override, set_read_and_cleared)
{
    static const char same_class[] = "fwd f32 b2 q130 k120 d32 scale=2";
    static const char other_class[] = "fwd f32 h2 q128 k128 d64";

    fixture_need_groups(f);
    cr_expect_str_eq(get(f, problem_text), "");
    cr_expect(clear(f, problem_text) == CLATTN_SUCCESS, "there was none");
    cr_assert(set(f, problem_text, "unfused", "THREADS_N=2 BLOCK_K=8") == CLATTN_SUCCESS);
    cr_expect(strncmp(get(f, same_class), "unfused THREADS_N=2 THREADS_M=", 30) == 0, "'%s'",
              get(f, same_class));
    cr_expect(strstr(get(f, same_class), " BLOCK_K=8 ") != NULL);
    cr_expect_str_eq(get(f, other_class), "");
    cr_assert(set(f, other_class, "fused_gpu UNIT=item", NULL) == CLATTN_SUCCESS);
    cr_assert(set(f, same_class, "fused_cpu UNIT=vector", NULL) == CLATTN_SUCCESS, "in its place");
    cr_expect(strncmp(get(f, problem_text), "fused_cpu UNIT=vector SIMD_WIDTH=", 33) == 0);
    cr_assert(clear(f, problem_text) == CLATTN_SUCCESS);
    cr_expect_str_eq(get(f, same_class), "");
    cr_expect(strncmp(get(f, other_class), "fused_gpu UNIT=item ", 20) == 0);
    cr_assert(set(f, problem_text, "unfused", "") == CLATTN_SUCCESS);
    cr_assert(clattn_tuning_override_clear(f->context, NULL) == CLATTN_SUCCESS);
    cr_expect_str_eq(get(f, problem_text), "");
    cr_expect_str_eq(get(f, other_class), "");
    cr_expect(f->log.errors == 0 && f->log.warnings == 0);
    cr_assert(set(f, problem_text, "unfused", NULL) == CLATTN_SUCCESS); /* freed with the context */
}

DeviceTest(override, arguments)
{
    clattn_problem p = fixture_problem(problem_text);
    char text[CA_CANDIDATE_TEXT] = "?", small[8] = "?", lengthy[2000];
    size_t needed = 9;

    cr_expect(clattn_tuning_override_set(NULL, &p, "unfused", NULL) == CLATTN_INVALID_ARGUMENT);
    fixture_refused(f, clattn_tuning_override_set(f->context, NULL, "unfused", NULL),
                    CLATTN_INVALID_ARGUMENT, "null");
    fixture_refused(f, clattn_tuning_override_set(f->context, &p, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "null");
    fixture_refused(f, set(f, problem_text, "magic", NULL), CLATTN_UNSUPPORTED, "magic");
    fixture_refused(f, set(f, problem_text, "unfused THREADS_N=8", NULL), CLATTN_UNSUPPORTED,
                    "unfused THREADS_N=8");
    fixture_refused(f, set(f, problem_text, "unfused", "MAGIC=8"), CLATTN_UNSUPPORTED, "MAGIC");
    fixture_refused(f, set(f, problem_text, "unfused", "THREADS_N=7"), CLATTN_UNSUPPORTED,
                    "THREADS_N=7");
    fixture_refused(f, set(f, problem_text, "unfused", "THREAD_N=4 VECTOR_WIDTH=8"),
                    CLATTN_UNSUPPORTED, "multiple of VECTOR_WIDTH");
    memset(lengthy, ' ', sizeof lengthy);
    lengthy[sizeof lengthy - 1] = '\0';
    fixture_refused(f, set(f, problem_text, "unfused", lengthy), CLATTN_UNSUPPORTED, "long");
    cr_expect_str_eq(get(f, problem_text), "", "nothing was set");

    cr_assert(set(f, problem_text, "unfused", NULL) == CLATTN_SUCCESS);
    cr_expect(clattn_tuning_override_get(NULL, &p, text, sizeof text, &needed) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(text[0] == '\0' && needed == 0);
    cr_expect(clattn_tuning_override_get(f->context, NULL, text, sizeof text, NULL) ==
              CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_tuning_override_get(f->context, &p, NULL, 3, NULL) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_tuning_override_get(f->context, &p, NULL, 0, &needed) ==
              CLATTN_BUFFER_TOO_SMALL);
    cr_expect(needed == strlen(get(f, problem_text)) + 1);
    cr_expect(clattn_tuning_override_get(f->context, &p, small, sizeof small, NULL) ==
              CLATTN_BUFFER_TOO_SMALL);
    cr_expect_str_eq(small, "unfused");
    cr_expect(clattn_tuning_override_clear(NULL, &p) == CLATTN_INVALID_ARGUMENT);

    memset(&f->log, 0, sizeof f->log);
    p.heads = 0;
    fixture_refused(f, clattn_tuning_override_set(f->context, &p, "unfused", NULL),
                    CLATTN_INVALID_PROBLEM, "heads");
    fixture_refused(f, clattn_tuning_override_get(f->context, &p, text, sizeof text, NULL),
                    CLATTN_INVALID_PROBLEM, "heads");
    fixture_refused(f, clattn_tuning_override_clear(f->context, &p), CLATTN_INVALID_PROBLEM,
                    "heads");
}

/* ---- the environment ------------------------------------------------------------------------- */

/* The value of an override's first tunable for a problem; 0 if there is none. */
static size_t found(struct fixture *f, const char *problem)
{
    const struct ca_problem p = fixture_checked(problem);
    struct ca_candidate candidate;

    if (!ca_overrides_find(f->context->overrides, &p, &f->context->device, &candidate))
        return 0;
    return candidate.values[0];
}

Test(override, of_the_environment) {
    struct fixture f;

    ca_variable_set("CLATTN_OVERRIDE", " unfused  THREADS_N=2\tBLOCK_K=8");
    fixture_open(&f);
    fixture_need_groups(&f);
    ca_variable_set("CLATTN_OVERRIDE", "unfused THREADS_N=32"); /* too late */
    cr_expect(f.log.warnings == 0 && f.log.errors == 0);
    cr_expect(found(&f, problem_text) == 2);
    cr_expect(found(&f, "fwd bf16 h3 q9 k1000 d80 scores=weights") == 2);
    cr_expect_str_eq(get(&f, problem_text), "", "it was not set for the class");
    cr_assert(set(&f, problem_text, "unfused", "THREADS_N=4") == CLATTN_SUCCESS);
    cr_expect(found(&f, problem_text) == 4, "what was set for the class comes first");
    cr_expect(found(&f, "fwd f32 q9 d8") == 2);
    cr_assert(clattn_tuning_override_clear(f.context, NULL) == CLATTN_SUCCESS);
    cr_expect(found(&f, problem_text) == 2, "only what was set is cleared");
    cr_assert(set(&f, problem_text, "unfused", "THREADS_N=4") == CLATTN_SUCCESS);
    f.context->device.max_work_group_size = 1;
    cr_expect(found(&f, problem_text) == 0, "what was set does not fit the device any more");
    cr_expect(found(&f, "fwd f32 q9 d8") == 0, "nor does the environment's");
    fixture_close(&f);

    ca_variable_set("CLATTN_OVERRIDE", "");
    fixture_open(&f);
    cr_expect(f.log.warnings == 0 && found(&f, problem_text) == 0);
    fixture_close(&f);
}

/* An override that fits no problem costs one warning, and is ignored. */
Test(override, malformed_environment) {
    static const char *const malformed[] = {
        "magic",
        "unfused magic",
        "unfused THREADS_N=7",
        "unfused THREADS_N=8 THREADS_N=8",
        "unfused WIDTH=8",
        "unfused THREADS_N=",
        " ",
        "THREADS_N=8 unfused",
        "a_name_of_a_family_that_is_longer_than_any_family_will_ever_be_called THREADS_N=8"};

    for (size_t n = 0; n < sizeof malformed / sizeof *malformed; n++) {
        struct fixture f;
        ca_variable_set("CLATTN_OVERRIDE", malformed[n]);
        fixture_open(&f);
        cr_expect(f.log.warnings == 1 && f.log.errors == 0, "'%s'", malformed[n]);
        cr_expect(found(&f, problem_text) == 0, "'%s'", malformed[n]);
        fixture_close(&f);
    }
}

/* Results of a version before a tunable came do not name it: it has its default then. */
Test(override, tunables_that_a_result_does_not_name) {
    const struct ca_family *family = ca_family_find("fused_cpu UNIT=vector");
    const struct ca_entry entry = {.family = (char *)"fused_cpu",
                                   .tunables = (char *)"UNIT=vector SIMD_WIDTH=8"};
    struct ca_candidate candidate;

    cr_assert(ca_entry_candidate(&entry, &candidate));
    cr_assert(candidate.family == family);
    cr_expect(candidate.values[1] == 8);
    for (size_t n = 2; n < family->num_tunables; n++)
        cr_expect(candidate.values[n] == family->tunables[n].value, "%s", family->tunables[n].name);
}

/* ---- memory ---------------------------------------------------------------------------------- */

Test(override, without_memory) {
    const struct ca_log silent = {0};
    struct fixture f;

    fixture_open(&f);
    faults_arm(FAULT_MEMORY, 0, 0);
    const clattn_status status = set(&f, problem_text, "unfused", NULL);
    cr_expect(faults_disarm() != NULL && status == CLATTN_OUT_OF_MEMORY);
    cr_expect(fixture_said(&f, "memory"));
    cr_expect_str_eq(get(&f, problem_text), "");
    cr_expect(set(&f, problem_text, "unfused", NULL) == CLATTN_SUCCESS);
    fixture_close(&f);

    ca_variable_set("CLATTN_OVERRIDE", "unfused");
    const long allocations = faults_allocations_alive();
    for (size_t n = 0; n < 2; n++) {
        faults_arm(FAULT_MEMORY, n, 0);
        cr_expect(ca_overrides_create(&silent) == NULL);
        cr_expect(faults_disarm() != NULL);
    }
    cr_expect(faults_allocations_alive() == allocations);
}

/* ---- threads --------------------------------------------------------------------------------- */

struct worker {
    struct fixture *f;
    size_t seq;
};

/* Sets, reads and clears its own class's override, among others that do the same. */
static void *work(void *worker)
{
    const struct worker *w = worker;
    clattn_problem p = fixture_problem(problem_text);
    char text[CA_CANDIDATE_TEXT];
    size_t wrong = 0;

    p.seq_q = w->seq;
    for (int n = 0; n < 300; n++) {
        wrong +=
            clattn_tuning_override_set(w->f->context, &p, "unfused",
                                       n % 2 ? "THREADS_N=2" : "THREADS_N=4") != CLATTN_SUCCESS;
        wrong += clattn_tuning_override_get(w->f->context, &p, text, sizeof text, NULL) !=
                     CLATTN_SUCCESS ||
                 strncmp(text, n % 2 ? "unfused THREADS_N=2" : "unfused THREADS_N=4", 19) != 0;
        if (n % 3 == 0)
            wrong += clattn_tuning_override_clear(w->f->context, &p) != CLATTN_SUCCESS;
    }
    return wrong ? worker : NULL;
}

DeviceTest(override, of_many_threads)
{
    enum { THREADS = 4 };
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    fixture_need_groups(f);
    for (size_t n = 0; n < THREADS; n++) {
        workers[n] = (struct worker){f, (size_t)1 << n};
        cr_assert(pthread_create(&threads[n], NULL, work, &workers[n]) == 0);
    }
    for (size_t n = 0; n < THREADS; n++) {
        void *wrong;
        cr_assert(pthread_join(threads[n], &wrong) == 0);
        cr_expect(wrong == NULL, "thread %zu", n);
    }
}

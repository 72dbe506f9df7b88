/* SPDX-License-Identifier: Apache-2.0 */
/* The override of the environment. */
#include "context/context.h"
#include "families/candidate.h"
#include "families/registry.h"
#include "os/process.h"
#include "problem/problem.h"
#include "store/override.h"
#include "store/store_entry.h"
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include <criterion/criterion.h>
#include <string.h>

static const char problem_text[] = "fwd f32 h2 q128 k128 d32";

/* The value of an override's first tunable for a problem; 0 if there is none. */
static size_t found(struct fixture *f, const char *problem)
{
    const struct ca_problem p = fixture_checked(problem);
    struct ca_candidate candidate;
    char reason[CA_REASON_BYTES];

    if (!f->context->override || !ca_candidate_parse(f->context->override, &p, &f->context->device,
                                                     &candidate, reason, sizeof reason))
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
    cr_expect(found(&f, "fwd f32 q9 d8") == 2);
    f.context->device.max_work_group_size = 1;
    cr_expect(found(&f, problem_text) == 0, "it does not fit the device any more");
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

Test(override, without_memory) {
    const struct ca_log silent = {0};
    char *override;

    ca_variable_set("CLATTN_OVERRIDE", "unfused");
    faults_arm(FAULT_MEMORY, 0, 0);
    cr_expect(!ca_override_read(&silent, &override) && override == NULL);
    cr_expect(faults_disarm() != NULL);
}

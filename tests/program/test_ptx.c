/* SPDX-License-Identifier: Apache-2.0 */
/* PTX for one architecture alone: what the text becomes, and what the library does with a driver that hands it out. */
#include "context/context.h"
#include "families/candidate.h"
#include "families/registry.h"
#include "problem/problem.h"
#include "program/program.h"
#include "program/ptx.h"
#include "selfcheck/selfcheck.h"
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(ptx, .init = unoptimised, .timeout = 300);

static const char handed_out[] = ".version 8.3\n.target sm_90, texmode_independent\n"
                                 "\t// begin inline asm\n\t//sm_90a wgmma.fence.sync.aligned;\n"
                                 "\t//sm_90a {mul %r1;} //sm_90 none\n\tret;\n",
                  wanted[] = ".version 8.3\n.target sm_90a, texmode_independent\n"
                             "\t// begin inline asm\n\twgmma.fence.sync.aligned;\n"
                             "\t{mul %r1;} //sm_90 none\n\tret;\n";

Test(ptx, comments_become_instructions) {
    char why[CA_REASON_BYTES];
    size_t bytes;

    /* Drivers count the 0 at its end, or do not. */
    for (size_t more = 0; more < 2; more++) {
        char *made;
        cr_assert(ca_ptx_retarget(handed_out, sizeof handed_out - 1 + more, "sm_90a", &made, &bytes,
                                  why) == CLATTN_SUCCESS);
        cr_expect(bytes == sizeof wanted - 1 + more);
        cr_expect(memcmp(made, wanted, bytes) == 0, "%.*s", (int)bytes, made);
        free(made);
    }
}

/* A kernel's directives stand before its own body. */
Test(ptx, directives_come_before_the_body) {
    static const char two[] = ".target sm_90\n.entry a(\n)\n.reqntid 1\n{\n//sm_90a x;\n{ y; }\n}\n"
                              ".entry b(\n)\n{\n\t//sm_90a.entry .minnctapersm 3\n//sm_90ab\n}\n",
                      directed[] = ".target sm_90a\n.entry a(\n)\n.reqntid 1\n{\nx;\n{ y; }\n}\n"
                                   ".entry b(\n)\n.minnctapersm 3\n{\n\t\n//sm_90ab\n}\n";
    char why[CA_REASON_BYTES], *made;
    size_t bytes;

    cr_assert(ca_ptx_retarget(two, sizeof two - 1, "sm_90a", &made, &bytes, why) == CLATTN_SUCCESS);
    cr_expect(bytes == sizeof directed - 1 && memcmp(made, directed, bytes) == 0, "%.*s",
              (int)bytes, made);
    free(made);
}

/* PTX ends instructions with a semicolon, and an entry's directives with none. No compiler of tests reads them. */
Test(ptx, directives_of_kernels_end_without_a_semicolon) {
    static const char mark[] = "//sm_90a.entry ";
    const struct ca_family *family;
    size_t found = 0;

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++)
        for (const char *const *text = family->source; *text; text++)
            for (const char *at = *text; (at = strstr(at, mark)) != NULL; at += sizeof mark - 1) {
                const size_t length = strcspn(at, "\"");
                cr_expect(memchr(at, ';', length) == NULL, "%s: %.*s", family->full_name,
                          (int)length, at);
                found++;
            }
    cr_expect(found >= 2, "the kernels of warpgroups have %zu directives", found);
}

Test(ptx, what_cannot_be_retargeted_is_refused) {
    static const struct {
        const char *text, *words;
    } refused[] = {{"", "not PTX for sm_90"},
                   {"\177ELF //sm_90a ret;", "not PTX for sm_90"},
                   {".target sm_86\n//sm_90a ret;", "not PTX for sm_90"},
                   {".target sm_900\n//sm_90a ret;", "not PTX for sm_90"},
                   {".target sm_90a\n//sm_90a ret;", "not PTX for sm_90"},
                   {".target sm_90", "not PTX for sm_90"},
                   {".target sm_90\nret; //sm_90a", "does not have the comments"}};

    for (size_t n = 0; n < sizeof refused / sizeof *refused; n++) {
        char why[CA_REASON_BYTES] = "", *made;
        size_t bytes;
        cr_expect(ca_ptx_retarget(refused[n].text, strlen(refused[n].text), "sm_90a", &made, &bytes,
                                  why) == CLATTN_BUILD_FAILED &&
                  !made);
        cr_expect(strstr(why, refused[n].words), "'%s': %s", refused[n].text, why);
    }
}

/* ---- the library ------------------------------------------------------------------------------ */

static const char *for_sm_90a(const size_t *values)
{
    (void)values;
    return "sm_90a";
}

/* Makes a program of a family that wants sm_90a. */
static clattn_status make(struct fixture *f)
{
    static struct ca_family family; /* the context keeps it with the program */
    struct ca_candidate candidate = {.family = &family};
    const struct ca_problem p = fixture_checked("fwd f32 h2 q9 k20 d8");
    cl_program program;

    family = *ca_family_find("unfused_lanes");
    ca_family_suggest(candidate.family, &p, clattn_context_device(f->context), candidate.values);
    family.ptx_target = for_sm_90a;
    return ca_program_get(f->context, &candidate, &p, ca_trust_check, &program);
}

/* The program of the retargeted PTX is the one that is checked and kept. */
Test(ptx, the_driver_is_given_what_it_handed_out_for_the_other_target) {
    struct faults_ptx driver = {.ptx = handed_out, .source = "__kernel void k(void) {}"};
    struct fixture f;

    fixture_open(&f);
    f.context->skip_self_checks = 1;
    faults_pretend_ptx(&driver);
    cr_expect(make(&f) == CLATTN_SUCCESS, "%s", f.log.last);
    faults_pretend_ptx(NULL);
    cr_expect_str_eq(driver.taken, wanted);
    cr_expect(f.log.warnings == 0, "%s", f.log.last);
    fixture_close(&f);
}

/* A driver whose PTX lacks the instructions gets a verdict that lasts, which is no second attempt; one that does not take
 * the other target says so itself; the binaries of the one at hand are no PTX. Nothing is left of any of them. */
Test(ptx, what_the_driver_does_not_take_is_not_used) {
    static struct {
        struct faults_ptx driver;
        const char *words;
    } drivers[] = {
        {{.ptx = ".target sm_90\n", .source = "__kernel void k(void) {}"},
         "does not have the comments"},
        {{.ptx = handed_out, .source = "__kernel void k(void) { undeclared; }"}, "undeclared"},
        {{.ptx = NULL}, "is not PTX for sm_90"}};

    for (size_t n = 0; n < sizeof drivers / sizeof *drivers; n++) {
        char why[CA_REASON_BYTES];
        struct fixture f;
        fixture_open(&f);
        if (!drivers[n].driver.ptx &&
            strcmp(clattn_context_device(f.context)->architecture, "sm_90") == 0) {
            fixture_close(&f); /* whose binaries are PTX */
            continue;
        }
        faults_pretend_ptx(drivers[n].driver.ptx ? &drivers[n].driver : NULL);
        cr_expect(make(&f) == CLATTN_BUILD_FAILED);
        cr_expect(f.log.warnings == 1);
        cr_expect(ca_program_last_failure(f.context, why) && strstr(why, drivers[n].words), "%s",
                  why);
        cr_expect(make(&f) == CLATTN_BUILD_FAILED);
        cr_expect(clattn_context_builds(f.context) == 0);
        faults_pretend_ptx(NULL);
        fixture_close(&f);
    }
}

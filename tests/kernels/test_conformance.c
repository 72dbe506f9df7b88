/* SPDX-License-Identifier: Apache-2.0 */
/* Cases that others wrote (tests/data/conformance), through the public API on the family that the
 * library chooses, every second in a nightly run; one in twelve on every family. Results
 * are compared with the values in the files and with the reference. Where the library chooses, one
 * in eight is optimised. */
#include "tests/faults/faults.h"
#include "tests/support/families.h"
#include "tests/support/profiles.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/conformance_case.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

TestSuite(conformance, .timeout = 600);

/* ---- all files, on every family -------------------------------------------------------------- */

/* A family (by number, the last: whichever the library chooses), and every `shares`-th file from `share` on. */
struct portion {
    size_t family, share, shares;
};

ParameterizedTestParameters(conformance, portion) {
    static struct portion portions[32];
    size_t count = 0;

    for (size_t family = 0; count + 4 <= 32; family++) {
        const char *name = clattn_family_name(CLATTN_FORWARD, family);
        const size_t shares = name ? 1 : 4;
        for (size_t share = 0; share < shares && family_takes_f32(name); share++)
            portions[count++] = (struct portion){family, share, shares};
        if (!name)
            break;
    }
    return cr_make_param_array(struct portion, portions, count);
}

ParameterizedTest(struct portion *portion, conformance, portion) {
    struct trial t = {.family = clattn_family_name(CLATTN_FORWARD, portion->family), .seed = 1};
    struct fixture f;
    int count;
    struct dirent **files = conformance_files(&count);

    if (t.family)
        unoptimised();
    else
        mostly_unoptimised(portion->share, 8);
    fixture_open(&f);
    for (size_t n = portion->share; n < (size_t)count; n += portion->shares)
        if (run_takes(n / portion->shares + 5 * portion->family, t.family ? 12 : 2))
            conformance_run(&f, files[n]->d_name, NULL, &t);
    fixture_close(&f);
}

/* ---- what each profile would choose, within its limits --------------------------------------- */

/* One of those that differ the most in a run, and a file for it; with CLATTN_TEST_PROFILES=all every file for each. */
ParameterizedTestParameters(emulated, conformance) {
    static const char *const sample[] = {"intel_arc_a750", "minimum", "sm_90"};
    static struct profile list[MOST_PROFILES];
    size_t numbers[sizeof sample / sizeof *sample];
    size_t count = numbers_taken(sizeof sample / sizeof *sample, 0, 3, numbers);

    for (size_t n = 0; n < count; n++)
        list[n] = profile_named(sample[numbers[n]]);
    if (run_all("CLATTN_TEST_PROFILES"))
        count = profiles_read(list);
    return cr_make_param_array(struct profile, list, count);
}

ParameterizedTest(struct profile *profile, emulated, conformance) {
    const int all = run_all("CLATTN_TEST_PROFILES");
    struct trial t = {.seed = 1};
    struct fixture f;
    int count;
    struct dirent **files = conformance_files(&count);

    fixture_open_narrowed(&f, &profile->info);
    faults_largest();
    for (int n = all ? 0 : (int)(strlen(profile->name) * 7 + (size_t)profile->name[3]) % count;
         n < count; n += all ? 1 : count) {
        conformance_run(&f, files[n]->d_name, NULL, &t);
        const struct faults_largest largest = faults_largest();
        cr_assert(largest.work_group <= profile->info.max_work_group_size &&
                      largest.local_bytes <= profile->info.local_memory_bytes,
                  "%s, %s: a work-group of %zu, %llu bytes of local memory", profile->name,
                  files[n]->d_name, largest.work_group, (unsigned long long)largest.local_bytes);
    }
    fixture_close(&f);
}

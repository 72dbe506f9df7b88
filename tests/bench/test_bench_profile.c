/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench with profiles: what a device that is not at hand would run, and a device that claims
 * no more than one. */
#include "bench/profiles/profile.h"
#include "tests/bench/bench_program.h"

#include <clattn/clattn.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

TestSuite(bench_profile, .init = scratch_open, .fini = scratch_close, .timeout = 120);

#define PROBLEM "'fwd f16 b1 h32/8 q1024 k4096 d128 causal=br'"

static void expect(const char *arguments, const int status, const char *const *words)
{
    program_must(BENCH_PROGRAM, status, "", "%s", arguments);
    for (; *words; words++)
        program_expect(*words);
}

Test(bench_profile, plan) {
    expect("plan --profile sm_90 " PROBLEM, 0,
           (const char *[]){"sm_90: NVIDIA H100", "132 compute units", "local memory 226 KiB",
                            "family    fused_gpu", "tunables  UNIT=warpgroup",
                            "not       fused_gpu UNIT=mma: it could", "why       untuned",
                            "needs     work-groups of ", "not       unfused: it could", NULL});
    expect("plan --profile minimum 'fwd f16 h64 q4000 k4000 d64'", 0,
           (const char *[]){"32-bit addresses", "family    fused_gpu",
                            "not       unfused: the scores", NULL});
    expect("plan --profile mali_g710 'layer fwd f16 h12 q197 d64 model=768'", 0,
           (const char *[]){"layer fwd f16", "reserve 0 bytes", "proj f16", "projection_gpu",
                            "fused_gpu", NULL});
    expect("plan --profile gfx1100 --family unfused --tunables BLOCK_K=8 'fwd f32 q64 k64 d64'", 0,
           (const char *[]){"family    unfused", "BLOCK_K=8", "the caller forced it", NULL});
}

Test(bench_profile, refusals) {
    expect(
        "plan --profile nowhere " PROBLEM, 1,
        (const char *[]){"'nowhere' is no file", "adreno_730 gfx1030", "sm_75 sm_86 sm_90", NULL});
    expect("plan --profile " TEST_DATA "/../CMakeLists.txt " PROBLEM, 1,
           (const char *[]){"CMakeLists.txt: line 1 is not JSON", NULL});
    expect("plan --profile minimum --device 0 " PROBLEM, 2,
           (const char *[]){"--profile excludes --device", NULL});
    expect("plan --profile minimum 'fwd f32 h1024 q30000 k30000 d64'", 1,
           (const char *[]){"CLATTN_UNSUPPORTED", "32-bit addresses", NULL});
    expect("plan --profile minimum --known-only " PROBLEM, 1,
           (const char *[]){"CLATTN_NOT_TUNED", NULL});
    expect("plan --profile minimum --family unfused 'layer fwd f32 h1 q8 d8 model=8'", 1,
           (const char *[]){"takes no --family", NULL});
    expect("verify --profile nowhere x.safetensors", 1, (const char *[]){"is no file", NULL});
}

Test(bench_profile, json) {
    json_t *root = bench_json(0, "", "plan --profile gfx90a " PROBLEM);
    json_must_be(root, "schema", "clattn-bench-preview-1");
    json_must_be(root, "profile", "gfx90a");
    json_must_be(root, "device.name", "gfx90a:sramecc+:xnack-");
    json_must_be(root, "problems.0.family", "fused_gpu");
    cr_expect(gt(dbl, json_number_at(root, "problems.0.local_bytes"), 0));
    cr_expect(le(dbl, json_number_at(root, "problems.0.work_group_size"), 256));
    size_t families = 0;
    while (clattn_family_name(CLATTN_FORWARD, families))
        families++;
    cr_expect(eq(sz, json_size_at(root, "problems.0.families"), families));
    json_decref(root);
}

/* Every profile that is built in decides, whatever the problem. */
Test(bench_profile, all_are_built_in) {
    struct message why;
    clattn_device_info info;
    size_t count = 0;

    for (; profile_name(count) != NULL; count++)
        cr_expect(profile_read(profile_name(count), &info, &why), "%s", why.text);
    cr_expect(count >= 11);
}

/* A case of the conformance data within the limits of the smallest device. */
Test(bench_profile, verify) {
    clattn_device_info info = {.struct_size = sizeof info};
    cl_device_id device;

    cr_assert(clattn_device_select(NULL, &device) == CLATTN_SUCCESS);
    cr_assert(clattn_device_query(device, &info) == CLATTN_SUCCESS);
    expect("verify --profile minimum " TEST_DATA "/conformance/test_attention_3d.safetensors", 0,
           (const char *[]){"ok ", info.max_work_group_size > 1 ? "fused_gpu" : "unfused", NULL});
}

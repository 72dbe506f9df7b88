/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, devices and plans: every documented status, what is kept alive, what is built. */
#include "base/cache_directory.h"
#include "device/facts.h"
#include "os/process.h"
#include "problem/problem.h"
#include "tests/faults/faults.h"
#include "tests/support/cpus.h"
#include "tests/support/families.h"
#include "tests/support/fixture.h"
#include "tests/support/unoptimised.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(context, .init = unoptimised, .timeout = 120);

#define GARBAGE(type) ((type)(void *)&garbage)
static int garbage; /* an address that no call may leave in an output */

/* ---- versions and names --------------------------------------------------------------------- */

Test(version, headers_and_library_agree) {
    char text[32];

    snprintf(text, sizeof text, "%d.%d.%d", CLATTN_VERSION_MAJOR, CLATTN_VERSION_MINOR,
             CLATTN_VERSION_PATCH);
    cr_expect_str_eq(clattn_version_string(), text);
    cr_expect_str_eq(CLATTN_VERSION_STRING, text);
    cr_expect(clattn_version_number() ==
              10000u * CLATTN_VERSION_MAJOR + 100u * CLATTN_VERSION_MINOR + CLATTN_VERSION_PATCH);
}

Test(version, every_status_has_its_name) {
    cr_expect_str_eq(clattn_status_string(CLATTN_SUCCESS), "CLATTN_SUCCESS");
    for (int n = 0; n <= CLATTN_MISCOMPILED; n++)
        for (int m = 0; m < n; m++)
            cr_expect_str_neq(clattn_status_string((clattn_status)n),
                              clattn_status_string((clattn_status)m));
    cr_expect_str_eq(clattn_status_string((clattn_status)9999), "unknown clattn_status");
    cr_expect_str_eq(clattn_status_string((clattn_status)-1), "unknown clattn_status");
}

/* ---- devices -------------------------------------------------------------------------------- */

Test(context, device_list_and_query) {
    cl_device_id devices[16];
    size_t count = 0, again = 0;
    clattn_device_info info = {.struct_size = sizeof info};

    cr_assert(clattn_device_list(NULL, 0, &count) == CLATTN_SUCCESS && count > 0);
    devices[1] = GARBAGE(cl_device_id);
    cr_assert(clattn_device_list(devices, 1, &again) == CLATTN_SUCCESS && again == count);
    cr_expect(devices[1] == GARBAGE(cl_device_id), "wrote past the capacity");
    cr_expect(clattn_device_list(devices, 1, NULL) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_device_list(NULL, 1, &again) == CLATTN_INVALID_ARGUMENT && again == 0);

    cr_assert(clattn_device_query(devices[0], &info) == CLATTN_SUCCESS);
    cr_expect(info.device == devices[0] && info.name[0] && info.platform_name[0]);
    cr_expect(info.opencl_version >= 10 && info.max_work_group_size > 0);
    cr_expect(info.max_allocation_bytes > 0 && info.compute_units > 0);
    cr_expect(clattn_device_query(devices[0], NULL) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_device_query(NULL, &info) == CLATTN_INVALID_ARGUMENT);
    cr_expect(info.name[0] == 0 && info.struct_size == sizeof info, "cleared on failure");
    info.struct_size = 8;
    cr_expect(clattn_device_query(devices[0], &info) == CLATTN_INVALID_ARGUMENT);
}

/* Facts from vendors' extensions, as told by drivers that this machine has not. */
Test(context, device_architecture) {
    static const char nvidia[] = "cl_khr_fp64 cl_nv_device_attribute_query";
    static const char amd_name[] = "gfx90a:x+";
    static const char amd[] = "cl_amd_device_attribute_query cl_khr_fp16";
    static const char intel[] = "cl_intel_device_attribute_query cl_intel_required_subgroup_size";
    static const cl_uint major = 9, minor = 0, warp = 32, wave = 64;
    static const cl_uint version = 12u << 22 | 55u << 14;
    static const size_t sizes[] = {32, 8, 16};
    static char many[6000];
    clattn_device_info info = {.struct_size = sizeof info};
    cl_device_id device;

    cr_assert(clattn_device_select(NULL, &device) == CLATTN_SUCCESS);
    cr_assert(clattn_device_query(device, &info) == CLATTN_SUCCESS);
    const bool is_nvidia = strstr(info.extensions, "cl_nv_device_attribute_query") != NULL;
    faults_pretend(CL_DEVICE_EXTENSIONS, nvidia, sizeof nvidia);
    cr_assert(clattn_device_query(device, &info) == CLATTN_SUCCESS);
    if (!is_nvidia)
        cr_expect(strncmp(info.architecture, "sm_", 3) != 0 && info.sub_group_size == 0,
                  "a driver that lies");
    faults_pretend(0x4000, &major, sizeof major);
    faults_pretend(0x4001, &minor, sizeof minor);
    faults_pretend(0x4003, &warp, sizeof warp);
    cr_assert(clattn_device_query(device, &info) == CLATTN_SUCCESS);
    cr_expect_str_eq(info.architecture, "sm_90");
    cr_expect(info.sub_group_size == 32 && info.fp64 && !info.fp16);
    faults_pretend(0, NULL, 0);

    faults_pretend(CL_DEVICE_EXTENSIONS, amd, sizeof amd);
    faults_pretend(CL_DEVICE_NAME, amd_name, sizeof amd_name);
    faults_pretend(0x4043, &wave, sizeof wave);
    cr_assert(clattn_device_query(device, &info) == CLATTN_SUCCESS);
    cr_expect_str_eq(info.architecture, "gfx90a");
    cr_expect(info.sub_group_size == 64 && info.fp16 && !info.fp64);
    faults_pretend(0, NULL, 0);

    faults_pretend(CL_DEVICE_EXTENSIONS, intel, sizeof intel);
    faults_pretend(0x4108, sizes, sizeof sizes);
    faults_pretend(0x4250, &version, sizeof version);
    cr_assert(clattn_device_query(device, &info) == CLATTN_SUCCESS);
    cr_expect_str_eq(info.architecture, "intel_12.55");
    cr_expect(info.sub_group_size == 8);
    faults_pretend(0, NULL, 0);

    memset(many, 'x', sizeof many - 1); /* two words, the second cut off */
    memcpy(many, "cl_khr_fp16 ", 12);
    faults_pretend(CL_DEVICE_EXTENSIONS, many, sizeof many);
    cr_assert(clattn_device_query(device, &info) == CLATTN_SUCCESS);
    cr_expect_str_eq(info.extensions, "cl_khr_fp16");
    faults_pretend(0, NULL, 0);
}

/* Arrays of kernels may be larger than what NVIDIA's driver states, which is for arguments (doc/design/drivers.md). */
Test(context, device_with_more_local_memory_than_stated) {
    static const struct {
        char driver[16];
        cl_uint major, minor;
        unsigned kilobytes; /* 0: as stated */
    } drivers[] = {{"580.159.04", 9, 0, 226},
                   {"600.1", 9, 0, 226},
                   {"575.57.08", 9, 0, 0},
                   {"580.159.04", 8, 6, 0}};
    static const char nvidia[] = "cl_nv_device_attribute_query";
    static const cl_ulong stated = 48 << 10;
    clattn_device_info info = {.struct_size = sizeof info};
    cl_device_id device;

    cr_assert(clattn_device_select(NULL, &device) == CLATTN_SUCCESS);
    for (size_t n = 0; n < sizeof drivers / sizeof *drivers; n++) {
        const cl_ulong expected =
            drivers[n].kilobytes ? (cl_ulong)drivers[n].kilobytes << 10 : stated;
        faults_pretend(CL_DEVICE_EXTENSIONS, nvidia, sizeof nvidia);
        faults_pretend(CL_DRIVER_VERSION, drivers[n].driver, sizeof drivers[n].driver);
        faults_pretend(CL_DEVICE_LOCAL_MEM_SIZE, &stated, sizeof stated);
        faults_pretend(0x4000, &drivers[n].major, sizeof drivers[n].major);
        faults_pretend(0x4001, &drivers[n].minor, sizeof drivers[n].minor);
        cr_assert(clattn_device_query(device, &info) == CLATTN_SUCCESS);
        cr_expect(info.local_memory_bytes == expected, "%s on driver %s: %llu", info.architecture,
                  drivers[n].driver, (unsigned long long)info.local_memory_bytes);
        faults_pretend(0, NULL, 0);
    }
}

/* PoCL newer than 3 compiles work-groups of several items wrongly on CPUs (doc/design/drivers.md). */
Test(context, device_with_groups_of_one_item) {
    static const struct {
        char driver[16];
        cl_device_type type;
        int one;
    } drivers[] = {{"3.1+debian", CL_DEVICE_TYPE_CPU, 0},
                   {"5.0+debian", CL_DEVICE_TYPE_CPU, 1},
                   {"6.0-6", CL_DEVICE_TYPE_CPU, 1},
                   {"10.2", CL_DEVICE_TYPE_CPU, 1},
                   {"6.0-6", CL_DEVICE_TYPE_GPU, 0}};
    clattn_device_info info = {.struct_size = sizeof info};
    cl_device_id device;
    size_t stated;

    cr_assert(clattn_device_select(NULL, &device) == CLATTN_SUCCESS);
    cr_assert(clattn_device_query(device, &info) == CLATTN_SUCCESS);
    cr_assert(clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof stated, &stated,
                              NULL) == CL_SUCCESS);
    if (!ca_facts_of_pocl(&info))
        cr_skip_test("the device is none of PoCL's");
    for (size_t n = 0; n < sizeof drivers / sizeof *drivers; n++) {
        faults_pretend(CL_DRIVER_VERSION, drivers[n].driver, sizeof drivers[n].driver);
        faults_pretend(CL_DEVICE_TYPE, &drivers[n].type, sizeof drivers[n].type);
        cr_assert(clattn_device_query(device, &info) == CLATTN_SUCCESS);
        cr_expect(info.max_work_group_size == (drivers[n].one ? 1 : stated), "PoCL %s: %zu",
                  drivers[n].driver, info.max_work_group_size);
        cr_expect((info.max_work_item_sizes[0] == 1) == drivers[n].one);
        faults_pretend(0, NULL, 0);
    }
}

/* A device without work-groups of several items refuses families that need them, and takes all
 * others. Tests use this to skip families there. */
Test(context, families_with_groups) {
    clattn_device_info none = cpu_described(0);
    const struct ca_family *family;
    size_t refused = 0, taken = 0;

    none.max_work_group_size = none.max_work_item_sizes[0] = 1;
    none.max_work_item_sizes[1] = none.max_work_item_sizes[2] = 1;
    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++) {
        const struct ca_problem p =
            fixture_checked(family_text(family->full_name, fixture_examples[family->operation]));
        size_t values[CA_MAX_TUNABLES] = {0};
        char reason[CA_REASON_BYTES];
        ca_family_suggest(family, &p, &none, values);
        const char *why = ca_family_refusal(family, &p, &none, values, reason, sizeof reason);
        cr_expect((why != NULL) == fixture_has_groups(family, &none), "%s: %s", family->full_name,
                  why ? why : "taken");
        refused += why != NULL;
        taken += why == NULL;
    }
    cr_expect(refused >= 3 && taken >= 5, "%zu refused, %zu taken", refused, taken);
}

Test(context, device_select) {
    cl_device_id first, chosen = GARBAGE(cl_device_id);
    clattn_device_info info = {.struct_size = sizeof info};
    char part[8] = "";

    cr_assert(clattn_device_select("0", &first) == CLATTN_SUCCESS);
    cr_assert(clattn_device_query(first, &info) == CLATTN_SUCCESS);
    for (size_t n = 0; n + 1 < sizeof part && info.name[n]; n++) /* its name, case changed */
        part[n] =
            (char)(info.name[n] >= 'a' && info.name[n] <= 'z' ? info.name[n] - 32 : info.name[n]);
    cr_expect(clattn_device_select(part, &chosen) == CLATTN_SUCCESS && chosen == first, "%s", part);
    cr_expect(clattn_device_select("no such device", &chosen) == CLATTN_NO_DEVICE && !chosen);
    chosen = GARBAGE(cl_device_id);
    cr_expect(clattn_device_select("999", &chosen) == CLATTN_NO_DEVICE && !chosen);
    cr_expect(clattn_device_select("0", NULL) == CLATTN_INVALID_ARGUMENT);
}

/* ---- contexts ------------------------------------------------------------------------------- */

Test(context, statuses) {
    struct log log = {0};
    clattn_context_options options = {
        .struct_size = sizeof options, .log = log_message, .log_user_data = &log};
    clattn_context *context = GARBAGE(clattn_context *);
    cl_device_id device;
    cl_int err;

    cr_assert(clattn_device_select(NULL, &device) == CLATTN_SUCCESS);
    cl_context opencl = clCreateContext(NULL, 1, &device, NULL, NULL, &err);
    cr_assert(err == CL_SUCCESS);
    cr_expect(clattn_context_create(NULL, device, &options, &context) == CLATTN_INVALID_ARGUMENT);
    cr_expect(context == NULL && log.errors == 1);
    cr_expect(clattn_context_create(opencl, NULL, &options, &context) == CLATTN_INVALID_ARGUMENT);
    cr_expect(log.errors == 2);
    cr_expect(clattn_context_create(opencl, device, &options, NULL) == CLATTN_INVALID_ARGUMENT);
    cr_expect(strstr(log.last, "context is null") != NULL);
    cr_expect(clattn_context_create_default(NULL, &options, NULL) == CLATTN_INVALID_ARGUMENT);
    cr_expect(log.errors == 4);
    options.struct_size = 0; /* forgotten */
    cr_expect(clattn_context_create(opencl, device, &options, &context) == CLATTN_INVALID_ARGUMENT);
    cr_expect(strstr(log.last, "struct_size is 0") != NULL, "%s", log.last);
    cr_expect(clattn_context_create_default(NULL, &options, &context) == CLATTN_INVALID_ARGUMENT);
    options.struct_size = sizeof options - 1; /* another version's */
    cr_expect(clattn_context_create(opencl, device, &options, &context) == CLATTN_INVALID_ARGUMENT);
    cr_expect(log.errors == 7);
    options.struct_size = SIZE_MAX; /* of a struct that nobody has filled in */
    memset(&options.log, 0x55, sizeof options.log);
    cr_expect(clattn_context_create(opencl, device, &options, &context) == CLATTN_INVALID_ARGUMENT);
    options.struct_size = sizeof options;
    options.log = log_message;
    cr_expect(clattn_context_create(opencl, GARBAGE(cl_device_id), &options, &context) ==
                  CLATTN_INVALID_ARGUMENT,
              "a device that is not the context's");
    cr_expect(strstr(log.last, "device") != NULL);
    options.struct_size = 1;
    context = GARBAGE(clattn_context *);
    cr_expect(clattn_context_create(opencl, device, &options, &context) == CLATTN_INVALID_ARGUMENT);
    cr_expect(context == NULL);
    cr_expect(clattn_context_create_default(NULL, &options, &context) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_context_create_default(NULL, NULL, NULL) == CLATTN_INVALID_ARGUMENT);
    options.struct_size = sizeof options;
    context = GARBAGE(clattn_context *);
    cr_expect(clattn_context_create_default("no such", &options, &context) == CLATTN_NO_DEVICE);
    cr_expect(context == NULL && strstr(log.last, "no such") != NULL);

    cr_expect(clattn_context_create(opencl, device, NULL, &context) == CLATTN_SUCCESS);
    clReleaseContext(opencl);
    cr_expect(clattn_context_opencl(context) == opencl, "retained");
    cr_expect(clattn_context_device(context)->device == device);
    cr_expect(clattn_context_builds(context) == 0);
    clattn_context_release(context);
    clattn_context_release(NULL);
    cr_expect(clattn_context_opencl(NULL) == NULL && clattn_context_device(NULL) == NULL);
    cr_expect(clattn_context_builds(NULL) == 0);
    cr_expect(faults_objects_alive(NULL, 0) == 0);
}

/* A relative XDG_CACHE_HOME is as if unset, as the XDG specification says, and so is a relative HOME. No home directory
 * is made. */
Test(context, cache_directory) {
#if defined(_WIN32)
    static const char *const names[3] = {"CLATTN_CACHE_DIR", "LOCALAPPDATA", "LOCALAPPDATA"};
    static const struct {
        const char *own, *xdg, *home, *want;
    } cases[] = {
        {NULL, "", "C:\\local", "C:\\local/clattn"},
        {NULL, "", "relative", NULL},
        {NULL, "", NULL, NULL},
        {NULL, "", "C:\\nonexistent\\local", NULL},
        {"own", "", "C:\\local", "own"},
        {"none", "", "C:\\local", NULL},
    };
#else
    static const char *const names[3] = {"CLATTN_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
    static const struct {
        const char *own, *xdg, *home, *want;
    } cases[] = {
        {NULL, "/xdg", "/home", "/xdg/clattn"},
        {NULL, "relative", "/home", "/home/.cache/clattn"},
        {NULL, "./relative", "/home", "/home/.cache/clattn"},
        {NULL, "relative", NULL, NULL},
        {NULL, NULL, "relative", NULL},
        {NULL, NULL, "/nonexistent", NULL},
        {NULL, "/nonexistent/cache", "/home", NULL},
        {NULL, "", "/home", "/home/.cache/clattn"},
        {"own", "relative", "/home", "own"},
        {"", "/xdg", "/home", NULL},
        {"none", "/xdg", "/home", NULL},
    };
#endif

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const char *const values[] = {cases[n].own, cases[n].xdg, cases[n].home};
        for (size_t v = 0; v < 3; v++)
            ca_variable_set(names[v], values[v]);
        char why[512];
        int refused;
        char *found = ca_cache_directory(NULL, &refused, why, sizeof why);
        cr_expect(!refused, "case %zu: %s", n, why);
        cr_expect(cases[n].want ? found && strcmp(found, cases[n].want) == 0 : !found,
                  "case %zu: %s", n, found ? found : "none");
        free(found);
    }
}

/* ---- plans ---------------------------------------------------------------------------------- */

/* clattn_plan_supports() and clattn_plan_create() say the same, in status and sentence. */
static void refused(struct fixture *f, const clattn_problem *problem,
                    const clattn_plan_options *options, const clattn_status want, const char *words)
{
    clattn_plan *plan = GARBAGE(clattn_plan *);

    cr_expect(clattn_plan_supports(f->context, problem, options) == want);
    const char *reason = clattn_context_last_error(f->context);
    cr_expect(strstr(reason, words) != NULL, "'%s' lacks '%s'", reason, words);
    cr_expect(clattn_plan_create(f->context, problem, options, &plan) == want);
    cr_expect(plan == NULL);
    cr_expect(fixture_said(f, words));
}

/* Devices that this machine has not, by a driver that says so. */
Test(context, devices_that_cannot) {
    static const cl_bool no = CL_FALSE;
    static const char old[] = "OpenCL 1.1 Old";
    static const struct {
        cl_device_info what;
        const void *value;
        size_t bytes;
        clattn_status status;
        const char *words;
    } devices[] = {
        {CL_DEVICE_COMPILER_AVAILABLE, &no, sizeof no, CLATTN_NO_COMPILER, "compiler"},
        {CL_DEVICE_ENDIAN_LITTLE, &no, sizeof no, CLATTN_UNSUPPORTED, "big-endian"},
        {CL_DEVICE_VERSION, old, sizeof old, CLATTN_UNSUPPORTED, "OpenCL 1.2 is needed"},
    };
    struct log log = {0};
    const clattn_context_options options = {.struct_size = sizeof options,
                                            .log = log_message,
                                            .log_user_data = &log,
                                            .cache_directory = ""};

    for (size_t n = 0; n < sizeof devices / sizeof *devices; n++) {
        clattn_context *context = GARBAGE(clattn_context *);
        faults_pretend(devices[n].what, devices[n].value, devices[n].bytes);
        const clattn_status status = clattn_context_create_default(NULL, &options, &context);
        faults_pretend(0, NULL, 0);
        cr_expect(status == devices[n].status, "device %zu: %s", n, clattn_status_string(status));
        cr_expect(context == NULL);
        cr_expect(strstr(log.last, devices[n].words) != NULL, "device %zu", n);
    }
    cr_expect(faults_objects_alive(NULL, 0) == 0, "an OpenCL object leaked");
}

DeviceTest(context, plan_refusals)
{
    static const struct {
        const char *family, *tunables;
        clattn_status status;
        const char *words;
    } wrong[] = {
        {"no_such_family", NULL, CLATTN_UNSUPPORTED, "no_such_family"},
        {NULL, "BLOCK_N=96", CLATTN_INVALID_ARGUMENT, "family"},
        {"fused_cpu UNIT=vector", "NO_SUCH=1", CLATTN_UNSUPPORTED, "NO_SUCH"},
        {"fused_cpu UNIT=vector", "BLOCK_N=97", CLATTN_UNSUPPORTED, "BLOCK_N"},
        {"fused_cpu UNIT=vector", "BLOCK_N=96 BLOCK_N=96", CLATTN_UNSUPPORTED, "BLOCK_N"},
        {"fused_cpu UNIT=vector", "BLOCK_N", CLATTN_UNSUPPORTED, "BLOCK_N"},
        {"fused_cpu UNIT=vector", "BLOCK_N=96x", CLATTN_UNSUPPORTED, "BLOCK_N"},
        {"fused_cpu UNIT=vector", "BLOCK_N=-96", CLATTN_UNSUPPORTED, "BLOCK_N"},
        {"fused_cpu UNIT=vector", "BLOCK_N=24 QK_KEYS=7", CLATTN_UNSUPPORTED, "QK_KEYS"},
    };
    clattn_problem problem = fixture_problem("fwd f32 q3 k5 d8");
    clattn_plan_options options = {.struct_size = sizeof options};
    clattn_plan *plan;

    refused(f, NULL, NULL, CLATTN_INVALID_ARGUMENT, "problem");
    options.struct_size = 3;
    refused(f, &problem, &options, CLATTN_INVALID_ARGUMENT, "struct_size");
    options.struct_size = sizeof options;
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        options.family = wrong[n].family;
        options.tunables = wrong[n].tunables;
        refused(f, &problem, &options, wrong[n].status, wrong[n].words);
    }
    options.tunables = NULL;
    problem.scores = CLATTN_SCORES_RAW;
    refused(f, &problem, &options, CLATTN_UNSUPPORTED, "fused_cpu UNIT=vector");
    problem = fixture_problem("fwd f32 q3 k5 d8");
    problem.heads = 0;
    refused(f, &problem, NULL, CLATTN_INVALID_PROBLEM, "heads");
    problem.heads = 1;
    cr_expect(clattn_plan_supports(NULL, &problem, NULL) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_plan_create(NULL, &problem, NULL, &plan) == CLATTN_INVALID_ARGUMENT);
    cr_expect(plan == NULL);
    fixture_refused(f, clattn_plan_create(f->context, &problem, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "plan is null");
    cr_expect(clattn_context_builds(f->context) == 0, "a refusal compiles nothing");
}

DeviceTest(context, plan_describe)
{
    clattn_plan_info info = {.struct_size = sizeof info};

    for (size_t n = 0; clattn_family_name(CLATTN_FORWARD, n); n++) {
        if (!family_takes_f32(clattn_family_name(CLATTN_FORWARD, n)))
            continue;
        clattn_plan *plan = fixture_plan(f, "fwd f32 b2 h4/2 q3 k5 d8 causal=br lse",
                                         clattn_family_name(CLATTN_FORWARD, n));
        cr_assert(clattn_plan_describe(plan, &info) == CLATTN_SUCCESS);
        cr_expect_str_eq(family_of_plan(&info), clattn_family_name(CLATTN_FORWARD, n));
        cr_expect_str_eq(info.problem, "fwd f32 b2 h4/2 q3 k5 d8 causal=br lse");
        cr_expect(info.reason && info.reason[0] && info.tunables);

        /* what it says of itself can be forced again */
        const clattn_problem problem = fixture_problem(info.problem);
        const clattn_plan_options options = {
            .struct_size = sizeof options, .family = info.family, .tunables = info.tunables};
        clattn_plan *again;
        cr_expect(clattn_plan_create(f->context, &problem, &options, &again) == CLATTN_SUCCESS,
                  "%s", f->log.last);
        clattn_plan_release(again);
        fixture_refused(f, clattn_plan_describe(plan, NULL), CLATTN_INVALID_ARGUMENT,
                        "info is null");
        cr_expect(clattn_plan_describe(NULL, &info) == CLATTN_INVALID_ARGUMENT);
        clattn_plan_info wrong = {.struct_size = 1};
        cr_expect(clattn_plan_describe(plan, &wrong) == CLATTN_INVALID_ARGUMENT);
        clattn_plan_release(plan);
    }
    clattn_plan_release(NULL);
}

/* A second plan for the same problem, or for other sizes, compiles nothing. */
DeviceTest(context, builds_are_shared)
{
    clattn_plan *a = fixture_plan(f, "fwd f32 q30 k50 d8 causal=tl", NULL);
    const size_t builds = clattn_context_builds(f->context);
    cr_expect(builds >= 1);
    clattn_plan *b = fixture_plan(f, "fwd f32 q30 k50 d8 causal=tl", NULL);
    clattn_plan *c = fixture_plan(f, "fwd f32 q31 k57 d8 causal=br", NULL);
    clattn_plan_release(a);
    clattn_plan *d = fixture_plan(f, "fwd f32 q30 k50 d8 causal=tl", NULL);
    cr_expect(clattn_context_builds(f->context) == builds, "%zu, then %zu", builds,
              clattn_context_builds(f->context));
    clattn_plan_release(b);
    clattn_plan_release(c);
    clattn_plan_release(d);
}

/* Plans keep the context alive, in any order of release. */
DeviceTest(context, plan_outlives_the_context)
{
    clattn_plan_info info = {.struct_size = sizeof info};

    clattn_plan *plan = fixture_plan(f, "fwd f32 q3 k5 d8", NULL);
    clattn_context_release(f->context);
    f->context = NULL;
    cr_expect(clattn_plan_describe(plan, &info) == CLATTN_SUCCESS && info.family != NULL);
    clattn_plan_release(plan);
}

/* Without a callback nothing is said, and nothing breaks. */
Test(context, no_log) {
    clattn_context *context;
    clattn_plan *plan;
    clattn_problem problem = fixture_problem("fwd f32 q3 k5 d8");

    cr_assert(clattn_context_create_default(NULL, NULL, &context) == CLATTN_SUCCESS);
    problem.softcap = NAN;
    cr_expect(clattn_plan_create(context, &problem, NULL, &plan) == CLATTN_INVALID_PROBLEM);
    clattn_context_release(context);
    cr_expect(faults_objects_alive(NULL, 0) == 0);
}

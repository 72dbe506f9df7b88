/* clattn-bench where a driver fails: by an OpenCL layer that makes calls of the real one fail. */
#define _XOPEN_SOURCE 700 /* setenv */
#include "tests/bench/bench_program.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fault {
    char arguments[80], fault[40];
    int status;
    char says[80], never[80];
};

ParameterizedTestParameters(bench_devices, a_failure_has_its_reason) {
    static struct fault faults[] = {
        {"devices", "", 0, "* 0  ", "fail"},
        {"devices", "clGetDeviceIDs:1+", 1, "fails when it is asked for its devices",
         "there is no OpenCL device"},
        {"devices", "clGetDeviceIDs:1+:-1", 1, "there is no OpenCL device", "fails"},
        {"devices", "clGetPlatformIDs:1+", 1, "cannot be listed, though there is a driver",
         "there is no OpenCL device"},
        {"devices", "clGetPlatformIDs:1+:-1001", 1, "there is no OpenCL device", "though"},
        {"devices", "clGetDeviceInfo:1+", 1, " 0  a device without a name", "platform"},
        {"devices --json", "clGetDeviceInfo:1+", 1, "\"failed\": \"its driver fails", "\"vendor\""},
        {"plan 'fwd f32 q3 d8'", "clGetDeviceIDs:1+", 1, "a driver fails when it is asked",
         "no driver is installed"},
        {"plan 'fwd f32 q3 d8'", "clGetDeviceInfo:1+", 1, "a driver fails when it is asked",
         "no driver is installed"},
        {"plan 'fwd f32 q3 d8'", "clGetDeviceIDs:1+:-1", 1, "no driver is installed, none has",
         "a driver fails"},
        {"run --device all --peers none 'fwd f32 q3 d8'", "clGetDeviceInfo:1+", 1,
         "its driver fails when it is asked", "GFLOP/s"},
    };
    return cr_make_param_array(struct fault, faults, sizeof faults / sizeof *faults);
}

/* Without CLATTN_DEVICE, as most people call it. */
ParameterizedTest(struct fault *f, bench_devices, a_failure_has_its_reason) {
    char text[8192];

#ifndef FAULT_LAYER
    cr_skip_test("OpenCL's headers here are older than layers");
#else
    setenv("OPENCL_LAYERS", FAULT_LAYER, 1);
#endif
    setenv("FAULT", "clGetPlatformIDs:1+:-1001", 1);
    unsetenv("CLATTN_DEVICE");
    if (bench_run("devices", text, sizeof text) == 0)
        cr_skip_test("this OpenCL loader does not take layers");
    setenv("FAULT", f->fault, 1);
    const int status = bench_run(f->arguments, text, sizeof text);
    cr_expect(eq(int, status, f->status), "%s: %s", f->fault, text);
    cr_expect(strstr(text, f->says) != NULL, "%s: %s", f->fault, text);
    cr_expect(strstr(text, f->never) == NULL, "%s: %s", f->fault, text);
}

/* Its facts fail, its type does not: it would be used, and the mark stays with it. */
Test(bench_devices, the_mark_stays_with_a_device_that_fails) {
    char text[8192], fault[40];
    bool seen = false;

#ifndef FAULT_LAYER
    cr_skip_test("OpenCL's headers here are older than layers");
#else
    setenv("OPENCL_LAYERS", FAULT_LAYER, 1);
#endif
    unsetenv("CLATTN_DEVICE");
    for (int n = 1; n < 40 && !seen; n++) {
        snprintf(fault, sizeof fault, "clGetDeviceInfo:%d", n);
        setenv("FAULT", fault, 1);
        const int status = bench_run("devices", text, sizeof text);
        const bool unsure = strstr(text, "cannot be found out") != NULL;
        seen = strstr(text, "its driver fails when it is asked for the device's facts") != NULL;
        cr_expect(eq(int, status, seen || unsure ? 1 : 0), "%s", text);
        cr_expect(unsure || strstr(text, "* 0  ") != NULL || strstr(text, "* 1  ") != NULL, "%s",
                  text);
    }
    if (!seen)
        cr_skip_test("this OpenCL loader does not take layers");
}

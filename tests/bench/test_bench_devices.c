/* SPDX-License-Identifier: Apache-2.0 */
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

/* As most people call it: without CLATTN_DEVICE. */
static void use_layer(void)
{
#ifndef FAULT_LAYER
    cr_skip_test("OpenCL's headers here are older than layers");
#else
    setenv("OPENCL_LAYERS", FAULT_LAYER, 1);
#endif
    unsetenv("CLATTN_DEVICE");
}

ParameterizedTest(struct fault *f, bench_devices, a_failure_has_its_reason) {
    use_layer();
    setenv("FAULT", "clGetPlatformIDs:1+:-1001", 1);
    if (program_run(BENCH_PROGRAM, "devices") == 0)
        cr_skip_test("this OpenCL loader does not take layers");
    setenv("FAULT", f->fault, 1);
    program_must(BENCH_PROGRAM, f->status, f->says, "%s", f->arguments);
    cr_expect(not(program_said(f->never)), "%s: %s", f->fault, program_text);
}

/* Its facts fail, its type does not: it would be used, and the mark stays with it. */
Test(bench_devices, the_mark_stays_with_a_device_that_fails) {
    char fault[40];
    bool seen = false;

    use_layer();
    for (int n = 1; n < 40 && !seen; n++) {
        snprintf(fault, sizeof fault, "clGetDeviceInfo:%d", n);
        setenv("FAULT", fault, 1);
        const int status = program_run(BENCH_PROGRAM, "devices");
        const bool unsure = program_said("cannot be found out");
        seen = program_said("its driver fails when it is asked for the device's facts");
        cr_expect(eq(int, status, seen || unsure ? 1 : 0), "%s", program_text);
        cr_expect(unsure || program_said("* 0  ") || program_said("* 1  "), "%s", program_text);
    }
    if (!seen)
        cr_skip_test("this OpenCL loader does not take layers");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/timing/peak_form.h"
#include "bench/timing/timing.h"
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_SECONDS 0.03
#define SHORTEST_LAUNCH 0.001 /* Launching costs some 25 us on PoCL. */
#define LONGEST_LAUNCH 0.1
#define UNROLLED 16            /* As in peaks.cl. */
#define MOST_ROUNDS (1u << 26) /* A kernel of so many that is short has lost its work. */
#define LARGEST_GROUP 256
#define GROUPS_PER_UNIT 16

extern const char bench_source_peaks[];

/* Devices that a form suits. */
enum suits {
    WIDE, /* A work-item for itself with vectors as wide as the machine's: PoCL, Intel's runtime. */
    NARROW, /* The driver makes vectors out of neighbours: GPUs, llvmpipe. */
    PAIRS,  /* Multiply pairs of bf16. */
    TILES,  /* Multiply tiles of bf16. */
    HALF_WIDE,
    HALF_NARROW
};

enum {
    PAIR_DEPTH = 2,
    TILE_DEPTH = 16 * 32
}; /* a vector's lanes in a tile: 16 rows, 32 products each */

static const struct {
    enum suits suits;
    enum peak_kind kind;
    unsigned lanes, chains;
    const char *operation;
    unsigned depth;
    bool accumulates, alone;
} forms_known[] = {
    {WIDE, PEAK_F32, 0, 8, "fma", 0, false, true},
    {WIDE, PEAK_F32, 0, 12, "fma", 0, true, true},
    {WIDE, PEAK_F32, 0, 16, "fma", 0, true, true},
    {WIDE, PEAK_F32, 0, 12, "mad", 0, false, true},
    {NARROW, PEAK_F32, 1, 8, "fma", 0, false, false},
    {NARROW, PEAK_F32, 1, 12, "mad", 0, false, false}, /* llvmpipe multiplies, then adds */
    {NARROW, PEAK_F32, 1, 16, "fma", 0, true, false},
    {NARROW, PEAK_F32, 2, 8, "fma", 0, true,
     false}, /* two multiply-adds in one instruction on AMD's CDNA */
    {NARROW, PEAK_F32, 4, 4, "fma", 0, true, false}, /* one load brings four operands */
    {NARROW, PEAK_F32, 4, 4, "mad", 0, false, false},
    {PAIRS, PEAK_BF16, 16, 12, "dot_pairs", PAIR_DEPTH, true, true},
    {PAIRS, PEAK_BF16, 16, 16, "dot_pairs", PAIR_DEPTH, true, true},
    {TILES, PEAK_BF16, 16, 4, "multiply_tiles", TILE_DEPTH, true, true},
    {HALF_WIDE, PEAK_F16, 16, 12, "fma", 0, false, true},
    {HALF_WIDE, PEAK_F16, 16, 12, "mad", 0, false, true},
    {HALF_WIDE, PEAK_F16, 1, 12, "mad", 0, false, false},
    {HALF_NARROW, PEAK_F16, 1, 16, "fma", 0, true, false},
    {HALF_NARROW, PEAK_F16, 2, 12, "fma", 0, true, false}, /* two halves share a register */
    {HALF_NARROW, PEAK_F16, 4, 8, "fma", 0, true, false},
    {HALF_NARROW, PEAK_F16, 2, 8, "mad", 0, false, false},
};

/* Without this claim fma may be software that takes half a minute to compile (llvmpipe), and mad is
 * as fast as can be. */
static bool claims_fma(const clattn_device_info *info)
{
    cl_device_fp_config config = 0;

    clGetDeviceInfo(info->device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, NULL);
    return (config & CL_FP_FMA) != 0;
}

static bool is_suited(const clattn_device_info *info, enum suits suits)
{
    const bool vectors = (info->type & CL_DEVICE_TYPE_CPU) != 0 && info->vector_width_float >= 4;

    switch (suits) {
    case WIDE:
        return vectors;
    case NARROW:
        return !vectors;
    case PAIRS:
        return ca_multiplies_bf16_pairs(info);
    case TILES:
        return ca_multiplies_bf16_tiles(info);
    default:
        return info->fp16 && vectors == (suits == HALF_WIDE);
    }
}

size_t peak_form_list(struct peak_form forms[PEAK_MOST_FORMS], const clattn_device_info *info)
{
    const bool fma = claims_fma(info);
    const unsigned width = info->vector_width_float;
    const size_t largest = info->max_work_group_size;
    size_t count = 0;

    for (size_t n = 0; n < sizeof forms_known / sizeof *forms_known; n++) {
        const bool alone = forms_known[n].alone;
        if (!is_suited(info, forms_known[n].suits) ||
            (strcmp(forms_known[n].operation, "fma") == 0 && !fma))
            continue;
        struct peak_form *form = &forms[count++];
        *form = (struct peak_form){
            .kind = forms_known[n].kind,
            .lanes = forms_known[n].lanes,
            .chains = forms_known[n].chains,
            .operation = forms_known[n].operation,
            .depth = forms_known[n].depth,
            .accumulates = forms_known[n].accumulates,
            .alone = alone,
            .local = alone                     ? 1
                     : largest < LARGEST_GROUP ? largest
                                               : LARGEST_GROUP,
        };
        if (form->lanes == 0)
            form->lanes = width >= 16 ? 16 : width >= 8 ? 8 : 4;
        form->global = form->local * info->compute_units * GROUPS_PER_UNIT;
    }
    return count;
}

bool peak_fail(struct message *why, const char *call, cl_int err)
{
    return message_set(why, "measuring peaks: %s failed with %d", call, err);
}

static bool fail_build(struct message *why, const struct peak_form *form,
                       const struct target *target, cl_int err)
{
    char *log = ca_build_log(form->program, target->info->device);
    char cause[CA_REASON_BYTES];

    if (!log)
        return peak_fail(why, "clBuildProgram", err);
    ca_build_log_cause(log, cause, sizeof cause);
    free(log);
    return message_set(why, "measuring peaks: clBuildProgram failed with %d: %s", err, cause);
}

static bool build(struct peak_form *form, const struct target *target, struct message *why)
{
    const char *source = bench_source_peaks;
    char options[192];
    cl_int err;

    form->program =
        clCreateProgramWithSource(clattn_context_opencl(target->context), 1, &source, NULL, &err);
    if (err != CL_SUCCESS)
        return peak_fail(why, "clCreateProgramWithSource", err);
    snprintf(options, sizeof options,
             "-DREAL=%s -DHALF=%d -DLANES=%u -DCHAINS=%u -DMULTIPLY_ADD=%s -DACCUMULATE=%d "
             "-DSEQUENTIAL=%d -DPAIRS=%d -DTILES=%d",
             form->kind == PEAK_F16 ? "half" : "float", form->kind == PEAK_F16, form->lanes,
             form->chains, form->operation, form->accumulates, form->alone,
             form->depth == PAIR_DEPTH, form->depth == TILE_DEPTH);
    err = clBuildProgram(form->program, 1, &target->info->device, options, NULL, NULL);
    if (err != CL_SUCCESS)
        return fail_build(why, form, target, err);
    form->fma = clCreateKernel(form->program, "peak_fma", &err);
    return err == CL_SUCCESS || peak_fail(why, "clCreateKernel", err);
}

/* One kernel to be launched again and again. */
struct launch {
    const struct target *target;
    cl_kernel kernel;
    size_t global, local;
};

static bool enqueue(void *work, cl_event *end, struct message *why)
{
    const struct launch *launch = work;
    const cl_int err = clEnqueueNDRangeKernel(launch->target->queue, launch->kernel, 1, NULL,
                                              &launch->global, &launch->local, 0, NULL, end);

    return err == CL_SUCCESS || peak_fail(why, "clEnqueueNDRangeKernel", err);
}

bool peak_time_launches(const struct target *target, cl_kernel kernel, size_t global, size_t local,
                        size_t launches, double *seconds, struct message *why)
{
    struct launch launch = {target, kernel, global, local};

    return timing_median(target, enqueue, &launch, launches, seconds, why);
}

static double operations(const struct peak_form *form, cl_uint rounds)
{
    return 2.0 * (form->depth ? form->depth : 1) * form->lanes * form->chains * UNROLLED *
           (double)rounds * (double)form->global;
}

static bool time_rounds(const struct peak_form *form, const struct target *target, cl_uint rounds,
                        size_t launches, double *seconds, struct message *why)
{
    const cl_int err = clSetKernelArg(form->fma, 1, sizeof rounds, &rounds);

    if (err != CL_SUCCESS)
        return peak_fail(why, "clSetKernelArg", err);
    return peak_time_launches(target, form->fma, form->global, form->local, launches, seconds, why);
}

/* A first rate: from launches twice as long each time until one is long enough to be timed. */
static bool calibrate(struct peak_form *form, const struct target *target, struct message *why)
{
    for (cl_uint rounds = 1; rounds < MOST_ROUNDS; rounds *= 2) {
        double seconds;
        if (!time_rounds(form, target, rounds, 3, &seconds, why))
            return false;
        form->best = operations(form, rounds) / seconds;
        if (seconds >= SHORTEST_LAUNCH)
            return true;
    }
    return message_set(why, "measuring peaks: the compiler has removed what was to be timed");
}

bool peak_form_open(struct peak_form *form, const struct target *target, cl_mem out,
                    struct message *why)
{
    const cl_uint two_of_x = 0x3f7f3f7fu, two_of_y = 0x3a833a83u; /* bf16: 0.996 and 0.001 */
    cl_float x = 0.999f, y = 0.001f;

    if (form->kind == PEAK_BF16) {
        memcpy(&x, &two_of_x, sizeof x);
        memcpy(&y, &two_of_y, sizeof y);
    }

    if (form->depth == TILE_DEPTH && !ca_processor_grants_tiles())
        return message_set(why, "measuring peaks: the operating system grants no tile registers");
    if (!build(form, target, why))
        return false;
    cl_int err = clSetKernelArg(form->fma, 0, sizeof out, &out);
    err |= clSetKernelArg(form->fma, 2, sizeof x, &x);
    err |= clSetKernelArg(form->fma, 3, sizeof y, &y);
    if (err != CL_SUCCESS)
        return peak_fail(why, "clSetKernelArg", err);
    return calibrate(form, target, why);
}

void peak_form_close(struct peak_form *form)
{
    if (form->fma != NULL)
        clReleaseKernel(form->fma);
    if (form->program != NULL)
        clReleaseProgram(form->program);
    form->fma = NULL;
    form->program = NULL;
}

bool peak_form_sample(const struct peak_form *form, const struct target *target,
                      double launch_seconds, double *rate, struct message *why)
{
    const double wanted = launch_seconds < SHORTEST_LAUNCH  ? SHORTEST_LAUNCH
                          : launch_seconds > LONGEST_LAUNCH ? LONGEST_LAUNCH
                                                            : launch_seconds;
    const cl_uint rounds = (cl_uint)(wanted * form->best / operations(form, 1)) + 1;
    const size_t launches = wanted * 3.0 > SAMPLE_SECONDS ? 3 : (size_t)(SAMPLE_SECONDS / wanted);
    double seconds;

    if (!time_rounds(form, target, rounds, launches, &seconds, why))
        return false;
    *rate = operations(form, rounds) / seconds;
    return true;
}

void peak_form_describe(const struct peak_form *form, char text[64])
{
    snprintf(text, 64, "%s(%s), %u lane%s, %u chains, groups of %zu", form->operation,
             form->accumulates ? "x,y,a" : "a,x,y", form->lanes, form->lanes > 1 ? "s" : "",
             form->chains, form->local);
}

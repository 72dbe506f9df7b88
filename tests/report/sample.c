#define _POSIX_C_SOURCE 200809L /* strdup */
#include "sample.h"

#include <clattn/problem.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 9

static const struct {
    const char *name, *problem;
} problems[] = {
    {"minilm", "fwd f32 b1 h12 q32 k32 d32"},
    {"minilm", "fwd f32 b1 h12 q256 k256 d32"},
    {"bert-base", "fwd f32 b1 h12 q128 k128 d64"},
    {"bert-base", "fwd f32 b1 h12 q512 k512 d64"},
    {"bert-base", "fwd f32 b8 h12 q128 k128 d64"},
    {"vit-b16", "fwd f32 b1 h12 q197 k197 d64"},
    {"gpt2", "fwd f32 b1 h12 q1024 k1024 d64 causal=tl"},
    {"llama3-8b-prefill-512", "fwd f16 b1 h32/8 q512 k512 d128 causal=tl"},
    {"llama3-8b-prefill-2k", "fwd f16 b1 h32/8 q2048 k2048 d128 causal=tl"},
    {"llama3-8b-prefill-8k", "fwd f16 b1 h32/8 q8192 k8192 d128 causal=tl"},
    {"llama3-8b-decode", "fwd f16 b1 h32/8 q1 k4096 d128 causal=br"},
    {"llama3-8b-decode", "fwd f16 b1 h32/8 q1 k32768 d128 causal=br"},
    {"mistral-7b-window", "fwd f16 b1 h32/8 q8192 k8192 d128 causal=tl window=4095,*"},
    {"gemma2-9b-softcap-prefill-with-a-window",
     "fwd bf16 b1 h16/8 q512 k4096 d256 scale=0.0625 softcap=50 causal=br window=4095,*"},
    {"gpt-oss-20b", "fwd bf16 b1 h64/8 q1024 k1024 d64 causal=tl window=127,* sinks"},
    {"deepseek-mla", "fwd bf16 b1 h128 q512 k512 d192/128 causal=tl"},
    {"whisper-cross", "fwd f32 b1 h20 q1 k1500 d64"},
    {"sd15", "fwd f16 b1 h8 q4096 k4096 d40"},
    {"sd15", "fwd f16 b1 h8 q4096 k77 d40"},
    {"", "fwd f32 b2 h4 q100 k300 d96/80 bias=f32:bhqk qlen klen lse"},
};

#define PROBLEMS (sizeof problems / sizeof *problems)

/* How fast a library is beside clattn, and how that changes with the size of the problem. */
static const struct {
    const char *name, *version, *method;
    double factor, growth;
} peers[] = {
    {"CLBlast", "1.5.3", "GemmStridedBatched, softmax kernel, GemmStridedBatched", 4.1, -0.05},
    {"OpenBLAS", "0.3.21", "cblas_sgemm per head, softmax in C", 1.9, 0.06},
    {"oneDNN", "2.6.3", "matmul, softmax, matmul primitives", 0.9, 0.03},
    {"PyTorch", "2.9.1", "torch.nn.functional.scaled_dot_product_attention", 1.25, 0.0},
};

#define PEERS (sizeof peers / sizeof *peers)

/* -1 to 1, always the same sequence. */
static double draw(void)
{
    static unsigned state = 12345;

    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / (double)(1 << 23) - 1.0;
}

static void fill(struct samples *samples, double middle, double noise)
{
    for (size_t n = 0; n < SAMPLES; n++)
        samples_add(samples, middle * (1.0 + noise * draw()));
}

static struct outcome *add_outcome(struct record *record, const char *name)
{
    struct outcome *outcome = &record->outcome[record->count++];

    snprintf(outcome->implementation, sizeof outcome->implementation, "%s", name);
    outcome->cold_start_source = outcome->cold_start_cache = NAN;
    return outcome;
}

static void time_outcome(struct outcome *outcome, double seconds, double clattn, double noise)
{
    const double ratio = seconds / clattn, margin = seconds == clattn ? 0.0 : noise;

    fill(&outcome->seconds, seconds, noise);
    outcome->ratio = (struct ca_interval){ratio, ratio * (1.0 - margin), ratio * (1.0 + margin)};
    outcome->worst = (struct worst){3e-6, 2.5e-5, 0.12, 4096};
}

static void refuse(struct outcome *outcome, enum outcome_state state, const char *why)
{
    outcome->state = state;
    message_set(&outcome->why, "%s", why);
}

/* What the peers come to on a problem: most of it measured, some of it in each other state. */
static void add_peers(struct record *record, size_t problem, double seconds, double noise)
{
    for (size_t p = 0; p < PEERS; p++) {
        const double size = log(record->flops) - 18.0;
        const double factor = peers[p].factor * exp(peers[p].growth * size + 0.35 * draw());
        struct outcome *outcome = add_outcome(record, peers[p].name);
        if (strstr(record->problem, "bf16") != NULL && p < 2)
            refuse(outcome, OUTCOME_UNSUPPORTED, "computes f32 and f16, not bf16");
        else if (problem == 13)
            refuse(outcome, OUTCOME_UNSUPPORTED, "has no softcap");
        else if (problem == 11 && p == 0)
            refuse(outcome, OUTCOME_FAILED, "was killed by signal 11 (Segmentation fault)");
        else if (problem == 18 && p == 1) {
            refuse(outcome, OUTCOME_WRONG,
                   "its results are out of bounds: off by 0.02 where 2e-05 is allowed");
            outcome->worst = (struct worst){0.02, 2e-5, 1000.0, 4096};
        } else {
            time_outcome(outcome, seconds * factor, seconds, noise);
            if (p == 2 && strstr(record->problem, " f16") != NULL) {
                refuse(outcome, OUTCOME_LOOSE, "keeps the weights in f16");
                outcome->worst = (struct worst){4e-4, 2.5e-5, 16.0, 4096};
            }
        }
    }
}

/* Operations and bytes, the bytes without what a mask hides. */
static void size_up(struct record *record)
{
    clattn_problem p;

    if (clattn_problem_parse(record->problem, &p, NULL, 0) != CLATTN_SUCCESS)
        abort();
    const double element = p.dtype == CLATTN_F32 ? 4.0 : 2.0;
    record->flops = clattn_problem_flops(&p);
    record->bytes = round(element * (double)p.batch *
                          ((double)(p.heads * p.seq_q) + (double)(p.kv_heads * p.seq_kv)) *
                          (double)(p.dim_qk + p.dim_v));
}

/* One problem on a device of these peaks. */
static void fill_record(struct record *record, size_t problem, const struct device_run *run,
                        double quality, double noise)
{
    const double fma = samples_median(&run->peaks.fma[PEAK_F32]),
                 read = samples_median(&run->peaks.read);

    memset(record, 0, sizeof *record);
    snprintf(record->name, sizeof record->name, "%s", problems[problem].name);
    record->problem = strdup(problems[problem].problem);
    record->reason = strdup(problem % 3 == 0 ? "untuned: chosen from the device's facts"
                                             : "tuned for this class of problems on this device");
    record->against = "reference";
    record->workspace_bytes = problem % 4 == 0 ? 1 << 22 : 0;
    size_up(record);
    record->roof = record->flops / fma < record->bytes / read ? ROOF_READ : ROOF_FMA;
    record->copies = record->roof == ROOF_READ ? 8 : 1;
    const double roof = fmax(record->flops / fma, record->bytes / read) * 1e-9;
    const double share = quality * (0.35 + 0.15 * draw() + 0.02 * (log(record->flops) - 16.0));
    const double seconds = roof / share;
    fill(&record->share, share, noise);
    struct outcome *clattn = add_outcome(record, "clattn");
    clattn->configuration =
        strdup("fused_gpu UNIT=item TILE_Q=32 TILE_KV=64 ROWS=4 LANES=8 PREFETCH=1");
    clattn->cold_start_source = 0.9 + 0.4 * draw();
    clattn->cold_start_cache = 0.02 + 0.01 * draw();
    time_outcome(clattn, seconds, seconds, noise);
    fill(&clattn->host, 14e-6, 0.2);
    if (problem % 3 != 0) {
        struct outcome *untuned = add_outcome(record, "clattn untuned");
        untuned->configuration = strdup("fused_cpu UNIT=vector ROWS=8 LANES=4");
        time_outcome(untuned, seconds * (1.4 + 0.5 * draw()), seconds, noise);
        fill(&untuned->host, 15e-6, 0.2);
    }
    add_peers(record, problem, seconds, noise);
}

static struct device_run *add_device(struct run_results *results, const char *name,
                                     const char *platform, const char *driver)
{
    struct device_run *run = results_add(results);

    if (run == NULL)
        abort();
    clattn_device_info *info = &run->info;
    snprintf(info->name, sizeof info->name, "%s", name);
    snprintf(info->vendor, sizeof info->vendor, "%s", platform);
    snprintf(info->platform_name, sizeof info->platform_name, "%s", platform);
    snprintf(info->platform_version, sizeof info->platform_version, "OpenCL 3.0 %s", driver);
    snprintf(info->device_version, sizeof info->device_version, "OpenCL 3.0 %s", driver);
    snprintf(info->driver_version, sizeof info->driver_version, "%s", driver);
    info->type = CL_DEVICE_TYPE_CPU;
    info->opencl_version = info->opencl_c_version = 30;
    info->compute_units = 2;
    info->address_bits = 64;
    info->vector_width_float = 8;
    info->max_work_group_size = 4096;
    info->local_memory_bytes = 1 << 19;
    info->global_memory_bytes = 1ul << 33;
    info->max_allocation_bytes = 1ul << 31;
    info->compiler_available = CL_TRUE;
    info->fp64 = CL_TRUE;
    run->index = results->count - 1;
    return run;
}

static void fill_device(struct device_run *run, double gflops, double gbytes, double quality,
                        double noise, size_t count)
{
    fill(&run->peaks.fma[PEAK_F32], gflops, 0.01);
    fill(&run->peaks.read, gbytes, 0.02);
    fill(&run->peaks.copy, gbytes * 0.8, 0.02);
    snprintf(run->peaks.form[PEAK_F32], sizeof run->peaks.form[PEAK_F32],
             "fma, 16 lanes, 12 chains");
    run->load[0] = 1.9;
    run->load[1] = 1.7;
    run->load[2] = 1.1;
    for (size_t p = 0; p < PEERS; p++) {
        struct peer_note *peer = &run->peer[run->num_peers++];
        snprintf(peer->name, sizeof peer->name, "%s", peers[p].name);
        snprintf(peer->version, sizeof peer->version, "%s", peers[p].version);
        snprintf(peer->method, sizeof peer->method, "%s", peers[p].method);
    }
    struct peer_note *missing = &run->peer[run->num_peers++];
    snprintf(missing->name, sizeof missing->name, "ONNX Runtime");
    message_set(&missing->missing, "the Python package onnxruntime is not installed: pip install "
                                   "onnxruntime onnx numpy");
    run->records = calloc(count + 1, sizeof *run->records);
    if (run->records == NULL)
        abort();
    run->count = count;
    for (size_t n = 0; n < count; n++)
        fill_record(&run->records[n], n, run, quality, noise);
}

static void begin(struct run_results *results)
{
    results_begin(results);
    snprintf(results->date, sizeof results->date, "2026-11-21T10:00:00Z");
    snprintf(results->processor, sizeof results->processor,
             "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz");
    snprintf(results->system, sizeof results->system, "Linux 6.1.0");
    results->processors = 2;
}

void sample_fill_one(struct run_results *results, size_t count)
{
    begin(results);
    fill_device(add_device(results, "pthread-sapphirerapids-Intel(R) Xeon(R) Platinum 8481C",
                           "Portable Computing Language", "PoCL 3.1"),
                95.0, 14.0, 1.0, 0.02, count < PROBLEMS ? count : PROBLEMS);
}

void sample_fill(struct run_results *results)
{
    sample_fill_one(results, PROBLEMS);
    struct device_run *basic =
        add_device(results, "basic-sapphirerapids-Intel(R) Xeon(R) Platinum 8481C",
                   "Portable Computing Language", "PoCL 3.1");
    fill_device(basic, 49.0, 9.0, 0.9, 0.09, 14);
    basic->interrupted = true;
    basic->load[0] = 4.7;
    fill_device(add_device(results,
                           "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz with a name that goes on "
                           "and on, <script>alert(1)</script> & more",
                           "Intel(R) OpenCL", "2025.20.10.0.10_160000"),
                110.0, 14.5, 1.15, 0.015, PROBLEMS);
    struct device_run *llvmpipe =
        add_device(results, "llvmpipe (LLVM 15.0.6, 256 bits)", "rusticl", "22.3.6");
    message_set(&llvmpipe->failed, "was killed by signal 11 (Segmentation fault), saying "
                                   "'LLVM ERROR: Cannot select: intrinsic'");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* offline_cases FOLDER PROFILES SAMPLES SEED all|some|variants: writes the programs that are to be
 * compiled; with "variants" those of standard input for sm_90, a line "PROBLEM | FAMILY NAME=value ..." each, and
 * fails if one is refused. The lines of FOLDER/cases are those that table.py reads, and FOLDER/sources has the
 * begin of each source's hash. FOLDER/<family>.cl is a family's source, and FOLDER/<number>.h
 * the text before it in the program of a case. PROFILES is the folder of the devices' facts.
 * SAMPLES is the number of programs with random tunables for each family and target. */
#include "families/candidate.h"
#include "families/chosen_gradients/chosen_gradients.h"
#include "families/chosen_keys/chosen_keys.h"
#include "families/limits.h"
#include "families/registry.h"
#include "families/source.h"
#include "families/weight_sums/weight_sums.h"
#include "problem/chosen_keys.h"
#include "problem/problem.h"
#include "program/program.h"
#include "program/program_function.h"
#include "program/program_options.h"
#include "program/program_parameters.h"
#include "tests/trials/random_problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* GPUs as compilers call them (table.py has their limits), and the profile of each. Those with a number of multiprocessors
 * are known by it and by their architecture; all else a driver states of them as in the profile. They get few problems. */
static const struct target {
    const char *name, *profile;
    cl_uint multiprocessors;
} targets[] = {
    {"sm_75", "sm_75", 0},     {"sm_86", "sm_86", 0},         {"sm_90", "sm_90", 0},
    {"gfx90a", "gfx90a", 0},   {"gfx942", "gfx942", 0},       {"gfx1030", "gfx1030", 0},
    {"gfx1100", "gfx1100", 0}, {"tgllp", "intel_iris_xe", 0}, {"dg2", "intel_arc_a750", 0},
    {"sm_80", "sm_86", 108},   {"sm_89", "sm_86", 128},       {"sm_100", "sm_86", 148},
    {"sm_120", "sm_86", 170}};
enum { NUM_TARGETS = sizeof targets / sizeof *targets, NUM_WITH_ALL = 9 };

/* A problem for fused_gpu UNIT=warpgroup alone: UNIT=mma spills one register of it on gfx1100. */
static const char of_fused_wgmma_alone[] = "fwd bf16 b1 h16 q4096 k4096 d256 causal=tl";

/* Runs, by the seed, that `some` spreads the problems over. */
enum { RUNS_OF_SOME = 32 };

/* Problems whose programs are compiled with the family's own choice of tunables. */
static const struct {
    const char
        *family; /* of which each target gets it, `some` over several runs; of others one target */
    const char *text;
} problems[] = {
    {"fused_gpu UNIT=item", "fwd f32 b1 h16 q2048 k2048 d64"},
    {"fused_gpu UNIT=item", "fwd f32 b1 h16 q2048 k2048 d128"},
    {NULL, "fwd f32 b1 h16 q2048 k2048 d64 causal=br lse"},
    {"fused_gpu UNIT=mma", "fwd f16 b1 h32/8 q4096 k4096 d128 causal=tl"},
    {"fused_gpu UNIT=mma", "fwd f16 b1 h32/8 q4096 k4096 d128 causal=tl strict"},
    {"fused_gpu UNIT=warpgroup", "fwd f16 b1 h32/8 q4096 k4096 d128"},
    {"fused_gpu UNIT=warpgroup", "fwd bf16 b1 h16 q4096 k4096 d64 causal=tl lse"},
    {"fused_gpu UNIT=warpgroup", of_fused_wgmma_alone},
    {"fused_gpu UNIT=warpgroup", "fwd f32 b1 h16 q4096 k4096 d128"},
    {"fused_gpu UNIT=warpgroup", "fwd f32 b1 h16 q4096 k4096 d64 causal=br lse"},
    {"fused_gpu UNIT=mma", "fwd f32 b1 h16 q4096 k4096 d128"},
    {"fused_gpu UNIT=mma", "fwd f32 b1 h16 q4096 k4096 d64 causal=br lse"},
    {"split_gpu UNIT=item", "fwd f16 b1 h32/8 q1 k32768 d128 causal=br"},
    {"split_gpu UNIT=mma", "fwd f16 b1 h32/4 q1 k32768 d128 causal=br"},
    {"split_gpu UNIT=mma", "fwd bf16 b1 h32/8 q16 k32768 d128 causal=br"},
    {"split_gpu UNIT=mma", "fwd bf16 b1 h128/1 q1 k32768 d576/512"},
    {"split_gpu UNIT=mma", "fwd f16 b8 h64/8 q1 k4096 d128 page=16 pages=2048 klen strict"},
    {"split_gpu UNIT=mma", "fwd f16 b1 h32/8 q4 k32768 d128 kcache=q8_0 vcache=q8_0"},
    {"split_gpu UNIT=mma",
     "fwd bf16 b8 h64/8 q1 k4096 d128 kcache=q4_0 vcache=q4_0 page=16 pages=2048 klen"},
    {"split_gpu UNIT=mma", "fwd f16 b8 h32/8 q1 k16384 d128 kcache=e4m3 vcache=e4m3"},
    {"split_gpu UNIT=item", "fwd f32 b1 h32/8 q1 k32768 d128 causal=br"},
    {NULL, "fwd bf16 b1 h16 q2048 k2048 d64 klen"},
    {NULL, "fwd f32 b2 h8 q512 k512 d64 mask=bk dropout=0.1 lse"},
    {NULL, "fwd f32 b2 h8 q512 k512 d40 bias=f32:hqk"},
    {NULL, "fwd f16 b1 h8 q1024 k1024 d80 softcap=30 window=256,0 sinks"},
    {NULL, "fwd f32 b1 h8 q1024 k1024 d256 alibi qlen klen causal=br"},
    {NULL, "fwd f16 b1 h8 q256 k4096 d128 kcache=q8_0 vcache=q8_0"},
    {NULL, "fwd f16 b1 h8 q1 k4096 d128 kcache=q4_0 vcache=q4_0"},
    {"fused_gpu UNIT=mma", "fwd bf16 b1 h32/8 q4096 k4096 d128 kcache=q8_0 vcache=q8_0 causal=br"},
    {NULL, "fwd f32 b1 h4 q100 k100 d59/111 q=sdbh k=bhds v=dbhs"},
    {NULL, "bwd f32 b1 h16 q2048 k2048 d64"},
    {NULL, "bwd f32 b1 h16 q2048 k2048 d128 causal=br"},
    {"backward_gpu UNIT=warpgroup", "bwd f32 b1 h16 q4096 k4096 d64 causal=br"},
    {"backward_gpu UNIT=warpgroup", "bwd f32 b1 h16 q4096 k4096 d128"},
    {NULL, "bwd f16 b1 h32/8 q4096 k4096 d128 causal=tl"},
    {"backward_gpu UNIT=warpgroup", "bwd f16 b1 h16 q4096 k4096 d128 dropout=0.1"},
    {"backward_gpu UNIT=warpgroup", "bwd f16 b1 h32 q4096 k4096 d64 dropout=0.1"},
    {"backward_gpu UNIT=mma", "bwd f16 b1 h16 q4096 k4096 d64 dropout=0.1"},
    {"backward_gpu UNIT=warpgroup",
     "bwd f16 b64 h32/8 q4096 k4096 d128 causal=br totalq=32768 totalkv=32768 dropout=0.1"},
    {"backward_gpu UNIT=warpgroup", "bwd f16 b1 h16 q4096 k4096 d128 softcap=50 causal=tl"},
    {"backward_gpu UNIT=warpgroup", "bwd f16 b1 h32 q4096 k4096 d64 softcap=50"},
    {"backward_gpu UNIT=warpgroup", "bwd f16 b1 h16 q4096 k4096 d128 alibi causal=tl"},
    {"backward_gpu UNIT=warpgroup", "bwd f16 b1 h32 q4096 k4096 d64 alibi causal=tl"},
    {NULL, "bwd f32 b2 h8 q512 k512 d64 mask=bk dropout=0.1"},
    {NULL, "bwd bf16 b2 h8 q512 k512 d40 bias=f32:hqk dbias"},
    {NULL, "bwd f32 b1 h8 q1024 k1024 d80 softcap=30 window=256,0 sinks dsinks alibi dslopes klen"},
    {NULL, "proj f32 b1 h1 q2048 d2048"},
    {NULL, "proj f16 b1 h1 q2048 d2048 w=oi bias=f16"},
    {NULL, "proj f32 b1 h1 q64 d4096 accumulate"},
    {"projection_gpu UNIT=mma", "proj bf16 b1 h1 q4096 d4096"},
    {"projection_gpu UNIT=mma", "proj f32 b1 h1 q4096 d4096"},
    {"projection_gpu UNIT=warpgroup", "proj f32 b1 h1 q4096 d4096 w=oi"},
    {"projection_gpu UNIT=mma", "proj f16 b1 h1 q16 d4096 w=oi bias=f16"},
    {"fused_gpu UNIT=mma", "fwd f16 b8 h32/8 q512 k4096 d128 causal=br page=16 pages=2048 klen"},
    {NULL, "fwd f16 b8 h32/8 q8 k4096 d128 page=256 pages=128 klen mask=qk maskkeys=8"},
    {NULL, "fwd f16 b64 h32/8 q4096 k4096 d128 causal=br totalq=32768 totalkv=32768 lse"},
    {"fused_gpu UNIT=bytes", "fwd f32 b1 h16 q4096 k4096 d64 causal=br lse precision=int8"},
    {"fused_gpu UNIT=mma", "fwd f16 b1 h16 q4096 k4096 d96 causal=br softcap=30 lse invariant"},
    {"split_gpu UNIT=item", "fwd f16 b1 h32/8 q1 k32768 d64 lse invariant"},
    {"split_gpu UNIT=mma", "fwd f16 b1 h32/4 q1 k32768 d128 softcap=30 lse invariant"},
    {"split_gpu UNIT=mma",
     "fwd f16 b8 h32/8 q4 k32768 d128 kcache=q8_0 vcache=q8_0 page=16 pages=9000 klen invariant"},
    {"fused_gpu UNIT=mma", "fwd f16 b1 h32/8 q4096 k4096 d128 kcache=q8_0 vcache=q8_0 invariant"},
    {"fused_gpu UNIT=bytes", "fwd f16 b1 h16 q4096 k4096 d128 precision=int8"},
    {"fused_gpu UNIT=mma", "fwd f16 b1 h32/8 q4096 k4096 d128 causal=tl precision=int8"},
    {"fused_gpu UNIT=mma", "fwd bf16 b1 h16 q4096 k4096 d64 causal=br lse precision=int8"},
    {NULL, "fwd f16 h16 q4096 k4096 d64 blocks=64x64:640"},
    {NULL, "fwd f32 h16 q4096 k4096 d64 blocks=64x64:640 mask=qk sinks lse"},
    {NULL, "fwd f16 h32/4 q4 k32768 d128 blocks=64x64:512 mask=qk maskkeys=4 klen"},
    {NULL, "fwd f32 h32/8 q512 k4096 d128 kcache=f16 vcache=f16 bias=f16:qk"},
    {NULL, "bwd f16 b64 h32/8 q4096 k4096 d128 causal=br totalq=32768 totalkv=32768"},
    {NULL, "bwd f16 h16 q4096 k4096 d64 blocks=64x64:640"},
    {NULL, "merge f32 b1 h32 q512 d128 n4"},
    {NULL, "merge f16 b1 h32 q512 d128 n1 accumulate"},
    {NULL, "indexer f16 b1 h64 q64 k8192 d128 topk=2048 causal=br"},
    {NULL, "indexer bf16 b1 h64 q1 k32768 d128 topk=2048 klen page=64"},
    {NULL, "indexer f32 b2 h8 q33 k700 d64 topk=32 scores"},
    {NULL, "indexer bf16 b1 h64 q64 k8192 d128 topk=2048 causal=br gradients"},
    {NULL, "append f16 b16 h32/8 q1 k4096 d128 klen rope=halves:128:10000 queries"},
    {NULL, "fwd f16 b1 h16 q4096 k4096 d128 score=temperature"},
    {NULL, "fwd f32 b1 h8 q4096 k4096 d64 score=t5 visible=sliding_window"},
    {NULL, "bwd f16 b1 h16 q4096 k4096 d64 score=t5 dfunction"},
    {NULL, "bwd2 f32 b2 h8/2 q512 d64 causal=tl"},
    {NULL, "bwd2 f16 b1 h8 q512 d128"},
    {NULL, "append f16 b16 h32/8 q1 k4096 d128 kcache=q8_0 vcache=q4_0 slots"},
    {"weight_sums", "fwd f16 b1 h32/8 q512 k4096 d128 causal=br lse keysums"},
    {"weight_sums", "fwd bf16 b8 h32/8 q1 k4096 d128 page=16 pages=2048 klen lse keysums"},
    {"weight_sums", "fwd f32 b2 h8 q512 k512 d64 lse scores=mean"},
    {"chosen_keys", "fwd bf16 b4 h128/1 q1 k131072 d576/512 page=64 pages=9999 klen topk=2048"},
    {"chosen_keys",
     "fwd f16 b4 h32/8 q512 k4096 d128 causal=br totalq=900 totalkv=9000 topk=512 topkheads"},
    {"chosen_gradients", "bwd bf16 b1 h128/1 q512 k32768 d576/512 causal=br topk=2048"},
};

/* Those of them, and the families, that targets with few problems get: what mma.sync multiplies. */
static const struct {
    const char *family, *text;
} few[] = {
    {"fused_gpu UNIT=mma", "fwd f16 b1 h32/8 q4096 k4096 d128 causal=tl"},
    {"fused_gpu UNIT=mma", "fwd f32 b1 h16 q2048 k2048 d64"},
    {"fused_gpu UNIT=mma", "fwd f16 b1 h8 q1024 k1024 d80 softcap=30 window=256,0 sinks"},
    {"split_gpu UNIT=mma", "fwd f16 b1 h32/4 q1 k32768 d128 causal=br"},
    {"split_gpu UNIT=mma", "fwd f16 b1 h32/8 q4 k32768 d128 kcache=q8_0 vcache=q8_0"},
    {"backward_gpu UNIT=mma", "bwd f16 b1 h32/8 q4096 k4096 d128 causal=tl"},
    {"backward_gpu UNIT=mma", "bwd f16 b1 h16 q4096 k4096 d64 dropout=0.1"},
    {"backward_gpu UNIT=mma", "bwd f32 b1 h16 q2048 k2048 d64"},
    {"projection_gpu UNIT=mma", "proj bf16 b1 h1 q4096 d4096"},
    {"projection_gpu UNIT=mma", "proj f16 b1 h1 q16 d4096 w=oi bias=f16"},
};

struct output {
    const char *folder;
    FILE *cases, *sources;
    size_t count;
    int all;
    size_t samples, seed;
};

struct device {
    size_t index;
    const struct target *target;
    clattn_device_info info;
};

static FILE *open_in(const char *folder, const char *name)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        exit(2);
    }
    return file;
}

/* A family's full name as a word: "fused_gpu.mma". */
static const char *word_of(const struct ca_family *family)
{
    static char word[64];
    const size_t length = strlen(family->name);

    snprintf(word, sizeof word, "%s%s%s", family->name, family->full_name[length] ? "." : "",
             family->full_name[length] ? family->full_name + length + strlen(" UNIT=") : "");
    return word;
}

static void write_source(const struct output *out, const struct ca_family *family)
{
    char name[128], hash[CA_HASH_TEXT] = "";

    ca_family_source_hash(family, hash);
    fprintf(out->sources, "%s %.8s\n", word_of(family), hash);
    snprintf(name, sizeof name, "%s.cl", word_of(family));
    FILE *file = open_in(out->folder, name);
    char *text = ca_source_text(family->source);
    fputs(text ? text : "", file);
    free(text);
    fclose(file);
}

/* Writes the text before the source in the program of case `number`. */
static void write_parameters(const struct output *out, size_t number,
                             const struct ca_family *family, const struct ca_problem *p)
{
    char name[32], text[CA_PARAMETERS_TEXT], *functions = ca_program_function_text(&p->normal);

    if (!functions || !ca_program_parameters(family, p, text, sizeof text))
        exit(2);
    snprintf(name, sizeof name, "%zu.h", number);
    FILE *file = open_in(out->folder, name);
    fputs(text, file);
    fputs(functions, file);
    fclose(file);
    free(functions);
}

static void write_kernels(FILE *out, const struct ca_candidate *c, const struct ca_problem *p,
                          const clattn_device_info *dev)
{
    for (size_t n = 0; n < c->family->num_stages; n++) {
        const struct ca_ndrange range = ca_stage_range(&c->family->stages[n], p, c->values, dev);
        if (range.global[0] && range.global[1] && range.global[2])
            fprintf(out, "%s=%zu ", c->family->stages[n].kernel,
                    range.local[0] * range.local[1] * range.local[2]);
    }
}

static void write_case(struct output *out, const struct device *d, const struct ca_candidate *c,
                       const struct ca_problem *p, const char *kind)
{
    char problem[1024], tunables[CA_TUNABLES_TEXT], options[CA_OPTIONS_TEXT];

    if (clattn_problem_print(&p->given, problem, sizeof problem, NULL) != CLATTN_SUCCESS ||
        !ca_program_options(c, p, &d->info, options, sizeof options))
        exit(2);
    ca_tunables_print(c->family->tunables, c->family->num_tunables, c->values, tunables,
                      sizeof tunables);
    write_parameters(out, out->count, c->family, p);
    fprintf(out->cases, "%zu\t%s\t%s\t%s\t%s\t%s\t%zu\t", out->count++, d->target->name,
            word_of(c->family), kind, problem, tunables,
            c->family->local_bytes ? c->family->local_bytes(p, c->values) : 0);
    write_kernels(out->cases, c, p, &d->info);
    fprintf(out->cases, "\t%s\n", options);
}

/* Reads the facts that a driver would state of the target: its profile in the folder. */
static clattn_device_info read_profile(const char *folder, const struct target *target)
{
    static char text[65536];
    clattn_device_info info = {.struct_size = sizeof info};
    char path[4096], reason[256] = "";

    snprintf(path, sizeof path, "%s/%s.json", folder, target->profile);
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        exit(2);
    }
    const size_t bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    if (clattn_device_profile_parse(text, bytes, &info, reason, sizeof reason) != CLATTN_SUCCESS) {
        fprintf(stderr, "%s: %s\n", path, reason);
        exit(2);
    }
    if (target->multiprocessors) {
        snprintf((char *)info.architecture, sizeof info.architecture, "%s", target->name);
        info.compute_units = target->multiprocessors;
    }
    return info;
}

/* Returns whether number n is this target's, where each is for one of them, with another seed
 * another. */
static int is_its_turn(const struct output *out, const struct device *d, size_t n)
{
    return (n + out->seed) % NUM_WITH_ALL == d->index;
}

/* The families of the registry, then the programs that are no choice of a plan; NULL behind them. */
static const struct ca_family *family_at(size_t f)
{
    const struct ca_family *const others[] = {&ca_weight_sums, &ca_family_chosen_keys,
                                              &ca_family_chosen_gradients, NULL};
    size_t count = 0;

    while (ca_family_at(count))
        count++;
    return f < count ? ca_family_at(f) : others[f - count];
}

/* Returns whether the family is there for the problem without being forced. What computes sums of weights, or reads lists of
 * chosen keys and copies what they name, does nothing else. */
static int is_for(const struct ca_family *family, const struct ca_problem *p,
                  const clattn_device_info *dev)
{
    const int copies = family == &ca_family_chosen_gradients;
    struct ca_chosen_keys chosen;

    if (ca_has_weight_sums(&p->normal) || family == &ca_weight_sums)
        return ca_has_weight_sums(&p->normal) && family == &ca_weight_sums;
    if (ca_has_chosen_keys(&p->normal) && copies)
        return ca_chosen_keys(&p->normal, &chosen) && chosen.way == CA_BY_COPIES;
    if (ca_has_chosen_keys(&p->normal) || family == &ca_family_chosen_keys)
        return ca_has_chosen_keys(&p->normal) && family == &ca_family_chosen_keys;
    return !copies && family->preference(p, dev) != CA_ONLY_IF_FORCED;
}

static int is_of_few(const char *text, const char *family)
{
    for (size_t n = 0; n < sizeof few / sizeof *few; n++)
        if (strcmp(few[n].text, text) == 0 && strcmp(few[n].family, family) == 0)
            return 1;
    return 0;
}

/* Returns whether problem n is compiled for the target by family f: `some` takes a share of what
 * each target gets, and for the target whose turn it is of the families; other seeds take the
 * others. */
static int is_chosen(const struct output *out, const struct device *d, size_t n, size_t f)
{
    const int is_own =
        problems[n].family && strcmp(problems[n].family, family_at(f)->full_name) == 0;

    if (problems[n].text == of_fused_wgmma_alone && !is_own)
        return 0;
    if (d->index >= NUM_WITH_ALL && !is_of_few(problems[n].text, family_at(f)->full_name))
        return 0;
    if (out->all)
        return 1;
    if (is_own)
        return (n + d->index + out->seed) % RUNS_OF_SOME == 0;
    return is_its_turn(out, d, n) && (n + f + out->seed / NUM_WITH_ALL) % RUNS_OF_SOME == 0;
}

static void write_defaults(struct output *out, const struct device *d, size_t f)
{
    const struct ca_family *family = family_at(f);

    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        struct ca_candidate c = {.family = family};
        char reason[CA_REASON_BYTES];
        clattn_problem p;
        if (!is_chosen(out, d, n, f))
            continue;
        if (clattn_problem_parse(problems[n].text, &p, reason, sizeof reason) != CLATTN_SUCCESS) {
            fprintf(stderr, "%s: %s\n", problems[n].text, reason);
            exit(2);
        }
        const struct ca_problem made = ca_problem_own(&p);
        if (!is_for(family, &made, &d->info))
            continue;
        ca_family_suggest(family, &made, &d->info, c.values);
        const char *why =
            ca_family_refusal(family, &made, &d->info, c.values, reason, sizeof reason);
        if (!why)
            write_case(out, d, &c, &made, "default");
        else if (p.operation == family->operation &&
                 !ca_family_unsupported(family, &made, &d->info))
            fprintf(stderr, "%s on %s: %s is refused: %s\n", family->full_name, d->target->name,
                    problems[n].text, why);
    }
}

/* Some of the tunables changed at random, until the family takes them. */
static int draw_tunables(struct rng *r, const struct ca_problem *p, const clattn_device_info *dev,
                         struct ca_candidate *c)
{
    const struct ca_family *family = c->family;
    size_t suggested[CA_MAX_TUNABLES] = {0};
    char reason[CA_REASON_BYTES];

    ca_family_suggest(family, p, dev, suggested);
    for (int attempt = 0; attempt < 200; attempt++) {
        memcpy(c->values, suggested, sizeof suggested);
        for (size_t n = 0; n < family->num_tunables; n++) {
            const struct ca_tunable *t = &family->tunables[n];
            if (rng_one_in(r, 2))
                c->values[n] = t->candidates[rng_below(r, t->num_candidates)];
        }
        if (!ca_family_refusal(family, p, dev, c->values, reason, sizeof reason))
            return 1;
    }
    return 0;
}

/* Of the samples whose turn it is every other one is compiled. */
static int takes_sample(const struct output *out, const struct device *d, uint64_t number)
{
    return is_its_turn(out, d, number) && number / NUM_WITH_ALL % 2 == 0;
}

/* A problem for the family: of attention any, else one of those above. */
static clattn_problem draw_problem(struct rng *r, const struct ca_family *family,
                                   const clattn_device_info *dev)
{
    clattn_problem p;

    if (family->operation <= CLATTN_BACKWARD) {
        const struct problem_kind kind = random_kind(r, family, dev);
        do
            p = random_shape(r, &kind);
        while (ca_problem_empty(&p));
        return p;
    }
    const size_t count = sizeof problems / sizeof *problems, first = rng_below(r, count);
    for (size_t n = 0; n < count; n++) {
        clattn_problem_parse(problems[(first + n) % count].text, &p, NULL, 0);
        if (p.operation == family->operation)
            return p;
    }
    fprintf(stderr, "no problem of cases.c is for %s\n", family->full_name);
    exit(1);
}

static void write_samples(struct output *out, const struct device *d,
                          const struct ca_family *family, struct rng *r)
{

    for (size_t n = 0; n < out->samples; n++) {
        struct ca_candidate c = {.family = family};
        const clattn_problem p = draw_problem(r, family, &d->info);
        const struct ca_problem given = ca_problem_own(&p), made = ca_problem_chosen(&given);
        if (family->preference(&made, &d->info) == CA_ONLY_IF_FORCED)
            continue;
        if (draw_tunables(r, &made, &d->info, &c) &&
            (out->all || takes_sample(out, d, rng_next(r))))
            write_case(out, d, &c, &made, "sample");
    }
}

/* Writes a line of standard input; false, having said why, if the device does not take it. */
static int write_variant(struct output *out, const struct device *d, char *line)
{
    char reason[CA_REASON_BYTES] = "no ' | ' between problem and family",
         *configuration = strstr(line, " | ");
    struct ca_candidate c;
    clattn_problem p;

    line[strcspn(line, "\n")] = '\0';
    if (configuration) {
        *configuration = '\0';
        configuration += strlen(" | ");
        if (clattn_problem_parse(line, &p, reason, sizeof reason) == CLATTN_SUCCESS) {
            const struct ca_problem made = ca_problem_own(&p);
            if (ca_candidate_parse(configuration, &made, &d->info, &c, reason, sizeof reason)) {
                write_case(out, d, &c, &made, "variant");
                return 1;
            }
        }
    }
    printf("%s | %s: %s\n", line, configuration ? configuration : "", reason);
    return 0;
}

static int write_variants(struct output *out, const char *profiles)
{
    const size_t sm_90 = 2;
    const struct device d = {sm_90, &targets[sm_90], read_profile(profiles, &targets[sm_90])};
    int taken = 1;
    char line[1024];

    while (fgets(line, sizeof line, stdin))
        taken = (line[0] == '#' || write_variant(out, &d, line)) && taken;
    return taken && out->count;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: offline_cases FOLDER PROFILES SAMPLES SEED all|some|variants\n");
        return 2;
    }
    struct output out = {.folder = argv[1],
                         .cases = open_in(argv[1], "cases"),
                         .sources = open_in(argv[1], "sources"),
                         .samples = strtoul(argv[3], NULL, 10),
                         .seed = strtoul(argv[4], NULL, 10),
                         .all = strcmp(argv[5], "all") == 0};
    struct rng r = rng_seed(out.seed);
    const int variants = strcmp(argv[5], "variants") == 0;
    const int taken = !variants || write_variants(&out, argv[2]);
    for (size_t f = 0; family_at(f); f++) {
        const struct ca_family *family = family_at(f);
        if (!family->local_bytes) /* for CPUs */
            continue;
        write_source(&out, family);
        if (variants)
            continue;
        for (size_t n = 0; n < NUM_TARGETS; n++) {
            const struct device d = {n, &targets[n], read_profile(argv[2], &targets[n])};
            write_defaults(&out, &d, f);
            if (n < NUM_WITH_ALL && family_at(f) == ca_family_at(f)) /* nobody tunes the others */
                write_samples(&out, &d, family, &r);
        }
    }
    return fclose(out.sources) || fclose(out.cases) ? 2 : !taken;
}

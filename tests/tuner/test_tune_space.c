/* SPDX-License-Identifier: Apache-2.0 */
/* The space that a tuning searches, and what families suggest without one. */
#include "device/capacity.h"
#include "families/candidate.h"
#include "families/family_units.h"
#include "families/registry.h"
#include "problem/problem.h"
#include "tests/support/fixture.h"
#include "tests/support/profiles.h"
#include "tests/trials/random_operation.h"
#include "tests/trials/random_problem.h"
#include "tune/tune.h"
#include "tune/tune_space.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(tune_space, .timeout = 120);

static clattn_device_info device(void)
{
    cl_device_id id;
    clattn_device_info info = {.struct_size = sizeof info};

    cr_assert(clattn_device_select(NULL, &id) == CLATTN_SUCCESS);
    cr_assert(clattn_device_query(id, &info) == CLATTN_SUCCESS);
    return info;
}

static int ca_fits_any(const struct ca_candidate *c, const struct ca_problem *p, size_t count,
                       const clattn_device_info *dev)
{
    for (size_t n = 0; n < count; n++)
        if (ca_tune_fits(c, &p[n], dev))
            return 1;
    return 0;
}

/* All candidates of a family by counting, each of which must be in the space; returns how many. */
static size_t count_family(const struct ca_space *space, const struct ca_family *family,
                           const struct ca_problem *p, size_t count, const clattn_device_info *dev)
{
    size_t total = 1, allowed = 0;

    for (size_t n = 0; n < family->num_tunables; n++)
        total *= family->tunables[n].num_candidates;
    for (size_t number = 0; number < total; number++) {
        struct ca_candidate candidate = {.family = family}, again;
        size_t rest = number;
        for (size_t n = 0; n < family->num_tunables; n++) {
            const struct ca_tunable *t = &family->tunables[n];
            candidate.values[n] = t->candidates[rest % t->num_candidates];
            rest /= t->num_candidates;
        }
        const size_t config = ca_tune_config(space, &candidate);
        if (!ca_fits_any(&candidate, p, count, dev)) {
            cr_assert(config == CA_NO_CONFIG);
            continue;
        }
        allowed++;
        cr_assert(config < space->count && ca_tune_candidate(space, config, &again));
        cr_assert(ca_candidates_equal(&candidate, &again));
    }
    return allowed;
}

/* A set has a bit for each unit of each family. */
Test(tune_space, sets_hold_all_families) {
    ca_family_set all = 0;

    for (size_t n = 0; ca_family_at(n); n++) {
        const ca_family_set bit = ca_family_bit(ca_family_at(n));
        cr_assert(bit != 0 && !(all & bit), "%s", ca_family_at(n)->full_name);
        all |= bit;
    }
}

Test(tune_space, holds_what_fits_and_nothing_else) {
    const clattn_device_info dev = device();
    /* The first is none for the family. */
    const struct ca_problem p[3] = {fixture_checked("fwd f32 h2 q70 d64 precision=int8"),
                                    fixture_checked("fwd f32 h2 q70 d64 window=*,0"),
                                    fixture_checked("fwd f32 h2 q70 d4096 window=*,0")};
    const struct ca_family *lanes = ca_family_find("fused_cpu UNIT=vector"),
                           *unfused = ca_family_find("unfused_lanes");

    for (size_t count = 1; count <= 3; count++) {
        struct ca_space *one = ca_tune_space_create(ca_family_bit(lanes), p, count, &dev);
        cr_assert(one != NULL);
        cr_assert(count_family(one, lanes, p, count, &dev) == one->count);
        ca_space_destroy(one);
    }
    struct ca_space *two =
        ca_tune_space_create(ca_family_bit(lanes) | ca_family_bit(unfused), &p[1], 1, &dev);
    const size_t others = count_family(two, unfused, &p[1], 1, &dev);
    cr_assert(others > 0 && count_family(two, lanes, &p[1], 1, &dev) + others == two->count);
    ca_space_destroy(two);
}

/* A problem of attention in most rounds, else an append or a merge. */
static clattn_problem draw(struct rng *rng, size_t round)
{
    static const char *const bases[] = {"append f32 q1 k1 d8 cache=f16 klen slots",
                                        ("append f16 q1 k1 d64 kcache=q8_0 vcache=q4_0 page=16 "
                                         "pages=1 klen rope=halves:30:500 queries"),
                                        "merge f32 q1 d8 n2", "merge bf16 q1 d8 n2 accumulate"};
    clattn_problem base;

    if (round % 4 != 3)
        return random_problem(rng);
    base = fixture_problem(bases[round / 4 % 4]);
    return random_of(rng, &base);
}

/* On devices of any kind the untuned candidate passes the check that all others must pass. */
Test(tune_space, what_a_family_suggests_fits) {
    static const unsigned widths[] = {1, 2, 4, 8, 16}, units[] = {1, 4, 256};
    static const size_t group_sizes[] = {1, 64, 256, 4096};
    static const cl_ulong local_memory[] = {16 << 10, 48 << 10, 1 << 20};
    static clattn_device_info devices[1 + MOST_DESCRIBED];
    const size_t num_devices = 1 + devices_described(&devices[1]);
    struct rng rng = rng_seed(20);
    const struct ca_family *family;
    size_t fitting = 0;

    devices[0] = device();
    for (size_t round = 0; round < 180 * num_devices; round++) {
        const clattn_problem drawn = draw(&rng, round);
        if (clattn_problem_check(&drawn, NULL, 0) != CLATTN_SUCCESS)
            continue;
        const struct ca_problem made = ca_problem_own(&drawn);
        const clattn_problem *p = &made.normal;
        clattn_device_info dev = devices[round / 180];
        dev.vector_width_float = widths[round % 5];
        dev.compute_units = units[round / 5 % 3];
        dev.max_work_group_size = group_sizes[round / 15 % 4];
        for (int d = 0; d < 3; d++)
            dev.max_work_item_sizes[d] = dev.max_work_group_size;
        if (p->operation == CLATTN_MERGE && round % 8 == 7) /* no less is promised */
            dev.max_work_item_sizes[1] = 1;
        dev.local_memory_bytes = local_memory[round / 60 % 3];
        for (size_t f = 0; (family = ca_family_at(f)) != NULL; f++) {
            struct ca_candidate candidate = {.family = family};
            char reason[CA_REASON_BYTES], text[512];
            if (family->operation != p->operation)
                continue;
            ca_family_suggest(family, &made, &dev, candidate.values);
            if (ca_family_unsupported(family, &made, &dev))
                continue;
            fitting++;
            cr_assert(ca_tunables_check(family->tunables, family->num_tunables, candidate.values,
                                        reason, sizeof reason),
                      "%s: %s", family->full_name, reason);
            /* If groups or local memory are too small, reject() says so, not unsupported(). */
            if (family != &ca_fused_cpu_vector && p->operation != CLATTN_APPEND &&
                p->operation != CLATTN_MERGE &&
                (dev.max_work_group_size < 256 || dev.local_memory_bytes < 48 << 10))
                continue;
            const char *why =
                ca_family_refusal(family, &made, &dev, candidate.values, reason, sizeof reason);
            clattn_problem_print(p, text, sizeof text, NULL);
            cr_expect(why == NULL, "%s, '%s', %s, vectors of %u, groups of %zu, %zu bytes: %s",
                      family->full_name, text, dev.name, dev.vector_width_float,
                      dev.max_work_group_size, (size_t)dev.local_memory_bytes, why);
        }
    }
    cr_assert(fitting > 1000);
}

/* The family that a device gets which was never tuned, of those that suit a problem. */
static const struct ca_family *preferred(const struct ca_problem *p, const clattn_device_info *dev)
{
    const struct ca_family *family, *best = NULL;

    for (size_t f = 0; (family = ca_family_at(f)) != NULL; f++)
        if (family->operation == p->normal.operation && !ca_family_unsupported(family, p, dev) &&
            (!best || family->preference(p, dev) > best->preference(p, dev)))
            best = family;
    return best;
}

/* Returns whether vectors of a processor are what a family is made of. */
static int computes_in_lanes(const struct ca_family *family)
{
    return strstr(family->name, "_lanes") || strstr(family->name, "_cpu");
}

/* llvmpipe took minutes to compile a family of lanes. */
Test(tune_space, vectors_of_one_float_get_no_lanes) {
    static const char *const problems[] = {"fwd f32 q100 k100 d64", "fwd f16 q1 k4096 d64",
                                           "fwd f32 q100 k100 d64 scores=weights",
                                           "bwd f32 q100 k100 d64"};
    clattn_device_info cpu = cpu_described(0);

    for (size_t n = 0; n < sizeof problems / sizeof *problems; n++) {
        const struct ca_problem p = fixture_checked(problems[n]);
        cpu.vector_width_float = 8;
        cr_expect(computes_in_lanes(preferred(&p, &cpu)), "%s", problems[n]);
        cpu.vector_width_float = 1;
        cr_expect(!computes_in_lanes(preferred(&p, &cpu)), "%s", problems[n]);
    }
}

/* All that a family decides of a CPU, its vendor's name leaves as it is. */
Test(tune_space, names_of_CPUs_decide_nothing) {
    struct rng rng = rng_seed(21);
    const struct ca_family *family;

    for (int round = 0; round < 2000; round++) {
        const clattn_problem drawn = random_problem(&rng);
        if (clattn_problem_check(&drawn, NULL, 0) != CLATTN_SUCCESS)
            continue;
        const struct ca_problem made = ca_problem_own(&drawn);
        const clattn_problem *p = &made.normal;
        const size_t width = (size_t)round % (NUM_CPUS / NUM_CPU_VENDORS);
        const clattn_device_info one = cpu_described(width * NUM_CPU_VENDORS);
        for (size_t f = 0; (family = ca_family_at(f)) != NULL; f++) {
            struct ca_candidate mine = {.family = family}, random = mine;
            char reasons[2][CA_REASON_BYTES];
            if (family->operation != p->operation)
                continue;
            ca_family_suggest(family, &made, &one, mine.values);
            for (size_t n = 0; n < family->num_tunables; n++) {
                const struct ca_tunable *t = &family->tunables[n];
                random.values[n] = t->candidates[rng_below(&rng, t->num_candidates)];
            }
            const char *why = ca_family_refusal(family, &made, &one, random.values, reasons[0],
                                                sizeof reasons[0]);
            for (size_t v = 1; v < NUM_CPU_VENDORS; v++) {
                const clattn_device_info other = cpu_described(width * NUM_CPU_VENDORS + v);
                struct ca_candidate theirs = {.family = family};
                ca_family_suggest(family, &made, &other, theirs.values);
                cr_assert(ca_candidates_equal(&mine, &theirs), "%s on %s", family->full_name,
                          other.name);
                cr_assert(family->preference(&made, &one) == family->preference(&made, &other),
                          "%s on %s", family->full_name, other.name);
                const char *refusal = ca_family_refusal(family, &made, &other, random.values,
                                                        reasons[1], sizeof reasons[1]);
                cr_assert((why == NULL) == (refusal == NULL), "%s on %s: %s", family->full_name,
                          other.name, refusal ? refusal : why);
                cr_assert(ca_device_cores(&other) == other.compute_units, "%s", other.name);
            }
        }
    }
}

/* The architecture decides whose GPU it is, and the vendor's name only where there is none: under
 * Mesa's driver, and where a device claims to be another. */
Test(tune_space, what_GPUs_are_told_apart_by) {
    static const struct {
        const char *architecture, *vendor;
        unsigned lanes;
        int many;
        size_t cores; /* of 64 compute units */
    } cases[] = {
        {"sm_90", "NVIDIA Corporation", 32, 1, 64},
        {"sm_90", "a maker of graphics cards", 32, 1, 64},
        {"gfx1100", "Advanced Micro Devices, Inc.", 32, 1, 64},
        {"intel_12.55", "Intel(R) Corporation", 8, 0, 4},
        {"intel_20.1", "Intel(R) Corporation", 16, 0, 8},
        {"", "Intel", 8, 0, 64}, /* Mesa's counts what Intel's own calls sub-slices */
        {"", "AMD", 0, 1, 64},
        {"", "NVIDIA", 0, 1, 64},
        {"", "Mesa", 0, 0, 64},
        {"", "ARM", 0, 0, 64},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        clattn_device_info gpu = {.type = CL_DEVICE_TYPE_GPU, .compute_units = 64};
        gpu.sub_group_size = cases[n].lanes;
        strcpy(gpu.architecture, cases[n].architecture);
        strcpy(gpu.vendor, cases[n].vendor);
        cr_expect(ca_has_many_registers(&gpu) == cases[n].many, "%s", gpu.vendor);
        cr_expect(ca_device_cores(&gpu) == cases[n].cores, "%s", gpu.vendor);
    }
}

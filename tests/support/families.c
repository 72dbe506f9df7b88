/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/families.h"
#include "families/family_units.h"
#include "families/registry.h"
#include "tests/support/fixture.h"
#include "tests/support/profiles.h"
#include "tests/support/unoptimised.h"
#include <clattn/clattn.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static int takes_dtype(const struct ca_family *family, const clattn_dtype dtype)
{
    const clattn_device_info dev = cpu_described(0);
    clattn_problem p;

    clattn_problem_init_operation(&p, family->operation);
    const struct ca_size_words words = ca_size_words(&p);
    *words.dtype = dtype;
    *words.d = 16;
    if (words.second_d)
        *words.second_d = 16;
    if (family->operation == CLATTN_INDEXER)
        p.indexer.gradients = strstr(family->name, "gradients") != NULL;
    const struct ca_problem made = {p, p}; /* it has no sizes, so that it cannot be made normal */
    return ca_family_unsupported(family, &made, &dev) == NULL;
}

/* Returns whether tests of f32 are the family's. Emulated matrix instructions multiply f32 in six
 * products, which take long to compile: their f32 is the sweep's and that of the programs of units.
 * */
static int has_tests_of_f32(const struct ca_family *family)
{
    const int emulated = strstr(family->full_name, "UNIT=mma") != NULL || family->ptx_target;

    return takes_dtype(family, CLATTN_F32) && (!emulated || run_all("CLATTN_TEST_FAMILIES"));
}

int family_is_slow(const char *name)
{
    return ca_family_find(name)->ptx_target != NULL;
}

int family_takes_f32(const char *name)
{
    const struct ca_family *family = name ? ca_family_find(name) : ca_family_at(0);

    if (!family || (family == &ca_split_gpu_item && !run_all("CLATTN_TEST_FAMILIES")))
        return 0;
    return has_tests_of_f32(family);
}

int family_takes(const char *name, const char *problem)
{
    const clattn_device_info dev = cpu_described(0);
    const struct ca_problem p = fixture_checked(problem);

    return ca_family_unsupported(ca_family_find(name), &p, &dev) == NULL;
}

int family_takes_any_dims(const char *name)
{
    const struct ca_family *family = ca_family_find(name);

    return takes_dtype(family, CLATTN_F32) || takes_dtype(family, CLATTN_BF16);
}

int family_projects_on(const char *name, const clattn_device_info *device)
{
    const struct ca_family *family = ca_family_find(name);

    return family->operation == CLATTN_PROJECTION && family_takes_any_dims(name) &&
           ((device->type & CL_DEVICE_TYPE_CPU) || fixture_has_groups(family, device));
}

size_t families_taken(const clattn_operation operation, int (*takes)(const char *name),
                      const uint64_t test, const unsigned runs, size_t families[MOST_FAMILIES])
{
    size_t all[MOST_FAMILIES], numbers[MOST_FAMILIES];
    const char *name;
    size_t count = 0;

    for (size_t n = 0; (name = clattn_family_name(operation, n)) != NULL; n++)
        if (count < MOST_FAMILIES && (!takes || takes(name)) && family_takes_any_dims(name))
            all[count++] = n;
    const size_t taken = numbers_taken(count, test, runs, numbers);
    for (size_t n = 0; n < taken; n++)
        families[n] = all[numbers[n]];
    return taken;
}

const char *family_text(const char *family, const char *text)
{
    static char changed[512];
    const struct ca_family *of = ca_family_find(family);
    char *dtype = strstr(strcpy(changed, text), " f");

    if (of && strstr(of->name, "gradients"))
        return strcat(changed, " gradients");
    if (of && of->multiplies_bytes == CA_BYTES_ALONE)
        return strcat(changed, " precision=int8");
    if (!of || !takes_dtype(of, CLATTN_BF16) || has_tests_of_f32(of) || !dtype)
        return text;
    const char *rest = text + (dtype - changed) + 4;
    strcpy(dtype, takes_dtype(of, CLATTN_F16) ? " f16" : " bf16");
    return strcat(changed, rest);
}

const char *family_of_plan(const clattn_plan_info *info)
{
    const struct ca_family *family =
        ca_family_of(info->family, info->tunables, NULL, NULL, NULL, 0);

    cr_assert(family);
    return family->full_name;
}

const struct ca_family *family_untuned(const struct ca_problem *p, const clattn_device_info *device)
{
    const struct ca_family *family, *best = NULL;
    size_t values[CA_MAX_TUNABLES];
    char reason[CA_REASON_BYTES];

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++) {
        if (family->operation != p->normal.operation ||
            (best && family->preference(p, device) <= best->preference(p, device)))
            continue;
        ca_family_suggest(family, p, device, values);
        if (!ca_family_refusal(family, p, device, values, reason, sizeof reason))
            best = family;
    }
    cr_assert(best);
    return best;
}

void families_expect_suggestions(const char *name, const char *tunable,
                                 const struct family_suggestion *suggested, const size_t count)
{
    const struct ca_family *family = ca_family_find(name);
    clattn_device_info cpu = cpu_described(0);
    size_t at = 0;

    while (strcmp(family->tunables[at].name, tunable) != 0)
        at++;
    for (size_t n = 0; n < count; n++) {
        const struct ca_problem p = fixture_checked(suggested[n].problem);
        size_t values[CA_MAX_TUNABLES];
        char reason[CA_REASON_BYTES];
        cpu.compute_units = suggested[n].units;
        ca_family_suggest(family, &p, &cpu, values);
        cr_expect(values[at] == suggested[n].value, "%s on %u units: %s=%zu", suggested[n].problem,
                  suggested[n].units, tunable, values[at]);
        const char *why = ca_family_refusal(family, &p, &cpu, values, reason, sizeof reason);
        cr_expect(why == NULL, "%s: %s", suggested[n].problem, why);
    }
}

void families_expect_refusals(const char *family, const struct family_refusal *refused,
                              const size_t count)
{
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups_of(&f, family);
    for (size_t n = 0; n < count; n++) {
        const clattn_problem p = fixture_problem(refused[n].problem);
        const clattn_plan_options options = {
            .struct_size = sizeof options, .family = family, .tunables = refused[n].tunables};
        cr_expect(clattn_plan_supports(f.context, &p, &options) == CLATTN_UNSUPPORTED);
        const char *reason = clattn_context_last_error(f.context);
        cr_expect(strstr(reason, refused[n].words), "%s: %s", refused[n].problem, reason);
    }
    fixture_close(&f);
}

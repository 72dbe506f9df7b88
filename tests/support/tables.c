/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tables.h"
#include "families/registry.h"
#include "problem/problem.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

clattn_device_info table_device_info(int n, const char *driver)
{
    clattn_device_info info = {.struct_size = sizeof info};

    snprintf(info.name, sizeof info.name, "Made-up \"Device\" (R) %d", n);
    snprintf(info.vendor, sizeof info.vendor, "Nobody");
    snprintf(info.driver_version, sizeof info.driver_version, "%s", driver);
    snprintf(info.device_version, sizeof info.device_version, "OpenCL 3.0");
    snprintf(info.platform_name, sizeof info.platform_name, "Paper");
    snprintf(info.platform_version, sizeof info.platform_version, "OpenCL 3.0 Paper");
    return info;
}

static const struct ca_entry *fill_entry(struct made_entry *made, double seconds)
{
    for (size_t n = 0; n < 3; n++)
        made->samples[n] = seconds * (1.0 + 0.01 * (double)n);
    made->entry = (struct ca_entry){.family = made->texts.family,
                                    .tunables = made->texts.tunables,
                                    .source = made->texts.source,
                                    .declaration = made->texts.declaration,
                                    .seconds = seconds,
                                    .low = 0.9 * seconds,
                                    .high = 1.1 * seconds,
                                    .samples = made->samples,
                                    .num_samples = 3,
                                    .error = 0.25,
                                    .when = (char *)"2026-11-21T09:30:00Z", /* only read */
                                    .policy = (char *)"three at once"};
    return &made->entry;
}

const struct ca_entry *table_entry(struct made_entry *made, size_t config, double seconds)
{
    const struct ca_candidate unfused = {.family = ca_family_find("unfused")};

    cr_assert(unfused.family != NULL);
    ca_candidate_texts(&unfused, &made->texts);
    snprintf(made->texts.tunables, sizeof made->texts.tunables, "A=%zu B=2", config);
    return fill_entry(made, seconds);
}

const struct ca_entry *table_entry_of(struct made_entry *made, const struct ca_candidate *candidate,
                                      double seconds)
{
    ca_candidate_texts(candidate, &made->texts);
    return fill_entry(made, seconds);
}

void table_stale(struct made_entry *made)
{
    made->texts.source[0] = made->texts.source[0] == '0' ? '1' : '0';
}

struct ca_banned table_banned(const struct ca_entry *entry, const char *problem_class,
                              const char *reason)
{
    return (struct ca_banned){.problem_class = (char *)problem_class, /* only read */
                              .family = entry->family,
                              .tunables = entry->tunables,
                              .source = entry->source,
                              .declaration = entry->declaration,
                              .reason = (char *)reason,
                              .when = entry->when};
}

struct ca_candidate table_candidate(const char *text, const clattn_problem *p,
                                    const clattn_device_info *dev)
{
    const struct ca_problem made = ca_problem_own(p);
    struct ca_candidate candidate;
    char reason[256];

    cr_assert(ca_candidate_parse(text, &made, dev, &candidate, reason, sizeof reason), "'%s': %s",
              text, reason);
    return candidate;
}

static const char *const classes[] = {"fwd f32 b1 h8 q128 k128 d64", "fwd f16 b1 h8 q128 k128 d64",
                                      "fwd f32 b1 h1 q1 k4096 d128 causal=br"};
static const char *const times[] = {"2026-11-21T09:30:00Z", "2026-11-21T09:30:01Z"};

static char *pick(struct rng *rng, const char *const *texts, size_t count)
{
    return (char *)texts[rng_below(rng, count)]; /* only read */
}

static void fill(struct ca_device_table *table, const char *class, struct rng *rng)
{
    static const char *const reasons[] = {"computes wrong results",
                                          "took too long twice; \"really\" \\ hung"};
    struct made_entry made;

    for (size_t config = 0; config < 4; config++) {
        struct ca_entry entry = *table_entry(&made, config, 1e-3);
        for (size_t n = 0; n < 3; n++) /* two values at random places: ties are frequent */
            made.samples[n] = RNG_PICK(rng, 0, 1) ? rng_uniform(rng, 1e-9, 1.0) : 1.0 / 3.0;
        entry.num_samples = 1 + rng_below(rng, 3);
        entry.seconds = made.samples[0];
        entry.when = pick(rng, times, 2);
        entry.policy = pick(rng, reasons, 2);
        const struct ca_banned banned = table_banned(&entry, class, pick(rng, reasons, 2));
        if (rng_one_in(rng, 2))
            cr_assert(ca_class_put(ca_device_table_make_class(table, class), &entry));
        if (rng_one_in(rng, 3))
            cr_assert(ca_device_table_ban(table, &banned));
    }
}

struct ca_table table_random(struct rng *rng)
{
    struct ca_table table = {NULL, 0};

    for (int n = 0; n < 4; n++) {
        const clattn_device_info info = table_device_info(n / 2, n % 2 ? "1.0" : "1.1");
        if (rng_one_in(rng, 3))
            continue;
        struct ca_device_table *device = ca_table_device(&table, &info, 1);
        cr_assert(device != NULL);
        for (size_t c = 0; c < sizeof classes / sizeof *classes; c++)
            if (rng_one_in(rng, 2))
                fill(device, classes[c], rng);
    }
    return table;
}

char *table_text(const struct ca_table *table)
{
    char *text = ca_table_print(table);

    cr_assert(text != NULL);
    return text;
}

struct ca_table table_parse(const char *text)
{
    struct ca_table table;
    char reason[256];

    cr_assert(ca_table_read(text, strlen(text), &table, reason, sizeof reason) == CLATTN_SUCCESS,
              "%s: %s", reason, text);
    return table;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: any bytes are read as a device's profile. Reading ends in a sentence, or in
 * facts within their limits that narrow a device to a consistent one. For such a device every
 * family finds tunables or a reason against them. */
#include "device/facts.h"
#include "families/family.h"
#include "families/registry.h"
#include "problem/problem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

/* The least or the most of each fact that is a limit. */
static clattn_device_info extreme(const clattn_device_info *like, int most)
{
    clattn_device_info dev = *like;
    const struct ca_fact *fact;

    for (size_t n = 0; (fact = ca_fact_at(n)) != NULL; n++)
        if (fact->narrows)
            ca_fact_set(fact, &dev, most ? fact->most : fact->least);
    return dev;
}

static void narrow(const clattn_device_info *profile, int most)
{
    clattn_device_info dev = extreme(profile, most), again;
    const struct ca_fact *fact;

    ca_facts_narrow(&dev, profile);
    for (size_t n = 0; (fact = ca_fact_at(n)) != NULL; n++)
        require(ca_fact_get(fact, &dev) <= ca_fact_get(fact, profile) || !fact->narrows);
    again = dev;
    ca_facts_narrow(&again, profile);
    require(memcmp(&again, &dev, sizeof dev) == 0);
}

static void choose(const clattn_device_info *dev)
{
    static const char *const texts[] = {"fwd f32 b2 h4 q100 k200 d64 causal=br",
                                        "fwd f16 h8/2 q1 k5000 d128 mask=qk dropout=0.1",
                                        "bwd bf16 h4 q300 k200 d80/111 alibi bias=f32:hqk dbias",
                                        "proj f16 b1 h1 q3000 d2000 w=oi"};
    const struct ca_family *family;

    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        clattn_problem p;
        require(clattn_problem_parse(texts[t], &p, NULL, 0) == CLATTN_SUCCESS);
        const struct ca_problem made = ca_problem_own(&p);
        for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++) {
            char reason[CA_REASON_BYTES];
            size_t values[CA_MAX_TUNABLES] = {0};
            if (family->operation != p.operation || ca_family_unsupported(family, &made, dev))
                continue;
            ca_family_suggest(family, &made, dev, values);
            const char *why = ca_family_refusal(family, &made, dev, values, reason, sizeof reason);
            require(!why || *why);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    clattn_device_info dev = {.struct_size = sizeof dev};
    char reason[256] = "?", again[256];

    if (clattn_device_profile_parse((const char *)bytes, size, &dev, reason, sizeof reason) !=
        CLATTN_SUCCESS) {
        require(reason[0] != '\0' && memchr(reason, '\0', sizeof reason) && dev.type == 0);
        return 0;
    }
    require(reason[0] == '\0' && ca_facts_check(&dev, again, sizeof again));
    require(memchr(dev.name, '\0', sizeof dev.name) &&
            memchr(dev.extensions, '\0', sizeof dev.extensions));
    narrow(&dev, 0);
    narrow(&dev, 1);
    choose(&dev);
    return 0;
}

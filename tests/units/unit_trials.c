/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/units/unit_trials.h"
#include "context/context.h"
#include "device/capacity.h"
#include "families/fragments.h"

#include <criterion/criterion.h>
#include <stdio.h>

void unit_open(struct fixture *f, int emulated)
{
    fixture_open(f);
    if (!emulated)
        return;
    clattn_device_info lacking = f->context->device;
    lacking.architecture[0] = '\0';
    fixture_close(f);
    fixture_open_narrowed(f, &lacking);
}

static void need(int (*has)(const clattn_device_info *dev), const char *reason)
{
    struct fixture f;

    fixture_open(&f);
    const int there = has(&f.context->device);
    fixture_close(&f);
    if (!there)
        cr_skip_test("%s", reason);
}

void unit_need_tiles(void)
{
    need(ca_multiplies_bf16_tiles,
         "the processor has no matrix unit for bf16, or the system keeps no tiles");
}

void unit_need_pairs(void)
{
    need(ca_multiplies_bf16_pairs, "the processor has no instruction for pairs of bf16");
}

void unit_need_bytes(void)
{
    need(ca_multiplies_bytes, "the processor has no instruction for products of bytes");
}

void unit_need_emulation(const struct fixture *f)
{
    if (ca_instruction_of(clattn_context_device(f->context)) != 0)
        cr_skip_test("the device has a matrix instruction of its own");
}

struct trial unit_trial(const struct unit *unit, size_t program, const char *shape)
{
    static const char *const operations[] = {
        [CLATTN_FORWARD] = "fwd", [CLATTN_BACKWARD] = "bwd", [CLATTN_PROJECTION] = "proj"};
    const struct ca_family *family = ca_family_find(unit->family);
    struct trial t = {.family = unit->family,
                      .seed = 5 + program,
                      .aligned = family->operation == CLATTN_PROJECTION && family->ptx_target};
    char text[256];

    snprintf(text, sizeof text, "%s %s %s", operations[family->operation],
             unit->programs[program].options, shape);
    t.problem = fixture_problem(text);
    snprintf(t.tunables, sizeof t.tunables, "%s%s%s", unit->tunables ? unit->tunables : "",
             unit->tunables ? " " : "", unit->programs[program].tunables);
    return t;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tuner/test_tuner_fixture.h"

#include <criterion/criterion.h>
#include <math.h>

void allow_all(struct ca_space *space,
               bool (*allows)(const struct ca_space *space, const uint16_t *choices))
{
    uint16_t choices[CA_MAX_PARAMETERS] = {0};
    size_t p;

    do {
        cr_assert((allows && !allows(space, choices)) || ca_space_allow(space, choices));
        for (p = space->num_parameters; p > 0; p--) {
            if (++choices[p - 1] < space->parameters[p - 1].num_values)
                break;
            choices[p - 1] = 0;
        }
    } while (p > 0);
}

static bool made_up_allows(const struct ca_space *space, const uint16_t *choices)
{
    const double tile = space->parameters[0].values[choices[0]].number;
    const double vector = space->parameters[1].values[choices[1]].number;

    return vector <= tile;
}

struct ca_space *made_up_space(void)
{
    struct ca_space *space = ca_space_create();
    bool good = space && ca_space_add_parameter(space, "tile");

    for (int tile = 1; tile <= 32; tile *= 2)
        good &= ca_space_add_number(space, tile);
    good &= ca_space_add_parameter(space, "vector");
    for (int vector = 1; vector <= 8; vector *= 2)
        good &= ca_space_add_number(space, vector);
    good &= ca_space_add_parameter(space, "kind");
    good &= ca_space_add_text(space, "a") && ca_space_add_text(space, "b,\"b\"") &&
            ca_space_add_text(space, "c");
    good &= ca_space_add_parameter(space, "flag");
    good &= ca_space_add_number(space, 1.0) && ca_space_add_number(space, 0.0);
    cr_assert(good);
    allow_all(space, made_up_allows);
    return space;
}

double made_up_time(const struct ca_space *space, size_t config)
{
    const uint16_t *at = ca_space_choices(space, config);

    if (at[0] == 5 && at[1] == 3)
        return INFINITY;
    return 1.0 + 0.3 * fabs(at[0] - 3.0) + 0.2 * fabs(at[0] + at[1] - 5.0) + 0.4 * (at[2] != 1) +
           0.1 * (at[3] != at[0] % 2);
}

size_t made_up_optimum(const struct ca_space *space)
{
    size_t best = 0;

    for (size_t config = 1; config < space->count; config++)
        if (made_up_time(space, config) < made_up_time(space, best))
            best = config;
    return best;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tuner/test_tuner_fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(tuner_space, enumerates_what_brute_force_does) {
    struct ca_space *space = made_up_space();
    size_t config = 0;

    for (uint16_t a = 0; a < 6; a++)
        for (uint16_t b = 0; b < 4; b++)
            for (uint16_t c = 0; c < 3; c++)
                for (uint16_t d = 0; d < 2; d++) {
                    const uint16_t choices[] = {a, b, c, d};
                    const size_t found = ca_space_find(space, choices);
                    if ((1 << b) > (1 << a)) {
                        cr_assert(found == CA_NO_CONFIG);
                        continue;
                    }
                    cr_assert(found == config);
                    cr_assert(memcmp(ca_space_choices(space, config), choices, 8) == 0);
                    config++;
                }
    cr_assert(space->count == config && config == 108);
    ca_space_destroy(space);
}

Test(tuner_space, neighbours_differ_in_exactly_one_parameter) {
    struct ca_space *space = made_up_space();
    size_t *neighbours = malloc(ca_space_max_neighbours(space) * sizeof *neighbours);

    for (size_t config = 0; config < space->count; config++) {
        const size_t count = ca_space_neighbours(space, config, neighbours);
        size_t expected = 0;
        for (size_t other = 0; other < space->count; other++) {
            size_t differing = 0, listed = 0;
            for (size_t p = 0; p < space->num_parameters; p++)
                differing +=
                    ca_space_choices(space, config)[p] != ca_space_choices(space, other)[p];
            for (size_t n = 0; n < count; n++)
                listed += neighbours[n] == other;
            cr_assert(listed == (differing == 1), "%zu and %zu", config, other);
            expected += differing == 1;
        }
        cr_assert(count == expected);
    }
    free(neighbours);
    ca_space_destroy(space);
}

Test(tuner_space, explicit_configurations_keep_their_order_and_are_there_once) {
    struct ca_space *space = ca_space_create();
    const uint16_t choices[][2] = {{2, 0}, {0, 1}, {1, 1}};

    cr_assert(ca_space_add_parameter(space, "x") && ca_space_add_number(space, 0.1) &&
              ca_space_add_number(space, 3.0) && ca_space_add_number(space, -2.5));
    cr_assert(ca_space_add_parameter(space, "y") && ca_space_add_text(space, "3") &&
              ca_space_add_number(space, 3.0));
    for (size_t n = 0; n < 3; n++)
        cr_assert(ca_space_allow(space, choices[n]));
    for (size_t n = 0; n < 3; n++) {
        cr_assert(!ca_space_allow(space, choices[n]));
        cr_assert(ca_space_find(space, choices[n]) == n);
    }
    cr_assert(ca_space_value(space, 1, 0)->number == 0.1);
    cr_assert_str_eq(ca_space_value(space, 0, 1)->text, "3");
    cr_assert(ca_parameter_find(&space->parameters[1], "3") == 0);
    cr_assert(ca_parameter_find(&space->parameters[1], "4") == 2);
    cr_assert(ca_parameter_find_number(&space->parameters[1], 3.0) == 1);
    cr_assert(ca_parameter_find_number(&space->parameters[1], 0.0) == 2);
    ca_space_destroy(space);
}

Test(tuner_space, nothing_is_added_where_there_is_no_room) {
    struct ca_space *space = ca_space_create();

    cr_assert(!ca_space_add_number(space, 1.0) && !ca_space_add_text(space, "x"));
    for (int n = 0; n < CA_MAX_PARAMETERS; n++)
        cr_assert(ca_space_add_parameter(space, "p"));
    cr_assert(!ca_space_add_parameter(space, "p"));
    for (int n = 0; n < CA_MAX_VALUES; n++)
        cr_assert(ca_space_add_number(space, n));
    cr_assert(!ca_space_add_number(space, 0.0));
    ca_space_destroy(space);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* same_bits_draw COUNT SEED [FAMILY...]: problems for same_bits_run, one a line, with a family, tunables
 * that pass its checks on the device, and a seed for the data. The families take turns; without names
 * all do. The device is CLATTN_DEVICE's, or the default one. */
#include "families/registry.h"
#include "tests/trials/random_operation.h"
#include "tests/trials/random_problem.h"
#include "tests/trials/random_projection.h"

#include <clattn/clattn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TRIES = 2000, LINE = 1024, MOST_FAMILIES = 64 };

struct drawn {
    clattn_problem problem;
    char tunables[CA_TUNABLES_TEXT];
};

static struct drawn draw(struct rng *r, const struct ca_family *family,
                         const clattn_device_info *device)
{
    struct drawn drawn = {.tunables = ""};

    if (family->operation == CLATTN_PROJECTION) {
        const struct projection_kind kind = random_projection_kind(r, family, device);
        drawn.problem = random_projection_shape(r, &kind);
        snprintf(drawn.tunables, sizeof drawn.tunables, "%s", kind.tunables);
    } else if (family->operation <= CLATTN_BACKWARD) {
        const struct problem_kind kind = random_kind(r, family, device);
        drawn.problem = random_shape(r, &kind);
        snprintf(drawn.tunables, sizeof drawn.tunables, "%s", kind.tunables);
    } else {
        drawn.problem = random_of_operation(r, family->operation);
    }
    return drawn;
}

/* Returns whether a plan would take it, and something is computed. */
static int is_of_use(const clattn_context *context, const struct ca_family *family,
                     const struct drawn *drawn)
{
    const clattn_plan_options options = {.struct_size = sizeof options,
                                         .family = family->full_name,
                                         .tunables = drawn->tunables[0] ? drawn->tunables : NULL};

    return !ca_problem_empty(&drawn->problem) &&
           clattn_plan_supports(context, &drawn->problem, &options) == CLATTN_SUCCESS;
}

/* False where the family takes none of many problems on this device. */
static bool print_one(const clattn_context *context, const struct ca_family *family, struct rng *r)
{
    const clattn_device_info *device = clattn_context_device(context);
    struct drawn drawn = draw(r, family, device);
    char problem[LINE];

    for (int tries = 1; !is_of_use(context, family, &drawn); tries++) {
        if (tries == MOST_TRIES) {
            fprintf(stderr, "%s is left out: it takes none of %d problems on this device\n",
                    family->full_name, tries);
            return false;
        }
        drawn = draw(r, family, device);
    }
    if (clattn_problem_print(&drawn.problem, problem, sizeof problem, NULL) != CLATTN_SUCCESS)
        abort();
    printf("%s\t%s\t%s\t%" PRIu64 "\n", problem, family->full_name, drawn.tunables,
           rng_next(r) >> 1);
    return true;
}

int main(int argc, char **argv)
{
    const struct ca_family *families[MOST_FAMILIES];
    size_t num_families = 0;
    clattn_context *context;

    if (argc < 3) {
        fprintf(stderr, "usage: same_bits_draw COUNT SEED [FAMILY...]\n");
        return 2;
    }
    for (size_t n = 0; argc == 3 ? ca_family_at(n) != NULL : n < (size_t)argc - 3; n++) {
        const struct ca_family *family = argc == 3 ? ca_family_at(n) : ca_family_find(argv[n + 3]);
        if (num_families == MOST_FAMILIES) {
            fprintf(stderr, "same_bits_draw: more than %d families\n", MOST_FAMILIES);
            return 2;
        }
        if (!family) {
            fprintf(stderr, "same_bits_draw: no family is called '%s'\n", argv[n + 3]);
            return 2;
        }
        families[num_families++] = family;
    }
    if (clattn_context_create_default(NULL, NULL, &context) != CLATTN_SUCCESS) {
        fprintf(stderr, "same_bits_draw: no device\n");
        return 2;
    }
    struct rng r = rng_seed(strtoull(argv[2], NULL, 10));
    const size_t count = strtoul(argv[1], NULL, 10);
    for (size_t n = 0; n < count && num_families > 0;) {
        const size_t family = n % num_families;
        if (print_one(context, families[family], &r))
            n++;
        else
            families[family] = families[--num_families];
    }
    clattn_context_release(context);
    return 0;
}

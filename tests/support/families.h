/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a family, of tests that go over all families. */
#ifndef TEST_FAMILIES_H
#define TEST_FAMILIES_H

#include "families/family.h"
#include "problem/problem.h"
#include <clattn/plan.h>
#include <stdint.h>

/* Returns whether the emulation of the family's instruction takes a second for a small problem, as that of warpgroups. */
int family_is_slow(const char *name);

/* Returns whether tests that go over all families, mostly in f32, take this one. Those for
 * matrix instructions know 16 bits alone; their tests are in tests/units. split_gpu UNIT=item is
 * left out unless CLATTN_TEST_FAMILIES=all: no CPU chooses it, and a program takes PoCL over a
 * second; its tests are in test_split_tiles.c. name NULL, the library's choice: yes; unknown:
 * no. */
int family_takes_f32(const char *name);

/* Returns whether the family can compute such a problem on a CPU, as far as facts tell. */
int family_takes(const char *name, const char *problem);

/* Returns whether it takes dims that are no multiples of 64. What a family of others can do is in
 * tests/units, and tests that go over all families leave it out. */
int family_takes_any_dims(const char *name);

/* Returns whether tests of projections run the family on the device. Families for CPUs hold
 * blocks in private memory, for which a GPU's driver may have no room: an H200's cannot launch
 * projection_cpu UNIT=vector. */
int family_projects_on(const char *name, const clattn_device_info *device);

/* The full name of a plan's family, as clattn_family_name() lists it. */
const char *family_of_plan(const clattn_plan_info *info);

enum { MOST_FAMILIES = 32 };

/* Lists families of an operation, as indices of clattn_family_name(operation, ...), and returns how many: those that `takes`
 * says yes to (NULL: all), of which a test takes one in `runs` in this run, and the others in the next runs, as
 * numbers_taken() has it. */
size_t families_taken(clattn_operation operation, int (*takes)(const char *name), uint64_t test,
                      unsigned runs, size_t families[MOST_FAMILIES]);

/* A test of each of these families, which gets its index: parameters cross processes, pointers do not. */
#define FAMILY_TEST(suite, name, operation, takes, runs)                                           \
    ParameterizedTestParameters(suite, name) {                                                     \
        static size_t indices[MOST_FAMILIES];                                                      \
        return cr_make_param_array(size_t, indices,                                                \
                                   families_taken(operation, takes, __COUNTER__, runs, indices));  \
    }                                                                                              \
    ParameterizedTest(size_t *family, suite, name)

/* The problem's text; with f16 in place of its dtype if the family does not take f32, or bf16 if it takes
 * neither; with gradients of an indexer for their family, or precision=int8 for a unit of bytes. Valid until the next call. */
const char *family_text(const char *family, const char *text);

/* The family that a device takes of itself, untuned: of those that can compute the problem with the tunables that
 * suit it the one of the highest preference. Fails the test if there is none. */
const struct ca_family *family_untuned(const struct ca_problem *p,
                                       const clattn_device_info *device);

/* The value of a tunable for a problem on a CPU of so many compute units that was never tuned. */
struct family_suggestion {
    const char *problem;
    unsigned units;
    size_t value;
};

/* Fails the test, which goes on, unless the family suggests each of them, with tunables that it takes. */
void families_expect_suggestions(const char *family, const char *tunable,
                                 const struct family_suggestion *suggested, size_t count);

/* A problem that a family cannot compute, and words of the sentence that says so. */
struct family_refusal {
    const char *problem, *tunables, *words; /* tunables NULL: those that suit */
};

/* Fails the test, which goes on, unless the family refuses each of them so. */
void families_expect_refusals(const char *family, const struct family_refusal *refused,
                              size_t count);

#endif

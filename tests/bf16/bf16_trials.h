/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of bf16 instructions share: each program is tried with the instruction, where the processor has
 * it, and with its emulation, and on values that no such instruction multiplies as IEEE does. */
#ifndef CLATTN_TEST_BF16_TRIALS_H
#define CLATTN_TEST_BF16_TRIALS_H

#include "tests/support/families.h"
#include "tests/support/fixture.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

/* A fixture with the device of this machine, or with one that lacks the instructions. */
void bf16_open(struct fixture *f, int emulated);

/* No pointers: it crosses processes. */
struct bf16_part {
    size_t number; /* of a program in the caller's list */
    int emulated;  /* whatever the processor has */
};

/* Since a program takes a second to compile, each run takes half of `count` with what the processor has, and a
 * third emulated. */
struct criterion_test_params bf16_parts(size_t count);

/* A program of a forward family: all options between them, odd dims, and tiles that end, and windows that
 * begin, within a pair of keys. */
struct bf16_program {
    const char *tunables, *options;
};

/* Runs the program of a family on several shapes, on infinities and NaN in v, on subnormals and on low scores. */
void bf16_pass_program(struct fixture *f, const char *family, const struct bf16_program *program,
                       uint64_t seed);

/* The instruction and its emulation give the same bits, sums of any size and products that are flushed among
 * them. */
void bf16_compare_with_emulation(const char *family, const struct bf16_program *program);

/* Measuring judges the family's results on the problem as right, within the bounds of standard precision. */
void bf16_expect_judged_right(const char *family, const char *problem);

/* What a family of forward attention in bf16 of standard precision refuses, each with words of the reason. */
void bf16_expect_forward_refusals(const char *family);

/* Skips the test where the processor has no matrix unit for bf16, or the system keeps no tiles. */
void bf16_need_tiles(void);

/* ... where it has no instruction for pairs of bf16. */
void bf16_need_pairs(void);

/* The family that such a problem gets, untuned, on this machine's device if that were a CPU with these words
 * for an architecture. Nothing is compiled. */
const char *bf16_choice(struct fixture *f, const char *problem, const char *architecture);

#endif

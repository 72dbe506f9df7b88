/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for tests of something else than kernels, and what is spread over runs. */
#ifndef TEST_UNOPTIMISED_H
#define TEST_UNOPTIMISED_H

#include <stddef.h>
#include <stdint.h>

/* From now on PoCL compiles without optimising, in a fifth of the time, and inlines only what has barriers: for tests of calls
 * and of what a family computes. That it does so optimised as well is for the sweeps, the properties and
 * whatever leaves the family to the library. Before the process's first call of OpenCL. */
void unoptimised(void);

/* The same but for one of `turns` in each run, and each with one of that many neighbouring seeds. */
void mostly_unoptimised(size_t turn, size_t turns);

/* Returns the seed of random tests. It also decides which part this run takes of tests that are
 * spread over runs. CLATTN_TEST_SEED is a number, or "day" for the day's; without it the seed is
 * 1, so that a change is judged alike every day. */
uint64_t run_seed(void);

/* Returns whether this run takes test number n. The tests are shared by so many nightly runs in a
 * row (CLATTN_TEST_SEED=day), and by three times as many ordinary ones, each of which takes its part by
 * run_seed(). CLATTN_TEST_ALL=1 and CLATTN_TEST_FAMILIES=all take all, in several times the time. */
int run_takes(uint64_t n, unsigned nightly_runs);

/* The same of neighbouring numbers, `count` of them, of which each run takes at least one. */
int run_takes_of(uint64_t n, size_t count, unsigned nightly_runs);

/* A number of the environment, such as CLATTN_TEST_SCALE; and whether a variable of it says "all". */
uint64_t run_number(const char *name, uint64_t otherwise);
int run_all(const char *name);

/* Which of the numbers below count this run takes, if they are shared as run_takes_of() has it; how many. `test` is a
 * number of the test, so that tests take different ones. */
size_t numbers_taken(size_t count, uint64_t test, unsigned nightly_runs, size_t *numbers);

#endif

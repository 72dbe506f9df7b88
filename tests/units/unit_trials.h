/* SPDX-License-Identifier: Apache-2.0 */
/* Devices with and without the instructions of a unit, and trials of its programs. */
#ifndef CLATTN_TEST_UNIT_TRIALS_H
#define CLATTN_TEST_UNIT_TRIALS_H

#include "tests/support/fixture.h"
#include "tests/trials/trial.h"
#include "tests/units/unit_programs.h"

/* A fixture with the device of this machine, or with one that lacks a CPU's instructions for bf16. */
void unit_open(struct fixture *f, int emulated);

/* Skips the test where the processor has no matrix unit for bf16, or the system keeps no tiles; where it has no
 * instruction for pairs of bf16, or for products of bytes; where the device has a matrix instruction of its own. */
void unit_need_tiles(void);
void unit_need_pairs(void);
void unit_need_bytes(void);
void unit_need_emulation(const struct fixture *f);

/* A program of a unit on a shape. */
struct trial unit_trial(const struct unit *unit, size_t program, const char *shape);

#endif

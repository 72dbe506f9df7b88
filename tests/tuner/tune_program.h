/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-tune as a person runs it. */
#ifndef TEST_TUNE_PROGRAM_H
#define TEST_TUNE_PROGRAM_H

#include "tests/support/programs/program.h"
#include "tests/support/programs/scratch.h"
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A small problem, so that compiling is what takes time. */
#define SMALL "fwd f32 h2 q64 d32"

/* .init of a suite, whose .fini is scratch_close(): the scratch folder is also the cache directory of
 * what the test starts. */
void tune_open(void);

/* Starts a program in the background; both its outputs go to the scratch file "output". */
pid_t tune_start(const char *program, const char *arguments);

/* Lines of a file that hold a word; 0 if there is no such file. */
size_t tune_count_lines(const char *path, const char *word);

/* Path of the store's journal, "" if there is none; valid until the next call. */
const char *tune_journal(void);

#endif

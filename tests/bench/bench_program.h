/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench as a person calls it, and what it wrote. */
#ifndef TEST_BENCH_PROGRAM_H
#define TEST_BENCH_PROGRAM_H

#include "tests/support/programs/program.h"
#include "tests/support/programs/scratch.h"

/* Runs with the arguments, printed like printf has them, and --json, and reads that file: run.json in
 * the scratch folder. */
json_t *bench_json(int status, const char *words, const char *format, ...);

/* Copies layer 0 of MiniLM, less `cut` bytes; spoilt, its answer is wrong. */
#define LAYER_0 TEST_DATA "/minilm/minilm_layer_0.safetensors"
void bench_copy_layer(const char *path, size_t cut, bool spoil);

/* Result `index` of the run's first device; NULL if there are not so many. */
const json_t *bench_result(const json_t *run, size_t index);

/* Returns an implementation's row in a result of the run's first device, or NULL if it took no
 * part. */
const json_t *bench_row(const json_t *run, size_t index, const char *implementation);

/* 0 without times. */
size_t bench_samples(const json_t *row);

/* Fails the test if the table that was printed last is wider than 100 columns; lines of problems are
 * not cut. */
void bench_check_width(void);

#endif

/* clattn-bench as a person calls it, and what it wrote. */
#ifndef TEST_BENCH_PROGRAM_H
#define TEST_BENCH_PROGRAM_H

#include <jansson.h>
#include <stddef.h>

/* Runs the program with `arguments`, puts both its outputs into `text` and returns its status. */
int bench_run(const char *arguments, char *text, size_t text_bytes);

/* Fails the test unless it is JSON. */
json_t *bench_load(const char *path);

/* Of the run's first device. */
const json_t *bench_result(const json_t *run, size_t index);

/* What that implementation came to; NULL if it took no part. */
const json_t *bench_implementation(const json_t *result, const char *name);

/* 0 without times. */
size_t bench_samples(const json_t *implementation);

/* Fails the test unless the text is there. */
void bench_check_text(const json_t *object, const char *key, const char *want);

/* Fails the test if the table is wider than 100 columns; lines of problems are not cut. */
void bench_check_width(const char *text);

#endif

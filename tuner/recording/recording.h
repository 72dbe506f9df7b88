/* What a search measured, attempt by attempt: read from and written to Kernel Tuner's cache files
 * (JSON, also gzipped), and written as T4 results 1.0.0. */
#ifndef CA_RECORDING_H
#define CA_RECORDING_H

#include "cli/message.h"
#include "internal.h"

#include <stdio.h>

/* All times in milliseconds. */
struct ca_attempt {
    size_t config; /* of the recording's space */
    enum ca_outcome outcome;
    double time;      /* what the search compares; INFINITY unless correct */
    double *runtimes; /* of each repetition; NULL if there are none */
    size_t num_runtimes;
    double compile_time, verification_time, benchmark_time, strategy_time, framework_time;
    char timestamp[40]; /* ISO 8601, or empty */
};

/* A text beside the standard keys: driver, source hash, problem class. */
struct ca_fact {
    char *key, *text;
};

struct ca_recording {
    char *device_name, *kernel_name;
    char *problem_size; /* as JSON: 4096, [4096, 4096] or "a text" */
    struct ca_space *space;
    struct ca_attempt *attempts; /* in the order of their evaluation, no configuration twice */
    size_t num_attempts, capacity;
    struct ca_fact *facts;
    size_t num_facts;
};

/* A recording of nothing, with an empty space; NULL without memory. problem_size is JSON. */
struct ca_recording *ca_recording_create(const char *device_name, const char *kernel_name,
                                         const char *problem_size);
void ca_recording_destroy(struct ca_recording *recording);

/* Copies the attempt, its runtimes too. False without memory. */
bool ca_recording_add(struct ca_recording *recording, const struct ca_attempt *attempt);
bool ca_recording_add_fact(struct ca_recording *recording, const char *key, const char *text);

/* "CompilationFailedConfig" and so on, NULL if correct; "compile" and so on. */
const char *ca_outcome_error(enum ca_outcome outcome);
const char *ca_outcome_invalidity(enum ca_outcome outcome);

/* Reads a Kernel Tuner cache file, left open at its end or not. The space is what it holds: the
 * configurations of its attempts. NULL, with the reason, if the file cannot be used. */
struct ca_recording *ca_recording_read(const char *path, struct message *why);

/* The same for bytes of a file that was read (and unpacked) already; name is for the reason. */
struct ca_recording *ca_recording_parse(const char *name, const char *text, size_t bytes,
                                        struct message *why);

/* Writes a cache file that Kernel Tuner's simulation mode and its dashboard read. One without a
 * single success is refused: the dashboard takes its columns from the first entry. */
bool ca_recording_write(const struct ca_recording *recording, FILE *file, struct message *why);
bool ca_recording_write_t4(const struct ca_recording *recording, FILE *file, struct message *why);

#endif

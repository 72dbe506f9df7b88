/* SPDX-License-Identifier: Apache-2.0 */
/* Results of runs, in memory and in files: results/README.md describes the JSON. Written results
 * read back the same, with times to nine digits. */
#ifndef CLATTN_BENCH_RESULTS_H
#define CLATTN_BENCH_RESULTS_H

#include "bench/records/record.h"
#include "bench/timing/peak_form.h"

#include <clattn/device.h>

#define RESULTS_SCHEMA "clattn-bench-run-2"
#define RESULTS_MOST_PEERS 8

/* The peaks of a run, in GFLOP/s and GB/s. */
struct peak_samples {
    struct samples
        fma[NUM_PEAK_KINDS]; /* Multiply-adds; none where the device has no such thing. */
    struct samples read, copy;
    char form[NUM_PEAK_KINDS][64]; /* The kernels' forms, such as "fma, 16 lanes, 12 chains". */
    bool exceeded;                 /* A share is clearly over 100 %. */
};

/* The peak that a roof is. */
struct samples *peak_of_roof(struct peak_samples *peaks, enum roof roof);
double peak_of_roof_median(const struct peak_samples *peaks, enum roof roof);

/* A peer as it presented itself, or why it is missing. */
struct peer_note {
    char name[32], version[32], method[128];
    struct message missing; /* "" if it took part; ends with the command that installs it. */
};

/* The device of a rank. */
struct rank_device {
    char name[256]; /* Name of the device and of its driver. */
};

/* One device of a run. */
struct device_run {
    clattn_device_info info; /* After reading: what the file has of it; no handles. */
    size_t index;            /* The device's index, for --device. */
    struct message failed;   /* Why it has no (further) results; "" if all is well. */
    bool interrupted;        /* The user interrupted the run; results so far are there. */
    double load[3];          /* The machine's load averages at the end; NaN if unknown. */
    struct peak_samples peaks;
    struct peer_note peer[RESULTS_MOST_PEERS];
    size_t num_peers;
    char mpi[128];                    /* The MPI; "" if there were no ranks. */
    struct rank_device *rank_devices; /* Owned; the device above is that of the first. */
    size_t ranks;
    struct record *records; /* Owned. */
    size_t count;
};

/* Returns the noise of a run: the median, over all that was timed, of half the 95 % interval of
 * the median. It is a part of the median, and 0 without samples. */
double device_run_noise(const struct device_run *run);

#define RESULTS_NOISY 0.05 /* Noise from which on the reader is warned. */

struct run_results {
    char path[256]; /* The file that was read; "" otherwise. */
    char date[32];  /* UTC, ISO 8601. */
    char clattn[32];
    char processor[128], system[128]; /* Names of the host's processor and system. */
    unsigned processors;              /* Number of processors online. */
    struct device_run *devices;       /* Owned. */
    size_t count;
};

/* Now, on this machine, no devices yet. */
void results_begin(struct run_results *results);

/* Room for one more device, cleared; NULL without memory. Pointers to others move. */
struct device_run *results_add(struct run_results *results);

void results_free(struct run_results *results);

/* Writes to the file by way of a temporary one beside it, or to standard output for "-". */
bool results_write(const char *path, const struct run_results *results, struct message *why);

/* Reads and validates: on failure *results is empty and *why names the file, the place in it and
 * what is wrong there, another schema included. */
bool results_read(const char *path, struct run_results *results, struct message *why);

/* Reads the text of a document, which messages call `path`. */
bool results_parse(const char *path, const char *text, size_t bytes, struct run_results *results,
                   struct message *why);

/* ---- parts of files that other commands write as well ---- */

json_t *results_device(const clattn_device_info *info);

/* The facts in such an object, validated; false if *why says what is wrong with it. */
bool results_device_read(const json_t *object, clattn_device_info *info, struct message *why);

/* The result closest to its bound, and the name of the reference it was compared with. */
json_t *results_error(const struct worst *worst, const char *against);

/* The parts of compiling, in milliseconds. */
json_t *results_compiling(const struct cold_start_parts *parts);

/* A reader whose complaints about a file go to *why. */
struct ca_json_reader results_reader(const char *file, struct message *why);

/* An object with what every other file begins with: schema, date, version, device, load. */
json_t *results_new(const char *schema, const struct target *target);

/* Writes an object, which it takes, to the file, or to standard output for "-". */
bool results_dump(const char *path, json_t *object, struct message *why);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Runs side by side: what each file has of a problem on a device, and how that compares with the
 * first file's. */
#ifndef CLATTN_BENCH_COMPARISON_H
#define CLATTN_BENCH_COMPARISON_H

#include "bench/records/results.h"

#define COMPARISON_MOST 26 /* Files; each has a letter. */

struct comparison_options {
    const char *implementation; /* Name of the implementation whose times are compared. */
    const char *filter;         /* NULL, or what the name or the text of a problem contains. */
    bool by_share;              /* Compares shares of the roof instead of times. */
    double threshold;           /* 0.05: a slow-down of up to 5 % is no regression. */
};

enum verdict {
    VERDICT_NONE,   /* There is nothing to compare, or it is another device. */
    VERDICT_FEW,    /* Too few samples to be sure of anything. */
    VERDICT_SAME,   /* Not surely beyond the threshold. */
    VERDICT_FASTER, /* The whole interval is beyond the threshold. */
    VERDICT_SLOWER, /* The whole interval is beyond it on the slower side. This and the following are regressions. */
    VERDICT_MISSING,
    VERDICT_UNSUPPORTED,
    VERDICT_FAILED,
    VERDICT_WRONG,
    VERDICT_LOOSE /* It was right within the bounds of f32 arithmetic, and is no more. */
};

struct verdict_kind {
    /* Its name in files: "", "few", "same", "faster", "slower", "missing" and so on. */
    const char *name;
    const char *word; /* Its name in tables, behind the mark. */
    char mark;
    bool regression;
};
extern const struct verdict_kind verdict_kinds[];

/* A file's results for a problem. */
struct comparison_cell {
    const struct record *record;   /* NULL if it was not run. */
    const struct outcome *outcome; /* NULL if the implementation took no part. */
    double seconds, share;         /* Medians; NaN where there is none. */
    bool compared;                 /* The next two members are valid: */
    struct ca_interval ratio;      /* Time as a multiple of that in the first file. */
    enum verdict verdict;
};

struct comparison_row {
    const char *name, *problem; /* Texts of the first file that has the problem. */
    struct comparison_cell cell[COMPARISON_MOST];
};

/* A device. */
struct comparison_group {
    const struct device_run *run[COMPARISON_MOST]; /* NULL if the file has none. */
    bool other[COMPARISON_MOST]; /* The device is another one than the first file's. */
    struct comparison_row *rows; /* Owned. */
    size_t num_rows;
};

struct comparison {
    const struct run_results *files; /* Borrowed. */
    size_t num_files;
    struct comparison_options options;
    struct comparison_group *groups; /* Owned. */
    size_t num_groups;
};

/* Devices with the same name, platform and number of units belong together, whatever the driver:
 * an update is worth a comparison. If a file has none of the known devices, its devices are
 * paired with those of the same platform, or the only one with the only one. Their ratios are
 * shown, but a slower device is no regression then. Problems belong together by their text,
 * first those of the same name. On failure *why says why and there is nothing to free. */
bool comparison_open(struct comparison *comparison, const struct run_results *files,
                     size_t num_files, const struct comparison_options *options,
                     struct message *why);
void comparison_free(struct comparison *comparison);

/* Returns how many problems of files beside the first have that verdict, or are regressions. */
size_t comparison_count(const struct comparison *comparison, enum verdict verdict);
size_t comparison_regressions(const struct comparison *comparison);

/* A group's device in the first file, or in the first that has it. */
const struct device_run *comparison_device(const struct comparison_group *group);

/* The geometric mean of the ratios of a file, of one group or, for NULL, of all of them. */
struct comparison_mean {
    double ratio;
    size_t count; /* 0: there is none. */
};
struct comparison_mean comparison_mean(const struct comparison *comparison,
                                       const struct comparison_group *group, size_t file);

/* Prints the table and a summary; if quiet, only regressions. */
void comparison_print(const struct comparison *comparison, bool quiet);

/* results/README.md describes it. */
bool comparison_write_json(const char *path, const struct comparison *comparison,
                           struct message *why);

#endif

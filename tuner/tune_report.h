/* SPDX-License-Identifier: Apache-2.0 */
/* What a tuning found, for people and as JSON. */
#ifndef CA_TUNE_REPORT_H
#define CA_TUNE_REPORT_H

#include "tuner/journal.h"
#include "tuner/tune_options.h"

#include <jansson.h>

#include <stdio.h>

/* What became of a problem. */
enum tune_state {
    TUNE_KNOWN,       /* it was tuned before */
    TUNE_TUNED,       /* result holds something */
    TUNE_NOT_REACHED, /* the budget, or the user, ended the tuning before */
    TUNE_NO_RESULT,   /* nothing that was tried works */
    TUNE_UNSUPPORTED  /* nothing could be tried, see reason */
};

struct tune_problem {
    clattn_problem problem;
    char line[256]; /* its text form, cut */
    char problem_class[CA_JOURNAL_CLASS];
    enum tune_state state;
    char reason[256];
    struct ca_tune_result result;
};

struct tune_report {
    const struct tune_options *options;
    const clattn_device_info *device;
    const char *store_path; /* "" if nothing is kept */
    const struct tune_problem *problems;
    size_t num_problems;
    const struct ca_journal *journal; /* everything tried */
    double seconds, compile_seconds; /* in all, and what compilers took: several may work at once */
    size_t evaluations, restarts;    /* configurations; of the worker */
    bool interrupted;
    bool kept; /* all that was found is in the store */
};

/* Readings of this run's problems. */
bool tune_report_covers(const struct tune_report *report, const struct ca_journal_entry *entry);

/* Lines of at most 100 columns, less on a narrow terminal. */
void tune_report_print(const struct tune_report *report, FILE *to);

/* NULL without memory. */
json_t *tune_report_json(const struct tune_report *report);

#endif

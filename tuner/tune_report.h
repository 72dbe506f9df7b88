/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a tuning, for people and as JSON. */
#ifndef CA_TUNE_REPORT_H
#define CA_TUNE_REPORT_H

#include "tuner/journal.h"
#include "tuner/tune_options.h"

/* The outcome for a problem. */
enum tune_state {
    TUNE_KNOWN,       /* the problem was tuned before */
    TUNE_TUNED,       /* result holds something */
    TUNE_NOT_REACHED, /* the budget or the user ended the tuning before this problem */
    TUNE_NO_RESULT,   /* nothing that was tried works */
    TUNE_UNSUPPORTED  /* nothing could be tried: see reason */
};

struct tune_problem {
    clattn_problem problem;
    char line[256]; /* the problem's text form, cut to fit */
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
    /* duration, and the sum over all compilers, of which several may run at once */
    double seconds, compile_seconds;
    size_t evaluations, restarts; /* configurations tried, and restarts of the worker */
    bool interrupted;
    bool kept; /* all that was found is in the store */
};

/* Prints it or writes it as JSON, as its options say: lines of at most 100 columns, less on a narrow terminal.
 * False, after a sentence, if something cannot be written. */
bool tune_report_write(const struct tune_report *report);

#endif

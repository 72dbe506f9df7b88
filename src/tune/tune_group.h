/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning problems whose programs are alike, with one measurer and one search space. */
#ifndef CA_TUNE_GROUP_H
#define CA_TUNE_GROUP_H

#include "families/candidate.h"
#include "store/quarantine.h"
#include "tune/tune.h"

enum { CA_GROUP_MOST = 16 };

struct ca_group {
    size_t index[CA_GROUP_MOST];            /* among the problems of the tuning */
    clattn_problem problems[CA_GROUP_MOST]; /* normal */
    size_t count;
    int renewal;            /* only the stale entries are measured anew */
    double max_seconds;     /* 0: no limit */
    size_t max_evaluations; /* 0: no limit */
    double later_seconds;   /* what other groups will probably take */
};

/* What crashed or hung; `how` is a sentence. */
struct ca_suspect {
    struct ca_candidate candidate;
    clattn_problem problem;
    enum ca_quarantine what;
    char how[CA_READING_REASON];
};

/* How many crash before anything works: the rest gets away. */
enum { CA_SUSPECTS = 16 };

/* One call of clattn_tune(). */
struct ca_tuning {
    clattn_context *ctx;
    const clattn_tuning_options *options;
    const struct ca_tune_hooks *hooks;
    struct ca_tune_result *results; /* by problem */
    size_t num_problems;
    double begin, end;  /* ca_stopwatch_now(); end may be INFINITY */
    size_t evaluations; /* so far */
    unsigned hopeless;  /* families, by their bits, that an earlier group found far too slow */
    int ended;          /* by the observer or the event hook */
    struct ca_suspect suspects[CA_SUSPECTS]; /* since something worked last */
    size_t num_suspects;
};

/* Fills the results of the group's problems and puts them into the store. */
clattn_status ca_group_tune(struct ca_tuning *tuning, struct ca_group *group);

#endif

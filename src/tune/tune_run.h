/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning problems whose programs are alike, with one measurer and one search space: what the parts share. */
#ifndef CA_TUNE_RUN_H
#define CA_TUNE_RUN_H

#include "families/registry.h"
#include "problem/problem.h"
#include "store/quarantine.h"
#include "tune/tune.h"

enum { CA_GROUP_MOST = 16 };

struct ca_group {
    size_t index[CA_GROUP_MOST]; /* among the problems of the tuning */
    struct ca_problem problems[CA_GROUP_MOST];
    size_t count;
    int renewal;            /* not 0: only stale entries are measured, anew */
    double max_seconds;     /* 0: no limit */
    size_t max_evaluations; /* 0: no limit */
    double later_seconds;   /* seconds that the groups after this one will probably take */
};

/* Reports a candidate that crashed or hung; `how` is a sentence. */
struct ca_suspect {
    struct ca_candidate candidate;
    clattn_problem problem;
    enum ca_quarantine what;
    char how[CA_READING_REASON];
};

/* The number of crashes before anything works that ends the tuning. */
enum { CA_SUSPECTS = 16 };

/* One call of clattn_tune(). */
struct ca_tuning {
    clattn_context *ctx;
    const clattn_tuning_options *options;
    const struct ca_tune_hooks *hooks;
    struct ca_tune_result *results; /* one result for each problem */
    size_t num_problems;
    double begin, end;      /* by ca_stopwatch_now(); end may be INFINITY */
    size_t evaluations;     /* configurations evaluated so far */
    ca_family_set hopeless; /* bits of the families that an earlier group found far too slow */
    int ended;              /* not 0: the observer or the event hook has ended the tuning */
    struct ca_suspect suspects[CA_SUSPECTS]; /* candidates suspected since one last worked */
    size_t num_suspects;
};

/* Fills the results of the group's problems and puts them into the store. */
clattn_status ca_group_tune(struct ca_tuning *tuning, struct ca_group *group);

/* The configurations that a problem's search begins with, and their readings in this session. */
struct ca_seeds {
    size_t configs[CA_SESSION_SEEDS];
    int is_stored[CA_SESSION_SEEDS]; /* the store has a time of it for this class */
    size_t count;
    struct ca_reading readings[CA_SESSION_SEEDS]; /* without times if there was none */
};

struct ca_run {
    struct ca_tuning *tuning;
    struct ca_group *group;
    struct ca_measurer within;   /* the one that was opened for the group */
    struct ca_measurer measurer; /* passes its calls on to `within` (ca_run_decorate()) */
    struct ca_candidate candidates[CA_SESSION_MOST]; /* the last result of ca_run_candidates() */
    struct ca_space *space;
    struct ca_seeds *seeds; /* one for each problem; NULL before there is a space */
    double begin;           /* ca_stopwatch_now() */
    size_t evaluations_at_begin;
    size_t before;         /* evaluations of earlier groups and of the families' comparison */
    int worked;            /* not 0: some candidate is right */
    clattn_status failure; /* status of the last candidate that is not right */
};

/* ---- tune_try.c: between the session and the measurer ---------------------------------------- */

/* Makes run->measurer of run->within: what failed in a way that may pass is tried twice, and what becomes of a
 * candidate is noted. */
void ca_run_decorate(struct ca_run *run);

/* The callbacks of a session; their user is the run. */
const struct ca_candidate *ca_run_candidates(void *user, const size_t *configs, size_t count);
double ca_run_clock(void *user);
bool ca_run_allows(void *user, size_t problem, size_t config);
bool ca_run_event(void *user, const struct ca_session_event *event);

/* Tells the observer and the hook about a candidate. False if one of them ends the tuning. */
bool ca_run_tell(struct ca_run *run, const struct ca_session_event *event,
                 const struct ca_candidate *candidate);

/* Bans candidates that failed for good, so that no plan and no other tuning tries them again. */
void ca_run_note(struct ca_run *run, size_t problem, const struct ca_candidate *candidate,
                 const struct ca_reading *reading);

/* ---- tune_seeds.c: which families are searched, from where ----------------------------------- */

enum { CA_MAX_FAMILIES = 16 };

/* Each family's untuned candidate on the group's smallest problem. */
struct ca_comparison {
    struct ca_candidate candidates[CA_MAX_FAMILIES];
    struct ca_reading readings[CA_MAX_FAMILIES];
    int is_new[CA_MAX_FAMILIES]; /* measured now rather than by a tuning that was interrupted */
    size_t count;
    size_t problem;
};

/* Measures the families' candidates, if there are two or more; the outcome of those that were not
 * measured is CA_NUM_OUTCOMES. The bits of those that are worth a search. */
ca_family_set ca_run_compare(struct ca_run *run, struct ca_comparison *comparison);

/* The bits of the families of what the store knows of a problem's class. */
ca_family_set ca_run_known_families(const struct ca_run *run, size_t problem);

/* Finds the candidate that plans use without tuning, and returns its family's bit. Where no
 * family is left that may be used, it returns 0 and incumbent->family is NULL. */
ca_family_set ca_run_incumbent(const struct ca_run *run, size_t problem,
                               struct ca_candidate *incumbent);

/* The incumbent, what facts alone suggest for its family, what the store knows of this class and
 * the nearest, the shipped portfolio. */
void ca_run_seeds(const struct ca_run *run, size_t problem, const struct ca_candidate *incumbent,
                  struct ca_seeds *seeds);

#endif

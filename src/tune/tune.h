/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning of problems on a context: clattn_tune() does it in this process, clattn-tune with a
 * worker. tuner/ may include no other header of src/, except measurer.h. */
#ifndef CA_TUNE_H
#define CA_TUNE_H

#include "families/candidate.h"
#include "problem/problem.h"
#include "search/session.h"
#include "tune/measurer.h"
#include <clattn/tuning.h>

/* One configuration tried on one problem, as it happens. */
struct ca_tune_event {
    const clattn_tuning_progress *progress;
    const struct ca_candidate *candidate;
    const struct ca_reading *reading; /* NULL in a race */
};

/* The result of tuning one problem. */
struct ca_tune_result {
    int known; /* nothing was done: the store has fresh entries, or another problem stands for it */
    int searched; /* result holds something */
    struct ca_session_result result;
    struct ca_candidate top[CA_TOP]; /* the winner first */
    struct ca_candidate incumbent;   /* the candidate that an untuned plan uses */
};

struct ca_tune_hooks {
    void *user;
    /* Makes a measurer for problems that are alike, which is closed once their results are in the store; NULL:
     * ca_measurer_create(). */
    clattn_status (*open)(void *user, const struct ca_problem *problems, size_t count,
                          struct ca_measurer *measurer);
    /* After each configuration; NULL: none. False ends the tuning. */
    bool (*event)(void *user, const struct ca_tune_event *event);
};

/* results: count of them, zero; hooks: not NULL. Failed configurations are banned in the store, the
 * top of each class is put there. */
clattn_status ca_tune(clattn_context *ctx, const clattn_problem *problems, size_t count,
                      const clattn_tuning_options *options, const struct ca_tune_hooks *hooks,
                      struct ca_tune_result *results);

/* Returns whether all results are in the store's file; true if there is no file. */
bool ca_tune_is_kept(const clattn_context *ctx);

/* The candidate that a configuration of such a space stands for: its first parameter is the family,
 * the others are tunables, 0 where the family has none of that name. False if there is none. */
bool ca_tune_candidate(const struct ca_space *space, size_t config, struct ca_candidate *candidate);
size_t ca_tune_config(const struct ca_space *space, const struct ca_candidate *candidate);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The data of problems, and the plans, that the measurer of this process keeps for reuse. */
#ifndef CA_MEASURER_DATA_H
#define CA_MEASURER_DATA_H

#include "execute/execute.h"
#include "families/candidate.h"
#include "selfcheck/case.h"
#include "tune/measurer.h"
#include "tune/measurer_time.h"

/* A problem with its data, which is made when it is first needed and dropped when others need the
 * memory. */
struct ca_work {
    struct ca_problem problem;
    struct ca_trust_case data; /* all zeros if there is none */
    cl_mem buffers[CA_WORKSPACE];
    size_t bytes; /* bytes of all blocks together */
    unsigned long used;
};

/* A candidate's plan for a problem. */
struct ca_ready {
    clattn_plan *plan; /* NULL: free */
    size_t problem;
    struct ca_candidate candidate;
    double seconds; /* seconds of one execution; 0 if the plan never ran */
    unsigned long used;
};

/* The sentences of a candidate that fails: the first, and of a build log the first error. */
struct ca_capture {
    struct ca_log to; /* the log that captured sentences are passed on to */
    char sentence[CA_READING_REASON], build_error[CA_READING_REASON];
};

/* A log callback for a struct ca_capture. A candidate that fails is no call that fails: errors go
 * on as warnings. (src/tune/measurer_capture.c) */
void ca_capture_message(clattn_log_level level, const char *message, void *capture);
void ca_capture_forget(struct ca_capture *capture);

enum { CA_READY = 16 };

struct ca_measuring {
    /* the measurer's own context: it holds the candidates' programs and errors */
    clattn_context *ctx;
    struct ca_capture capture;
    cl_command_queue queue;
    struct ca_stopwatch watch;
    struct ca_work *works;
    size_t num_works;
    struct ca_ready ready[CA_READY];
    unsigned long now; /* counter of uses; what was used least recently is dropped first */
    cl_mem workspace;  /* shared by all plans, which run one after the other */
    size_t workspace_bytes;
    int lost;
};

/* The data of a problem, on the device. */
clattn_status ca_work_open(struct ca_measuring *m, size_t problem, struct ca_work **work);

/* A plan that is ready to run, built anew if it is gone. Valid until the next call. */
clattn_status ca_ready_open(struct ca_measuring *m, size_t problem,
                            const struct ca_candidate *candidate, struct ca_ready **ready);

/* The tensors of a problem for a plan, with its workspace. */
clattn_status ca_work_tensors(struct ca_measuring *m, const struct ca_work *work,
                              const clattn_plan *plan, struct ca_tensors *tensors);

/* Drops all data and plans. */
void ca_measuring_empty(struct ca_measuring *m);

#endif

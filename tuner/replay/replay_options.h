/* The command line of clattn-replay. */
#ifndef CA_REPLAY_OPTIONS_H
#define CA_REPLAY_OPTIONS_H

#include "internal.h"

struct replay_options {
    const char **files, **seed_files; /* of argv; the arrays are freed by the caller */
    size_t num_files, num_seed_files;
    bool wanted[CA_NUM_STRATEGIES];
    size_t runs;
    size_t budget;         /* evaluations; 0: a part of the space */
    double budget_percent; /* 0: 5 %, but at least as much as the last checkpoint */
    uint64_t seed;
    size_t num_seeds; /* configurations taken from the seed files */
    size_t threads;
    bool confidence, json;
};

enum replay_action { REPLAY_RUN, REPLAY_DONE, REPLAY_USAGE };

/* Prints help or what is wrong itself. */
enum replay_action replay_options_parse(int argc, char **argv, struct replay_options *options);

#endif

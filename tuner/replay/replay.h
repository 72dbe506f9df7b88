/* Replaying a recorded space: a search that looks times up instead of measuring them, many times
 * over with different seeds. */
#ifndef CA_REPLAY_H
#define CA_REPLAY_H

#include "internal.h"
#include "tuner/recording/recording.h"

/* The part of the optimum's time within which a run counts as having found it. */
#define CA_REPLAY_MARGIN 0.02

enum { CA_REPLAY_CHECKPOINTS = 4, CA_REPLAY_MAX_SEEDS = 8 };
extern const size_t ca_replay_checkpoints[CA_REPLAY_CHECKPOINTS]; /* 25, 50, 100, 200 */

struct ca_replay_plan {
    const struct ca_recording *recording;
    enum ca_strategy strategy;
    size_t runs, budget; /* budget: evaluations of one run */
    uint64_t seed;       /* of the first run; the others follow */
    const size_t *first; /* configurations that every run begins with */
    size_t num_first;
    size_t threads;
    bool confidence; /* ask each run at each checkpoint how sure it is; costs the whole budget */
};

struct ca_replay_result {
    double within[CA_REPLAY_CHECKPOINTS];  /* share of the runs, 0 to 1 */
    double claimed[CA_REPLAY_CHECKPOINTS]; /* mean of what the runs stated; NaN if not asked */
    double within_part;                    /* share of the runs after 5 % of the space */
    size_t part;                           /* evaluations that those 5 % are */
    double mean_to_find; /* evaluations until within the margin; the budget where never */
    double mean_loss;    /* best time over the optimum, minus 1, at the end */
};

/* False, with the reason, without memory or a success in the recording. */
bool ca_replay(const struct ca_replay_plan *plan, struct ca_replay_result *result,
               struct message *why);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_TRIAL_DATA_H
#define TEST_TRIAL_DATA_H

#include "tests/support/rng.h"
#include "tests/trials/trial.h"

/* Fills the inputs of a trial whose tensors have their places. */
void trial_data_fill(struct trial *t, struct rng *r);

/* In a backward trial: computes o and lse from what the other inputs hold now. */
void trial_data_fill_results(struct trial *t);

#endif

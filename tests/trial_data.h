#ifndef TEST_TRIAL_DATA_H
#define TEST_TRIAL_DATA_H

#include "rng.h"
#include "trial.h"

/* Fills the inputs of a trial whose tensors have their places. */
void trial_data_fill(struct trial *t, struct rng *r);

#endif

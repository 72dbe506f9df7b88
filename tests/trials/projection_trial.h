/* SPDX-License-Identifier: Apache-2.0 */
/* One projection run through the public API and compared, element by element, with the reference;
 * as trial.h for attention. A failure is repeated by
 *
 *   CLATTN_TEST_PROBLEM="proj ..." CLATTN_TEST_SEED=1 CLATTN_TEST_FAMILY=...
 *   CLATTN_TEST_TUNABLES="..." clattn_tests --filter projection/one
 */
#ifndef TEST_PROJECTION_TRIAL_H
#define TEST_PROJECTION_TRIAL_H

#include "bench/judge/projection.h"
#include "families/tunables.h"
#include "tests/support/fixture.h"

enum projection_tensor { PROJECTION_X, PROJECTION_W, PROJECTION_BIAS, PROJECTION_Y, NUM_PROJECTED };

struct projected {
    const char *name;
    clattn_dtype dtype;
    size_t size[4], stride[4];
    size_t extent;        /* elements from the first to the last, both included; 0 if none */
    size_t offset;        /* of the first, in elements */
    size_t num_bytes;     /* of the whole buffer, guard bands included */
    unsigned char *bytes; /* what is sent; NULL: no such tensor */
    unsigned char *got;   /* what the buffer holds after the run */
};

struct projection_trial {
    clattn_problem problem;
    const char *family;              /* NULL: the library's choice */
    char tunables[CA_TUNABLES_TEXT]; /* "": the family's */
    uint64_t seed;
    int poisoned; /* a NaN in x and an infinity in w are among the data */
    int aligned; /* tensors begin at multiples of 8 elements, where kernels may copy them in pieces */
    struct projected tensor[NUM_PROJECTED];
};

/* Makes the tensors and their data from problem and seed; frees them. */
void projection_fill(struct projection_trial *t);
void projection_free(struct projection_trial *t);

/* Element n, in the order of the sizes: to be sent, or as it came back. */
void projection_set(const struct projection_trial *t, enum projection_tensor id, size_t n,
                    double value);
double projection_value(const struct projection_trial *t, enum projection_tensor id, size_t n);

/* What it fills in may be the argument of a call: the buffers, and later what they hold, as got.
 * The struct's buffers are released. */
clattn_projection_tensors projection_send(struct fixture *f, const struct projection_trial *t);
void projection_receive(struct fixture *f, struct projection_trial *t,
                        clattn_projection_tensors *tensors);

/* Compares got with the reference, and all that is not an element of y with what was sent. */
void projection_check(const struct projection_trial *t);

/* Makes a plan and runs it on the fixture's queue; fails the test unless all calls succeed. */
void projection_run(struct fixture *f, struct projection_trial *t);

/* All of it. */
void projection_pass(struct fixture *f, struct projection_trial *t);

#endif

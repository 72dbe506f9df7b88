/* SPDX-License-Identifier: Apache-2.0 */
/* One problem of any operation, run through the public API and compared, element by element, with the reference.
 *
 * Tensors lie at random places inside buffers in which every byte that is not theirs is 0xff,
 * a NaN in each dtype: between strides, before and after. What is hidden from every query that
 * could use it is NaN, Inf or huge. Everything follows from problem and seed, so that a failure
 * is repeated by
 *
 *   CLATTN_TEST_PROBLEM="fwd ..." CLATTN_TEST_SEED=1 CLATTN_TEST_FAMILY=...
 *   CLATTN_TEST_TUNABLES="..." clattn_tests --filter sweep/one, or projection/one
 */
#ifndef TEST_TRIAL_H
#define TEST_TRIAL_H

#include "families/tunables.h"
#include "tests/support/fixture.h"
#include "tests/trials/tensors.h"
#include <stdint.h>

struct host_tensor {
    struct tensor_shape shape;
    unsigned char *bytes; /* the whole buffer, guard bands included; NULL: no such tensor */
    unsigned char *got;   /* what it holds after the run */
    size_t num_bytes;
    size_t offset; /* of element (0, 0, 0, 0), in elements */
};

struct trial {
    clattn_problem problem;
    const char *family;              /* NULL: the library's choice */
    char tunables[CA_TUNABLES_TEXT]; /* "": the family's */
    uint64_t seed;
    clattn_function_values
        values; /* of the functions' parameters; not valued: those of the sources */
    int valued;
    int poisoned; /* of a projection: a NaN in x and an infinity in w are among the data */
    int aligned; /* tensors begin at multiples of 8 elements, where kernels may copy them in pieces */
    struct host_tensor tensor[NUM_TENSORS]; /* by the enum of the problem's operation */
};

/* Makes the tensors and their data from problem and seed. */
void trial_fill(struct trial *t);
void trial_free(struct trial *t);

/* Returns where the tensors lie before the run, or what they hold after it. */
struct tensor_view trial_sent(const struct trial *t);
struct tensor_view trial_got(const struct trial *t);

/* trial_pass() of a problem with bias=f32:qk and no other way to hide keys. The first key has
 * nearly all of the weight and values of 0, so that outputs are those of weights of 2^-24 to
 * 2^-28. */
void trial_pass_with_small_weights(struct fixture *f, struct trial *t);

/* One element: to be sent (of a quantized tensor its block's scale), or, of one that is not, as it came back. */
void trial_set(const struct trial *t, int id, size_t b, size_t h, size_t i, size_t d, double value);
double trial_value(const struct trial *t, int id, size_t b, size_t h, size_t i, size_t d);

/* Likewise element n of a tensor's, in the order of its sizes. */
void trial_set_nth(const struct trial *t, int id, size_t n, double value);
double trial_value_nth(const struct trial *t, int id, size_t n);

/* Makes every element of a tensor uniform in +-2, hidden or not. */
void trial_set_ordinary(const struct trial *t, int id, uint64_t seed);

/* Makes got a copy of each tensor, for a host call that writes its results there, and returns it. */
struct tensor_view trial_copy(struct trial *t);

/* Buffers that hold the tensors; then what they hold in the end, as got: they are released. */
struct tensor_arguments trial_send(struct fixture *f, const struct trial *t);
void trial_receive(struct fixture *f, struct trial *t, const struct tensor_arguments *tensors);

/* Returns whether the library says that the trial's family and tunables can compute it. */
int trial_is_supported(const struct fixture *f, const struct trial *t);

/* Makes a plan and runs it on the fixture's queue; fails the test unless all calls succeed. */
void trial_run(struct fixture *f, struct trial *t);

/* Compares got with the reference, inputs and guard bands with what was sent; fails the test with
 * the first difference and the line that repeats it. */
void trial_check(const struct trial *t);

/* All of it; and all of it by the host call. */
void trial_pass(struct fixture *f, struct trial *t);
void trial_pass_host(struct fixture *f, struct trial *t);

/* The same with an Inf and a NaN in V, of keys 11 and 37 of each head, which some rows see and
 * others do not. A paged cache has neither. dim_v is at least 6. */
void trial_pass_with_infinities(struct fixture *f, struct trial *t);

/* Likewise trials of problems, `seeds` of each, by one family (with the dtype that it takes): the first `certain` are ones
 * for every family, the others count where they are supported. */
void trials_pass(const char *family, const char *const *problems, size_t count, size_t certain,
                 uint64_t seeds);

/* Likewise `each` problems with the options of each base (random_of()), of which a run takes one in `shares`. Sizes and
 * layouts change from trial to trial, what programs are built for does not. A run takes some of the bases
 * (numbers_taken() of `runs`). */
struct trial_base {
    const char *problem, *family,
        *tunables; /* NULL: the library's choice; where that one is not supported it is left out */
};
void trials_pass_of(struct fixture *f, const struct trial_base *bases, size_t count, unsigned runs,
                    int each, unsigned shares);

#endif

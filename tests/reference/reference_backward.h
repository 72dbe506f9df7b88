/* Gradients in double precision by plain loops, written from the formulas under "Backward" in
 * <clattn/problem.h>. It shares no code with the library. Every value comes with the largest error
 * that f32 arithmetic may leave on it; reference_backward.c derives the bounds. */
#ifndef TEST_REFERENCE_BACKWARD_H
#define TEST_REFERENCE_BACKWARD_H

#include "tests/reference/reference.h"

/* Every element of each tensor that a backward problem writes, packed in the order of
 * tensor_shape_of()'s sizes; NULL for other tensors. */
struct reference_gradients {
    struct bounded *at[NUM_TENSORS];
};

/* Computes the gradients from what the view holds: o and lse too are taken as they are. False if
 * there is no memory. Close them in any case. */
int reference_gradients_open(const clattn_problem *p, const struct tensor_view *view,
                             struct reference_gradients *gradients);
void reference_gradients_close(struct reference_gradients *gradients);

#endif

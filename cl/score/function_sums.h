/* SPDX-License-Identifier: Apache-2.0 */
/* The last stage of the gradients of what a score function loads: earlier stages have left arrays of sums in the workspace.
 *
 * Kernels say LOAD_SUMS(args), the two members of place_load_sums(). */
#pragma once
#include "score/function.h"

INLINE struct load_sums place_load_sums(const struct arguments *args)
{
    const struct load_sums place = {LOAD_SUMS(args)};

    return place;
}

/* The bits of block lists, or the marks of masks and biases, come last in the workspace. */
INLINE long marks_begin(const struct arguments *args)
{
    const struct load_sums place = place_load_sums(args);

    return place.begin +
           (HAS_DFUNCTION ? function_sums(args, place.most) * function_gradients(args) : 0);
}

#if HAS_DFUNCTION
/* Global any: each work-item has every so many-th element, and adds up the arrays in ascending order. */
__kernel void backward_function(PARAMETERS_backward_function)
{
    const struct arguments arguments = ARGUMENTS_backward_function, *const args = &arguments;
    const long elements = function_gradients(args);
    const struct load_sums place = place_load_sums(args);
    const long count = function_sums(args, place.most);
    const __global float *sums = args->workspace + place.begin;

    for (long n = get_global_id(0); n < elements; n += get_global_size(0)) {
        float sum = 0.0f;
        for (long array = 0; array < count; array++)
            sum += sums[array * elements + n];
        args->dfunction[n] = sum;
    }
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The last stage of the gradients of what a score function loads: earlier stages have left arrays of sums in the workspace.
 *
 * Who includes this defines place_load_sums(args). */
#pragma once
#include "score/function.h"

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

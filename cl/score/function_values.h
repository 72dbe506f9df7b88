/* SPDX-License-Identifier: Apache-2.0 */
/* function_values: what the functions of a problem (clattn/function.h) give for some pairs, so that a self-check, which
 * cannot compute them, knows the answers of the rest. It is part of every program with functions, which is faster than
 * a program of its own.
 *
 * NDRange   local 1, since compilers on CPUs take long for loops over work-items; global (calls): a work-item has a
 *           call, which is RECORD floats in the workspace: as ints batch, head, query, key, and the queries and keys in
 *           use; the score and its error; then results. */
#pragma once
#include "families/function_values.h"

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
function_values(PARAMETERS_function_values)
{
    const struct arguments arguments = ARGUMENTS_function_values;
    const struct arguments *const args = &arguments;
    __global float *record = args->workspace + get_global_id(0) * RECORD;
    const struct extent e = {as_int(record[4]), as_int(record[5]), 0, 0};
    const struct function_pair pair = function_pair_within(
        args, e, as_int(record[0]), as_int(record[1]), as_int(record[2]), as_int(record[3]));
    const float s = record[6], error = record[7];

    const float value = function_score(args, pair, s);
    const float more = fabs(function_score(args, pair, s + error) - value);
    const float less = fabs(function_score(args, pair, s - error) - value);
    record[VALUE] = value;
    record[VALUE_ERROR] = HAS_SCORE_FUNCTION ? fmax(more, less) : error;
    const float derivative = function_derivative(args, pair, s);
    const float above = fabs(function_derivative(args, pair, s + error) - derivative);
    const float below = fabs(function_derivative(args, pair, s - error) - derivative);
    record[DERIVATIVE] = derivative;
    record[DERIVATIVE_ERROR] = fmax(above, below);
    record[VISIBLE] = function_visible(args, pair);
    for (int load = 0; HAS_DFUNCTION && load < SCORE_FUNCTION_LOADS; load++) {
        const float by_load = function_by_load(args, load, pair, s);
        const float over = fabs(function_by_load(args, load, pair, s + error) - by_load);
        const float under = fabs(function_by_load(args, load, pair, s - error) - by_load);
        __global float *of_load = record + LOADS + load * LOAD_RECORD;
        of_load[LOAD_PLACE] = as_float(function_place(args, load, pair, s));
        of_load[LOAD_DERIVATIVE] = by_load;
        of_load[LOAD_ERROR] = fmax(over, under);
    }
}

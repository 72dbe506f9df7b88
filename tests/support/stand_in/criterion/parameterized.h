/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STAND_IN_PARAMETERIZED_H
#define STAND_IN_PARAMETERIZED_H

#include <criterion/criterion.h>

#define ParameterizedTestParameters(suite, name)                                                   \
    static struct criterion_test_params suite##_##name##_parameters(void)

#define ParameterizedTest(...) STAND_IN_PARAMETERIZED(__VA_ARGS__, .disabled = false)
#define STAND_IN_PARAMETERIZED(parameter, suite, name, ...)                                        \
    static void suite##_##name##_body(parameter);                                                  \
    static void suite##_##name##_runs(void *value)                                                 \
    {                                                                                              \
        suite##_##name##_body(value);                                                              \
    }                                                                                              \
    STAND_IN_REGISTER(suite##_##name, #suite, #name, suite##_##name##_runs,                        \
                      suite##_##name##_parameters, __VA_ARGS__)                                    \
    static void suite##_##name##_body(parameter)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions that name the type of what they compare. */
#ifndef STAND_IN_NEW_ASSERT_H
#define STAND_IN_NEW_ASSERT_H

#include <criterion/criterion.h>

/* They note the values, which the failed assertion prints; relation: "==", "!=", "<", "<=", ">" or ">=". */
bool stand_in_whole(long long a, const char *relation, long long b);
bool stand_in_double(double a, const char *relation, double b);
bool stand_in_text(const char *a, const char *relation, const char *b);

#define stand_in_int(a, relation, b) stand_in_whole((long long)(a), relation, (long long)(b))
#define stand_in_uint stand_in_int
#define stand_in_long stand_in_int
#define stand_in_sz stand_in_int
#define stand_in_chr stand_in_int
#define stand_in_ptr(a, relation, b)                                                               \
    stand_in_whole((long long)(size_t)(a), relation, (long long)(size_t)(b))
#define stand_in_dbl stand_in_double
#define stand_in_str stand_in_text

#define eq(type, a, b) stand_in_##type(a, "==", b)
#define ne(type, a, b) stand_in_##type(a, "!=", b)
#define lt(type, a, b) stand_in_##type(a, "<", b)
#define le(type, a, b) stand_in_##type(a, "<=", b)
#define gt(type, a, b) stand_in_##type(a, ">", b)
#define ge(type, a, b) stand_in_##type(a, ">=", b)
#define zero(type, a) stand_in_##type(a, "==", 0)
#define not(condition) (!(condition))
#define epsilon_eq(type, a, b, most) stand_in_near(a, b, most)

#endif

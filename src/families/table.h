/* SPDX-License-Identifier: Apache-2.0 */
/* Expands the .def file named by TUNABLES_DEF into a static table of rows, TUNABLES_TABLE; UNIT
 * comes first if TUNABLES_UNIT is defined. Families that differ in their unit alone have a table
 * each. */
#define TUNABLE(name, value, meaning, ...)                                                         \
    {#name, value, meaning, {__VA_ARGS__}, sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t), NULL},
#define REQUIRE(condition, reason)
static const struct ca_tunable TUNABLES_TABLE[] = {
#ifdef TUNABLES_UNIT
    {"UNIT", TUNABLES_UNIT, "what multiplies", {TUNABLES_UNIT}, 1, ca_unit_words},
#endif
#include TUNABLES_DEF
};
#undef TUNABLE
#undef REQUIRE
#undef TUNABLES_TABLE

/* SPDX-License-Identifier: Apache-2.0 */
/* Expands the .def file named by TUNABLES_DEF, and the sizes of arrays that the C file has included before
 * (_sizes.h), into static tables and functions of the C file of a unit:
 *
 *   tunables[], NUM_TUNABLES   the rows, for struct ca_family; the first is UNIT if TUNABLES_UNIT is defined, as which
 *   enum { <NAME>_INDEX ... }  the position of each tunable in an array of values
 *   reject()                   NULL if the values fit the device and problem, else the reason
 *   local_bytes()              LOCAL_BYTES, if the sizes have it; SIZES_FILE names those that are given by SIZE()
 *   private_bytes()            PRIVATE_BYTES, likewise (PRIVATE_SIZES_FILE), or register_floats(), of REGISTER_FLOATS, as bytes
 *   OWN_MEMBERS                of struct ca_family: tunables[], reject(), and unsupported() and adapt() of the C file
 *
 * In a .def: TUNABLE(name, default, meaning, candidates...) and REQUIRE(condition, reason), where
 * a condition may use the tunables by name, p (const struct ca_problem *) and dev (const
 * clattn_device_info *). What sizes need besides, such as INSTRUCTION, is declared before. */
#include "device/capacity.h"
#include "families/family.h"

#include "families/units.h"

#define TUNABLES_TABLE tunables
#include "families/table.h"

#define TUNABLE(name, ...) name##_INDEX,
#define REQUIRE(condition, reason)
enum {
#ifdef TUNABLES_UNIT
    UNIT_INDEX,
#endif
#include TUNABLES_DEF
    NUM_TUNABLES
};
#undef TUNABLE
#undef REQUIRE

#ifdef EXCHANGE_WORDS /* the C file includes families/fragment_sizes.h */
#define SIZES_NAMES "families/fragment_names.h"
#else
#define SIZES_NAMES "families/names.h"
#endif

#if defined(LOCAL_BYTES) || defined(SIZES_FILE)
static size_t local_bytes(const struct ca_problem *p, const size_t *values)
{
#include SIZES_NAMES
#ifdef SIZES_FILE
#include SIZES_FILE
#endif
    return LOCAL_BYTES;
}
#endif

#if defined(PRIVATE_BYTES) || defined(PRIVATE_SIZES_FILE)
static size_t private_bytes(const struct ca_problem *p, const size_t *values)
{
#include SIZES_NAMES
#ifdef PRIVATE_SIZES_FILE
#include PRIVATE_SIZES_FILE
#endif
    return PRIVATE_BYTES;
}
#endif

#ifdef REGISTER_FLOATS
static size_t register_floats(const struct ca_problem *p, const size_t *values)
{
#include SIZES_NAMES
    return REGISTER_FLOATS;
}

static size_t private_bytes(const struct ca_problem *p, const size_t *values)
{
    return register_floats(p, values) * sizeof(cl_float);
}
#endif

static const char *reject(const struct ca_problem *p, const clattn_device_info *dev,
                          const size_t *values)
{
    (void)p;
    (void)dev;
#ifdef TUNABLES_UNIT
    const size_t UNIT = values[UNIT_INDEX];
    (void)UNIT;
#endif
#define TUNABLE(name, ...)                                                                         \
    const size_t name = values[name##_INDEX];                                                      \
    (void)name;
#define REQUIRE(condition, reason)                                                                 \
    if (!(condition))                                                                              \
        return reason;
#include TUNABLES_DEF
#undef TUNABLE
#undef REQUIRE
    return NULL;
}

#define OWN_MEMBERS                                                                                \
    CA_TUNABLES(tunables), .unsupported = unsupported, .adapt = adapt, .reject = reject

/* SPDX-License-Identifier: Apache-2.0 */
/* Expands the .def file named by TUNABLES_DEF into the including file's static tables:
 *
 *   tunables[], NUM_TUNABLES   the rows, for struct ca_family; the first is UNIT if TUNABLES_UNIT is defined, as which
 *   enum { <NAME>_INDEX ... }  the position of each tunable in an array of values
 *   reject()                   NULL if the values fit the device and problem, else the reason
 *
 * In a .def: TUNABLE(name, default, meaning, candidates...) and REQUIRE(condition, reason), where
 * a condition may use the tunables by name, p (const clattn_problem *) and dev (const
 * clattn_device_info *). */
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

static const char *reject(const clattn_problem *p, const clattn_device_info *dev,
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
    return NULL;
}

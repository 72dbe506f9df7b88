/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that units of matrix instructions share, for the C file of one:
 *
 *   fragment_of()     of values; of units with the tunable INSTRUCTION
 *   more_options()    for struct ca_family, likewise
 *   ptx_target()      likewise, of units of wgmma
 *   private_bytes()   likewise, of all
 *   refusal_of_suggested()   for unsupported(), of units whose smallest tiles may not fit
 *
 * Before including this: families/expand.h, of tunables with EMULATE; register_words(p, values), which a work-item keeps;
 * and MOST_REGISTERS(values), if the compiler is to be told how many there are. */
#include "families/fragments.h"

#if TUNABLES_UNIT == UNIT_MMA
static const struct ca_fragment *fragment_of(const size_t *values)
{
    return ca_fragment_of(values[INSTRUCTION_INDEX]);
}

#ifndef MOST_REGISTERS
#define MOST_REGISTERS(values) 0
#endif
static const char *more_options(const size_t *values, const clattn_device_info *dev)
{
    (void)dev;
    return ca_fragment_options(values[INSTRUCTION_INDEX], values[EMULATE_INDEX] != 0,
                               MOST_REGISTERS(values));
}
#else
static const char *ptx_target(const size_t *values)
{
    return values[EMULATE_INDEX] ? NULL : "sm_90a";
}
#endif

static size_t private_bytes(const struct ca_problem *p, const size_t *values)
{
    return register_words(p, values) * sizeof(cl_uint);
}

static void adapt(const struct ca_problem *p, const clattn_device_info *dev, size_t *values);

/* Returns why the unit's suggested tunables do not fit; NULL if they do. */
static inline const char *refusal_of_suggested(const struct ca_problem *p,
                                               const clattn_device_info *dev)
{
    size_t values[NUM_TUNABLES];

    ca_tunables_default(tunables, NUM_TUNABLES, values);
    adapt(p, dev, values);
    return reject(p, dev, values);
}

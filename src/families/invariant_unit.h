/* SPDX-License-Identifier: Apache-2.0 */
/* Tunables of invariant problems, for the C file of a unit for GPUs. Its suggestion depends on sizes and pages, which an
 * invariant problem's bits must not. So such a problem has the tunables of a representative one:
 *
 *   adapt_to_representative()   for adapt(), of an invariant problem
 *   keeps_bits()                for the .def: whether tunables that decide bits are the representative's
 *   refusal_of_pages()          for unsupported(): why keys in pages cannot have these; NULL if they can, or need not
 *
 * Before including this: families/expand.h, adapt(), the array deciding[] of such tunables' indices, and
 * REPRESENTATIVE_QUERIES. */
#include "families/tunables.h"

static void adapt_to_representative(const struct ca_problem *p, const clattn_device_info *dev,
                                    size_t *values)
{
    enum { KEYS = 4096 };
    struct ca_problem alone = *p;

    alone.normal.invariant = 0;
    alone.normal.batch = 1;
    alone.normal.seq_q = REPRESENTATIVE_QUERIES;
    alone.normal.seq_kv = KEYS;
    alone.normal.total_q = alone.normal.total_kv = alone.normal.page_size = 0;
    ca_tunables_default(tunables, NUM_TUNABLES, values);
    adapt(&alone, dev, values);
}

/* Where a unit is emulated, which nothing but tests chooses, the instruction and how it reads bytes are the caller's. */
static int is_named(size_t tunable, const size_t *values)
{
#if TUNABLES_UNIT == UNIT_MMA
    return values[EMULATE_INDEX] && (tunable == INSTRUCTION_INDEX || tunable == BYTES_INDEX);
#else
    (void)tunable, (void)values;
    return 0;
#endif
}

static int keeps_bits(const struct ca_problem *p, const clattn_device_info *dev,
                      const size_t *values)
{
    size_t own[NUM_TUNABLES];

    if (!p->normal.invariant)
        return 1;
    adapt_to_representative(p, dev, own);
    for (size_t n = 0; n < sizeof deciding / sizeof *deciding; n++)
        if (values[deciding[n]] != own[deciding[n]] && !is_named(deciding[n], values))
            return 0;
    return 1;
}

static const char *refusal_of_pages(const struct ca_problem *p, const clattn_device_info *dev)
{
    enum { PAGE_SIZE_OF_MANY = 16 };
    struct ca_problem paged = *p;
    size_t values[NUM_TUNABLES];

    if (!p->normal.invariant)
        return NULL;
    if (!p->normal.page_size)
        paged.normal.page_size = PAGE_SIZE_OF_MANY;
    ca_tunables_default(tunables, NUM_TUNABLES, values);
    adapt(&paged, dev, values);
    return reject(&paged, dev, values);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "families/registry.h"
#include "base/writer.h"
#include "families/limits.h"
#include "families/source.h"
#include "problem/operations.def"
#include <clattn/family.h>

#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static const struct ca_family *const *const families[] = {
#define FAMILY(name) ca_##name,
#include "families/families.def"
};

const struct ca_family *ca_family_at(size_t index)
{
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (size_t u = 0; families[f][u]; u++)
            if (index-- == 0)
                return families[f][u];
    return NULL;
}

static int has_units(const struct ca_family *family)
{
    return family->num_tunables > 0 && family->tunables[0].words != NULL;
}

static int is_called(const struct ca_family *family, const char *name, size_t length)
{
    return strncmp(family->name, name, length) == 0 && family->name[length] == '\0';
}

int ca_family_exists(const char *name, size_t length)
{
    const struct ca_family *family;

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++)
        if (is_called(family, name, length))
            return 1;
    return 0;
}

const struct ca_family *ca_family_find(const char *name)
{
    const struct ca_family *family, *found = NULL;
    size_t count = 0;

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++) {
        if (strcmp(family->full_name, name) == 0)
            return family;
        if (strcmp(family->name, name) == 0 && count++ == 0)
            found = family;
    }
    return count == 1 ? found : NULL;
}

const char *ca_family_unsupported(const struct ca_family *family, const struct ca_problem *p,
                                  const clattn_device_info *dev)
{
    if (p->normal.invariant && !family->keeps_invariant)
        return "where its tiles of keys begin and end, and so the order of its sums, depends on "
               "other "
               "queries and sizes than an invariant problem allows";
    if (ca_is_attention(&p->normal) && p->normal.int8 && !family->multiplies_bytes)
        return "precision=int8 is asked for, and this family multiplies q and k as they are stored";
    if (family->multiplies_bytes == CA_BYTES_ALONE && !p->normal.int8)
        return "the instruction multiplies bytes, for which the problem does not ask "
               "(precision=int8)";
    return family->unsupported(p, dev);
}

const struct ca_family *ca_family_of_invariant(const struct ca_problem *p,
                                               const clattn_device_info *dev)
{
    enum { QUERIES = 512, KEYS = 4096 };
    const struct ca_family *family, *best = NULL;
    struct ca_problem alone = *p;
    int most = CA_ONLY_IF_FORCED;

    alone.normal.batch = 1;
    alone.normal.seq_q = p->normal.seq_q <= CLATTN_INVARIANT_QUERIES ? 1 : QUERIES;
    alone.normal.seq_kv = KEYS;
    alone.normal.total_q = alone.normal.total_kv = 0;
    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++) {
        if (family->operation != p->normal.operation || ca_family_unsupported(family, &alone, dev))
            continue;
        const int preference = family->preference(&alone, dev);
        if (preference > most && !(family->refused_by_system && family->refused_by_system(dev))) {
            most = preference;
            best = family;
        }
    }
    return best;
}

/* Finds "UNIT=word" in a text of tunables: the word and its length; NULL if there is none. */
static const char *unit_in(const char *text, size_t *length)
{
    for (text += strspn(text, " \t\n"); *text; text += strspn(text, " \t\n")) {
        const size_t word = strcspn(text, " \t\n");
        if (strncmp(text, "UNIT=", 5) == 0) {
            *length = word - 5;
            return text + 5;
        }
        text += word;
    }
    return NULL;
}

static int has_unit(const struct ca_family *family, const char *unit, size_t length)
{
    const struct ca_tunable *own = &family->tunables[0];

    return strncmp(own->words[own->value], unit, length) == 0 &&
           own->words[own->value][length] == '\0';
}

static void refuse_unit(const char *name, const char *unit, size_t length, char *reason,
                        size_t reason_bytes)
{
    char units[CA_REASON_BYTES] = "";
    struct ca_writer writer = {units, sizeof units, 0};
    const struct ca_family *family;

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++)
        if (is_called(family, name, strlen(name)))
            ca_put_item(&writer, family->tunables[0].words[family->tunables[0].value]);
    ca_reason(reason, reason_bytes, "tunable UNIT=%.*s is not among its candidates: %s",
              (int)length, unit, units);
}

const struct ca_family *ca_family_of(const char *name, const char *tunables,
                                     const struct ca_problem *p, const clattn_device_info *dev,
                                     char *reason, size_t reason_bytes)
{
    const struct ca_family *family, *best = NULL;
    size_t length = 0;
    const char *unit = unit_in(tunables, &length);
    int most = 0;

    ca_reason(reason, reason_bytes, "several units of %s multiply, and none is named", name);
    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++) {
        if (!is_called(family, name, strlen(name)))
            continue;
        if (!has_units(family) || (unit && has_unit(family, unit, length)))
            return family;
        if (unit || !p)
            continue;
        const int suits =
            family->preference(p, dev) + (ca_family_unsupported(family, p, dev) ? 0 : 1000);
        if (!best || suits > most) {
            best = family;
            most = suits;
        }
    }
    if (unit)
        refuse_unit(name, unit, length, reason, reason_bytes);
    return best;
}

ca_family_set ca_family_bit(const struct ca_family *family)
{
    ca_family_set bit = 1;

    for (size_t n = 0; ca_family_at(n) != family; n++)
        bit <<= 1;
    return bit;
}

const char *clattn_family_name(clattn_operation operation, size_t index)
{
    const struct ca_family *family;

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++)
        if (family->operation == operation && index-- == 0)
            return family->full_name;
    return NULL;
}

const char *ca_family_refusal(const struct ca_family *family, const struct ca_problem *p,
                              const clattn_device_info *dev, const size_t *values, char *reason,
                              size_t reason_bytes)
{
    static const char *const only[] = {
#define OPERATION(ID, name, word, noun, ...) [CLATTN_##ID] = "it computes " noun " only",
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    if (p->normal.operation != family->operation)
        return only[family->operation];
    if (!ca_tunables_check(family->tunables, family->num_tunables, values, reason, reason_bytes))
        return reason;
    const char *why = ca_family_unsupported(family, p, dev);
    return why ? why : ca_family_refusal_of_values(family, p, dev, values, reason, reason_bytes);
}

const char *ca_family_refusal_of_values(const struct ca_family *family, const struct ca_problem *p,
                                        const clattn_device_info *dev, const size_t *values,
                                        char *reason, size_t reason_bytes)
{
    const char *why = family->reject(p, dev, values);

    return why ? why : ca_limits_refusal(family, p, dev, values, reason, reason_bytes);
}

void ca_family_suggest(const struct ca_family *family, const struct ca_problem *p,
                       const clattn_device_info *dev, size_t *values)
{
    ca_tunables_default(family->tunables, family->num_tunables, values);
    if (family->operation == p->normal.operation)
        family->adapt(p, dev, values);
}

static void print_hash(XXH64_hash_t hash, char text[CA_HASH_TEXT])
{
    snprintf(text, CA_HASH_TEXT, "%016llx", (unsigned long long)hash);
}

void ca_family_source_hash(const struct ca_family *family, char text[CA_HASH_TEXT])
{
    ca_source_hash(family->source, text);
}

void ca_source_hash(const char *const *source, char text[CA_HASH_TEXT])
{
    struct ca_source_reader reader = {source, NULL};
    XXH3_state_t state;
    size_t length;

    XXH3_64bits_reset(&state);
    for (const char *part; (part = ca_source_next(&reader, &length));)
        XXH3_64bits_update(&state, part, length);
    print_hash(XXH3_64bits_digest(&state), text);
}

void ca_family_declaration_hash(const struct ca_family *family, char text[CA_HASH_TEXT])
{
    XXH64_hash_t hash = 0;

    for (size_t n = 0; n < family->num_tunables; n++) {
        const struct ca_tunable *t = &family->tunables[n];
        hash = XXH3_64bits_withSeed(t->name, strlen(t->name), hash);
        for (size_t c = 0; c < t->num_candidates; c++) {
            const uint64_t value = t->candidates[c];
            hash = XXH3_64bits_withSeed(&value, sizeof value, hash);
        }
    }
    print_hash(hash, text);
}

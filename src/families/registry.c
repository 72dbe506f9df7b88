#include "families/registry.h"
#include "base/log.h"
#include "families/limits.h"
#include "problem/operations.def"
#include <clattn/family.h>

#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static const struct ca_family *const families[] = {
#define FAMILY(name) &ca_##name,
#include "families/families.def"
};

const struct ca_family *ca_family_at(size_t index)
{
    return index < sizeof families / sizeof *families ? families[index] : NULL;
}

const struct ca_family *ca_family_find(const char *name)
{
    const struct ca_family *family;

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++)
        if (strcmp(family->name, name) == 0)
            return family;
    return NULL;
}

unsigned ca_family_bit(const struct ca_family *family)
{
    unsigned bit = 1;

    for (size_t n = 0; families[n] != family; n++)
        bit <<= 1;
    return bit;
}

const char *clattn_family_name(clattn_operation operation, size_t index)
{
    const struct ca_family *family;

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++)
        if (family->operation == operation && index-- == 0)
            return family->name;
    return NULL;
}

const char *ca_family_refusal(const struct ca_family *family, const clattn_problem *p,
                              const clattn_device_info *dev, const size_t *values, char *reason,
                              size_t reason_bytes)
{
    static const char *const only[] = {
#define OPERATION(ID, name, word, noun, ...) [CLATTN_##ID] = "it computes " noun " only",
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    if (p->operation != family->operation)
        return only[family->operation];
    if (!ca_tunables_check(family->tunables, family->num_tunables, values, reason, reason_bytes))
        return reason;
    const char *why = family->unsupported(p, dev);
    if (!why)
        why = family->reject(p, dev, values);
    return why ? why : ca_limits_refusal(family, p, dev, values, reason, reason_bytes);
}

void ca_family_suggest(const struct ca_family *family, const clattn_problem *p,
                       const clattn_device_info *dev, size_t *values)
{
    ca_tunables_default(family->tunables, family->num_tunables, values);
    if (family->operation == p->operation)
        family->adapt(p, dev, values);
}

static void print_hash(XXH64_hash_t hash, char text[CA_HASH_TEXT])
{
    snprintf(text, CA_HASH_TEXT, "%016llx", (unsigned long long)hash);
}

void ca_family_source_hash(const struct ca_family *family, char text[CA_HASH_TEXT])
{
    XXH3_state_t state;

    XXH3_64bits_reset(&state);
    for (const char *const *piece = family->source; *piece; piece++)
        XXH3_64bits_update(&state, *piece, strlen(*piece));
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

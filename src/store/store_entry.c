/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_entry.h"
#include "base/log.h"
#include "families/candidate.h"
#include "families/registry.h"
#include "problem/classes/problem_class.h"
#include "store/store.h"

#include <string.h>

/* Returns the family, if the entry's hashes are today's. */
static const struct ca_family *fresh_family(const char *name, const char *tunables,
                                            const char *source, const char *declaration)
{
    const struct ca_family *family = ca_family_of(name, tunables, NULL, NULL, NULL, 0);
    char hash[CA_HASH_TEXT];

    if (!family)
        return NULL;
    ca_family_source_hash(family, hash);
    if (strcmp(hash, source) != 0)
        return NULL;
    ca_family_declaration_hash(family, hash);
    return strcmp(hash, declaration) == 0 ? family : NULL;
}

int ca_entry_is_fresh(const struct ca_entry *entry)
{
    return fresh_family(entry->family, entry->tunables, entry->source, entry->declaration) != NULL;
}

int ca_entry_candidate(const struct ca_entry *entry, struct ca_candidate *candidate)
{
    const struct ca_family *family =
        ca_family_of(entry->family, entry->tunables, NULL, NULL, NULL, 0);
    char reason[CA_REASON_BYTES];

    memset(candidate, 0, sizeof *candidate);
    candidate->family = family;
    if (!family)
        return 0;
    ca_tunables_default(family->tunables, family->num_tunables, candidate->values);
    return ca_tunables_parse(family->tunables, family->num_tunables, entry->tunables,
                             candidate->values, reason, sizeof reason);
}

int ca_banned_for(const struct ca_banned *banned, const clattn_problem *p)
{
    clattn_problem other;

    return clattn_problem_parse(banned->problem_class, &other, NULL, 0) == CLATTN_SUCCESS &&
           ca_classes_alike(&other, p);
}

const struct ca_banned *ca_candidate_ban(const struct ca_device_table *table,
                                         const struct ca_candidate *candidate,
                                         const clattn_problem *p)
{
    char text[CA_TUNABLES_TEXT];

    ca_tunables_print(candidate->family->tunables, candidate->family->num_tunables,
                      candidate->values, text, sizeof text);
    for (size_t n = 0; n < table->num_banned; n++) {
        const struct ca_banned *b = &table->banned[n];
        if (strcmp(b->family, candidate->family->name) == 0 && strcmp(b->tunables, text) == 0 &&
            fresh_family(b->family, b->tunables, b->source, b->declaration) && ca_banned_for(b, p))
            return b;
    }
    return NULL;
}

void ca_store_ban_candidate(struct ca_store *store, const struct ca_candidate *candidate,
                            const clattn_problem *p, enum ca_quarantine what, const char *how)
{
    struct ca_candidate_texts texts;
    char class[CA_CLASS_TEXT], when[CA_WHEN_TEXT], why[2 * CA_REASON_BYTES];

    ca_candidate_texts(candidate, &texts);
    ca_problem_class(p, class);
    ca_store_now(when);
    ca_quarantine_reason(what, how, why, sizeof why);
    const struct ca_banned banned = {
        class, texts.family, texts.tunables, texts.source, texts.declaration, why, when};
    ca_store_ban(store, &banned);
}

void ca_candidate_texts(const struct ca_candidate *candidate, struct ca_candidate_texts *texts)
{
    const struct ca_family *family = candidate->family;

    ca_reason(texts->family, sizeof texts->family, "%s", family->name);
    ca_tunables_print(family->tunables, family->num_tunables, candidate->values, texts->tunables,
                      sizeof texts->tunables);
    ca_family_source_hash(family, texts->source);
    ca_family_declaration_hash(family, texts->declaration);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The list of families, and the questions that any of them answers. */
#ifndef CA_REGISTRY_H
#define CA_REGISTRY_H

#include "families/family.h"
#include "problem/problem.h"
#include <stdint.h>

#define FAMILY(name) extern const struct ca_family *const ca_##name[];
#include "families/families.def"

/* All families, a unit at a time; NULL past the last. */
const struct ca_family *ca_family_at(size_t index);

/* Finds a family by its full name, or by a name that only one family has. NULL if there is none. */
const struct ca_family *ca_family_find(const char *name);

/* Returns whether the first length characters of name are the name of a family. */
int ca_family_exists(const char *name, size_t length);

/* Finds a family by name and by UNIT in its text of tunables. If several have the name and no unit
 * is given, the result is the one that suits p best, or NULL without p. NULL if there is none, with
 * the reason. */
const struct ca_family *ca_family_of(const char *name, const char *tunables,
                                     const struct ca_problem *p, const clattn_device_info *dev,
                                     char *reason, size_t reason_bytes);

/* A set of families: a bit for each, 1 shifted by its ca_family_at() index. */
typedef uint64_t ca_family_set;

ca_family_set ca_family_bit(const struct ca_family *family);

/* Returns NULL if the family can compute p on dev with some values, else why not. */
const char *ca_family_unsupported(const struct ca_family *family, const struct ca_problem *p,
                                  const clattn_device_info *dev);

/* The family of every plan of an invariant problem, unless the caller forces another; NULL if none can compute it. Other
 * requests must not change it, so it does not depend on batch, seq_kv and packing, and on seq_q only by whether it exceeds
 * CLATTN_INVARIANT_QUERIES. */
const struct ca_family *ca_family_of_invariant(const struct ca_problem *p,
                                               const clattn_device_info *dev);

/* Returns NULL if the family with these values can compute p on dev, else why not. It checks
 * candidate lists, ca_family_unsupported(), reject() and the limits of all kernels (src/families/limits.h),
 * in that order. reason is the buffer for composed texts. */
const char *ca_family_refusal(const struct ca_family *family, const struct ca_problem *p,
                              const clattn_device_info *dev, const size_t *values, char *reason,
                              size_t reason_bytes);

/* The same of a family that supports p, and of values from its candidate lists: for whoever asks of many. */
const char *ca_family_refusal_of_values(const struct ca_family *family, const struct ca_problem *p,
                                        const clattn_device_info *dev, const size_t *values,
                                        char *reason, size_t reason_bytes);

/* The values that suit a problem and a device without any measurement. */
void ca_family_suggest(const struct ca_family *family, const struct ca_problem *p,
                       const clattn_device_info *dev, size_t *values);

/* Hashes, in 16 hexadecimal digits, of a source (ca_source_text()), of the family's kernel source and of the declaration of the tunables
 * (names and candidates): measurements with other hashes are stale. */
enum { CA_HASH_TEXT = 17 };
void ca_source_hash(const char *const *source, char text[CA_HASH_TEXT]);
void ca_family_source_hash(const struct ca_family *family, char text[CA_HASH_TEXT]);
void ca_family_declaration_hash(const struct ca_family *family, char text[CA_HASH_TEXT]);

#endif

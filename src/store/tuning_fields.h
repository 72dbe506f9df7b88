/* SPDX-License-Identifier: Apache-2.0 */
/* The members of a document's objects but for their lists, in the order in which they are printed.
 * Reading, printing, checking, copying, freeing and ordering all go by these. */
#ifndef CA_TUNING_FIELDS_H
#define CA_TUNING_FIELDS_H

#include "base/json_reader.h"
#include "store/tuning_table.h"

struct ca_fields {
    const struct ca_json_field *list; /* of kind CA_JSON_TEXT or CA_JSON_NUMBER */
    size_t count;
};

extern const struct ca_fields ca_entry_fields, ca_class_fields, ca_banned_fields, ca_device_fields;

/* An entry's samples stand behind so many of its members. */
enum { CA_ENTRY_BEFORE_SAMPLES = 6 };

/* The member of an object. */
static inline char **ca_field_text(const struct ca_json_field *field, const void *object)
{
    const void *member = (const char *)object + field->offset;

    return (char **)member;
}

static inline double ca_field_number(const struct ca_json_field *field, const void *object)
{
    const void *member = (const char *)object + field->offset;

    return *(const double *)member;
}

#endif

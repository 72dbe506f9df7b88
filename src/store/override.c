/* SPDX-License-Identifier: Apache-2.0 */
#include "store/override.h"
#include "base/text.h"
#include "base/variables.h"
#include "families/registry.h"

#include <string.h>

/* Returns whether the family and the tunables' values exist, whatever the problem. */
static bool is_well_formed(const char *text, char *reason, size_t reason_bytes)
{
    size_t values[CA_MAX_TUNABLES];
    char name[64] = "";
    const char *begin = text + strspn(text, " \t\n");
    const size_t length = strcspn(begin, " \t\n");

    if (length < sizeof name)
        memcpy(name, begin, length);
    if (!name[0] || !ca_family_exists(name, strlen(name))) {
        ca_reason(reason, reason_bytes, "it does not begin with the name of a family");
        return false;
    }
    const struct ca_family *family;
    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++) {
        if (strcmp(family->name, name) != 0)
            continue;
        ca_tunables_default(family->tunables, family->num_tunables, values);
        if (ca_tunables_parse(family->tunables, family->num_tunables, begin + length, values,
                              reason, reason_bytes))
            return true;
    }
    if (strstr(begin, "UNIT=")) /* if there is no such unit, this reason is the better one */
        ca_family_of(name, begin + length, NULL, NULL, reason, reason_bytes);
    return false;
}

bool ca_override_read(const struct ca_log *log, char **override)
{
    const char *text = ca_environment(CA_VARIABLE_OVERRIDE);
    char reason[CA_REASON_BYTES];

    *override = NULL;
    if (!text || !*text)
        return true;
    if (!is_well_formed(text, reason, sizeof reason)) {
        ca_warn(log, "CLATTN_OVERRIDE='%s' is ignored: %s", text, reason);
        return true;
    }
    *override = ca_text_copy(text + strspn(text, " \t\n"));
    return *override != NULL;
}

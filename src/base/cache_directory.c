/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cache_directory.h"
#include "base/log.h"
#include "base/text.h"
#include "base/variables.h"
#include "os/environment.h"
#include "os/file.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Removes the last part of a path, but not the root. */
static void cut(char *path)
{
    for (size_t n = strlen(path); n > 1 && ca_path_separates(path[n - 1]); n--)
        path[n - 1] = '\0';
    char *name = path + (ca_path_name(path) - path);
    if (name != path)
        name[name - 1 == path ? 0 : -1] = '\0';
}

/* Returns whether a default may be used: the last two
 * folders of the path, and the one above them, belong to a
 * trusted user as far as they exist; the one above exists.
 * */
static int may_use_default(const char *path, int *refused, char *why, size_t why_bytes)
{
    char reason[CA_REASON_BYTES], *copy = ca_text_copy(path);
    struct ca_file_facts facts;
    int usable = copy != NULL;

    ca_reason(why, why_bytes, "there is no host memory for its name");
    for (int part = 0; usable && part < 3; part++) {
        if (part > 0)
            cut(copy);
        if (ca_file_follow(copy, &facts) && facts.kind == CA_FILE_FOLDER) {
            *refused = !ca_file_owner_is_trusted(&facts, reason, sizeof reason);
            if (*refused)
                ca_reason(why, why_bytes, "%.150s is of another user: %s", copy, reason);
            usable = !*refused;
        } else if (part == 2) {
            ca_reason(why, why_bytes, "there is no folder %.200s", copy);
            usable = 0;
        }
    }
    free(copy);
    return usable;
}

static int may_use(const char *path, int by_default, int *refused, char *why, size_t why_bytes)
{
    struct ca_file_facts facts;

    if (by_default && !may_use_default(path, refused, why, why_bytes))
        return 0;
    if (!ca_file_follow(path, &facts) || facts.kind != CA_FILE_FOLDER)
        return 1; /* the folder may still be created */
    *refused = !ca_file_is_trusted(&facts, why, why_bytes);
    return !*refused;
}

char *ca_cache_directory(const char *given, int *refused, char *why, size_t why_bytes)
{
    const bool borrowed = ca_environment_is_borrowed();
    const char *chosen = given || borrowed ? given : ca_environment(CA_VARIABLE_CACHE_DIR);
    const char *rest = "";
    char reason[CA_REASON_BYTES] = "";

    *refused = 0;
    ca_reason(why, why_bytes, "%s", "");
    for (size_t n = 0; n < CA_CACHE_PLACES && !chosen && !borrowed; n++) {
        const char *variable = ca_cache_places[n].variable;
        const char *value = variable ? ca_environment_value(variable) : NULL;
        if (value && ca_path_is_absolute(value)) {
            chosen = value;
            rest = ca_cache_places[n].rest;
        }
    }
    if (!chosen || !*chosen || strcmp(chosen, CA_CACHE_NOWHERE) == 0)
        return NULL;
    char *path = ca_text_join(chosen, rest, "");
    if (path && may_use(path, *rest, refused, reason, sizeof reason))
        return path;
    ca_reason(why, why_bytes,
              "the cache directory %.300s is not used: %s; CLATTN_CACHE_DIR names another",
              path ? path : "", reason);
    free(path);
    return NULL;
}

int ca_cache_limit(unsigned long long *bytes)
{
    static const char units[] = "KMG";
    const char *text = ca_environment(CA_VARIABLE_CACHE_MAX_SIZE);
    char *end;

    *bytes = (unsigned long long)CA_CACHE_DEFAULT_MEGABYTES << 20;
    if (!text || !*text)
        return 1;
    if (!isdigit((unsigned char)*text))
        return 0;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    const int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (errno != 0 || (*end && (!unit || end[1])) || number > ULLONG_MAX >> shift)
        return 0;
    *bytes = number << shift;
    return 1;
}

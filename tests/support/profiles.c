/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* scandir */
#include "tests/support/profiles.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 16 };

static int is_profile(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');

    return end && strcmp(end, ".json") == 0;
}

char *profile_text(const char *name)
{
    char path[512], *text = calloc(1, MOST_BYTES);

    snprintf(path, sizeof path, CLATTN_TEST_PROFILE_FOLDER "/%s.json", name);
    FILE *stream = fopen(path, "rb");
    cr_assert(stream && text, "%s", path);
    const size_t bytes = fread(text, 1, MOST_BYTES - 1, stream);
    cr_assert(bytes > 0 && bytes < MOST_BYTES - 1, "%s", path);
    fclose(stream);
    return text;
}

struct profile profile_named(const char *name)
{
    struct profile profile = {.info.struct_size = sizeof profile.info};
    char reason[256], *text = profile_text(name);

    snprintf(profile.name, sizeof profile.name, "%s", name);
    cr_assert(clattn_device_profile_parse(text, strlen(text), &profile.info, reason,
                                          sizeof reason) == CLATTN_SUCCESS,
              "%s: %s", name, reason);
    free(text);
    return profile;
}

size_t profiles_read(struct profile *list)
{
    struct dirent **files;
    const int count = scandir(CLATTN_TEST_PROFILE_FOLDER, &files, is_profile, alphasort);

    cr_assert(count >= 11 && count <= MOST_PROFILES, "%d profiles", count);
    for (int n = 0; n < count; n++) {
        *strrchr(files[n]->d_name, '.') = '\0';
        list[n] = profile_named(files[n]->d_name);
        free(files[n]);
    }
    free(files);
    return (size_t)count;
}

size_t devices_described(clattn_device_info *list)
{
    static struct profile profiles[MOST_PROFILES];
    const size_t num_profiles = profiles_read(profiles);

    for (size_t n = 0; n < NUM_CPUS; n++)
        list[n] = cpu_described(n);
    for (size_t n = 0; n < num_profiles; n++)
        list[NUM_CPUS + n] = profiles[n].info;
    return NUM_CPUS + num_profiles;
}

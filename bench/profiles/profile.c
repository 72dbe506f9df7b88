/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/profiles/profile.h"
#include "os/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES (1 << 20)

/* profiles.def, which the build makes, holds PROFILE(name) for each file of bench/profiles. */
#define PROFILE(name) extern const char bench_profile_##name[];
#include "profiles.def"
#undef PROFILE

static const struct {
    const char *name, *text;
} profiles[] = {
#define PROFILE(name) {#name, bench_profile_##name},
#include "os/file.h"
#include "profiles.def"
#undef PROFILE
};

const char *profile_name(size_t index)
{
    return index < sizeof profiles / sizeof *profiles ? profiles[index].name : NULL;
}

/* The file's text, to be freed; NULL with *why set. */
static char *read_file(const char *path, size_t *bytes, struct message *why)
{
    FILE *stream = ca_stream_open(path, "rb");

    if (stream == NULL) {
        struct message names = {.text = ""};
        size_t length = 0;
        for (size_t n = 0; profile_name(n) != NULL && length < sizeof names.text; n++)
            length += (size_t)snprintf(names.text + length, sizeof names.text - length, " %s",
                                       profile_name(n));
        message_set(why, "profile '%.200s' is no file (%s) and not one of those built in:%s", path,
                    strerror(errno), names.text);
        return NULL;
    }
    char *text = malloc(MOST_BYTES);
    *bytes = text != NULL ? fread(text, 1, MOST_BYTES, stream) : 0;
    if (text == NULL)
        message_set(why, "no memory to read %.200s", path);
    else if (ferror(stream))
        message_set(why, "%.200s cannot be read", path);
    else if (*bytes == MOST_BYTES)
        message_set(why, "%.200s is larger than any profile", path);
    else {
        fclose(stream);
        return text;
    }
    fclose(stream);
    free(text);
    return NULL;
}

static bool parse(const char *name, const char *text, size_t bytes, clattn_device_info *info,
                  struct message *why)
{
    char reason[256];

    info->struct_size = sizeof *info;
    return clattn_device_profile_parse(text, bytes, info, reason, sizeof reason) ==
               CLATTN_SUCCESS ||
           message_set(why, "%.200s: %s", name, reason);
}

bool profile_read(const char *name, clattn_device_info *info, struct message *why)
{
    size_t bytes;

    for (size_t n = 0; n < sizeof profiles / sizeof *profiles; n++)
        if (strcmp(name, profiles[n].name) == 0)
            return parse(name, profiles[n].text, strlen(profiles[n].text), info, why);
    char *text = read_file(name, &bytes, why);
    const bool ok = text != NULL && parse(name, text, bytes, info, why);
    free(text);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "os/posix.h"

#include "os/circumstances.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { PATH_BYTES = 1024 };

/* The first line of a file, without its end; "" if there is none. */
static void read_line(const char *path, char *text, int bytes)
{
    FILE *file = fopen(path, "re");

    text[0] = '\0';
    if (!file)
        return;
    if (!fgets(text, bytes, file))
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    fclose(file);
}

/* The least limit of a group, "/a/b", and those above it. */
static unsigned long long least_limit(const char *root, char *group, const char *name)
{
    unsigned long long least = ULLONG_MAX;

    for (;;) {
        char path[2 * PATH_BYTES], text[64];
        snprintf(path, sizeof path, "%s%s/%s", root, group, name);
        read_line(path, text, sizeof text);
        if (isdigit((unsigned char)text[0])) { /* else it is "max", or not there */
            const unsigned long long limit = strtoull(text, NULL, 10);
            least = limit < least ? limit : least;
        }
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* Returns whether a list of words with commas has the word. */
static int has_word(const char *list, size_t length, const char *word)
{
    for (size_t n = 0; n < length; n += strcspn(list + n, ",:") + 1)
        if (strncmp(list + n, word, strlen(word)) == 0 && strchr(",:", list[n + strlen(word)]))
            return 1;
    return 0;
}

/* Lines "number:controllers:group"; a number of 0 without controllers is of version 2. */
unsigned long long ca_group_limit(const char *file, const char *root)
{
    unsigned long long least = ULLONG_MAX;
    char line[PATH_BYTES], of_memory[PATH_BYTES];
    FILE *groups = fopen(file, "re");

    while (groups && fgets(line, sizeof line, groups)) {
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        unsigned long long limit = ULLONG_MAX;
        if (!group)
            continue;
        group[strcspn(group, "\n")] = '\0';
        if (group == list + 1) {
            limit = least_limit(root, group + 1, "memory.max");
        } else if (has_word(list + 1, (size_t)(group - list - 1), "memory")) {
            snprintf(of_memory, sizeof of_memory, "%.900s/memory", root);
            limit = least_limit(of_memory, group + 1, "memory.limit_in_bytes");
        }
        least = limit < least ? limit : least;
    }
    if (groups)
        fclose(groups);
    return least;
}

static unsigned long long limit_of(int resource)
{
    struct rlimit limit;

    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
               ? (unsigned long long)limit.rlim_cur
               : ULLONG_MAX;
}

void ca_circumstances(char text[CA_CIRCUMSTANCES_TEXT])
{
    char boot[64];

    read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    snprintf(text, CA_CIRCUMSTANCES_TEXT,
             "boot %s, address space %llu, files %llu, memory of the group %llu", boot,
             limit_of(RLIMIT_AS), limit_of(RLIMIT_NOFILE),
             ca_group_limit("/proc/self/cgroup", "/sys/fs/cgroup"));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

int alphasort(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int by_name(const void *a, const void *b)
{
    return alphasort((const struct dirent **)(void *)(size_t)a,
                     (const struct dirent **)(void *)(size_t)b);
}

int scandir(const char *folder, struct dirent ***entries, int (*takes)(const struct dirent *entry),
            int (*order)(const struct dirent **a, const struct dirent **b))
{
    DIR *directory = opendir(folder);
    struct dirent *entry, **all = NULL;
    int count = 0;

    (void)order; /* it is alphasort() */
    if (!directory)
        return -1;
    while ((entry = readdir(directory)) != NULL) {
        if (takes && !takes(entry))
            continue;
        struct dirent **more = realloc(all, (size_t)(count + 1) * sizeof *all);
        if (!more)
            break;
        all = more;
        if (!(all[count] = malloc(sizeof *entry)))
            break;
        *all[count++] = *entry;
    }
    closedir(directory);
    if (all)
        qsort(all, (size_t)count, sizeof *all, by_name);
    *entries = all;
    return count;
}

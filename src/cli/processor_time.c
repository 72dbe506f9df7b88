#define _POSIX_C_SOURCE 200809L /* opendir */
#include "cli/processor_time.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* The state is the letter behind the name, which may hold anything, in parentheses. */
static bool is_stopped(pid_t pid)
{
    char path[64], text[512] = "";

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end && (strncmp(name_end, ") T", 3) == 0 || strncmp(name_end, ") t", 3) == 0);
}

/* Adds a thread's nanoseconds. */
static void add_thread(pid_t pid, const char *thread, struct ca_processor_time *sum)
{
    unsigned long long ran, waited;
    char path[320];

    snprintf(path, sizeof path, "/proc/%ld/task/%s/schedstat", (long)pid, thread);
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    if (fscanf(file, "%llu %llu", &ran, &waited) == 2) {
        sum->ran += 1e-9 * (double)ran;
        sum->waited += 1e-9 * (double)waited;
    }
    fclose(file);
}

struct ca_processor_time ca_processor_time(pid_t pid)
{
    struct ca_processor_time sum = {.stopped = is_stopped(pid)};
    const struct dirent *entry;
    char path[64];

    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    DIR *threads = opendir(path);
    while (threads && (entry = readdir(threads)) != NULL)
        if (entry->d_name[0] != '.')
            add_thread(pid, entry->d_name, &sum);
    if (threads)
        closedir(threads);
    return sum;
}

bool ca_was_starved(const struct ca_processor_time *begin, const struct ca_processor_time *end,
                    double seconds)
{
    const double ran = end->ran - begin->ran, waited = end->waited - begin->waited;

    return end->stopped || (waited > 0.5 * seconds && waited > ran);
}

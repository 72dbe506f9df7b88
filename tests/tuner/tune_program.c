/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* setenv, glob */
#include "tests/tuner/tune_program.h"

#include "tests/support/unoptimised.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tune_open(void)
{
    unoptimised();
    unsetenv(
        "CLATTN_BUILD_SERVER"); /* a worker has a limit of time, and others' builds would be before its own */
    scratch_open();
    setenv("CLATTN_CACHE_DIR", scratch, 1);
}

pid_t tune_start(const char *program, const char *arguments)
{
    char command[2048];

    snprintf(command, sizeof command, "exec '%s' %s > '%s' 2>&1", program, arguments,
             scratch_path("output"));
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        signal(SIGINT, SIG_DFL); /* a shell's background jobs ignore it, and so do their children */
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return child;
}

size_t tune_count_lines(const char *path, const char *word)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t bytes = 0, count = 0;

    while (file && getline(&line, &bytes, file) > 0)
        count += strstr(line, word) != NULL;
    free(line);
    if (file)
        fclose(file);
    return count;
}

const char *tune_journal(void)
{
    static char path[256];
    glob_t found;

    path[0] = '\0';
    if (glob(scratch_path("tuning/*.journal"), 0, NULL, &found) == 0)
        snprintf(path, sizeof path, "%s", found.gl_pathv[0]);
    globfree(&found);
    return path;
}

#define _POSIX_C_SOURCE 200809L /* mkdtemp, popen, setenv, glob */
#include "tests/tuner/tune_program.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void tune_run_open(struct tune_run *run)
{
    strcpy(run->folder, "/tmp/clattn-tune-XXXXXX");
    cr_assert(mkdtemp(run->folder) != NULL);
    setenv("CLATTN_CACHE_DIR", run->folder, 1);
}

void tune_run_close(struct tune_run *run)
{
    char command[96];

    snprintf(command, sizeof command, "rm -rf '%s'", run->folder);
    cr_expect(system(command) == 0);
}

int tune_run(struct tune_run *run, const char *program, const char *arguments)
{
    char command[2048];

    snprintf(command, sizeof command, "'%s' %s 2>&1", program, arguments);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe != NULL);
    const size_t length = fread(run->text, 1, sizeof run->text - 1, pipe);
    run->text[length] = '\0';
    while (fgetc(pipe) != EOF)
        continue;
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

pid_t tune_start(const struct tune_run *run, const char *program, const char *arguments)
{
    char command[2048];

    snprintf(command, sizeof command, "exec '%s' %s > '%s/output' 2>&1", program, arguments,
             run->folder);
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return child;
}

bool tune_says(const struct tune_run *run, const char *words)
{
    return strstr(run->text, words) != NULL;
}

const char *tune_path(const struct tune_run *run, const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", run->folder, name);
    return path;
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

void tune_journal(const struct tune_run *run, char *path, size_t path_bytes)
{
    glob_t found;

    path[0] = '\0';
    if (glob(tune_path(run, "tuning/*.journal"), 0, NULL, &found) == 0)
        snprintf(path, path_bytes, "%s", found.gl_pathv[0]);
    globfree(&found);
}

json_t *tune_json(const char *path)
{
    json_error_t error;
    json_t *object = json_load_file(path, 0, &error);

    cr_assert(object != NULL, "%s: %s", path, error.text);
    return object;
}

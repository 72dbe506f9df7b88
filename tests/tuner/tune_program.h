/* Running clattn-tune as a person does, each test with a cache directory of its own. */
#ifndef TEST_TUNE_PROGRAM_H
#define TEST_TUNE_PROGRAM_H

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A small problem, so that compiling is what takes time. */
#define SMALL "fwd f32 h2 q64 d32"

struct tune_run {
    char folder[64];  /* the cache directory, and what a test puts beside it */
    char text[32768]; /* both outputs of the last run */
};

/* Sets CLATTN_CACHE_DIR for what the test starts from now on. */
void tune_run_open(struct tune_run *run);
void tune_run_close(struct tune_run *run);

/* Runs a program with arguments for the shell, waits and returns its status. */
int tune_run(struct tune_run *run, const char *program, const char *arguments);

/* Starts it in the background, its output thrown away. */
pid_t tune_start(const struct tune_run *run, const char *program, const char *arguments);

bool tune_says(const struct tune_run *run, const char *words);

/* Path of a file in the folder; valid until the next call. */
const char *tune_path(const struct tune_run *run, const char *name);

/* Lines of a file that hold a word; 0 if there is no such file. */
size_t tune_count_lines(const char *path, const char *word);

/* Path of the store's journal, "" if there is none. */
void tune_journal(const struct tune_run *run, char *path, size_t path_bytes);

/* The file of a run with --json; the caller releases it. */
json_t *tune_json(const char *path);

#endif

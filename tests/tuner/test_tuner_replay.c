#define _POSIX_C_SOURCE 200809L /* mkstemp, popen */
#include "tests/tuner/test_tuner_fixture.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char output[1 << 16];

/* Exit status of clattn-replay; its output and error messages go to output. */
static int replay(const char *format, const char *file)
{
    char command[1024] = REPLAY_PROGRAM " ";
    const size_t used = strlen(command);

    snprintf(command + used, sizeof command - used, format, file, file, file);
    strncat(command, " 2>&1", sizeof command - strlen(command) - 1);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    const int status = pclose(pipe);
    cr_assert(WIFEXITED(status), "%s", output);
    return WEXITSTATUS(status);
}

/* Writes made_up_recording() to a new file. */
static char *made_up_file(void)
{
    static char path[] = "/tmp/clattn_replay_XXXXXX";
    struct ca_recording *recording = made_up_recording();
    FILE *file = fdopen(mkstemp(path), "w");
    struct message why;

    cr_assert(file && ca_recording_write(recording, file, &why));
    fclose(file);
    ca_recording_destroy(recording);
    return path;
}

Test(tuner_replay, help_and_version_are_well) {
    cr_assert(replay("--help%.0s", "") == 0 && strstr(output, "--seeds-from"));
    cr_assert(replay("help%.0s", "") == 0 && strstr(output, "--seeds-from"));
    cr_assert(replay("--version%.0s", "") == 0 && strncmp(output, "clattn-replay ", 14) == 0);
}

Test(tuner_replay, wrong_usage_is_2) {
    static const char *const lines[] = {
        "%.0s",           "%s --strategy best", "%s --strategy ils,", "%s --runs 0",
        "%s --runs 3x",   "%s --budget 0",      "%s --budget 5p",     "%s --budget 101%%",
        "%s --budget -5", "%s --seed x",        "%s --num-seeds 9",   "%s --threads 0",
        "%s --unknown",   "%s --runs",
    };
    char *path = made_up_file();

    for (size_t n = 0; n < sizeof lines / sizeof *lines; n++)
        cr_assert(replay(lines[n], path) == 2, "%s: %s", lines[n], output);
    remove(path);
}

Test(tuner_replay, unusable_files_are_1) {
    cr_assert(replay("%s", "/nowhere.json") == 1 && strstr(output, "/nowhere.json"));
    cr_assert(replay("%s", "/dev/null") == 1 && strstr(output, "not JSON"));
}

static double share(const json_t *row, const char *checkpoint)
{
    return json_number_value(json_object_get(json_object_get(row, "within"), checkpoint));
}

Test(tuner_replay, json_has_a_row_for_each_file_and_strategy) {
    char *path = made_up_file();

    cr_assert(replay("%s %s --strategy guided,random --runs 30 --json", path) == 0);
    json_t *root = json_loads(output, 0, NULL);
    const json_t *rows = json_object_get(root, "results");
    cr_assert(json_array_size(rows) == 4 && json_array_size(json_object_get(root, "means")) == 2);
    const json_t *guided = json_array_get(rows, 0), *chance = json_array_get(rows, 2);
    cr_assert_str_eq(json_string_value(json_object_get(chance, "strategy")), "random");
    cr_assert(share(guided, "50") >= 0.95 && share(chance, "50") <= 0.9);
    cr_assert(share(chance, "25") <= share(chance, "100") && share(chance, "200") == 1.0);
    cr_assert(json_integer_value(json_object_get(chance, "configurations")) == 108);
    json_decref(root);
    remove(path);
}

Test(tuner_replay, threads_change_nothing) {
    char *path = made_up_file();
    char alone[sizeof output];

    cr_assert(replay("%s --runs 9 --strategy all --budget 30%% --threads 1", path) == 0);
    strcpy(alone, output);
    cr_assert(replay("%s --runs 9 --strategy all --budget 30%% --threads 4", path) == 0);
    cr_assert_str_eq(alone, output);
    cr_assert(replay("%s --runs 9 --strategy all --budget 30%% --seed 2", path) == 0);
    cr_assert(strcmp(alone, output) != 0);
    remove(path);
}

Test(tuner_replay, seeds_come_from_other_files_only) {
    char *path = made_up_file(), command[512];

    cr_assert(replay("%s --runs 3 --json --seeds-from %s", path) == 0);
    cr_assert(strstr(output, "\"seeds\": 0"), "a file does not seed itself");
    snprintf(command, sizeof command,
             "%%s --runs 3 --json --seeds-from %%s %s.2 "
             "--num-seeds 2",
             path);
    char copy[300];
    snprintf(copy, sizeof copy, "cp %s %s.2", path, path);
    cr_assert(system(copy) == 0 && replay(command, path) == 0);
    cr_assert(strstr(output, "\"seeds\": 2") && strstr(output, "\"25\": 1.0"));
    snprintf(copy, sizeof copy, "%s.2", path);
    remove(copy);
    remove(path);
}

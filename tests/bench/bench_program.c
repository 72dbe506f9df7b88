#define _POSIX_C_SOURCE 200809L /* popen */
#include "tests/bench/bench_program.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

int bench_run(const char *arguments, char *text, size_t text_bytes)
{
    char command[1024];

    snprintf(command, sizeof command, "'%s' %s 2>&1", BENCH_PROGRAM, arguments);
    FILE *pipe = popen(command, "r");
    const size_t length = fread(text, 1, text_bytes - 1, pipe);
    text[length] = '\0';
    while (fgetc(pipe) != EOF)
        continue;
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

json_t *bench_load(const char *path)
{
    json_error_t error;
    json_t *object = json_load_file(path, 0, &error);

    cr_assert(object != NULL, "%s: %s", path, error.text);
    return object;
}

const json_t *bench_result(const json_t *run, size_t index)
{
    const json_t *device = json_array_get(json_object_get(run, "devices"), 0);

    return json_array_get(json_object_get(device, "results"), index);
}

const json_t *bench_implementation(const json_t *result, const char *name)
{
    const json_t *list = json_object_get(result, "implementations");

    for (size_t n = 0; n < json_array_size(list); n++) {
        const json_t *one = json_array_get(list, n);
        if (strcmp(json_string_value(json_object_get(one, "implementation")), name) == 0)
            return one;
    }
    return NULL;
}

size_t bench_samples(const json_t *implementation)
{
    const json_t *times = json_object_get(implementation, "milliseconds");

    return json_array_size(json_object_get(times, "samples"));
}

void bench_check_text(const json_t *object, const char *key, const char *want)
{
    const char *got = json_string_value(json_object_get(object, key));

    cr_assert(got != NULL && strcmp(got, want) == 0, "%s is '%s', not '%s'", key,
              got != NULL ? got : "nothing", want);
}

void bench_check_width(const char *text)
{
    for (const char *line = text; *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        cr_expect(length <= 100 || strncmp(line, "  fwd", 5) == 0, "wide: %.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

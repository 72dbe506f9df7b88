/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* popen */
#include "tests/support/programs/program.h"

#include "tests/support/unoptimised.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

char program_text[32768];

static int run(const char *program, const char *format, va_list arguments, char command[4096])
{
    const int length = snprintf(command, 4096, "'%s' ", program);

    unoptimised();

    vsnprintf(command + length, 4096 - (size_t)length, format, arguments);
    cr_assert(strlen(command) + sizeof " 2>&1" <= 4096);
    strcat(command, " 2>&1");
    FILE *pipe = popen(command, "r");
    cr_assert(pipe != NULL);
    const size_t bytes = fread(program_text, 1, sizeof program_text - 1, pipe);
    program_text[bytes] = '\0';
    while (fgetc(pipe) != EOF)
        continue;
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int program_run(const char *program, const char *arguments, ...)
{
    char command[4096];
    va_list list;

    va_start(list, arguments);
    const int status = run(program, arguments, list, command);
    va_end(list);
    return status;
}

void program_must(const char *program, const int status, const char *words, const char *arguments,
                  ...)
{
    char command[4096];
    va_list list;

    va_start(list, arguments);
    const int got = run(program, arguments, list, command);
    va_end(list);
    cr_assert(got == status, "%s: status %d, not %d: %s", command, got, status, program_text);
    cr_assert(program_said(words), "%s: '%s', which lacks '%s'", command, program_text, words);
}

/* Returns whether a text begins with the words; a line break and what indents the next line is a
 * blank. */
static bool begins_with(const char *text, const char *words)
{
    for (; *words; words++, text++) {
        if (*words == ' ' && *text == '\n')
            text += strspn(text + 1, " ");
        else if (*words != *text)
            return false;
    }
    return true;
}

bool text_says(const char *text, const char *words)
{
    while (*text && !begins_with(text, words))
        text++;
    return begins_with(text, words);
}

bool program_said(const char *words)
{
    return text_says(program_text, words);
}

void program_expect(const char *words)
{
    cr_expect(program_said(words), "'%s' lacks '%s'", program_text, words);
}

void program_expect_width(const char *text, const size_t columns, const char *exempt)
{
    for (const char *line = text; *line; line += *line == '\n') {
        const size_t length = strcspn(line, "\n");
        const char *found = exempt ? strstr(line - (line > text), exempt) : NULL;
        cr_expect(length <= columns || (found && found < line + length), "wide: %.*s", (int)length,
                  line);
        line += length;
    }
}

json_t *json_file(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);

    cr_assert(root != NULL, "%s: %s", path, error.text);
    return root;
}

json_t *json_printed(void)
{
    json_error_t error;
    json_t *root = json_loads(program_text, 0, &error);

    cr_assert(root != NULL, "%s: %s", error.text, program_text);
    return root;
}

static const json_t *find(const json_t *at, const char *place)
{
    char part[64];

    for (; at && *place; place += *place == '.') {
        const size_t length = strcspn(place, ".");
        snprintf(part, sizeof part, "%.*s", (int)length, place);
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(part)) : json_object_get(at, part);
        place += length;
    }
    return at;
}

const json_t *json_at(const json_t *root, const char *place, ...)
{
    char text[256];
    va_list list;

    va_start(list, place);
    vsnprintf(text, sizeof text, place, list);
    va_end(list);
    return find(root, text);
}

const char *json_text_at(const json_t *root, const char *place)
{
    return json_string_value(find(root, place));
}

double json_number_at(const json_t *root, const char *place)
{
    const json_t *number = find(root, place);

    return json_is_number(number) ? json_number_value(number) : (double)NAN;
}

size_t json_size_at(const json_t *root, const char *place)
{
    return json_array_size(find(root, place));
}

void json_must_be(const json_t *root, const char *place, const char *text)
{
    const char *got = json_text_at(root, place);

    cr_assert(got && strcmp(got, text) == 0, "%s is '%s', not '%s'", place, got ? got : "nothing",
              text);
}

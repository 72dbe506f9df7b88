/* SPDX-License-Identifier: Apache-2.0 */
/* The sources that are built in: compilers must name a line as cl/ has it. */
#include "families/registry.h"
#include "families/source.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns whether the characters of `length` that are not blank are in the line as well, in their
 * order; comments may stand between them. */
static int is_of_line(const char *text, size_t length, const char *line)
{
    for (size_t n = 0; n < length; n++) {
        if (isspace((unsigned char)text[n]))
            continue;
        while (*line != text[n] && *line != '\n' && *line != '\0')
            line++;
        if (*line++ != text[n])
            return 0;
    }
    return 1;
}

static const char *find_line(const char *text, long number)
{
    while (text && --number > 0)
        text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL;
    return text;
}

static const char *read_file(const char *name)
{
    static char path[512], text[1 << 18];
    FILE *file = NULL;

    for (size_t n = 0; n < 2 && !file; n++) {
        snprintf(path, sizeof path, CLATTN_TEST_DATA "/../../%s/%s", n ? "src" : "cl", name);
        file = fopen(path, "r");
    }
    cr_assert(file != NULL, "%s", path);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* Lines of the piece that are not where its #line directives say. */
static void check_piece(const char *family, const char *piece)
{
    char name[256] = "";
    const char *file = NULL;
    long number = 0;

    cr_assert(strncmp(piece, "#line ", 6) == 0, "%s: %.40s", family, piece);
    for (const char *at = piece; *at;) {
        const size_t length = strcspn(at, "\n");
        if (sscanf(at, "#line %ld \"%255[^\"]\"", &number, name) == 2) {
            if (!file)
                file = read_file(name);
        } else {
            const char *line = find_line(file, number);
            cr_assert(line && is_of_line(at, length, line), "%s: %s:%ld is not '%.*s'", family,
                      name, number, (int)length, at);
            number++;
        }
        at += length + (at[length] == '\n');
    }
}

Test(sources, name_the_file_and_the_line_of_all_they_have, .timeout = 60) {
    const struct ca_family *family;
    size_t pieces = 0, n = 0;

    for (; (family = ca_family_at(n)) != NULL; n++)
        for (const char *const *piece = family->source; *piece; piece++, pieces++) {
            const char *const one[] = {*piece, NULL};
            char *text = ca_source_text(one);
            cr_assert(text != NULL);
            check_piece(family->full_name, text);
            free(text);
        }
    cr_assert(pieces > n, "%zu pieces", pieces);
}

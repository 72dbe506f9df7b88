/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/problems/problem_file.h"
#include "os/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 1024 /* Most bytes of a line with its end; the longest text form has some 300. */
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

static const char blanks[] = " \t\r\n";

/* A file that is being read, and its present line. */
struct reader {
    FILE *stream;
    const char *path;
    size_t number;         /* Number of the line, from 1. */
    char line[MOST_BYTES]; /* The line without its end. */
    char name[64];
};

/* Reads one line. False at the end, or with *why set. */
static bool read_line(struct reader *reader, struct message *why)
{
    size_t length = 0;
    int c;

    why->text[0] = '\0';
    reader->number++;
    errno = 0;
    while ((c = getc(reader->stream)) != EOF && c != '\n') {
        if ((c < 0x20 && c != '\t' && c != '\r') || c == 0x7f)
            return message_set(why, "%s, line %zu: byte %zu is no text", reader->path,
                               reader->number, length + 1);
        if (length + 1 == MOST_BYTES)
            return message_set(why, "%s, line %zu is longer than %d bytes", reader->path,
                               reader->number, MOST_BYTES - 1);
        reader->line[length++] = (char)c;
    }
    reader->line[length] = '\0';
    if (ferror(reader->stream))
        return message_set(why, "%s cannot be read: %s", reader->path, strerror(errno));
    return c != EOF || length > 0;
}

/* The line without its comment, its name and blanks at its ends; NULL if its name is too long. */
static char *take_apart(struct reader *reader)
{
    char *text = reader->line;

    if (reader->number == 1 && strncmp(text, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0)
        text += strlen(BYTE_ORDER_MARK);
    text[strcspn(text, "#")] = '\0';
    for (size_t length = strlen(text); length > 0 && strchr(blanks, text[length - 1]) != NULL;)
        text[--length] = '\0';
    text += strspn(text, blanks);
    /* A colon in a problem, as in bias=f32:qk, has no blank behind it. */
    const size_t length = strcspn(text, ":");
    if (text[length] == '\0' || (text[length + 1] != '\0' && !strchr(blanks, text[length + 1])))
        return text;
    if (length >= sizeof reader->name)
        return NULL;
    memcpy(reader->name, text, length);
    reader->name[length] = '\0';
    return text + length + 1 + strspn(text + length + 1, blanks);
}

static bool add_line(struct problem_file *file, const struct reader *reader, const char *text,
                     struct message *why)
{
    struct problem_line line = {.name = ""};
    char reason[256];

    if (!job_parse(text, &line.job, reason, sizeof reason))
        return message_set(why, "%s, line %zu: '%.150s' is no problem: %s", reader->path,
                           reader->number, text, reason);
    if (file->count == PROBLEM_FILE_MOST_LINES)
        return message_set(why, "%s, line %zu: there are more than %d problems", reader->path,
                           reader->number, PROBLEM_FILE_MOST_LINES);
    struct problem_line *grown = realloc(file->line, (file->count + 1) * sizeof *grown);
    if (grown == NULL)
        return message_set(why, "no memory for the problems of %s", reader->path);
    memcpy(line.name, reader->name, sizeof line.name);
    file->line = grown;
    grown[file->count++] = line;
    return true;
}

static bool read_lines(struct problem_file *file, struct reader *reader, struct message *why)
{
    while (read_line(reader, why)) {
        const char *text = take_apart(reader);
        if (text == NULL)
            return message_set(why, "%s, line %zu: its name is longer than %zu bytes", reader->path,
                               reader->number, sizeof reader->name - 1);
        if (*text != '\0' && !add_line(file, reader, text, why))
            return false;
    }
    if (why->text[0] == '\0' && file->count == 0)
        message_set(why, "%s holds no problem", reader->path);
    return why->text[0] == '\0';
}

bool problem_file_read(struct problem_file *file, const char *path, struct message *why)
{
    struct reader reader = {.path = path, .stream = ca_stream_open(path, "r")};

    *file = (struct problem_file){NULL, 0};
    if (reader.stream == NULL)
        return message_set(why, "%s cannot be read: %s", path, strerror(errno));
    const bool ok = read_lines(file, &reader, why);
    fclose(reader.stream);
    if (!ok)
        problem_file_free(file);
    return ok;
}

void problem_file_free(struct problem_file *file)
{
    free(file->line);
    *file = (struct problem_file){NULL, 0};
}

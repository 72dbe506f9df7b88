/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/results.h"
#include "internal.h"
#include "os/file.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Samples vary in their third digit. */
#define FORMAT (JSON_INDENT(1) | JSON_REAL_PRECISION(9))

static bool dump(FILE *stream, const json_t *object)
{
    return json_dumpf(object, stream, FORMAT) == 0 && putc('\n', stream) != EOF &&
           fflush(stream) == 0;
}

/* A file that is there stays whole until the new one is. */
static bool replace(const char *path, const json_t *object)
{
    char *text = json_dumps(object, FORMAT);

    if (text == NULL)
        errno = ENOMEM;
    const bool ok =
        text != NULL && ca_disk_write(path, text, strlen(text), "\n", 1,
                                      CA_DISK_SHARED | CA_DISK_DURABLE | CA_DISK_NO_FOLDER);
    const int reason = errno;
    free(text);
    errno = reason;
    return ok;
}

/* Pipes, terminals and links are written through: to replace them is not what was meant. */
static bool write_through(const char *path, const json_t *object)
{
    FILE *stream = ca_stream_open(path, "w");
    const bool ok = stream != NULL && dump(stream, object);

    return (stream == NULL || fclose(stream) == 0) && ok;
}

bool results_dump(const char *path, json_t *object, struct message *why)
{
    struct ca_file_facts facts;
    bool ok;

    if (object == NULL)
        return message_set(why, "%.300s: no memory for the results", path);
    if (strcmp(path, "-") == 0)
        ok = dump(stdout, object);
    else if (ca_file_find(CA_NO_FILE, path, &facts) && facts.kind != CA_FILE_REGULAR)
        ok = write_through(path, object);
    else
        ok = replace(path, object);
    if (!ok)
        message_set(why, "%.300s: the results cannot be written: %s", path, strerror(errno));
    json_decref(object);
    return ok;
}

/* The rest of a stream, for free(); NULL if it cannot be read, and errno says why. */
static char *read_all(FILE *stream, size_t *bytes)
{
    char *text = NULL;
    size_t room = 0;

    *bytes = 0;
    do {
        room = room > 0 ? 2 * room : 1 << 16;
        char *more = realloc(text, room);
        if (more == NULL) {
            free(text);
            errno = ENOMEM;
            return NULL;
        }
        text = more;
        *bytes += fread(text + *bytes, 1, room - *bytes, stream);
    } while (*bytes == room);
    if (ferror(stream)) {
        free(text);
        return NULL;
    }
    return text;
}

bool results_read(const char *path, struct run_results *results, struct message *why)
{
    FILE *stream = ca_stream_open(path, "rb");
    size_t bytes;

    memset(results, 0, sizeof *results);
    char *text = stream != NULL ? read_all(stream, &bytes) : NULL;
    const int reason = errno;
    if (stream != NULL)
        fclose(stream);
    if (text == NULL)
        return message_set(why, "%.300s: cannot be read: %s", path, strerror(reason));
    const bool ok = results_parse(path, text, bytes, results, why);
    free(text);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "program/program_file.h"

#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static const struct {
    clattn_status status;
    const char *name;
} verdicts[] = {
    {CLATTN_SUCCESS, "right"},
    {CLATTN_BUILD_FAILED, "does-not-build"},
    {CLATTN_MISCOMPILED, "miscompiled"},
};

enum { NUM_VERDICTS = sizeof verdicts / sizeof *verdicts };

void ca_program_key_add(struct ca_program_key *key, const char *name, const char *value)
{
    const size_t room = sizeof key->text - key->length;
    char *line = key->text + key->length;
    const size_t length = (size_t)snprintf(line, room, "%s %s\n", name, value);

    for (size_t n = 0; n + 1 < length && n < room; n++)
        if (line[n] == '\n' || line[n] == '\r')
            line[n] = ' ';
    /* If the key is cut, two keys are confused only if they are equal up to here. */
    key->length += length < room ? length : room - 1;
}

static size_t print_header(const struct ca_program_key *key, const char *verdict, size_t bytes,
                           XXH64_hash_t checksum, char header[CA_PROGRAM_HEADER_BYTES])
{
    return (size_t)snprintf(header, CA_PROGRAM_HEADER_BYTES,
                            "%sverdict %s\nbytes %zu\nchecksum %016llx\n\n", key->text, verdict,
                            bytes, (unsigned long long)checksum);
}

size_t ca_program_file_header(const struct ca_program_key *key, clattn_status verdict,
                              const unsigned char *contents, size_t bytes,
                              char header[CA_PROGRAM_HEADER_BYTES])
{
    size_t n = 0;

    while (n + 1 < NUM_VERDICTS && verdicts[n].status != verdict)
        n++;
    return print_header(key, verdicts[n].name, bytes, XXH3_64bits(contents, bytes), header);
}

void ca_program_file_print_begun(const struct ca_program_key *key,
                                 char header[CA_PROGRAM_HEADER_BYTES])
{
    print_header(key, "begun", 0, 0, header);
}

int ca_program_file_recognise(const struct ca_program_key *key, const unsigned char *data,
                              size_t bytes, clattn_status *verdict, size_t *begin)
{
    char header[CA_PROGRAM_HEADER_BYTES];

    /* The header ends at the first empty line; keys have none. */
    for (*begin = 1; *begin < bytes && *begin < CA_PROGRAM_HEADER_BYTES; ++*begin)
        if (data[*begin - 1] == '\n' && data[*begin] == '\n')
            break;
    ++*begin;
    if (*begin > bytes)
        return 0;
    const size_t left = bytes - *begin;
    const XXH64_hash_t checksum = XXH3_64bits(data + *begin, left);
    for (size_t n = 0; n < NUM_VERDICTS; n++) {
        *verdict = verdicts[n].status;
        if (print_header(key, verdicts[n].name, left, checksum, header) == *begin &&
            memcmp(header, data, *begin) == 0)
            return left > 0 || *verdict == CLATTN_SUCCESS;
    }
    return 0;
}

/* Returns whether the header, which ends with an empty line, has a line that begins so. */
static int has_line(const char *header, const char *line)
{
    const size_t length = strlen(line);

    for (const char *at = header; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, line, length) == 0)
            return 1;
    return 0;
}

int ca_program_file_condemns(const unsigned char *data, size_t bytes, const char *const *lines,
                             size_t num_lines)
{
    char header[CA_PROGRAM_HEADER_BYTES];
    const size_t most = bytes < sizeof header ? bytes : sizeof header - 1;

    memcpy(header, data, most);
    header[most] = '\0';
    char *end = strstr(header, "\n\n");
    if (!end)
        return 0;
    end[1] = '\0';
    for (size_t n = 0; n < num_lines; n++)
        if (!has_line(header, lines[n]))
            return 0;
    return has_line(header, "clattn-program ") && has_line(header, "verdict ") &&
           !has_line(header, "verdict right\n");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner/journal.h"
#include "internal.h"
#include "os/lock.h"
#include "tuner/worker/worker_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct ca_journal {
    char *path;
    ca_file file; /* CA_NO_FILE: it only lives in memory */
    bool torn;    /* the file's end is no end of a line */
    struct ca_journal_entry *entries;
    size_t count, capacity;
};

/* ---- lines ----------------------------------------------------------------------------------- */

static json_t *entry_json(const struct ca_journal_entry *entry)
{
    char source[CA_HASH_TEXT], declaration[CA_HASH_TEXT];

    ca_family_source_hash(entry->candidate.family, source);
    ca_family_declaration_hash(entry->candidate.family, declaration);
    return json_pack("{s:s, s:o, s:s, s:s, s:b, s:o, s:s, s:o}", "class", entry->problem_class,
                     "candidate", ca_candidate_json(&entry->candidate), "source", source,
                     "declaration", declaration, "built", (int)entry->built, "reading",
                     ca_reading_json(&entry->reading), "when", entry->when, "seconds",
                     ca_seconds_json(entry->seconds));
}

static bool read_entry(const json_t *line, struct ca_journal_entry *entry)
{
    static const struct ca_json_field fields[] = {
        {"class", CA_JSON_NAME, offsetof(struct ca_journal_entry, problem_class), CA_JOURNAL_CLASS},
        {"when", CA_JSON_NAME, offsetof(struct ca_journal_entry, when), sizeof entry->when},
        {"seconds", CA_JSON_SECONDS, offsetof(struct ca_journal_entry, seconds), 0},
    };
    struct kernels {
        char source[CA_HASH_TEXT], declaration[CA_HASH_TEXT];
        cl_bool built;
    } was, is;
    static const struct ca_json_field kernel_fields[] = {
        {"source", CA_JSON_NAME, offsetof(struct kernels, source), CA_HASH_TEXT},
        {"declaration", CA_JSON_NAME, offsetof(struct kernels, declaration), CA_HASH_TEXT},
        {"built", CA_JSON_FLAG, offsetof(struct kernels, built), 0},
    };
    struct ca_json_reader r = {.status = CLATTN_SUCCESS};
    struct ca_json *read = message_read(line);

    memset(entry, 0, sizeof *entry);
    ca_json_fields(&r, read, fields, sizeof fields / sizeof *fields, entry);
    ca_json_fields(&r, read, kernel_fields, sizeof kernel_fields / sizeof *kernel_fields, &was);
    ca_json_free(read);
    if (r.status != CLATTN_SUCCESS ||
        !ca_candidate_from_json(json_object_get(line, "candidate"), &entry->candidate) ||
        !ca_reading_from_json(json_object_get(line, "reading"), &entry->reading))
        return false;
    entry->built = was.built;
    ca_family_source_hash(entry->candidate.family, is.source);
    ca_family_declaration_hash(entry->candidate.family, is.declaration);
    return entry->reading.outcome != CA_RUNTIME_FAILED && /* it may fail no more */
           strcmp(was.source, is.source) == 0 && strcmp(was.declaration, is.declaration) == 0;
}

/* Takes the object over. One write, so that a line is whole unless the process is killed in it. */
static bool write_line(ca_file file, const char *before, json_t *line)
{
    char *json = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    char *text = json ? ca_text_join(before, json, "\n") : NULL;
    struct ca_file_facts facts;
    const bool good =
        text && ca_file_ask(file, &facts) && ca_file_write(file, text, strlen(text), facts.bytes);

    free(text);
    free(json);
    json_decref(line);
    return good;
}

static bool append(struct ca_journal *journal, json_t *line)
{
    if (journal->file == CA_NO_FILE) {
        json_decref(line);
        return false;
    }
    const bool good = write_line(journal->file, journal->torn ? "\n" : "", line);
    journal->torn = !good;
    return good;
}

/* ---- entries --------------------------------------------------------------------------------- */

size_t ca_journal_count(const struct ca_journal *journal)
{
    return journal->count;
}

const struct ca_journal_entry *ca_journal_at(const struct ca_journal *journal, size_t entry)
{
    return &journal->entries[entry];
}

const struct ca_journal_entry *ca_journal_find(const struct ca_journal *journal,
                                               const char *problem_class,
                                               const struct ca_candidate *candidate)
{
    for (size_t n = 0; n < journal->count; n++)
        if (strcmp(journal->entries[n].problem_class, problem_class) == 0 &&
            journal->entries[n].reading.outcome != CA_RUNTIME_FAILED &&
            ca_candidates_equal(&journal->entries[n].candidate, candidate))
            return &journal->entries[n];
    return NULL;
}

static struct ca_journal_entry *keep(struct ca_journal *journal,
                                     const struct ca_journal_entry *entry)
{
    if (ca_journal_find(journal, entry->problem_class, &entry->candidate))
        return NULL;
    if (journal->count == journal->capacity) {
        const size_t capacity = journal->capacity ? 2 * journal->capacity : 64;
        struct ca_journal_entry *grown = realloc(journal->entries, capacity * sizeof *grown);
        if (!grown)
            return NULL;
        journal->entries = grown;
        journal->capacity = capacity;
    }
    journal->entries[journal->count] = *entry;
    return &journal->entries[journal->count++];
}

void ca_journal_add(struct ca_journal *journal, const struct ca_journal_entry *entry)
{
    struct ca_journal_entry *kept = keep(journal, entry);

    if (!kept)
        return;
    kept->finished = false;
    ca_utc_print(time(NULL), CA_UTC_ISO, kept->when, sizeof kept->when);
    if (append(journal, entry_json(kept)))
        ca_file_make_durable(journal->file); /* a device that hangs may take the machine with it */
}

static void drop(struct ca_journal *journal, const char *problem_class)
{
    size_t kept = 0;

    for (size_t n = 0; n < journal->count; n++)
        if (strcmp(journal->entries[n].problem_class, problem_class) != 0)
            journal->entries[kept++] = journal->entries[n];
    journal->count = kept;
}

void ca_journal_finish(struct ca_journal *journal, const char *problem_class)
{
    bool there = false;

    for (size_t n = 0; n < journal->count; n++)
        if (strcmp(journal->entries[n].problem_class, problem_class) == 0)
            there = journal->entries[n].finished = true;
    if (there)
        append(journal, json_pack("{s:s}", "finished", problem_class));
}

/* ---- the file -------------------------------------------------------------------------------- */

static void read_line(struct ca_journal *journal, const char *text, size_t bytes)
{
    json_t *line = json_loadb(text, bytes, 0, NULL);
    const char *finished = json_string_value(json_object_get(line, "finished"));
    struct ca_journal_entry entry;

    if (finished)
        drop(journal, finished);
    else if (read_entry(line, &entry))
        keep(journal, &entry);
    json_decref(line);
}

/* Reads the journal's lines; a line that cannot be read is ignored. */
static void read_lines(struct ca_journal *journal)
{
    struct ca_file_facts facts = {.bytes = 0};

    ca_file_ask(journal->file, &facts);
    char *text = facts.bytes > 0 ? malloc((size_t)facts.bytes) : NULL;
    const ptrdiff_t bytes = text ? ca_file_read(journal->file, text, (size_t)facts.bytes, 0) : 0;

    for (ptrdiff_t at = 0; at < bytes;) {
        const char *newline = memchr(text + at, '\n', (size_t)(bytes - at));
        const ptrdiff_t end = newline ? newline - text : bytes;
        read_line(journal, text + at, (size_t)(end - at));
        /* the last line is incomplete: the next entry begins a new line */
        journal->torn = !newline;
        at = end + 1;
    }
    free(text);
}

static enum ca_journal_state open_file(struct ca_journal *journal, struct message *why)
{
    char reason[CA_REASON_BYTES];

    journal->file = ca_disk_open(journal->path, reason, sizeof reason);
    if (journal->file == CA_NO_FILE) {
        message_set(why, "the journal %s cannot be written: %s", journal->path, reason);
        return CA_JOURNAL_FORGETFUL;
    }
    if (ca_lock_try(journal->file) == CA_LOCK_OTHERS)
        return CA_JOURNAL_BUSY;
    read_lines(journal);
    return CA_JOURNAL_OPEN;
}

static void destroy(struct ca_journal *journal)
{
    if (journal->file != CA_NO_FILE)
        ca_file_close(journal->file);
    free(journal->entries);
    free(journal->path);
    free(journal);
}

enum ca_journal_state ca_journal_open(const char *path, struct ca_journal **journal,
                                      struct message *why)
{
    struct ca_journal *made = calloc(1, sizeof *made);
    enum ca_journal_state state = CA_JOURNAL_OPEN;

    *journal = NULL;
    if (made)
        made->path = ca_text_copy(path);
    if (!made || !made->path) {
        free(made);
        return CA_JOURNAL_NO_MEMORY;
    }
    made->file = CA_NO_FILE;
    if (*path)
        state = open_file(made, why);
    if (state == CA_JOURNAL_BUSY)
        destroy(made);
    else
        *journal = made;
    return state;
}

/* Under another name first, then renamed: a kill at any moment leaves one or the other. */
static void rewrite(const struct ca_journal *journal)
{
    char *path = ca_text_join(journal->path, ".new", "");

    if (!path)
        return;
    ca_file_remove(CA_NO_FILE, path); /* left behind by a process that died */
    const ca_file file = ca_file_open(CA_NO_FILE, path, CA_FILE_MAKE);
    bool good = file != CA_NO_FILE;
    for (size_t n = 0; good && n < journal->count; n++)
        if (!journal->entries[n].finished)
            good = write_line(file, "", entry_json(&journal->entries[n]));
    if (file != CA_NO_FILE)
        ca_file_close(file);
    if (!good || !ca_file_rename(CA_NO_FILE, path, journal->path))
        remove(path);
    free(path);
}

void ca_journal_close(struct ca_journal *journal)
{
    size_t left = 0;

    if (!journal)
        return;
    for (size_t n = 0; n < journal->count; n++)
        left += !journal->entries[n].finished;
    if (journal->file != CA_NO_FILE && left > 0)
        rewrite(journal);
    if (journal->file != CA_NO_FILE && left == 0)
        remove(journal->path);
    destroy(journal);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The journal of a tuning: every reading as it happens, so that a tuning that was interrupted or
 * killed goes on where it was. A file beside the store's, one JSON object a line:
 *
 *     {"class": ..., "candidate": {...}, "source": ..., "declaration": ..., "built": ...,
 *      "reading": {...}, "when": ..., "seconds": ...}
 *     {"finished": CLASS}        what is above of that class counts no more
 *
 * Lines that are torn, foreign, of changed kernels or of failures that may pass are passed over. While it is open no other
 * process can open it: two tunings on one device would disturb each other's timings. */
#ifndef CA_JOURNAL_H
#define CA_JOURNAL_H

#include "cli/message.h"
#include "internal.h"

enum { CA_JOURNAL_CLASS = 256 };

/* One candidate on one problem. */
struct ca_journal_entry {
    char problem_class[CA_JOURNAL_CLASS];
    struct ca_candidate candidate;
    struct ca_reading reading;
    bool built;     /* the build had succeeded; tells where a reading that is a failure failed */
    double seconds; /* seconds of tuning since the previous entry */
    char when[24];  /* UTC; set by ca_journal_add() */
    bool finished;  /* the tuning of its class has finished since the journal was opened */
};

struct ca_journal;

enum ca_journal_state {
    CA_JOURNAL_OPEN,
    CA_JOURNAL_FORGETFUL, /* open, but the file cannot be written: *why says why */
    CA_JOURNAL_BUSY,      /* another process has locked the journal */
    CA_JOURNAL_NO_MEMORY
};

/* Reads what is there; makes the directory. "" for a journal that only lives in memory. *journal is
 * NULL unless it is open. */
enum ca_journal_state ca_journal_open(const char *path, struct ca_journal **journal,
                                      struct message *why);

/* Removes what counts no more, the file too if nothing is left. NULL is allowed. */
void ca_journal_close(struct ca_journal *journal);

size_t ca_journal_count(const struct ca_journal *journal);
const struct ca_journal_entry *ca_journal_at(const struct ca_journal *journal, size_t entry);

/* Returns NULL if there is none, or only a failure that may pass. */
const struct ca_journal_entry *ca_journal_find(const struct ca_journal *journal,
                                               const char *problem_class,
                                               const struct ca_candidate *candidate);

/* Copies an entry, at once to the disk; what is there already is not added again. */
void ca_journal_add(struct ca_journal *journal, const struct ca_journal_entry *entry);

void ca_journal_finish(struct ca_journal *journal, const char *problem_class);

#endif

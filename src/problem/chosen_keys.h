/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of chosen keys ("Chosen keys" in clattn/problem.h) become a problem without lists, which every family computes. A first
 * program (src/families/chosen_keys) makes of the lists what that problem reads, in the workspace:
 *
 * - by rows: each list is the page table of a batch with one query, and its pages have one key each;
 * - by copies: of gradients. Each list is a batch whose keys are a copy of the listed ones, and whose queries are the heads of
 *   one query; the gradients of these copies are added up (src/families/chosen_gradients);
 * - by a mask: lists become a mask of pairs, beside which all options stay as they are. */
#ifndef CA_CHOSEN_KEYS_H
#define CA_CHOSEN_KEYS_H

#include "cl/common/chosen_part.h"
#include "problem/problem.h"

/* Returns whether a first program reads lists of chosen keys. */
int ca_has_chosen_keys(const clattn_problem *p);

enum ca_chosen_way { CA_BY_MASK, CA_BY_ROWS, CA_BY_COPIES };

struct ca_chosen_keys {
    clattn_problem problem; /* the problem without lists, in normal form */
    enum ca_chosen_way way;
    size_t lists; /* of all queries, and of all kv heads that have their own */
    size_t width; /* by rows and by copies: the keys of a list that is full */
    /* How often the problem is executed. A list of an execution is a batch of it; the lists of one execution follow each
     * other. The last one by copies may have fewer lists than batches. */
    size_t executions;
    /* By rows: an execution for each batch and each kv head, or for all at once where these are 1. */
    size_t batches, kv_heads;
    int packed; /* by rows: queries are sequences of a packed batch, whose starts the first program writes */
    /* By rows: whether the table's row numbers continue from batch to batch (or page to page), and from kv head to kv head. */
    int counts_batches, counts_heads;
    size_t mask_bytes; /* by a mask: its size */
    struct chosen_part
        copies; /* by copies: an execution's part of the workspace, and the sums of gradients */
};

/* Derives the problem of a normal one with topk. Returns 0 if there are no pairs, so that no list is read: the
 * problem without topk is the same then. */
int ca_chosen_keys(const clattn_problem *normal, struct ca_chosen_keys *chosen);

/* The bytes before the workspace of the problem without lists, a multiple of 128; SIZE_MAX if they are too many to
 * count. bits: bytes that the first program needs besides. */
size_t ca_chosen_keys_bytes(const struct ca_chosen_keys *chosen, size_t bits);

/* What the first program makes of lists by rows and by copies. Behind it are its bits, and by copies then, when nobody needs
 * these, what an execution takes. */
struct made_lists ca_chosen_keys_made(const struct ca_chosen_keys *chosen);

/* The problem of the program that is chosen and tuned: without lists, and without what a second program computes. */
struct ca_problem ca_problem_chosen(const struct ca_problem *p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of indexer_gradients' workspace, for the kernels and, with the names of families/names.h, for the host. */
#include "families/sizes.h"

#define WORD_HEADS 32 /* heads whose signs are the bits of a word */
#define WORDS DIVIDE_UP(HEADS, WORD_HEADS)

/* Ints of the workspace: how many entries name each row of k, and where its entries end in the list of all; that list; the
 * words of each entry. */
#define COUNTS_ROOM(key_rows) ROUND_UP(key_rows, 32)
#define ENTRIES_ROOM(entries) ROUND_UP(entries, 32)
#define ALL_ROOM(key_rows, entries)                                                                \
    (2 * COUNTS_ROOM(key_rows) + ENTRIES_ROOM(entries) + WORDS * (entries))

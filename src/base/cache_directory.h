/* SPDX-License-Identifier: Apache-2.0 */
/* The place and the size limit of the cache. */
#ifndef CA_CACHE_DIRECTORY_H
#define CA_CACHE_DIRECTORY_H

#include <stddef.h>

/*
 * The cache directory: given, unless it is NULL; else $CLATTN_CACHE_DIR, or clattn's folder among the user's caches
 * (ca_cache_places). The whole environment of a program that runs with another user's rights counts as unset. The caller frees
 * it.
 *
 * NULL if that is empty or "none" (no cache is wanted) or nothing is set, with an empty why; else why is a sentence:
 * - *refused: it is there, but not to be trusted (ca_file_is_trusted()), or it is a default in what belongs to
 *   another user;
 * - else: it is a default, and the folder that would hold it is not there, or memory runs out.
 */
#define CA_CACHE_NOWHERE "none" /* Windows has no variable that is empty */
char *ca_cache_directory(const char *given, int *refused, char *why, size_t why_bytes);

/* Gives the bytes of programs that the cache may hold. $CLATTN_CACHE_MAX_SIZE says it as a whole
 * number with K, M or G; 0 means any. Returns false, with the default, if the variable is no
 * such number. */
enum { CA_CACHE_DEFAULT_MEGABYTES = 1024 };
int ca_cache_limit(unsigned long long *bytes);

#endif

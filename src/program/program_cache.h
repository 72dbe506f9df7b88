/*
 * Built programs on disk, so that the second process neither compiles nor checks.
 *
 * One file per program, <cache directory>/programs/<hash of the key>.clbin, in the form that
 * src/program/program_file.h describes. The key is all that shapes the binary: platform, device and driver
 * with their versions, family, hash of the source, options. A file is used only if it repeats the
 * key to the letter and its checksum holds; any other is ignored with a warning and written anew.
 * A program that did not build or failed its self-check is remembered likewise, without a binary.
 * Readers and writers need no lock: files are renamed into place (src/program/disk.c).
 */
#ifndef CA_PROGRAM_CACHE_H
#define CA_PROGRAM_CACHE_H

#include "context.h"
#include "family.h"

/*
 * Looks a program up. True if the cache knows it: *verdict is then CLATTN_SUCCESS, with the program
 * built in *program, or CLATTN_BUILD_FAILED or CLATTN_MISCOMPILED, with *program NULL.
 */
int ca_program_cache_load(const clattn_context *ctx, const struct ca_family *family,
                          const char *options, cl_program *program, clattn_status *verdict);

/* Keeps a program that has run (drivers finish compiling only then), or a bad verdict with a NULL
 * program. A cache that cannot be written is no error. */
void ca_program_cache_store(clattn_context *ctx, const struct ca_family *family,
                            const char *options, cl_program program, clattn_status verdict);

/* The program's binary for the context's device; NULL if there is none. The caller frees it. */
unsigned char *ca_program_binary(const clattn_context *ctx, cl_program program, size_t *bytes);

#endif

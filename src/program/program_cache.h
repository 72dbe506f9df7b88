/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built programs on disk, so that the second process neither compiles nor checks.
 *
 * One file per program, <cache directory>/programs/<hash of the key>.clbin, in the form that
 * src/program/program_file.h describes. The key is all that shapes the binary: platform, device and driver
 * with their versions, family, hashes of the source and of all texts before it, options. A file is used only if it repeats
 * the key to the letter and its checksum holds; any other is ignored with a warning and written anew.
 * A program that cannot be built or failed its self-check is remembered likewise, with the reason
 * instead of a binary. One that ended the process while it was made has its deaths counted in
 * <hash of the key>.begun (src/context/first_run.h), with the key and no verdict behind the count.
 * Readers and writers need no lock: files are renamed into place (src/base/disk.c). The folder has a limit: whoever
 * writes removes what was used longest ago, and what killed writers left.
 */
#ifndef CA_PROGRAM_CACHE_H
#define CA_PROGRAM_CACHE_H

#include "context/context.h"
#include "program/program_file.h"
#include "program/program_made.h"

/* Looks a program up. True, with the verdict, if the cache knows it. A good one comes with the
 * program built in *program, which else is NULL, as it is if the binary is not there yet. */
int ca_program_cache_load(const clattn_context *ctx, const struct ca_program *made,
                          cl_program *program, struct ca_verdict *verdict);

/* Keeps a program that has run (drivers finish compiling only then) with made's verdict; with a NULL
 * program the verdict alone. A cache that cannot be written is no error. */
void ca_program_cache_store(clattn_context *ctx, const struct ca_program *made, cl_program program);

/* The path of the file that counts the attempts at making a program; NULL without a cache or
 * memory. The caller frees it. what: the text by which that file describes the program. */
char *ca_program_cache_begun(const clattn_context *ctx, const struct ca_program *made,
                             char what[CA_PROGRAM_HEADER_BYTES]);

/* Returns whether a binary is made only on request, which takes as long as compiling again. This is
 * so on PoCL, which then compiles each kernel for work-groups of any size. */
int ca_program_binary_is_dear(const clattn_context *ctx);

/* Removes bad verdicts on programs of the context's device, whatever its driver: those whose
 * compiler's options begin so ("": all). *removed: how many. CLATTN_OUT_OF_MEMORY if the folder or a file of it could
 * not be read for a shortage of memory or of open files; more may be there. */
clattn_status ca_program_cache_forget(const clattn_context *ctx, const char *options,
                                      size_t *removed);

/* Number and bytes of the files in the folder of programs, of any device. With CLATTN_OUT_OF_MEMORY they are not
 * known, for such a shortage. */
struct ca_cache_size {
    size_t files;
    unsigned long long bytes;
    clattn_status status;
};

/* Removes what killed writers and processes left, then the programs that were used longest ago, until no more than
 * `most` bytes are left; without memory none of these. Returns what is left. Nothing without a cache, or in a folder that is
 * not to be trusted. */
struct ca_cache_size ca_program_cache_trim(const clattn_context *ctx, unsigned long long most);

/* A program, not built yet, of a binary for the context's device; NULL if the driver does not take it. */
cl_program ca_program_of_binary(const clattn_context *ctx, const unsigned char *binary,
                                size_t bytes);

/* The program's binary for the context's device; NULL if there is none. The caller frees it. */
unsigned char *ca_program_binary(const clattn_context *ctx, cl_program program, size_t *bytes);

#endif

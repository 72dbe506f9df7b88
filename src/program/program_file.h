/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of a file that holds a built program, without OpenCL.
 *
 * A text header of lines "name value" (the key, the verdict, the size and checksum of what
 * follows), an empty line, then the driver's binary or, after a bad verdict, its reason. A file is taken only if it is what
 * would be written, bit for bit: some drivers abort the process on a damaged binary.
 */
#ifndef CA_PROGRAM_FILE_H
#define CA_PROGRAM_FILE_H

#include <clattn/status.h>
#include <stddef.h>

enum { CA_PROGRAM_KEY_BYTES = 4096, CA_PROGRAM_HEADER_BYTES = CA_PROGRAM_KEY_BYTES + 256 };

/* Everything that a binary depends on; zeros to begin with. */
struct ca_program_key {
    char text[CA_PROGRAM_KEY_BYTES];
    size_t length;
};

/* Adds a line. A value may be a driver's text: line ends in it become spaces. */
void ca_program_key_add(struct ca_program_key *key, const char *name, const char *value);

/* The header before the binary (verdict CLATTN_SUCCESS), which has no bytes if it is not there yet,
 * or before the reason (CLATTN_BUILD_FAILED or CLATTN_MISCOMPILED), which is never empty. Returns
 * the header's length. */
size_t ca_program_file_header(const struct ca_program_key *key, clattn_status verdict,
                              const unsigned char *contents, size_t bytes,
                              char header[CA_PROGRAM_HEADER_BYTES]);

/* Returns whether a file is bit for bit what this library writes for the key, whatever the verdict.
 * If so, *verdict is that, and *begin is where the binary or the reason begins. */
int ca_program_file_recognise(const struct ca_program_key *key, const unsigned char *data,
                              size_t bytes, clattn_status *verdict, size_t *begin);

/* Describes a program for the file that counts attempts at it: in the same form, without
 * contents. */
void ca_program_file_print_begun(const struct ca_program_key *key,
                                 char header[CA_PROGRAM_HEADER_BYTES]);

/* Returns whether the file is a bad verdict, of this version or an earlier one, on a program whose
 * key has all of these lines ("name value", or the first part of one). */
int ca_program_file_condemns(const unsigned char *data, size_t bytes, const char *const *lines,
                             size_t num_lines);

#endif

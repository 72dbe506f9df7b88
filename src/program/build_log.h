/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of a driver's compiler about a program. */
#ifndef CA_BUILD_LOG_H
#define CA_BUILD_LOG_H

#include <clattn/export.h>
#include <stddef.h>

/* The whole log; NULL if it cannot be read. The caller frees it. */
char *ca_build_log(cl_program program, cl_device_id device);

/* The log's first line that says something, and where that is a compiler older than the processor, what helps. */
void ca_build_log_cause(const char *log, char *text, size_t text_bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The ggml that loaded the backend: its functions, found in the process, and whether it is one
 * that the backend was built for. Nothing of ggml is linked, so that no second copy of it comes
 * into the process. An unsuitable ggml is refused with a sentence instead of by the dynamic
 * linker. */
#ifndef CLATTN_GGML_HOST_H
#define CLATTN_GGML_HOST_H

#include <ggml-backend-impl.h>
#include <ggml-backend.h>
#include <ggml.h>
#include <stdbool.h>

/* A member for each function of host.def, of its name. */
struct host {
#define HOST(type, name, parameters) type(*name) parameters;
#include "host.def"
#undef HOST
};

/* Finds the functions, once in a process. Returns NULL, after a sentence on ggml's log or
 * stderr, where one is missing. It does so too where tensors, operations or types are not those
 * of the headers that this was compiled with. */
const struct host *host_find(void);

/* A sentence for ggml's log, with a newline added. */
void host_log(const struct host *host, enum ggml_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

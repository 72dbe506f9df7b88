/* SPDX-License-Identifier: Apache-2.0 */
/* What a process of the tests sends to the one that builds programs for all (server.c, layer.c), over a socket
 * of the file system: a header, then each text without a null at its end. The answer is a byte. */
#ifndef TEST_BUILDS_REQUEST_H
#define TEST_BUILDS_REQUEST_H

#include <stdint.h>

enum request_text {
    REQUEST_SOURCE,
    REQUEST_OPTIONS, /* clBuildProgram()'s */
    REQUEST_FLAGS,   /* POCL_EXTRA_BUILD_FLAGS */
    REQUEST_CACHE,   /* POCL_CACHE_DIR */
    REQUEST_TEXTS
};

struct request {
    uint32_t bytes[REQUEST_TEXTS];
};

#endif

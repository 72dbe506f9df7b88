/* SPDX-License-Identifier: Apache-2.0 */
#include "program/build_log.h"
#include "base/log.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

char *ca_build_log(cl_program program, cl_device_id device)
{
    size_t bytes = 0;

    if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) != CL_SUCCESS)
        bytes = 0;
    char *text = calloc(bytes + 1, 1);
    if (text && bytes > 0 &&
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, text, NULL) !=
            CL_SUCCESS) {
        free(text);
        return NULL;
    }
    return text;
}

void ca_build_log_cause(const char *log, char *text, size_t text_bytes)
{
    /* This is LLVM's sentence in PoCL 1.8 on a Zen 3 (doc/design/drivers.md). */
    const char *help =
        strstr(log, "unknown target CPU")
            ? " (this driver's compiler is older than the processor: a newer one, or "
              "another OpenCL driver, builds)"
            : "";

    while (isspace((unsigned char)*log))
        log++;
    if (*log)
        ca_reason(text, text_bytes, "%.*s%s", (int)strcspn(log, "\r\n"), log, help);
    else
        ca_reason(text, text_bytes, "its compiler says nothing");
}

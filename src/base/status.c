/* SPDX-License-Identifier: Apache-2.0 */
#include <clattn/status.h>
#include <clattn/version.h>

const char *clattn_status_string(clattn_status status)
{
    static const char *const names[] = {
        "CLATTN_SUCCESS",      "CLATTN_INVALID_ARGUMENT", "CLATTN_INVALID_PROBLEM",
        "CLATTN_UNSUPPORTED",  "CLATTN_BUFFER_TOO_SMALL", "CLATTN_NO_DEVICE",
        "CLATTN_NO_COMPILER",  "CLATTN_BUILD_FAILED",     "CLATTN_OUT_OF_MEMORY",
        "CLATTN_OPENCL_ERROR", "CLATTN_MISCOMPILED",      "CLATTN_NOT_TUNED",
        "CLATTN_FILE_ERROR",
    };

    if ((size_t)status >= sizeof names / sizeof *names)
        return "unknown clattn_status";
    return names[status];
}

const char *clattn_version_string(void)
{
    return CLATTN_VERSION_STRING;
}

unsigned clattn_version_number(void)
{
    return 10000u * CLATTN_VERSION_MAJOR + 100u * CLATTN_VERSION_MINOR + CLATTN_VERSION_PATCH;
}

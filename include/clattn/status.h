/* SPDX-License-Identifier: Apache-2.0 */
/** @file status.h  What every call returns. The sentence for a person: clattn_context_last_error(), or the log callback.
 * @ingroup basics */
#ifndef CLATTN_STATUS_H
#define CLATTN_STATUS_H

#include <clattn/export.h>

CLATTN_BEGIN

/** What a call came to. A failed call leaves its outputs as its description says. */
typedef enum clattn_status {
    CLATTN_SUCCESS = 0,
    /** A null pointer, an overlap, a wait list, a queue or an event that cannot be used. */
    CLATTN_INVALID_ARGUMENT = 1,
    /** The problem contradicts itself or its text form does not parse; no device can compute it. */
    CLATTN_INVALID_PROBLEM = 2,
    /** The problem is sound, but not for this device, or not for the family or tunables forced. */
    CLATTN_UNSUPPORTED = 3,
    /** A buffer, workspace or text is shorter than what the call would read or write. */
    CLATTN_BUFFER_TOO_SMALL = 4,
    /** No OpenCL platform, or no device that matches the selector. */
    CLATTN_NO_DEVICE = 5,
    /** The device has no OpenCL C compiler (CL_DEVICE_COMPILER_AVAILABLE is false). */
    CLATTN_NO_COMPILER = 6,
    /** The device's compiler refused a kernel; its build log went to the context's log. */
    CLATTN_BUILD_FAILED = 7,
    /** Host or device memory ran out. */
    CLATTN_OUT_OF_MEMORY = 8,
    /** Another OpenCL call failed; the log names the call and its error. */
    CLATTN_OPENCL_ERROR = 9,
    /** The device's compiler turned the kernel into wrong code: its self-check failed. */
    CLATTN_MISCOMPILED = 10,
    /** Only what is known may be used (CLATTN_PLAN_KNOWN_ONLY), and the store knows nothing. */
    CLATTN_NOT_TUNED = 11,
    /** A file cannot be read, understood or written; the log or reason names it. */
    CLATTN_FILE_ERROR = 12
} clattn_status;

/** The name of a status, such as "CLATTN_UNSUPPORTED"; "unknown clattn_status" for other values. */
CLATTN_API const char *clattn_status_string(clattn_status status);

CLATTN_END

#endif

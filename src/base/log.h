/* SPDX-License-Identifier: Apache-2.0 */
/* One sentence for a person, beside the status for the program. Names and words of others in it are made
 * printable (base/utf8.h). */
#ifndef CA_LOG_H
#define CA_LOG_H

#include <clattn/context.h>
#include <stdint.h>

/* The receiver of log messages. With all zeros, errors are still remembered for their thread, and
 * nothing else happens. */
struct ca_log {
    clattn_log_callback callback; /* NULL: prints to stderr the levels that `printed` allows */
    void *user_data;
    unsigned printed; /* the number of levels that go to stderr, errors first, by CLATTN_LOG */
    uint64_t owner;   /* the number of the context that errors belong to; 0: no context */
};

/* A log without a callback, for an owner of its own, that prints what CLATTN_LOG asks for. */
struct ca_log ca_log_make(void);

/* The last error of the calling thread in the owner's log (0: in any log). It is "" if there was
 * none, or if too many other logs had errors since. It stays until the thread's next error. */
const char *ca_last_error(uint64_t owner);

enum { CA_LOG_BYTES = 1024, CA_REASON_BYTES = 256 };

#if defined(__MINGW32__)
#define CA_PRINTF(text, first) __attribute__((format(gnu_printf, text, first)))
#elif defined(__GNUC__)
#define CA_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define CA_PRINTF(text, first)
#endif

/* Logs an error and returns status. */
clattn_status ca_fail(const struct ca_log *log, clattn_status status, const char *format, ...)
    CA_PRINTF(3, 4);

/* Remembers a sentence as an error of the owner, without printing it or calling back. Functions
 * that answer "no" use it. */
void ca_remember(const struct ca_log *log, const char *format, ...) CA_PRINTF(2, 3);

/* Remembers an error of a call without a context, without printing it, and returns status. The same
 * sentence is the reason that the caller may have requested. */
clattn_status ca_refuse(clattn_status status, const char *format, ...) CA_PRINTF(2, 3);

/* Ends a call that gives a reason, which the caller may not have requested: copies the reason, cut
 * to its size, remembers it as ca_refuse() does if the call failed, and returns status. */
clattn_status ca_give_reason(clattn_status status, const char *why, char *reason,
                             size_t reason_bytes);

/* Logs an error of an OpenCL call, with its name, and returns the status that fits it. */
clattn_status ca_fail_cl(const struct ca_log *log, cl_int error, const char *format, ...)
    CA_PRINTF(3, 4);

/* Logs a warning: a problem was found and worked around. */
void ca_warn(const struct ca_log *log, const char *format, ...) CA_PRINTF(2, 3);

/* Logs information on the work under way. */
void ca_inform(const struct ca_log *log, const char *format, ...) CA_PRINTF(2, 3);

/* Logs details that only few users want. */
void ca_detail(const struct ca_log *log, const char *format, ...) CA_PRINTF(2, 3);

/* Logs a text of any length as it is, such as a build log. */
void ca_log_text(const struct ca_log *log, clattn_log_level level, const char *text);

/* Writes a reason for a caller, cut to its size; text may be NULL. */
void ca_reason(char *text, size_t text_bytes, const char *format, ...) CA_PRINTF(3, 4);
/* Writes a reason as the function above does, and returns the status. */
clattn_status ca_status_with(clattn_status status, char *text, size_t text_bytes,
                             const char *format, ...) CA_PRINTF(4, 5);

#endif

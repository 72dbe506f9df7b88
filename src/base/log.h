/* One sentence for a person, beside the status for the program. Names and words of others in it are made
 * printable (base/utf8.h). */
#ifndef CA_LOG_H
#define CA_LOG_H

#include <clattn/context.h>

struct ca_log {
    clattn_log_callback callback; /* NULL: drop */
    void *user_data;
};

enum { CA_LOG_BYTES = 1024, CA_REASON_BYTES = 256 };

#if defined(__GNUC__)
#define CA_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define CA_PRINTF(text, first)
#endif

/* Logs an error and returns status. */
clattn_status ca_fail(const struct ca_log *log, clattn_status status, const char *format, ...)
    CA_PRINTF(3, 4);

/* Logs an error of an OpenCL call, with its name, and returns the status that fits it. */
clattn_status ca_fail_cl(const struct ca_log *log, cl_int error, const char *format, ...)
    CA_PRINTF(3, 4);

/* Logs a warning: something was not as it should be, and is worked around. */
void ca_warn(const struct ca_log *log, const char *format, ...) CA_PRINTF(2, 3);

/* Logs what is going on. */
void ca_inform(const struct ca_log *log, const char *format, ...) CA_PRINTF(2, 3);

/* Logs what only few want to know. */
void ca_detail(const struct ca_log *log, const char *format, ...) CA_PRINTF(2, 3);

/* Logs a text of any length as it is, such as a build log. */
void ca_log_text(const struct ca_log *log, clattn_log_level level, const char *text);

/* Writes a reason for a caller, cut to its size; text may be NULL. */
void ca_reason(char *text, size_t text_bytes, const char *format, ...) CA_PRINTF(3, 4);

#endif

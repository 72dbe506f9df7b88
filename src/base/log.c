/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/utf8.h"
#include "base/variables.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *error_name(cl_int error)
{
    static const struct {
        cl_int error;
        const char *name;
    } names[] = {
#define NAME(error) {error, #error}
        NAME(CL_DEVICE_NOT_FOUND),
        NAME(CL_DEVICE_NOT_AVAILABLE),
        NAME(CL_COMPILER_NOT_AVAILABLE),
        NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE),
        NAME(CL_OUT_OF_RESOURCES),
        NAME(CL_OUT_OF_HOST_MEMORY),
        NAME(CL_BUILD_PROGRAM_FAILURE),
        NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
        NAME(CL_INVALID_VALUE),
        NAME(CL_INVALID_DEVICE),
        NAME(CL_INVALID_CONTEXT),
        NAME(CL_INVALID_COMMAND_QUEUE),
        NAME(CL_INVALID_MEM_OBJECT),
        NAME(CL_INVALID_BINARY),
        NAME(CL_INVALID_BUILD_OPTIONS),
        NAME(CL_INVALID_PROGRAM),
        NAME(CL_INVALID_PROGRAM_EXECUTABLE),
        NAME(CL_INVALID_KERNEL_NAME),
        NAME(CL_INVALID_KERNEL),
        NAME(CL_INVALID_ARG_INDEX),
        NAME(CL_INVALID_ARG_VALUE),
        NAME(CL_INVALID_ARG_SIZE),
        NAME(CL_INVALID_KERNEL_ARGS),
        NAME(CL_INVALID_WORK_DIMENSION),
        NAME(CL_INVALID_WORK_GROUP_SIZE),
        NAME(CL_INVALID_WORK_ITEM_SIZE),
        NAME(CL_INVALID_EVENT_WAIT_LIST),
        NAME(CL_INVALID_EVENT),
        NAME(CL_INVALID_OPERATION),
        NAME(CL_INVALID_BUFFER_SIZE),
        NAME(CL_INVALID_GLOBAL_WORK_SIZE),
#undef NAME
    };

    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (names[n].error == error)
            return names[n].name;
    return "an error without a name here";
}

static clattn_status status_of(cl_int error)
{
    switch (error) {
    case CL_OUT_OF_HOST_MEMORY:
    case CL_OUT_OF_RESOURCES:
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
        return CLATTN_OUT_OF_MEMORY;
    default:
        return CLATTN_OPENCL_ERROR;
    }
}

/* ---- what a thread remembers ------------------------------------------------------------------ */

/* Last errors of this many owners are kept for a thread. The one with the highest turn is the
 * latest. */
enum { OWNERS = 4 };

struct remembered {
    uint64_t owner, turn;
    char text[CA_LOG_BYTES];
};

static _Thread_local struct remembered remembered[OWNERS];
static _Thread_local uint64_t turns;

static void remember(uint64_t owner, const char *text)
{
    struct remembered *oldest = &remembered[0], *of = NULL;

    for (struct remembered *r = remembered; r < remembered + OWNERS; r++) {
        if (r->turn > 0 && r->owner == owner)
            of = r;
        if (r->turn < oldest->turn)
            oldest = r;
    }
    if (!of)
        of = oldest;
    of->owner = owner;
    of->turn = ++turns;
    size_t length = strlen(text);
    if (length >= sizeof of->text)
        length = sizeof of->text - 1;
    memmove(of->text, text, length); /* text may be the stored one itself */
    of->text[length] = '\0';
}

const char *ca_last_error(uint64_t owner)
{
    const struct remembered *last = NULL;

    for (const struct remembered *r = remembered; r < remembered + OWNERS; r++)
        if (r->turn > 0 && (owner == 0 || r->owner == owner) && (!last || r->turn > last->turn))
            last = r;
    return last ? last->text : "";
}

/* ---- where sentences go ----------------------------------------------------------------------- */

static const char *const level_names[] = {
    [CLATTN_LOG_ERROR] = "error",
    [CLATTN_LOG_WARNING] = "warning",
    [CLATTN_LOG_INFO] = "info",
    [CLATTN_LOG_DETAIL] = "detail",
};
enum { NUM_LEVELS = sizeof level_names / sizeof *level_names };

static unsigned levels_printed(void)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const char *wish = ca_environment(CA_VARIABLE_LOG);

    if (!wish || !wish[0])
        return 0;
    for (unsigned n = 0; n < NUM_LEVELS; n++)
        if (strcmp(wish, level_names[n]) == 0)
            return n + 1;
    if (!atomic_flag_test_and_set(&told))
        fprintf(stderr, "clattn: CLATTN_LOG must be error, warning, info or detail\n");
    return 1;
}

struct ca_log ca_log_make(void)
{
    static atomic_uint_fast64_t owners;

    return (struct ca_log){.printed = levels_printed(), .owner = atomic_fetch_add(&owners, 1) + 1};
}

void ca_log_text(const struct ca_log *log, clattn_log_level level, const char *text)
{
    if (level == CLATTN_LOG_ERROR)
        remember(log->owner, text);
    if (log->callback)
        log->callback(level, text, log->user_data);
    else if ((unsigned)level < log->printed && (unsigned)level < NUM_LEVELS)
        fprintf(stderr, "clattn: %s: %s\n", level_names[level], text);
}

static void log_list(const struct ca_log *log, clattn_log_level level, const char *format,
                     va_list list)
{
    char text[CA_LOG_BYTES];

    vsnprintf(text, sizeof text, format, list);
    ca_make_printable(text);
    ca_log_text(log, level, text);
}

void ca_remember(const struct ca_log *log, const char *format, ...)
{
    const struct ca_log quiet = {.owner = log->owner};
    va_list list;

    va_start(list, format);
    log_list(&quiet, CLATTN_LOG_ERROR, format, list);
    va_end(list);
}

void ca_warn(const struct ca_log *log, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    log_list(log, CLATTN_LOG_WARNING, format, list);
    va_end(list);
}

void ca_inform(const struct ca_log *log, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    log_list(log, CLATTN_LOG_INFO, format, list);
    va_end(list);
}

void ca_detail(const struct ca_log *log, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    log_list(log, CLATTN_LOG_DETAIL, format, list);
    va_end(list);
}

clattn_status ca_fail(const struct ca_log *log, clattn_status status, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    log_list(log, CLATTN_LOG_ERROR, format, list);
    va_end(list);
    return status;
}

clattn_status ca_refuse(clattn_status status, const char *format, ...)
{
    static const struct ca_log nobodys = {.callback = NULL};
    va_list list;

    va_start(list, format);
    log_list(&nobodys, CLATTN_LOG_ERROR, format, list);
    va_end(list);
    return status;
}

clattn_status ca_give_reason(clattn_status status, const char *why, char *reason,
                             size_t reason_bytes)
{
    ca_reason(reason, reason_bytes, "%s", why);
    return status == CLATTN_SUCCESS ? status : ca_refuse(status, "%s", why);
}

clattn_status ca_fail_cl(const struct ca_log *log, cl_int error, const char *format, ...)
{
    char call[CA_LOG_BYTES];
    va_list list;

    va_start(list, format);
    vsnprintf(call, sizeof call, format, list);
    va_end(list);
    return ca_fail(log, status_of(error), "%.900s failed with %d (%s)", call, error,
                   error_name(error));
}

static void write_reason(char *text, size_t text_bytes, const char *format, va_list list)
{
    if (!text || text_bytes == 0)
        return;
    vsnprintf(text, text_bytes, format, list);
    ca_make_printable(text);
}

void ca_reason(char *text, size_t text_bytes, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    write_reason(text, text_bytes, format, list);
    va_end(list);
}

clattn_status ca_status_with(clattn_status status, char *text, size_t text_bytes,
                             const char *format, ...)
{
    va_list list;

    va_start(list, format);
    write_reason(text, text_bytes, format, list);
    va_end(list);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "os/windows.h"

#include "os/clock.h"
#include "os/environment.h"
#include "os/process.h"
#include "os/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <shellapi.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define NAP_SECONDS 0.002

/* ---- pipes ------------------------------------------------------------------------------------ */

enum { PIPE_BYTES = 65536 };

bool ca_pipe(ca_file ends[2])
{
    HANDLE from, to;

    if (!CreatePipe(&from, &to, NULL, PIPE_BYTES))
        return ca_windows_fail();
    ends[0] = (ca_file)from;
    ends[1] = (ca_file)to;
    return true;
}

void ca_pipe_drop_excess(const ca_file ends[2])
{
    DWORD mode = PIPE_READMODE_BYTE | PIPE_NOWAIT;

    SetNamedPipeHandleState((HANDLE)ends[1], &mode, NULL, NULL);
}

ptrdiff_t ca_pipe_read(ca_file end, void *data, size_t bytes, int milliseconds)
{
    const double deadline = ca_stopwatch_now() + milliseconds * 1e-3;
    DWORD there, got;

    for (;;) {
        if (!PeekNamedPipe((HANDLE)end, NULL, 0, NULL, &there, NULL))
            return -1;
        if (there > 0)
            break;
        if (milliseconds >= 0 && ca_stopwatch_now() >= deadline)
            return 0;
        ca_nap(NAP_SECONDS);
    }
    if (!ReadFile((HANDLE)end, data, bytes < there ? (DWORD)bytes : there, &got, NULL) || got == 0)
        return -1;
    return (ptrdiff_t)got;
}

bool ca_pipe_write(ca_file end, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const size_t piece = bytes - done < PIPE_BYTES ? bytes - done : PIPE_BYTES;
        DWORD count = 0;
        if (!WriteFile((HANDLE)end, (const char *)data + done, (DWORD)piece, &count, NULL)) {
            ca_windows_fail();
            if (GetLastError() == ERROR_NO_DATA)
                errno = EPIPE;
            return false;
        }
        if (count == 0) { /* the pipe is full, and does not wait */
            errno = EAGAIN;
            return false;
        }
        done += count;
    }
    return true;
}

/* Each write to a handle with this right alone goes to the end of the file. */
ca_file ca_output_open(void)
{
    char path[512];
    wchar_t *wide = ca_temporary_file(path, sizeof path, ca_temporary_place(), "clattn-output-")
                        ? ca_windows_wide(path)
                        : NULL;

    if (!wide)
        return CA_NO_FILE;
    const HANDLE file =
        CreateFileW(wide, FILE_GENERIC_READ | FILE_APPEND_DATA | DELETE,
                    FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                    FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, NULL);
    free(wide);
    if (file == INVALID_HANDLE_VALUE)
        ca_windows_fail();
    return file == INVALID_HANDLE_VALUE ? CA_NO_FILE : (ca_file)file;
}

/* ---- children --------------------------------------------------------------------------------- */

/* The handles of a child that is not reaped. Its job holds all that it starts; the job ends with this process, too. */
struct record {
    struct record *next;
    long number;
    HANDLE process, job;
};
static struct record *records;
static SRWLOCK records_lock = SRWLOCK_INIT;

static struct record find(const struct ca_child *child)
{
    struct record found = {.process = NULL};

    AcquireSRWLockShared(&records_lock);
    for (const struct record *r = records; r; r = r->next)
        if (r->number == child->number)
            found = *r;
    ReleaseSRWLockShared(&records_lock);
    return found;
}

static void forget(const struct ca_child *child)
{
    AcquireSRWLockExclusive(&records_lock);
    for (struct record **link = &records; *link; link = &(*link)->next)
        if ((*link)->number == child->number) {
            struct record *gone = *link;
            *link = gone->next;
            CloseHandle(gone->process);
            CloseHandle(gone->job);
            free(gone);
            break;
        }
    ReleaseSRWLockExclusive(&records_lock);
}

/* A text that grows; all of it is lost without memory. */
struct wide_text {
    wchar_t *at;
    size_t length, room;
    bool failed;
};

static void add(struct wide_text *text, const wchar_t *more, size_t count)
{
    if (!text->failed && text->length + count + 1 > text->room) {
        const size_t room = 2 * (text->length + count + 1);
        wchar_t *larger = realloc(text->at, room * sizeof *larger);
        text->failed = !larger;
        if (larger) {
            text->at = larger;
            text->room = room;
        }
    }
    if (text->failed)
        return;
    wmemcpy(text->at + text->length, more, count);
    text->length += count;
    text->at[text->length] = L'\0';
}

/* An argument between quotes, as the C runtime of the child takes it apart. */
static void add_argument(struct wide_text *line, const char *argument)
{
    wchar_t *wide = ca_windows_wide(argument);
    size_t slashes = 0;

    line->failed |= !wide;
    add(line, line->length > 0 ? L" \"" : L"\"", line->length > 0 ? 2 : 1);
    for (const wchar_t *c = wide; c && *c; c++) {
        if (*c == L'"')
            for (size_t n = 0; n < slashes + 1; n++)
                add(line, L"\\", 1);
        slashes = *c == L'\\' ? slashes + 1 : 0;
        add(line, c, 1);
    }
    for (size_t n = 0; n < slashes; n++)
        add(line, L"\\", 1);
    add(line, L"\"", 1);
    free(wide);
}

/* Adds a variable, "NAME=VALUE", with the 0 behind it. */
static void add_variable(struct wide_text *block, const char *variable)
{
    wchar_t *wide = ca_windows_wide(variable);

    block->failed |= !wide;
    if (wide)
        add(block, wide, wcslen(wide) + 1);
    free(wide);
}

static bool has_name(const wchar_t *variable, const char *other)
{
    wchar_t *wide = ca_windows_wide(other);
    const size_t length = wide ? wcscspn(wide, L"=") + 1 : 0;
    const bool same = wide && _wcsnicmp(variable, wide, length) == 0;

    free(wide);
    return same;
}

/* The variables of this process that `variables` does not replace. */
static void add_own_variables(struct wide_text *block, const char *const *variables)
{
    wchar_t *own = GetEnvironmentStringsW();

    block->failed |= !own;
    for (const wchar_t *at = own; at && *at; at += wcslen(at) + 1) {
        bool replaced = false;
        for (const char *const *v = variables; v && *v; v++)
            replaced |= has_name(at, *v);
        if (!replaced)
            add(block, at, wcslen(at) + 1);
    }
    if (own)
        FreeEnvironmentStringsW(own);
}

/* A child finds a stream of the number n by the variable CLATTN_STREAM_n, which holds the handle. */
static void name_stream(char *text, size_t bytes, int number)
{
    snprintf(text, bytes, "CLATTN_STREAM_%d", number);
}

/* Duplicates a file's handle, so that the child inherits it. For CA_NO_FILE it opens NUL. */
static HANDLE for_child(ca_file file)
{
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    HANDLE from = (HANDLE)file, copy = INVALID_HANDLE_VALUE;

    if (file >= CA_OWN_INPUT && file <= CA_OWN_ERRORS)
        from = GetStdHandle(file == CA_OWN_INPUT    ? STD_INPUT_HANDLE
                            : file == CA_OWN_OUTPUT ? STD_OUTPUT_HANDLE
                                                    : STD_ERROR_HANDLE);
    if (file == CA_NO_FILE || !from)
        return CreateFileW(L"NUL", GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE,
                           &inherited, OPEN_EXISTING, 0, NULL);
    if (!DuplicateHandle(GetCurrentProcess(), from, GetCurrentProcess(), &copy, 0, TRUE,
                         DUPLICATE_SAME_ACCESS))
        return INVALID_HANDLE_VALUE;
    return copy;
}

enum { MOST_HANDLES = 5 };

/* Starts the process, stopped. Only these handles are inherited, whatever other threads start meanwhile. */
static bool create(wchar_t *line, wchar_t *block, HANDLE *handles, size_t count,
                   PROCESS_INFORMATION *made)
{
    STARTUPINFOEXW start = {.StartupInfo = {.cb = sizeof start, .dwFlags = STARTF_USESTDHANDLES}};
    SIZE_T bytes = 0;
    bool created = false;

    start.StartupInfo.hStdInput = handles[0];
    start.StartupInfo.hStdOutput = handles[1];
    start.StartupInfo.hStdError = handles[2];
    InitializeProcThreadAttributeList(NULL, 1, 0, &bytes);
    start.lpAttributeList = malloc(bytes);
    if (!start.lpAttributeList) {
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        return false;
    }
    if (InitializeProcThreadAttributeList(start.lpAttributeList, 1, 0, &bytes)) {
        /* A child that crashes ends at once, and no window asks whether to report it: children inherit this. */
        const UINT mode = GetErrorMode();
        SetErrorMode(mode | SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
        created =
            UpdateProcThreadAttribute(start.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST,
                                      handles, count * sizeof *handles, NULL, NULL) &&
            CreateProcessW(NULL, line, NULL, NULL, TRUE,
                           CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP |
                               CREATE_UNICODE_ENVIRONMENT | EXTENDED_STARTUPINFO_PRESENT,
                           block, NULL, &start.StartupInfo, made);
        const DWORD code = GetLastError();
        SetErrorMode(mode);
        DeleteProcThreadAttributeList(start.lpAttributeList);
        SetLastError(code);
    }
    free(start.lpAttributeList);
    return created;
}

/* Puts a stopped process into a job, keeps its handles, and lets it go. */
static bool adopt(const PROCESS_INFORMATION *made)
{
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {
        .BasicLimitInformation = {.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE}};
    struct record *record = malloc(sizeof *record);
    const HANDLE job = record ? CreateJobObjectW(NULL, NULL) : NULL;

    if (job &&
        SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits) &&
        AssignProcessToJobObject(job, made->hProcess)) {
        AcquireSRWLockExclusive(&records_lock);
        *record = (struct record){.next = records,
                                  .number = (long)made->dwProcessId,
                                  .process = made->hProcess,
                                  .job = job};
        records = record;
        ReleaseSRWLockExclusive(&records_lock);
        ResumeThread(made->hThread);
        return true;
    }
    if (!record)
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
    if (job)
        CloseHandle(job);
    free(record);
    TerminateProcess(made->hProcess, 1);
    CloseHandle(made->hProcess);
    return false;
}

int ca_child_start(struct ca_child *child, const char *const *argv,
                   const struct ca_child_files *files, const char *const *variables)
{
    HANDLE handles[MOST_HANDLES] = {for_child(files->input), for_child(files->output),
                                    for_child(files->errors)};
    struct wide_text line = {.at = NULL}, block = {.at = NULL};
    PROCESS_INFORMATION made;
    size_t count = 3;
    bool started = true;

    child->number = 0;
    for (size_t n = 0; n < files->num_more; n++) {
        char name[32], variable[64];
        handles[count] = for_child(files->more[n].from);
        name_stream(name, sizeof name, files->more[n].to);
        snprintf(variable, sizeof variable, "%s=%llu", name,
                 (unsigned long long)(UINT_PTR)handles[count++]);
        add_variable(&block, variable);
    }
    for (size_t n = 0; n < count; n++)
        started &= handles[n] != INVALID_HANDLE_VALUE;
    for (const char *const *v = variables; v && *v; v++)
        add_variable(&block, *v);
    add_own_variables(&block, variables);
    add(&block, L"", 1);
    for (; *argv; argv++)
        add_argument(&line, *argv);
    errno = line.failed || block.failed ? ENOMEM : EBADF;
    if (started && !line.failed && !block.failed) {
        started = create(line.at, block.at, handles, count, &made);
        if (started) {
            started = adopt(&made);
            CloseHandle(made.hThread);
        }
        if (!started)
            ca_windows_fail();
    } else {
        started = false;
    }
    const int error = started ? 0 : errno;
    for (size_t n = 0; n < count; n++)
        if (handles[n] != INVALID_HANDLE_VALUE)
            CloseHandle(handles[n]);
    free(line.at);
    free(block.at);
    child->number = started ? (long)made.dwProcessId : 0;
    return error;
}

/* ---- ending ----------------------------------------------------------------------------------- */

/* What a child that this process ends exits with; and codes from here on are exceptions. */
enum { KILLED = 0x4b494c4c };
#define FIRST_EXCEPTION 0xC0000000u
#define INTERRUPTED 0xC000013Au

bool ca_child_has_ended(const struct ca_child *child)
{
    const struct record record = find(child);

    return record.process && WaitForSingleObject(record.process, 0) == WAIT_OBJECT_0;
}

bool ca_child_reap(const struct ca_child *child, double seconds, struct ca_child_end *end)
{
    const struct record record = find(child);
    const double most = 4e6;
    DWORD code;

    seconds = seconds < 0.0 ? 0.0 : seconds;
    if (!record.process ||
        WaitForSingleObject(record.process, (DWORD)(1e3 * (seconds < most ? seconds : most))) !=
            WAIT_OBJECT_0 ||
        !GetExitCodeProcess(record.process, &code))
        return false;
    *end = (struct ca_child_end){.killed = code == KILLED,
                                 .crashed = code >= FIRST_EXCEPTION && code != INTERRUPTED};
    if (end->killed || code >= FIRST_EXCEPTION)
        end->death = (int)code;
    else
        end->status = (int)code;
    forget(child);
    return true;
}

void ca_child_print_death(const struct ca_child_end *end, char *text, size_t bytes)
{
    static const struct {
        DWORD code;
        const char *name;
    } names[] = {
        {0xC0000005u, "access violation"},
        {0xC00000FDu, "stack overflow"},
        {0xC000001Du, "illegal instruction"},
        {0xC0000094u, "division by zero"},
        {0xC0000409u, "abort"},
        {0xC0000374u, "heap corruption"},
        {0xC0000135u, "a DLL is not there"},
        {INTERRUPTED, "Ctrl-C"},
        {0xC0000017u, "no memory"},
    };
    const char *name = "exception";

    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (names[n].code == (DWORD)end->death)
            name = names[n].name;
    if (end->killed)
        snprintf(text, bytes, "it was killed");
    else
        snprintf(text, bytes, "exception 0x%08lx (%s)", (unsigned long)(DWORD)end->death, name);
}

void ca_child_kill(const struct ca_child *child)
{
    const struct record record = find(child);

    if (record.job)
        TerminateJobObject(record.job, KILLED);
}

void ca_child_ask_to_end(const struct ca_child *child)
{
    GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, (DWORD)child->number);
}

void ca_child_interrupt(const struct ca_child *child)
{
    GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, (DWORD)child->number);
}

void ca_child_pause(const struct ca_child *child, bool pause)
{
    typedef LONG(WINAPI * change_process)(HANDLE);
    const FARPROC found = GetProcAddress(GetModuleHandleW(L"ntdll.dll"),
                                         pause ? "NtSuspendProcess" : "NtResumeProcess");
    const change_process change = (change_process)(void (*)(void))found;
    const struct record record = find(child);

    if (change && record.process)
        change(record.process);
}

struct ca_processor_time ca_child_processor_time(const struct ca_child *child)
{
    const struct record record = find(child);
    struct ca_processor_time time = {.ran = 0.0};
    FILETIME begun, ended, kernel, user;

    if (record.process && GetProcessTimes(record.process, &begun, &ended, &kernel, &user))
        time.ran =
            1e-7 * ((double)kernel.dwLowDateTime + (double)user.dwLowDateTime +
                    4294967296.0 * ((double)kernel.dwHighDateTime + (double)user.dwHighDateTime));
    return time;
}

bool ca_children_end_with_this(void)
{
    return true; /* adopt() */
}

const char *ca_python_program(void)
{
    return "python";
}

/* ---- this process ----------------------------------------------------------------------------- */

const char *ca_own_program(const char *argv0)
{
    static char path[3 * MAX_PATH];
    wchar_t wide[MAX_PATH];
    const DWORD length = GetModuleFileNameW(NULL, wide, MAX_PATH);

    if (length == 0 || length >= MAX_PATH ||
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, sizeof path, NULL, NULL) <= 0)
        return argv0;
    return path;
}

void ca_own_folder(char folder[CA_OWN_FOLDER_BYTES])
{
    const char *path = ca_own_program("");
    const size_t length = (size_t)(ca_path_name(path) - path);

    snprintf(folder, CA_OWN_FOLDER_BYTES, "%.*s", (int)length, path);
}

void (*ca_own_function(const char *name))(void)
{
    return (void (*)(void))GetProcAddress(GetModuleHandleW(NULL), name);
}

void ca_variable_set(const char *name, const char *value)
{
    wchar_t *wide_name = ca_windows_wide(name), *wide_value = ca_windows_wide(value ? value : "");

    if (wide_name && wide_value)
        _wputenv_s(wide_name, wide_value);
    free(wide_name);
    free(wide_value);
}

char **ca_arguments(int argc, char **argv)
{
    int count = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &count);
    char **own = wide && count == argc ? calloc((size_t)argc + 1, sizeof *own) : NULL;

    for (int n = 0; own && n < argc; n++) {
        own[n] = ca_windows_narrow(wide[n]);
        if (!own[n])
            own[n] = argv[n];
    }
    LocalFree(wide);
    return own ? own : argv;
}

/* Windows replaces no process: this one waits for the other and ends with its status. */
void ca_become(const char *const *argv)
{
    const struct ca_child_files files = {CA_OWN_INPUT, CA_OWN_OUTPUT, CA_OWN_ERRORS, {{0, 0}}, 0};
    struct ca_child_end end = {.status = 1};
    struct ca_child child;

    fflush(NULL);
    if (ca_child_start(&child, argv, &files, NULL) != 0)
        return;
    while (!ca_child_reap(&child, 3600.0, &end))
        continue;
    ExitProcess(end.death ? (UINT)end.death : (UINT)end.status);
}

void ca_standard_streams_begin(void)
{
    /* Windows gives no file the handle of a standard stream that is closed. */
}

static HANDLE parent_handle(int number)
{
    char name[32];

    name_stream(name, sizeof name, number);
    const char *text = ca_environment_value(name);
    const HANDLE handle = text ? (HANDLE)(UINT_PTR)strtoull(text, NULL, 10) : NULL;
    if (handle)
        SetHandleInformation(handle, HANDLE_FLAG_INHERIT, 0);
    return handle;
}

FILE *ca_parent_stream(int number, const char *mode)
{
    const HANDLE handle = parent_handle(number);
    const int descriptor =
        handle ? _open_osfhandle((intptr_t)handle, _O_BINARY | (*mode == 'r' ? _O_RDONLY : 0)) : -1;
    char binary[8];

    snprintf(binary, sizeof binary, "%.4sb", mode);
    return descriptor >= 0 ? _fdopen(descriptor, binary) : NULL;
}

ca_file ca_parent_pipe(long number)
{
    const HANDLE handle = number > 2 && number < 1024 ? parent_handle((int)number) : NULL;

    return handle && GetFileType(handle) == FILE_TYPE_PIPE ? (ca_file)handle : CA_NO_FILE;
}

/* The parent's job ends this process. */
bool ca_parent_lives(long parent)
{
    const HANDLE process = OpenProcess(SYNCHRONIZE, FALSE, (DWORD)parent);
    const bool lives = process && WaitForSingleObject(process, 0) == WAIT_TIMEOUT;

    if (process)
        CloseHandle(process);
    return lives;
}

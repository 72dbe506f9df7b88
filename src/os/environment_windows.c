/* SPDX-License-Identifier: Apache-2.0 */
#include "os/windows.h"

#include "os/environment.h"

#include <string.h>

const struct ca_cache_place ca_cache_places[CA_CACHE_PLACES] = {
    {"LOCALAPPDATA", "/clattn"},
    {NULL, NULL},
};

long ca_process_number(void)
{
    return (long)GetCurrentProcessId();
}

/* Values that were handed out; one that was the same before is handed out again. They stay until the process ends, and so
 * are of the system's heap: a lack of malloc()'s memory must not be taken for a variable that is not set. */
struct value {
    struct value *next;
    char text[];
};
static struct value *values;
static SRWLOCK guard = SRWLOCK_INIT;

enum { MOST_NAME = 128 };

static const char *keep(const wchar_t *wide)
{
    const int bytes = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    struct value *made =
        bytes > 0 ? HeapAlloc(GetProcessHeap(), 0, sizeof *made + (size_t)bytes) : NULL;
    struct value *value;

    if (!made)
        return NULL;
    WideCharToMultiByte(CP_UTF8, 0, wide, -1, made->text, bytes, NULL, NULL);
    AcquireSRWLockExclusive(&guard);
    for (value = values; value && strcmp(value->text, made->text) != 0; value = value->next)
        continue;
    if (value) {
        HeapFree(GetProcessHeap(), 0, made);
    } else {
        value = made;
        value->next = values;
        values = value;
    }
    ReleaseSRWLockExclusive(&guard);
    return value->text;
}

const char *ca_environment_value(const char *name)
{
    wchar_t wide[MOST_NAME], *value = NULL;
    const char *kept = NULL;

    if (MultiByteToWideChar(CP_UTF8, 0, name, -1, wide, MOST_NAME) <= 0)
        return NULL;
    const DWORD length = GetEnvironmentVariableW(wide, NULL, 0);
    if (length > 0)
        value = HeapAlloc(GetProcessHeap(), 0, (size_t)length * sizeof *value);
    if (value && GetEnvironmentVariableW(wide, value, length) < length)
        kept = keep(value);
    if (value)
        HeapFree(GetProcessHeap(), 0, value);
    return kept;
}

void *ca_opencl_symbol(const char *name)
{
    const HMODULE library = GetModuleHandleW(L"OpenCL.dll");

    return library ? (void *)(INT_PTR)GetProcAddress(library, name) : NULL;
}

bool ca_environment_is_borrowed(void)
{
    return false; /* Windows starts no program with the rights of its file's owner */
}

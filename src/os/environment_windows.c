/* SPDX-License-Identifier: Apache-2.0 */
#include "os/windows.h"

#include "os/environment.h"

#include <stdlib.h>
#include <string.h>

const struct ca_cache_place ca_cache_places[CA_CACHE_PLACES] = {
    {"LOCALAPPDATA", "/clattn"},
    {NULL, NULL},
};

long ca_process_number(void)
{
    return (long)GetCurrentProcessId();
}

/* Values that were handed out; one that was the same before is handed out again. */
struct value {
    struct value *next;
    char text[];
};
static struct value *values;
static SRWLOCK guard = SRWLOCK_INIT;

static const char *keep(const char *text)
{
    struct value *value;

    AcquireSRWLockExclusive(&guard);
    for (value = values; value && strcmp(value->text, text) != 0; value = value->next)
        continue;
    if (!value && (value = malloc(sizeof *value + strlen(text) + 1)) != NULL) {
        strcpy(value->text, text);
        value->next = values;
        values = value;
    }
    ReleaseSRWLockExclusive(&guard);
    return value ? value->text : NULL;
}

const char *ca_environment_value(const char *name)
{
    wchar_t *wide = ca_windows_wide(name), *value = NULL;
    const DWORD length = wide ? GetEnvironmentVariableW(wide, NULL, 0) : 0;
    const char *kept = NULL;

    if (length > 0)
        value = malloc((size_t)length * sizeof *value);
    if (value && GetEnvironmentVariableW(wide, value, length) < length) {
        char *text = ca_windows_narrow(value);
        kept = text ? keep(text) : NULL;
        free(text);
    }
    free(value);
    free(wide);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Wrappers of the allocation functions: see faults.h. */
#include "tests/faults/faults.h"

#include <errno.h>
#include <stdlib.h>

static int fails(const char *call)
{
    const int failed = faults_memory(call);

    if (failed)
        errno = ENOMEM;
    return failed;
}

/* The names are the linker's: --wrap=f calls __wrap_f() for f() and f() for __real_f(). */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    void *memory = fails("malloc") ? NULL : __real_malloc(size);

    faults_allocation(memory != NULL);
    return memory;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    void *memory = fails("calloc") ? NULL : __real_calloc(count, size);

    faults_allocation(memory != NULL);
    return memory;
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
    void *memory = fails("realloc") ? NULL : __real_realloc(old, size);

    faults_allocation(memory != NULL && old == NULL);
    return memory;
}

void __real_free(void *memory);
void __wrap_free(void *memory)
{
    faults_allocation(memory ? -1 : 0);
    __real_free(memory);
}

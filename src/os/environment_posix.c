/* SPDX-License-Identifier: Apache-2.0 */
#include "os/posix.h"

#include "os/environment.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__APPLE__)
const struct ca_cache_place ca_cache_places[CA_CACHE_PLACES] = {
    {"XDG_CACHE_HOME", "/clattn"},
    {"HOME", "/Library/Caches/clattn"},
};
#else
const struct ca_cache_place ca_cache_places[CA_CACHE_PLACES] = {
    {"XDG_CACHE_HOME", "/clattn"},
    {"HOME", "/.cache/clattn"},
};
#endif

long ca_process_number(void)
{
    return (long)getpid();
}

const char *ca_environment_value(const char *name)
{
    return getenv(name);
}

/* A library that was loaded for itself alone, as Python loads clattn's, is not in the scope of all: its file is asked. */
void *ca_opencl_symbol(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name), *known = dlsym(RTLD_DEFAULT, "clGetPlatformIDs");
    Dl_info place;

    if (!found && known && dladdr(known, &place) && place.dli_fname) {
        void *library = dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        found = library ? dlsym(library, name) : NULL;
        if (library)
            dlclose(library);
    }
    return found;
}

bool ca_environment_is_borrowed(void)
{
    return geteuid() != getuid() || getegid() != getgid();
}

#define _POSIX_C_SOURCE 200809L /* readlink */
#include "cli/own_folder.h"

#include <string.h>
#include <unistd.h>

void ca_own_folder(char folder[CA_OWN_FOLDER_BYTES])
{
    const ssize_t length = readlink("/proc/self/exe", folder, CA_OWN_FOLDER_BYTES - 1);

    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[1] = '\0';
    else
        folder[0] = '\0';
}

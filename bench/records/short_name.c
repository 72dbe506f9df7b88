#include "bench/records/short_name.h"
#include "internal.h"

#include <stdio.h>
#include <string.h>

/* Left out wherever they stand. */
static const char *const noise[] = {"(R)", "(TM)", "(C)", "NVIDIA ", "CPU "};

/* What follows these says how the device was built or clocked. */
static const char *const ends[] = {" (", "@", ",", " Graphics"};

/* The device's own name, cleaned, as much as fits whole words. */
static void clean(const char *name, char *text, size_t bytes)
{
    size_t length = 0, at = 0, limit = strlen(name);

    for (size_t n = 0; n < sizeof ends / sizeof *ends; n++) {
        const char *end = strstr(name, ends[n]);
        if (end != NULL && end != name && (size_t)(end - name) < limit)
            limit = (size_t)(end - name);
    }
    while (at < limit && length + 1 < bytes) {
        size_t skip = 0;
        for (size_t n = 0; n < sizeof noise / sizeof *noise && skip == 0; n++)
            if (strncmp(name + at, noise[n], strlen(noise[n])) == 0)
                skip = strlen(noise[n]);
        if (skip == 0 && !(name[at] == ' ' && (length == 0 || text[length - 1] == ' ')))
            text[length++] = name[at];
        at += skip > 0 ? skip : 1;
    }
    while (at < limit && name[at] != ' ' && length > 0 && memchr(text, ' ', length) != NULL &&
           text[length - 1] != ' ')
        length--; /* half a word */
    while (length > 0 && text[length - 1] == ' ')
        length--;
    text[length] = '\0';
}

/* Where many implementations run on one processor, they are what tells devices apart. */
static void name_one(const clattn_device_info *info, char text[SHORT_NAME])
{
    if (strcmp(info->platform_name, "Portable Computing Language") == 0)
        snprintf(text, SHORT_NAME, "PoCL %.*s", (int)strcspn(info->name, "- "), info->name);
    else if (strcmp(info->platform_name, "Intel(R) OpenCL") == 0 &&
             (info->type & CL_DEVICE_TYPE_CPU) != 0)
        snprintf(text, SHORT_NAME, "Intel OpenCL");
    else
        clean(info->name, text, SHORT_NAME);
    if (text[0] == '\0')
        snprintf(text, SHORT_NAME, "device");
    ca_make_printable(text);
}

/* Whether another device would be called the same. */
static bool has_twin(const struct run_results *results, size_t index, const char *name)
{
    char other[SHORT_NAME];

    for (size_t n = 0; n < results->count; n++) {
        name_one(&results->devices[n].info, other);
        if (n != index && strcmp(name, other) == 0)
            return true;
    }
    return false;
}

void short_names(const struct run_results *results, struct short_name *names)
{
    char number[8];

    for (size_t n = 0; n < results->count; n++) {
        char *name = names[n].text;
        name_one(&results->devices[n].info, name);
        if (!has_twin(results, n, name))
            continue;
        const int length =
            snprintf(number, sizeof number, " #%u", (unsigned)results->devices[n].index % 10000);
        const size_t room = SHORT_NAME - 1 - (size_t)length;
        strcpy(name + (strlen(name) < room ? strlen(name) : room), number);
    }
}

#include "base/structs.h"

#include <clattn/version.h>
#include <string.h>

/* No version adds as much to a struct: a size beyond is that of a struct that nobody has filled in. */
enum { MOST_NEW_BYTES = 4096 };

static size_t size_of(const void *given)
{
    size_t bytes;

    memcpy(&bytes, given, sizeof bytes);
    return bytes;
}

static int is_zero(const char *bytes, size_t count)
{
    while (count > 0 && *bytes == 0) {
        bytes++;
        count--;
    }
    return count == 0;
}

int ca_struct_fillable(const char *name, const void *given, size_t bytes, size_t least,
                       char why[CA_REASON_BYTES])
{
    const size_t size = given ? size_of(given) : 0;

    if (!given)
        ca_reason(why, CA_REASON_BYTES, "%s is null", name);
    else if (size < least || size > bytes + MOST_NEW_BYTES || size % sizeof size != 0)
        ca_reason(why, CA_REASON_BYTES,
                  "%s->struct_size is %zu, which no version has: sizeof *%s is %zu in "
                  "clattn " CLATTN_VERSION_STRING,
                  name, size, name, bytes);
    else
        return 1;
    return 0;
}

void ca_struct_fill(void *to, const void *from, size_t bytes)
{
    const size_t size = size_of(to), known = size < bytes ? size : bytes;

    memcpy((char *)to + sizeof size, (const char *)from + sizeof size, known - sizeof size);
    memset((char *)to + known, 0, size - known);
}

const void *ca_struct_read(const char *name, const void *given, size_t bytes, size_t least,
                           const void *defaults, void *own, char why[CA_REASON_BYTES])
{
    if (given && size_of(given) == bytes)
        return given;
    if (!ca_struct_fillable(name, given, bytes, least, why))
        return NULL;
    const size_t size = size_of(given), known = size < bytes ? size : bytes;
    if (size > bytes && !is_zero((const char *)given + bytes, size - bytes)) {
        ca_reason(why, CA_REASON_BYTES,
                  "%s is of a newer version, and sets something behind its first %zu bytes that "
                  "clattn " CLATTN_VERSION_STRING " does not know",
                  name, bytes);
        return NULL;
    }
    if (defaults)
        memcpy(own, defaults, bytes);
    else
        memset(own, 0, bytes);
    memcpy(own, given, known);
    memcpy(own, &bytes, sizeof bytes);
    return own;
}

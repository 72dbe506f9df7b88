#include "program/ptx.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the text of `length` bytes next has `what`; its end if nowhere. */
static size_t find(const char *text, size_t length, size_t from, const char *what)
{
    const size_t size = strlen(what);

    for (; from + size <= length; from++)
        if (memcmp(text + from, what, size) == 0)
            return from;
    return length;
}

clattn_status ca_ptx_retarget(const char *ptx, size_t bytes, const char *target, char **made,
                              size_t *made_bytes, char why[CA_REASON_BYTES])
{
    const size_t base = strlen(target) - 1; /* without the letter */
    char directive[32], comment[32];

    *made = NULL;
    snprintf(directive, sizeof directive, ".target %.*s", (int)base, target);
    snprintf(comment, sizeof comment, "//%s ", target);
    const size_t named = find(ptx, bytes, 0, directive) + strlen(directive);
    if (named >= bytes || isalnum((unsigned char)ptx[named])) {
        ca_reason(why, CA_REASON_BYTES, "what the driver hands out is not PTX for %.*s", (int)base,
                  target);
        return CLATTN_BUILD_FAILED;
    }
    if (find(ptx, bytes, 0, comment) == bytes) {
        ca_reason(why, CA_REASON_BYTES,
                  "the driver's PTX does not have the comments that hold instructions of %s",
                  target);
        return CLATTN_BUILD_FAILED;
    }
    char *text = malloc(bytes + 1);
    if (!text) {
        ca_reason(why, CA_REASON_BYTES, "no host memory for %zu bytes of PTX", bytes);
        return CLATTN_OUT_OF_MEMORY;
    }
    memcpy(text, ptx, named);
    text[named] = target[base];
    size_t length = named + 1;
    for (size_t at = named; at < bytes;) {
        const size_t next = find(ptx, bytes, at, comment);
        memcpy(text + length, ptx + at, next - at);
        length += next - at;
        at = next + strlen(comment);
    }
    *made = text;
    *made_bytes = length;
    return CLATTN_SUCCESS;
}

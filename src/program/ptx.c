/* SPDX-License-Identifier: Apache-2.0 */
#include "program/ptx.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Comments "//TARGET INSTRUCTION" and "//TARGET.entry DIRECTIVE" hold what only the target has: an instruction, or a directive
 * of the kernel around them. This follows the target in the latter. */
#define ENTRY ".entry "

/* The place of the next `what` in the text of `length` bytes; the text's end if there is none. */
static size_t find(const char *text, size_t length, size_t from, const char *what)
{
    const size_t size = strlen(what);

    for (; from + size <= length; from++)
        if (memcmp(text + from, what, size) == 0)
            return from;
    return length;
}

/* A text that grows. */
struct text {
    char *bytes;
    size_t length;
};

static void append(struct text *t, const char *bytes, size_t count)
{
    memcpy(t->bytes + t->length, bytes, count);
    t->length += count;
}

/* Puts a directive before the body of the kernel at the text's end. */
static void direct(struct text *t, const char *directive, size_t count)
{
    size_t body = t->length;

    while (body > 0 && (t->bytes[body - 1] != '{' || (body > 1 && t->bytes[body - 2] != '\n')))
        body--;
    if (body == 0)
        return;
    memmove(t->bytes + body + count, t->bytes + body - 1, t->length - body + 1);
    memcpy(t->bytes + body - 1, directive, count);
    t->bytes[body - 1 + count] = '\n';
    t->bytes[body + count] = '{';
    t->length += count + 1;
}

clattn_status ca_ptx_retarget(const char *ptx, size_t bytes, const char *target, char **made,
                              size_t *made_bytes, char why[CA_REASON_BYTES])
{
    const size_t base = strlen(target) - 1; /* without the letter */
    char directive[32], comment[32], comment_begin[32];

    *made = NULL;
    snprintf(directive, sizeof directive, ".target %.*s", (int)base, target);
    snprintf(comment, sizeof comment, "//%s ", target);
    snprintf(comment_begin, sizeof comment_begin, "//%s", target);
    const size_t named = find(ptx, bytes, 0, directive) + strlen(directive);
    if (named >= bytes || isalnum((unsigned char)ptx[named]))
        return ca_status_with(CLATTN_BUILD_FAILED, why, CA_REASON_BYTES,
                              "what the driver hands out is not PTX for %.*s", (int)base, target);
    if (find(ptx, bytes, 0, comment) == bytes) {
        return ca_status_with(
            CLATTN_BUILD_FAILED, why, CA_REASON_BYTES,
            "the driver's PTX does not have the comments that hold instructions of %s", target);
    }
    struct text t = {malloc(bytes + 1), 0}; /* a directive's comment is longer than its line end */
    if (!t.bytes)
        return ca_status_with(CLATTN_OUT_OF_MEMORY, why, CA_REASON_BYTES,
                              "no host memory for %zu bytes of PTX", bytes);
    append(&t, ptx, named);
    append(&t, &target[base], 1);
    for (size_t at = named; at < bytes;) {
        const size_t next = find(ptx, bytes, at, comment_begin);
        const char *const after = ptx + next + strlen(comment_begin);
        append(&t, ptx + at, next - at);
        at = next + strlen(comment_begin);
        if (next == bytes) {
            at = bytes;
        } else if (at < bytes && *after == ' ') {
            at++;
        } else if (bytes - at > strlen(ENTRY) && memcmp(after, ENTRY, strlen(ENTRY)) == 0) {
            const size_t end = find(ptx, bytes, at, "\n"), from = at + strlen(ENTRY);
            direct(&t, ptx + from, end - from);
            at = end;
        } else {
            append(&t, comment_begin, strlen(comment_begin));
        }
    }
    *made = t.bytes;
    *made_bytes = t.length;
    return CLATTN_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "instruction.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static int starts_one(const char *text, const char *const *with)
{
    while (*with && !starts(text, *with))
        with++;
    return *with != NULL;
}

/* The first of the parts that occurs in the first word of the text; its bytes. */
struct width {
    const char *part;
    unsigned bytes;
};

static unsigned width_of(const char *text, const struct width *widths, unsigned otherwise)
{
    const size_t word = strcspn(text, " \t;");

    for (; widths->part; widths++) {
        const char *at = strstr(text, widths->part);
        if (at && at < text + word)
            return widths->bytes;
    }
    return otherwise;
}

static void count_load(unsigned *loads, unsigned bytes)
{
    size_t n = 0;

    while (n + 1 < WIDTHS && 2u << n <= bytes)
        n++;
    loads[n]++;
}

/* ---- AMD -------------------------------------------------------------------------------------- */

/* Two operations that go together, packed or dual, count as two. Hints to the scheduler are not
 * counted: NVIDIA's are a part of the instructions. */
static void count_amd(const char *text, struct counts *c)
{
    static const char *const hints[] = {"s_delay_alu", "s_clause", NULL};
    static const char *const fma[] = {"v_fma",   "v_pk_fma", "v_dual_fma",
                                      "v_mac_f", "v_mad_f",  NULL};
    static const char *const matrix[] = {"v_wmma", "v_mfma", NULL};
    static const char *const local[] = {"ds_read", "ds_load", NULL};
    static const char *const global[] = {"global_load", "flat_load", NULL};
    /* What reads from two places gets half from each. */
    static const struct width widths[] = {{"read2st64_b64", 8},
                                          {"read2_b64", 8},
                                          {"2addr_stride64_b64", 8},
                                          {"2addr_b64", 8},
                                          {"read2", 4},
                                          {"2addr", 4},
                                          {"x4", 16},
                                          {"x3", 8},
                                          {"x2", 8},
                                          {"b128", 16},
                                          {"b96", 8},
                                          {"b64", 8},
                                          {"b32", 4},
                                          {"dword", 4},
                                          {"short", 2},
                                          {"16", 2},
                                          {"byte", 1},
                                          {"8", 1},
                                          {NULL, 0}};

    if (starts_one(text, hints))
        return;
    const unsigned operations = starts(text, "v_pk_") && !strstr(text, "f16") ? 2 : 1;
    c->all += operations;
    c->fma += starts_one(text, fma) ? operations : 0;
    c->matrix += starts_one(text, matrix);
    if (starts_one(text, local))
        count_load(c->local_loads, width_of(text, widths, 4));
    if (starts_one(text, global))
        count_load(c->global_loads, width_of(text, widths, 4));
    const char *second = strstr(text, " :: "); /* issued together */
    if (second)
        count_amd(second + 4, c);
}

/* ---- NVIDIA ----------------------------------------------------------------------------------- */

static void count_sass(const char *text, struct counts *c)
{
    static const char *const fma[] = {"FFMA", "HFMA2", NULL};
    static const char *const matrix[] = {"HMMA", "HGMMA", NULL};
    static const char *const local[] = {"LDS", NULL};
    static const char *const global[] = {"LDG", "LD.", NULL};
    static const struct width widths[] = {{".128", 16}, {".64", 8}, {".U16", 2}, {".S16", 2},
                                          {".U8", 1},   {".S8", 1}, {NULL, 0}};

    c->all++;
    c->fma += starts_one(text, fma);
    c->matrix += starts_one(text, matrix);
    if (starts_one(text, local))
        count_load(c->local_loads, starts(text, "LDSM") ? 16 : width_of(text, widths, 4));
    if (starts_one(text, global))
        count_load(c->global_loads, width_of(text, widths, 4));
}

static void count_ptx(const char *text, struct counts *c)
{
    static const char *const fma[] = {"fma.rn.f32", "mad.f32", NULL};
    static const char *const matrix[] = {"mma.sync", NULL};
    static const char *const local[] = {"ld.shared", "ld.volatile.shared", NULL};
    static const char *const global[] = {"ld.global", NULL};
    static const struct width sizes[] = {{"64", 8}, {"32", 4}, {"16", 2}, {"8", 1}, {NULL, 0}};
    static const struct width vectors[] = {{".v4", 4}, {".v2", 2}, {NULL, 0}};
    const unsigned bytes = width_of(text, vectors, 1) * width_of(text, sizes, 4);

    c->all++;
    c->fma += starts_one(text, fma);
    c->matrix += starts_one(text, matrix);
    if (starts_one(text, local))
        count_load(c->local_loads, bytes);
    if (starts(text, "ldmatrix"))
        count_load(c->local_loads, 16);
    if (starts_one(text, global))
        count_load(c->global_loads, bytes);
    if (starts(text, "cp.async.c")) /* to local memory, 16 bytes each */
        count_load(c->global_loads, 16);
}

/* ---- Intel ------------------------------------------------------------------------------------ */

/* Bytes that an item gets, by what the compiler says a message does: "untyped surface read with
 * xyzw", a letter for four bytes, or "byte gathering read 16b". */
static unsigned message_bytes(const char *message)
{
    const char *with = strstr(message, "read with "), *bits = strstr(message, "gathering read ");

    if (with)
        return 4 * (unsigned)strspn(with + 10, "xyzw");
    return bits ? (unsigned)strtoul(bits + 15, NULL, 10) / 8 : 0;
}

/* Messages with the last byte 0xfe go to local memory. What waits for others is no operation. */
static void count_xe(const char *text, struct counts *c)
{
    static const char *const waits[] = {"sync.", "nop", "join", NULL};
    const char *comment = strstr(text, "//"), *options = strchr(text, '{');
    const char *type = strstr(text, ":f");

    if (starts_one(text, waits))
        return;
    c->all++;
    c->fma += starts(text, "mad ") && type && (!comment || type < comment);
    c->matrix += starts(text, "dpas");
    const unsigned bytes = starts(text, "send") && comment ? message_bytes(comment) : 0;
    if (!bytes)
        return;
    while (options && options > text && isspace((unsigned char)options[-1]))
        options--;
    const int local = options && options - text > 2 && (strncmp(options - 2, "FE", 2) == 0);
    count_load(local ? c->local_loads : c->global_loads, bytes);
}

/* ---- all -------------------------------------------------------------------------------------- */

/* Behind NVIDIA's predicate. */
static const char *unconditional(const char *text)
{
    if (*text != '@')
        return text;
    text += strcspn(text, " \t");
    return text + strspn(text, " \t");
}

void instruction_count(enum dialect dialect, const char *text, struct counts *counts)
{
    if (dialect == DIALECT_AMD)
        count_amd(text, counts);
    else if (dialect == DIALECT_SASS)
        count_sass(unconditional(text), counts);
    else if (dialect == DIALECT_XE)
        count_xe(text, counts);
    else
        count_ptx(unconditional(text), counts);
}

/* Of "goto (8|M0) _0_12 _0_11" the last: where those go who do not go on here. */
static const char *last_label(const char *text)
{
    const char *last = NULL, *comment = strstr(text, "//");

    for (const char *at = text; (at = strpbrk(at, " \t")) != NULL && (!comment || at < comment);) {
        at += strspn(at, " \t");
        if (*at == 'L' || *at == '_')
            last = at;
    }
    return last;
}

int instruction_target(enum dialect dialect, const char *text, char label[LABEL_BYTES])
{
    static const struct {
        const char *branches[4];
        const char *label;
    } forms[] = {[DIALECT_AMD] = {{"s_cbranch", "s_branch", NULL}, ".LBB"},
                 [DIALECT_SASS] = {{"BRA", NULL, NULL}, ".L_"},
                 [DIALECT_PTX] = {{"bra", NULL, NULL}, "$L_"},
                 [DIALECT_XE] = {{"goto", "jmpi", "while", NULL}, NULL}};

    text = unconditional(text);
    if (!starts_one(text, forms[dialect].branches))
        return 0;
    const char *at = dialect == DIALECT_XE ? last_label(text) : strstr(text, forms[dialect].label);
    if (!at)
        return 0;
    size_t n = 0;
    for (; n + 1 < LABEL_BYTES && (isalnum((unsigned char)at[n]) || strchr("._$", at[n])) && at[n];
         n++)
        label[n] = at[n];
    label[n] = '\0';
    return 1;
}

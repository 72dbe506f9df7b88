/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"
#include "instruction.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 4096, MAX_LABELS = 4096 };

/* The kernel that is being read. */
struct body {
    struct counts *after; /* after each instruction: what has been counted so far */
    size_t count, capacity;
    struct label {
        char name[LABEL_BYTES];
        size_t at;      /* how many instructions come before */
    } * labels, *jumps; /* jumps: where they go to and where they are */
    size_t num_labels, num_jumps;
};

struct span {
    size_t begin, end; /* instructions */
};

static void *need(void *memory)
{
    if (!memory) {
        fprintf(stderr, "no memory\n");
        exit(2);
    }
    return memory;
}

static void body_open(struct body *b)
{
    memset(b, 0, sizeof *b);
    b->labels = need(calloc(MAX_LABELS, sizeof *b->labels));
    b->jumps = need(calloc(MAX_LABELS, sizeof *b->jumps));
}

static void body_close(struct body *b)
{
    free(b->after);
    free(b->labels);
    free(b->jumps);
}

static void body_add(struct body *b, enum dialect dialect, const char *text)
{
    struct counts now = b->count ? b->after[b->count - 1] : (struct counts){0};

    if (b->count == b->capacity) {
        b->capacity = b->capacity ? 2 * b->capacity : 4096;
        b->after = need(realloc(b->after, b->capacity * sizeof *b->after));
    }
    instruction_count(dialect, text, &now);
    if (b->num_jumps < MAX_LABELS && instruction_target(dialect, text, b->jumps[b->num_jumps].name))
        b->jumps[b->num_jumps++].at = b->count;
    b->after[b->count++] = now;
}

static void body_label(struct body *b, const char *name, size_t length)
{
    if (b->num_labels == MAX_LABELS || length >= LABEL_BYTES)
        return;
    memcpy(b->labels[b->num_labels].name, name, length);
    b->labels[b->num_labels].name[length] = '\0';
    b->labels[b->num_labels++].at = b->count;
}

/* ---- loops ------------------------------------------------------------------------------------ */

/* A jump back makes a loop; those to the same place make one. */
static size_t find_loops(const struct body *b, struct span *loops)
{
    size_t count = 0;

    for (size_t j = 0; j < b->num_jumps; j++)
        for (size_t l = 0; l < b->num_labels; l++) {
            const struct span s = {b->labels[l].at, b->jumps[j].at + 1};
            size_t n = 0;
            if (strcmp(b->labels[l].name, b->jumps[j].name) != 0 || s.begin >= s.end)
                continue;
            while (n < count && loops[n].begin != s.begin)
                n++;
            if (n == count)
                loops[count++] = s;
            else if (loops[n].end < s.end)
                loops[n].end = s.end;
        }
    return count;
}

static void subtract(struct counts *x, const struct counts *y)
{
    x->all -= y->all;
    x->fma -= y->fma;
    x->matrix -= y->matrix;
    for (size_t n = 0; n < WIDTHS; n++) {
        x->local_loads[n] -= y->local_loads[n];
        x->global_loads[n] -= y->global_loads[n];
    }
}

static struct counts counts_of(const struct body *b, const struct span *s)
{
    struct counts c = b->after[s->end - 1];

    if (s->begin)
        subtract(&c, &b->after[s->begin - 1]);
    return c;
}

/* Whether a loop multiplies what was staged. Loads of the next stage may be among it. */
static int is_product(const struct counts *loop)
{
    unsigned local_loads = 0, global_loads = 0;

    for (size_t n = 0; n < WIDTHS; n++) {
        local_loads += loop->local_loads[n];
        global_loads += loop->global_loads[n];
    }
    return local_loads > 0 && (loop->fma >= 16 || loop->matrix > 0) &&
           (global_loads == 0 || 2 * loop->fma > loop->all || loop->matrix > 0);
}

static int has_product_inside(const struct body *b, const struct span *loops, size_t count,
                              size_t which)
{
    for (size_t n = 0; n < count; n++) {
        const struct counts c = counts_of(b, &loops[n]);
        if (n != which && loops[n].begin >= loops[which].begin &&
            loops[n].end <= loops[which].end && is_product(&c))
            return 1;
    }
    return 0;
}

static void body_finish(const struct body *b, struct kernel *k)
{
    struct span *loops = need(calloc(MAX_LABELS, sizeof *loops));
    const size_t count = find_loops(b, loops);

    if (b->count)
        k->counts = b->after[b->count - 1];
    for (size_t n = 0; n < count && k->num_products < MAX_PRODUCTS; n++) {
        const struct counts c = counts_of(b, &loops[n]);
        if (is_product(&c) && !has_product_inside(b, loops, count, n))
            k->products[k->num_products++] = c;
    }
    free(loops);
}

/* ---- files ------------------------------------------------------------------------------------ */

struct reader {
    enum dialect dialect;
    struct kernel *kernels;
    size_t count;
    struct body body;
    int inside;             /* a kernel's instructions are being read */
    struct kernel metadata; /* AMD's of a kernel, at the end of the file */
};

static void clear(struct kernel *k)
{
    memset(k, 0, sizeof *k);
    k->registers = k->spills = k->local_bytes = k->private_bytes = NOT_KNOWN;
}

static void finish(struct reader *r)
{
    if (r->inside && r->count < MAX_KERNELS) {
        r->kernels[r->count].dialect = r->dialect;
        body_finish(&r->body, &r->kernels[r->count++]);
    }
    if (r->inside)
        body_close(&r->body);
    r->inside = 0;
}

static void begin(struct reader *r, const char *name)
{
    finish(r);
    body_open(&r->body);
    r->inside = 1;
    if (r->count < MAX_KERNELS) {
        clear(&r->kernels[r->count]);
        snprintf(r->kernels[r->count].name, sizeof r->kernels->name, "%s", name);
    }
}

/* What Intel's compiler says of a kernel stands in comments before its instructions; the number of
 * lanes our script has added. Registers are vectors of 8 words, and spilled bytes those of all
 * lanes. */
static void read_comment(struct reader *r, const char *text)
{
    struct kernel *now = &r->kernels[r->count];
    char name[64];
    long number;

    if (sscanf(text, "//.kernel %63s", name) == 1)
        begin(r, name);
    if (!r->inside || r->count == MAX_KERNELS)
        return;
    if (sscanf(text, "//.lanes %u", &now->lanes) == 1)
        now->spills = 0;
    if (sscanf(text, "//.thread_config numGRF=%ld", &number) == 1 && now->lanes)
        now->registers = number * 8 / now->lanes;
    if (sscanf(text, "//.spill size %ld", &number) == 1 && now->lanes)
        now->spills = (number / 4 + now->lanes - 1) / now->lanes;
}

/* Whether the line tells where a kernel begins or ends. */
static int read_frame(struct reader *r, const char *text)
{
    char name[64];
    const char *entry = strstr(text, ".entry ");

    if (r->dialect == DIALECT_XE && strncmp(text, "//.", 3) == 0) {
        read_comment(r, text);
        return 1;
    }
    if (r->dialect == DIALECT_SASS && strncmp(text, ".section\t", 9) == 0) {
        finish(r);
        if (sscanf(text, ".section .text.%63[^, ]", name) == 1)
            begin(r, name);
        return 1;
    }
    if (r->dialect == DIALECT_PTX && entry && sscanf(entry, ".entry %63[^( ]", name) == 1) {
        begin(r, name);
        return 1;
    }
    if (r->dialect != DIALECT_AMD)
        return 0;
    if (strncmp(text, ".amdhsa_kernel", 14) == 0)
        finish(r);
    else if (text[0] != '.' && sscanf(text, "%63[A-Za-z0-9_]%*1[:]", name) == 1 &&
             text[strlen(name)] == ':')
        begin(r, name);
    else
        return 0;
    return 1;
}

static void read_metadata(struct reader *r, const char *line)
{
    struct kernel *now = &r->metadata;
    const struct {
        const char *key;
        long *value;
    } fields[] = {{"group_segment_fixed_size", &now->local_bytes},
                  {"private_segment_fixed_size", &now->private_bytes},
                  {"vgpr_count", &now->registers},
                  {"vgpr_spill_count", &now->spills}};
    char key[64], value[64];

    /* Deeper lines are of arguments. */
    if (strncmp(line, "    .", 5) != 0 || sscanf(line, " .%63[a-z_]: %63s", key, value) != 2)
        return;
    if (strcmp(key, "name") == 0)
        snprintf(now->name, sizeof now->name, "%s", value);
    for (size_t n = 0; n < sizeof fields / sizeof *fields; n++)
        if (strcmp(key, fields[n].key) == 0)
            *fields[n].value = strtol(value, NULL, 10);
    if (strcmp(key, "vgpr_spill_count") != 0) /* the last of a kernel's */
        return;
    for (size_t n = 0; n < r->count; n++)
        if (strcmp(r->kernels[n].name, now->name) == 0) {
            r->kernels[n].registers = now->registers;
            r->kernels[n].spills = now->spills;
            r->kernels[n].local_bytes = now->local_bytes;
            r->kernels[n].private_bytes = now->private_bytes;
        }
}

/* Without the blanks, braces, comments and conditions before it, and the end of the line. */
static char *trimmed(char *line, const enum dialect dialect)
{
    char *end;

    line[strcspn(line, "\r\n")] = '\0';
    line += strspn(line, " \t{");
    while (strncmp(line, "/*", 2) == 0 && (end = strstr(line, "*/")) != NULL)
        line = end + 2 + strspn(end + 2, " \t{");
    if (dialect == DIALECT_XE && *line == '(' && (end = strchr(line, ')')) != NULL)
        line = end + 1 + strspn(end + 1, " \t"); /* which lanes do it */
    return line;
}

static void read_line(struct reader *r, char *line)
{
    if (r->dialect == DIALECT_AMD)
        read_metadata(r, line);
    const char *text = trimmed(line, r->dialect);
    const size_t word = strcspn(text, " \t:;");

    if (read_frame(r, text) || !r->inside)
        return;
    if (text[word] == ':' && text[word + 1] != ':')
        body_label(&r->body, text, word);
    else if (text[0] && !strchr(".;#/}()", text[0]))
        body_add(&r->body, r->dialect, text);
}

size_t assembly_read(const char *path, enum dialect dialect, struct kernel kernels[MAX_KERNELS])
{
    static char line[LINE_BYTES];
    struct reader r = {.dialect = dialect, .kernels = kernels};
    FILE *file = fopen(path, "r");

    if (!file)
        return 0;
    clear(&r.metadata);
    while (fgets(line, sizeof line, file))
        read_line(&r, line);
    finish(&r);
    fclose(file);
    return r.count;
}

int assembly_read_ptxas(const char *path, struct kernel *kernels, size_t count)
{
    static char line[LINE_BYTES];
    struct kernel *now = NULL;
    char name[64];
    size_t known = 0;
    FILE *file = fopen(path, "r");

    if (!file)
        return 0;
    while (fgets(line, sizeof line, file)) {
        const char *entry = strstr(line, "entry function '"), *used = strstr(line, "Used ");
        const char *stack = strstr(line, " bytes spill stores, ");
        const char *smem = strstr(line, " bytes smem");
        long frame, stores, loads;
        if (entry && sscanf(entry, "entry function '%63[^']", name) == 1) {
            now = NULL;
            for (size_t n = 0; n < count; n++)
                if (strcmp(kernels[n].name, name) == 0)
                    now = &kernels[n];
        }
        if (now && stack &&
            sscanf(line, " %ld bytes stack frame, %ld bytes spill stores, %ld bytes spill loads",
                   &frame, &stores, &loads) == 3) {
            now->private_bytes = frame;
            now->spills = (stores + loads + 3) / 4;
        }
        if (!now || !used || sscanf(used, "Used %ld registers", &now->registers) != 1)
            continue;
        while (smem && smem > line && strchr("0123456789", smem[-1]))
            smem--;
        now->local_bytes = smem ? strtol(smem, NULL, 10) : 0;
        known++;
    }
    fclose(file);
    return known == count;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-support --parse TEXT...: says which texts are no problems, for what pages show (doc/check.py).
 * clattn-support PROFILE.json: doc/guide/support.md, which says what each family computes, as clattn_plan_supports() tells
 * it. The profile of a GPU with matrix units stands in for a device, so that the page is the same everywhere: units that
 * such a device lacks count as if it had them, since their emulation has their limits. */
#include "problem/options.def"
#include <clattn/clattn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Words of an option, behind those that it needs. The options of options.def follow by themselves. */
static const char *const forward_options[] = {
    "",
    "causal=br",
    "window=63,0",
    "softcap=30",
    "bias=f32:qk",
    "mask=bhqk",
    "lse mask=qk maskkeys=64",
    "dropout=0.1",
    "score=t5",
    "visible=documents",
    "blocks=64x64:8",
    "topk=64",
    "page=16 klen",
    "totalq=512 totalkv=512 klen",
    "layout=bshd",
    "kcache=f32 vcache=f32",
    "kcache=f16 vcache=f16",
    "kcache=bf16 vcache=bf16",
    "kcache=q8_0 vcache=q8_0",
    "kcache=q4_0 vcache=q4_0",
    "kcache=q5_0 vcache=q5_0",
    "kcache=iq4_nl vcache=iq4_nl",
    "kcache=q4_1 vcache=q4_1",
    "kcache=q5_1 vcache=q5_1",
    "kcache=e4m3 vcache=e4m3",
    "kcache=e5m2 vcache=e5m2",
    "kcache=int8 vcache=int8",
    "scores=raw",
    "lse scores=mean",
};
static const char *const backward_options[] = {
    "",
    "causal=br",
    "window=63,0",
    "softcap=30",
    "bias=f32:qk",
    "mask=bhqk",
    "dropout=0.1",
    "score=t5",
    "visible=documents",
    "blocks=64x64:8",
    "topk=64",
    "totalq=512 totalkv=512 klen",
    "layout=bshd",
};
/* What an option of options.def needs beside it. */
static const char *const needs[][2] = {{"symmetric", "alibi"},     {"keysums", "lse"},
                                       {"topkheads", "topk=64"},   {"dbias", "bias=f32:qk"},
                                       {"dslopes", "alibi"},       {"dsinks", "sinks"},
                                       {"dfunction", "score=t5"},  {"kscales", "kcache=e4m3"},
                                       {"vscales", "vcache=e4m3"}, {NULL, NULL}};
/* Columns of a table: families, whose units have a column each, of CPUs or of GPUs. */
static const struct table {
    clattn_operation operation;
    const char *title, *begin[4];
} tables[] = {
    {CLATTN_FORWARD, "Forward on CPUs", {"fused_cpu", "split_cpu", "unfused_lanes", "naive"}},
    {CLATTN_FORWARD, "Forward on GPUs", {"fused_gpu", "split_gpu", "unfused", "naive"}},
    {CLATTN_BACKWARD, "Gradients", {"backward_cpu", "backward_gpu", NULL, NULL}},
};
static const char *const dtypes[] = {"f32", "f16", "bf16"};

static int is_of(const char *name, const char *family)
{
    const size_t bytes = strlen(family);

    return strncmp(name, family, bytes) == 0 && (name[bytes] == 0 || name[bytes] == ' ');
}

static int supports(const clattn_context *context, const char *operation, const char *dtype,
                    const char *words, const char *family)
{
    char text[256];
    clattn_problem problem;
    const clattn_plan_options options = {.struct_size = sizeof options, .family = family};

    snprintf(text, sizeof text, "%s %s b2 h4/2 q512 k512 d64 %s", operation, dtype, words);
    return clattn_problem_parse(text, &problem, NULL, 0) == CLATTN_SUCCESS &&
           clattn_plan_supports(context, &problem, &options) == CLATTN_SUCCESS;
}

/* Rows of a table: what each column says, and the options of which that is so. */
static struct row {
    char cells[512], options[2048];
    size_t count;
} rows[64];
static size_t row_count;

static void append(char *text, size_t bytes, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + used, bytes - used, format, arguments);
    va_end(arguments);
}

static void add_row(const clattn_context *context, const struct table *table, const char *words)
{
    const char *operation = table->operation == CLATTN_FORWARD ? "fwd" : "bwd", *name;
    char cells[sizeof rows->cells] = "";
    size_t at_row = 0;

    for (size_t n = 0; n < 4 && table->begin[n] != NULL; n++)
        for (size_t at = 0; (name = clattn_family_name(table->operation, at)) != NULL; at++)
            if (is_of(name, table->begin[n])) {
                int count = 0, works[3];
                for (int d = 0; d < 3; d++)
                    count += works[d] = supports(context, operation, dtypes[d], words, name);
                for (int d = 0, first = 1; d < 3; d++)
                    if (works[d] && count < 3) {
                        append(cells, sizeof cells, "%s%s", first ? " " : ", ", dtypes[d]);
                        first = 0;
                    }
                append(cells, sizeof cells, "%s",
                       count == 3   ? " all |"
                       : count == 0 ? " - |"
                                    : " |");
            }
    while (at_row < row_count && strcmp(rows[at_row].cells, cells) != 0)
        at_row++;
    struct row *row = &rows[at_row];
    if (at_row == row_count) {
        row_count++;
        strcpy(row->cells, cells);
        row->options[0] = 0;
        row->count = 0;
    }
    row->count++;
    if (words[0])
        append(row->options, sizeof row->options, "%s`%s`", row->options[0] ? ", " : "", words);
    else
        append(row->options, sizeof row->options, "no option");
}

static void add_flag(const clattn_context *context, const struct table *table, const char *word)
{
    char words[64];
    const char *before = "";

    for (size_t n = 0; needs[n][0] != NULL; n++)
        if (strcmp(needs[n][0], word) == 0)
            before = needs[n][1];
    snprintf(words, sizeof words, "%s%s%s", before, before[0] ? " " : "", word);
    if (table->operation == CLATTN_FORWARD || supports(context, "bwd", "f32", words, NULL))
        add_row(context, table, words);
}

/* Rows of more than two options have a letter, and a list of them below the table. */
static void print_rows(void)
{
    char letter = 'A';

    for (size_t n = 0; n < row_count; n++)
        if (rows[n].count <= 2)
            printf("| %s |%s\n", rows[n].options, rows[n].cells);
        else
            printf("| **%c** |%s\n", letter++, rows[n].cells);
    puts("");
    letter = 'A';
    for (size_t n = 0; n < row_count; n++)
        if (rows[n].count > 2) {
            size_t column = (size_t)printf("* **%c**:", letter++);
            const char *rest = rows[n].options;
            while (rest != NULL) {
                const char *end = strstr(rest, ", ");
                const size_t bytes = end == NULL ? strlen(rest) : (size_t)(end - rest) + 1;
                if (column + 1 + bytes > 120)
                    column = (size_t)printf("\n ") - 1;
                column += (size_t)printf(" %.*s", (int)bytes, rest);
                rest = end == NULL ? NULL : end + 2;
            }
            puts("");
        }
}

static void print_table(const clattn_context *context, const struct table *table)
{
    const int forward = table->operation == CLATTN_FORWARD;
    const char *const *options = forward ? forward_options : backward_options;
    const size_t count = forward ? sizeof forward_options / sizeof *forward_options
                                 : sizeof backward_options / sizeof *backward_options;
    size_t columns = 0;

    printf("\n## %s\n\n| |", table->title);
    for (size_t n = 0; n < 4 && table->begin[n] != NULL; n++) {
        const char *name;
        for (size_t at = 0; (name = clattn_family_name(table->operation, at)) != NULL; at++)
            if (is_of(name, table->begin[n])) {
                printf(" `%s` |", name);
                columns++;
            }
    }
    printf("\n|---|");
    while (columns-- > 0)
        printf("---|");
    puts("");
    row_count = 0;
    for (size_t n = 0; n < count; n++)
        add_row(context, table, options[n]);
#define IN_ATTENTION(word) add_flag(context, table, word);
#define IN_BACKWARD(word)                                                                          \
    if (!forward)                                                                                  \
        add_flag(context, table, word);
#define FLAG(ID, member, word, OF, difference)                                                     \
    CA_IF_ATTENTION(OF, IN_ATTENTION(word)) CA_IF_BACKWARD(OF, IN_BACKWARD(word))
    CA_FLAGS(FLAG)
    print_rows();
}

/* The operations that have few options: each family that computes a problem, with its dtypes. */
static void print_others(const clattn_context *context)
{
    static const struct {
        clattn_operation operation;
        const char *name, *begin, *end;
    } others[] = {
        {CLATTN_PROJECTION, "projections", "proj", "h2/1 q64 d64"},
        {CLATTN_MERGE, "merges", "merge", "h2 q64 d64 n4"},
        {CLATTN_APPEND, "appends", "append", "h2 q4 k64 d64 klen"},
        {CLATTN_DOUBLE_BACKWARD, "gradients of gradients", "bwd2", "h2 q64 d64"},
        {CLATTN_INDEXER, "indexers", "indexer", "h2 q64 d64 topk=16"},
        {CLATTN_INDEXER, "gradients of indexers", "indexer", "h2 q64 d64 topk=16 gradients"},
    };
    const char *name;

    puts("\n## Other operations\n\n| operation | family | dtypes |\n|---|---|---|");
    for (size_t n = 0; n < sizeof others / sizeof *others; n++)
        for (size_t at = 0; (name = clattn_family_name(others[n].operation, at)) != NULL; at++) {
            char row[256] = "";
            for (int d = 0; d < 3; d++) {
                char text[96];
                clattn_problem problem;
                const clattn_plan_options options = {.struct_size = sizeof options, .family = name};

                snprintf(text, sizeof text, "%s %s %s", others[n].begin, dtypes[d], others[n].end);
                if (clattn_problem_parse(text, &problem, NULL, 0) == CLATTN_SUCCESS &&
                    clattn_plan_supports(context, &problem, &options) == CLATTN_SUCCESS)
                    append(row, sizeof row, " %s", dtypes[d]);
            }
            if (row[0])
                printf("| %s | `%s` |%s |\n", others[n].name, name, row);
        }
}

static int parse(int count, char **texts)
{
    int bad = 0;

    for (int n = 0; n < count; n++) {
        char why[512];
        clattn_problem problem;
        if (clattn_problem_parse(texts[n], &problem, why, sizeof why) != CLATTN_SUCCESS) {
            printf("'%s': %s\n", texts[n], why);
            bad = 1;
        }
    }
    return bad;
}

int main(int argc, char **argv)
{
    static char text[1 << 16];
    char why[512] = "it cannot be read";
    clattn_device_info info;
    clattn_context *context;
    if (argc > 1 && strcmp(argv[1], "--parse") == 0)
        return parse(argc - 2, argv + 2);
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    const size_t bytes = file != NULL ? fread(text, 1, sizeof text, file) : 0;
    const clattn_context_options options = {.struct_size = sizeof options, .profile = &info};

    if (file != NULL)
        fclose(file);
    info.struct_size = sizeof info;
    if (bytes == 0 ||
        clattn_device_profile_parse(text, bytes, &info, why, sizeof why) != CLATTN_SUCCESS) {
        fprintf(stderr, "usage: clattn-support PROFILE.json: %s\n", why);
        return 2;
    }
    if (clattn_context_create(NULL, NULL, &options, &context) != CLATTN_SUCCESS) {
        fprintf(stderr, "%s\n", clattn_context_last_error(NULL));
        return 1;
    }
    puts(
        "# What is supported\n\n"
        "A row of a table is an option ([options.md](options.md)), or a letter for the options "
        "that are listed below the table.\n"
        "A column is a family with one of its units. A cell lists the unit's "
        "dtypes: all three, some, or none (`-`).\n"
        "A problem is refused only where a whole row has none, since a plan takes a unit that "
        "can compute it.\n"
        "`clattn-bench plan PROBLEM --family 'FAMILY'` says why a family refuses. `clattn-support` "
        "(`doc/support.c`) prints this\n"
        "page, and a test compares it.");
    for (size_t n = 0; n < sizeof tables / sizeof *tables; n++)
        print_table(context, &tables[n]);
    print_others(context);
    clattn_context_release(context);
    return 0;
}

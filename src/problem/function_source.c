/* SPDX-License-Identifier: Apache-2.0 */
#include "problem/function_source.h"
#include "base/log.h"
#include "os/file.h"
#include "problem/function_derivative.h"
#include "problem/function_distance.h"
#include "problem/function_library.def"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All functions that were made. Nothing is ever taken out of the list. */
static _Atomic(struct clattn_function *) all_functions;

/* ---- reading a source ------------------------------------------------------------------------ */

/* The rest of a source, which is still to be read. */
struct reader {
    const char *at, *end;
};

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && isspace((unsigned char)*r->at))
        r->at++;
}

/* Reads a word of letters, digits and underlines; false if there is none or it is too long. */
static int read_word(struct reader *r, char word[CA_FUNCTION_WORD])
{
    size_t length = 0;

    skip_blanks(r);
    while (r->at < r->end && (isalnum((unsigned char)*r->at) || *r->at == '_')) {
        if (length + 1 >= CA_FUNCTION_WORD)
            return 0;
        word[length++] = *r->at++;
    }
    word[length] = '\0';
    return length > 0;
}

static int read_sign(struct reader *r, char sign)
{
    skip_blanks(r);
    if (r->at >= r->end || *r->at != sign)
        return 0;
    r->at++;
    return 1;
}

static int is_name(const char *word)
{
    return isalpha((unsigned char)word[0]) || word[0] == '_';
}

static int is_taken(const struct clattn_function *f, const char *name)
{
    for (size_t n = 0; n < f->num_operands; n++)
        if (strcmp(f->operands[n].name, name) == 0)
            return 1;
    for (size_t n = 0; n < f->num_parameters; n++)
        if (strcmp(f->parameter_names[n], name) == 0)
            return 1;
    return 0;
}

static int read_extent(struct reader *r, struct ca_function_operand *o)
{
    char word[CA_FUNCTION_WORD];

    if (o->num_extents == CA_FUNCTION_EXTENTS || !read_word(r, word) || !read_sign(r, ']'))
        return 0;
    struct ca_function_extent *extent = &o->extents[o->num_extents++];
    if (strlen(word) == 1 && strchr("bhgqk", word[0])) {
        extent->letter = word[0];
    } else {
        char *end;
        extent->number = strtoul(word, &end, 10);
        if (*end || strlen(word) > 18 || extent->number == 0)
            return 0;
    }
    const size_t used = strlen(o->extents_text);
    snprintf(o->extents_text + used, sizeof o->extents_text - used, "[%.20s]", word);
    return 1;
}

/* "float table[h][64]"; NULL on success, else what is wrong. */
static const char *read_operand(struct reader *r, struct clattn_function *f)
{
    char type[CA_FUNCTION_WORD], name[CA_FUNCTION_WORD];
    size_t number = 0;

    if (f->num_operands == CLATTN_FUNCTION_OPERANDS)
        return "there are more than six operands";
    if (!read_word(r, type) || !read_word(r, name) || !is_name(name))
        return "an operand needs a type and a name";
    while (number <= CLATTN_FUNCTION_UCHAR &&
           strcmp(ca_function_type_of((clattn_function_type)number)->word, type) != 0)
        number++;
    if (number > CLATTN_FUNCTION_UCHAR)
        return "the type of an operand is float, half, bfloat, int, char or uchar";
    if (is_taken(f, name))
        return "the name is declared twice";
    struct ca_function_operand *o = &f->operands[f->num_operands];
    o->type = (clattn_function_type)number;
    memcpy(o->name, name, sizeof name);
    while (read_sign(r, '['))
        if (!read_extent(r, o))
            return "an extent is a positive number or one of b, h, g, q and k, at most eight in "
                   "all";
    if (o->num_extents == 0)
        return "an operand needs extents, such as [h][64]";
    f->num_operands++;
    return NULL;
}

/* "int window = 512"; NULL on success, else what is wrong. */
static const char *read_parameter(struct reader *r, struct clattn_function *f)
{
    char type[CA_FUNCTION_WORD], name[CA_FUNCTION_WORD], value[64] = "";
    char *end = value;

    if (!read_word(r, type) || !read_word(r, name) || !is_name(name) || !read_sign(r, '='))
        return "a parameter needs a type, a name and a value, such as int window = 512";
    const int is_float = strcmp(type, "float") == 0;
    if (!is_float && strcmp(type, "int") != 0)
        return "the type of a parameter is int or float";
    size_t *const count = is_float ? &f->num_floats : &f->num_ints;
    if (*count == CLATTN_FUNCTION_PARAMETERS)
        return "there are more than four parameters of a type";
    if (is_taken(f, name))
        return "the name is declared twice";
    skip_blanks(r);
    const size_t length = (size_t)(r->end - r->at);
    if (length == 0 || length >= sizeof value)
        return "the value of a parameter cannot be read";
    memcpy(value, r->at, length);
    r->at = r->end;
    clattn_function_parameter *p = &f->parameters[f->num_parameters];
    *p = (clattn_function_parameter){
        .struct_size = sizeof *p, .is_float = is_float, .number = (*count)++};
    if (is_float)
        p->float_value = strtof(value, &end);
    else
        p->int_value = (int32_t)strtol(value, &end, 10);
    if (is_float && (*end == 'f' || *end == 'F'))
        end++;
    while (isspace((unsigned char)*end))
        end++;
    if (*end || end == value)
        return "the value of a parameter cannot be read";
    memcpy(f->parameter_names[f->num_parameters], name, sizeof name);
    p->name = f->parameter_names[f->num_parameters++];
    return NULL;
}

/* A line of the source, from its '#' on. Its text is blanked in `compiled` if it is a declaration. */
static const char *read_directive(struct reader line, struct clattn_function *f, char *compiled)
{
    char word[CA_FUNCTION_WORD];
    const char *mistake;

    line.at++;
    struct reader r = line;
    if (!read_word(&r, word))
        return NULL;
    if (strcmp(word, "include") == 0)
        return "a function may not include files";
    if (strcmp(word, "pragma") != 0 || !read_word(&r, word) || strcmp(word, "clattn") != 0)
        return NULL;
    if (!read_word(&r, word))
        word[0] = '\0';
    if (strcmp(word, "operand") == 0)
        mistake = read_operand(&r, f);
    else if (strcmp(word, "parameter") == 0)
        mistake = read_parameter(&r, f);
    else
        mistake = "a declaration is of an operand or a parameter";
    skip_blanks(&r);
    if (!mistake && r.at != r.end)
        mistake = "the declaration is followed by other text";
    memset(compiled, ' ', (size_t)(line.end - line.at + 1));
    return mistake;
}

/* The end of a comment or a text that begins at `at`; `at` if there is none. */
static const char *end_of_text(const char *at)
{
    const char quote = *at;

    if (strncmp(at, "//", 2) == 0)
        return at + strcspn(at, "\n");
    if (strncmp(at, "/*", 2) == 0) {
        const char *end = strstr(at + 2, "*/");
        return end ? end + 2 : at + strlen(at);
    }
    if (quote != '"' && quote != '\'')
        return at;
    for (at++; *at && *at != quote && *at != '\n'; at++)
        at += *at == '\\' && at[1];
    return *at == quote ? at + 1 : at;
}

/* Skips what belongs to no word: blanks and comments. */
static void skip_comments(struct reader *r)
{
    const char *end;

    for (skip_blanks(r); r->at < r->end && (end = end_of_text(r->at)) != r->at; skip_blanks(r))
        r->at = end;
}

/* Whether parameters of these types, which a blank separates, follow: "(float s, const pair p)" of "float pair". */
static int are_parameters(const char *at, const char *types)
{
    struct reader r = {at, at + strlen(at)};
    char word[CA_FUNCTION_WORD], type[CA_FUNCTION_WORD];

    for (struct reader wanted = {types, types + strlen(types)}; read_word(&wanted, type);) {
        skip_comments(&r);
        if (!read_sign(&r, wanted.at - strlen(type) == types ? '(' : ','))
            return 0;
        do
            skip_comments(&r);
        while (read_word(&r, word) && strcmp(word, "const") == 0);
        if (strcmp(word, type) != 0)
            return 0;
        skip_comments(&r);
        if (read_word(&r, word) && strcmp(word, "const") == 0) {
            skip_comments(&r);
            read_word(&r, word);
        }
    }
    skip_comments(&r);
    return read_sign(&r, ')');
}

/* Which functions the source defines: names before a parenthesis, outside of braces and parentheses. */
struct defined {
    int score, derivative, visible;
};

/* Whether a word is a name with an ending. */
static int is_ending(const char *word, size_t length, const char *name, const char *ending)
{
    const size_t first = strlen(name);

    return length == first + strlen(ending) && memcmp(word, name, first) == 0 &&
           memcmp(word + first, ending, length - first) == 0;
}

/* NULL on success, else what is wrong. Macros and types of the source's own may stand for parameters: then the compiler
 * judges. */
static const char *find_definition(const char *word, size_t length, const char *after,
                                   struct clattn_function *f, struct defined *d)
{
    static const char score[] = "score", derivative[] = "score_derivative", visible[] = "visible";
    const int is_score = is_ending(word, length, score, "");
    const int is_derivative = is_ending(word, length, derivative, "");
    const int is_visible = is_ending(word, length, visible, "");
    const int plain = !strstr(f->source, "define") && !strstr(f->source, "typedef");

    if (after[strspn(after, " \t\r\n")] != '(')
        return NULL;
    if (plain && is_score && !are_parameters(after, "float pair operands"))
        return "score() is declared as float score(float s, pair p, operands o)";
    if (plain && is_derivative && !are_parameters(after, "float pair operands"))
        return "score_derivative() is declared as float score_derivative(float s, pair p, operands "
               "o)";
    if (plain && is_visible && !are_parameters(after, "pair operands"))
        return "visible() is declared as bool visible(pair p, operands o)";
    d->score |= is_score;
    d->derivative |= is_derivative;
    d->visible |= is_visible;
    for (struct ca_function_operand *o = f->operands; o < f->operands + f->num_operands; o++) {
        o->has_index |= is_ending(word, length, o->name, "_index");
        o->has_derivative |= is_ending(word, length, o->name, "_derivative");
    }
    return NULL;
}

/* Adds the loads of the floats whose functions the source defines. */
static void add_loads(struct clattn_function *f)
{
    for (size_t n = 0; n < f->num_operands; n++) {
        struct ca_function_operand *o = &f->operands[n];
        o->by_hand = o->has_index && o->has_derivative && ca_function_type_is_float(o->type);
        if (!o->by_hand)
            continue;
        struct ca_function_load *load = &f->loads[f->num_loads++];
        load->operand = n;
        snprintf(load->index, sizeof load->index, "%s_index", o->name);
        snprintf(load->derivative, sizeof load->derivative, "%s_derivative", o->name);
    }
}

/* Reads declarations and definitions. NULL on success, else what is wrong on *line. */
static const char *read_source(struct clattn_function *f, struct defined *d, size_t *line)
{
    int depth = 0, begins = 1; /* begins: nothing but blanks precedes on the line */
    const char *at = f->source;

    *line = 1;
    while (*at) {
        const char *end = end_of_text(at);
        if (end != at) {
            for (const int comment = *at == '/'; at < end; at++) {
                *line += *at == '\n';
                if (comment && *at != '\n')
                    f->compiled[at - f->source] = ' ';
            }
            continue;
        }
        if (*at == '#' && begins) {
            const struct reader r = {at, at + strcspn(at, "\n")};
            const char *mistake = read_directive(r, f, f->compiled + (at - f->source));
            if (mistake)
                return mistake;
            at = r.end;
            continue;
        }
        if (isalpha((unsigned char)*at) || *at == '_') {
            const char *word = at;
            while (isalnum((unsigned char)*at) || *at == '_')
                at++;
            const char *mistake =
                depth == 0 ? find_definition(word, (size_t)(at - word), at, f, d) : NULL;
            if (mistake)
                return mistake;
            begins = 0;
            continue;
        }
        depth += *at == '{' || *at == '(';
        depth -= *at == '}' || *at == ')';
        *line += *at == '\n';
        begins = *at == '\n' || (begins && isspace((unsigned char)*at));
        at++;
    }
    if (d->score && d->visible)
        return "a source defines score() or visible(), not both";
    if (!d->score && !d->visible)
        return "the source defines neither score() nor visible()";
    if (d->derivative && !d->score)
        return "score_derivative() needs a score()";
    if (d->score)
        add_loads(f);
    return NULL;
}

/* ---- making ---------------------------------------------------------------------------------- */

static struct clattn_function *find(unsigned long long hash, const char *source)
{
    struct clattn_function *f = atomic_load(&all_functions);

    while (f && (f->hash != hash || strcmp(f->source, source) != 0))
        f = f->next;
    return f;
}

static int is_function_name(const char *name)
{
    const size_t length = strlen(name);

    for (size_t n = 0; n < length; n++)
        if (!isalnum((unsigned char)name[n]) && !strchr("._-/", name[n]))
            return 0;
    return length > 0 && length <= CA_FUNCTION_NAME;
}

static void discard(struct clattn_function *f)
{
    free(f->derived);
    free(f->derived_loads);
    free(f->compiled);
    free(f);
}

/* Puts it into the list, unless an equal one is there by then. */
static const clattn_function *publish(struct clattn_function *f)
{
    struct clattn_function *first = atomic_load(&all_functions);

    do {
        const struct clattn_function *other = find(f->hash, f->source);
        if (other) {
            discard(f);
            return other;
        }
        f->next = first;
    } while (!atomic_compare_exchange_weak(&all_functions, &first, f));
    return f;
}

/* own: it is a function of the library, whose name needs no hash. */
static clattn_status create(const char *name, const char *source, int own,
                            const clattn_function **function, char *reason, size_t bytes)
{
    struct defined defined = {0};
    size_t line;

    if (!name || !source || !function)
        return ca_status_with(CLATTN_INVALID_ARGUMENT, reason, bytes,
                              "name, source or function is null");
    if (!is_function_name(name))
        return ca_status_with(CLATTN_INVALID_ARGUMENT, reason, bytes,
                              "the name of a function has 1 to %d letters, digits and \"._-/\"",
                              CA_FUNCTION_NAME);
    const size_t length = strlen(source);
    const unsigned long long hash = XXH3_64bits(source, length);
    *function = find(hash, source);
    if (*function)
        return CLATTN_SUCCESS;
    struct clattn_function *f = calloc(1, sizeof *f + length + 1);
    char *compiled = malloc(length + 1);
    if (!f || !compiled) {
        free(f);
        free(compiled);
        return ca_status_with(CLATTN_OUT_OF_MEMORY, reason, bytes,
                              "no host memory for a function of %zu bytes", length);
    }
    f->hash = hash;
    f->compiled = compiled;
    memcpy(f->source, source, length + 1);
    memcpy(f->compiled, source, length + 1);
    if (own)
        snprintf(f->name, sizeof f->name, "%s", name);
    else
        snprintf(f->name, sizeof f->name, "%s:%016llx", name, hash);
    const char *mistake = read_source(f, &defined, &line);
    if (mistake) {
        ca_reason(reason, bytes, "%s, line %zu: %s", name, line, mistake);
        discard(f);
        return CLATTN_INVALID_PROBLEM;
    }
    f->kind = defined.score ? CLATTN_SCORE_FUNCTION : CLATTN_MASK_FUNCTION;
    f->has_derivative = defined.derivative;
    if (defined.score && !(ca_function_derive(f) && ca_function_find_distance(f))) {
        discard(f);
        return ca_status_with(CLATTN_OUT_OF_MEMORY, reason, bytes,
                              "no host memory for the derivative of a function");
    }
    *function = publish(f);
    return CLATTN_SUCCESS;
}

clattn_status clattn_function_create(const char *name, const char *source,
                                     const clattn_function **function, char *reason,
                                     size_t reason_bytes)
{
    char why[CA_LOG_BYTES] = "";

    if (function)
        *function = NULL;
    return ca_give_reason(create(name, source, 0, function, why, sizeof why), why, reason,
                          reason_bytes);
}

/* The text of a file; NULL if it cannot be read, or has a byte of 0. */
static char *read_text(const char *path)
{
    enum { MOST = 1 << 20 };
    FILE *stream = ca_stream_open(path, "rb");
    char *text = stream ? malloc(MOST) : NULL;
    const size_t bytes = text ? fread(text, 1, MOST, stream) : 0;

    if (stream && (ferror(stream) || !text || bytes == MOST || memchr(text, 0, bytes))) {
        free(text);
        text = NULL;
    }
    if (stream)
        fclose(stream);
    if (text)
        text[bytes] = '\0';
    return text;
}

/* The source of a function of the library, by its name; NULL if it has none. */
static const char *library_source(const char *name)
{
#define FUNCTION(name) extern const char ca_function_source_##name[];
    CA_FUNCTION_LIBRARY(FUNCTION)
#undef FUNCTION
#define FUNCTION(name) {#name, ca_function_source_##name},
    static const struct {
        const char *name, *source;
    } library[] = {CA_FUNCTION_LIBRARY(FUNCTION)};
#undef FUNCTION

    for (size_t n = 0; n < sizeof library / sizeof *library; n++)
        if (strcmp(library[n].name, name) == 0)
            return library[n].source;
    return NULL;
}

static clattn_status read_file(const char *path, const clattn_function **function, char *reason,
                               size_t bytes)
{
    if (!path || !function)
        return ca_status_with(CLATTN_INVALID_ARGUMENT, reason, bytes, "path or function is null");
    const char *own = library_source(path);
    if (own)
        return create(path, own, 1, function, reason, bytes);
    char *source = read_text(path);
    if (!source)
        return ca_status_with(CLATTN_FILE_ERROR, reason, bytes,
                              "'%s' is no function of the library, and no file with a text of less "
                              "than a megabyte",
                              path);
    const clattn_status status = create(path, source, 0, function, reason, bytes);
    free(source);
    return status;
}

clattn_status clattn_function_read(const char *path, const clattn_function **function, char *reason,
                                   size_t reason_bytes)
{
    char why[CA_LOG_BYTES] = "";

    if (function)
        *function = NULL;
    return ca_give_reason(read_file(path, function, why, sizeof why), why, reason, reason_bytes);
}

clattn_status ca_function_of_name(const char *name, const clattn_function **function, char *reason,
                                  size_t reason_bytes)
{
    const size_t length = strcspn(name, ":");
    const char *const colon = name[length] ? name + length : NULL;
    char path[CA_FUNCTION_NAME + 1], *end;
    clattn_status status;

    *function = NULL;
    const unsigned long long hash = colon ? strtoull(colon + 1, &end, 16) : 0;
    for (const struct clattn_function *f = atomic_load(&all_functions); f && colon; f = f->next) {
        if (f->hash == hash) {
            *function = f;
            return CLATTN_SUCCESS;
        }
    }
    if (length > CA_FUNCTION_NAME)
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, reason_bytes,
                              "the name of a function is longer than %d letters", CA_FUNCTION_NAME);
    memcpy(path, name, length);
    path[length] = '\0';
    if ((status = read_file(path, function, reason, reason_bytes)) != CLATTN_SUCCESS)
        return status;
    if (!colon || (*function)->hash == hash)
        return CLATTN_SUCCESS;
    ca_reason(reason, reason_bytes, "'%s' has changed: it is now '%s'", name, (*function)->name);
    *function = NULL;
    return CLATTN_INVALID_PROBLEM;
}

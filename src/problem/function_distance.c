/* SPDX-License-Identifier: Apache-2.0 */
#include "problem/function_distance.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SUMS = 16 };

/* A word, a number or a sign of the source. */
struct token {
    const char *at;
    size_t length;
};

struct reading {
    struct token *tokens; /* some without length follow the last */
    size_t count;
    struct token pair;
    struct token
        sums[MOST_SUMS]; /* variables that are the score plus what depends on the distance */
    size_t num_sums;
    int hides;
};

static int is_word_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static void read_tokens(struct reading *r, const char *at)
{
    while (at += strspn(at, " \t\r\n"), *at) {
        const char *const begin = at++;
        while (is_word_letter(*begin) &&
               (is_word_letter(*at) || (*at == '.' && isdigit((unsigned char)*begin))))
            at++;
        r->tokens[r->count++] = (struct token){begin, (size_t)(at - begin)};
    }
    r->tokens[r->count] = (struct token){at, 0};
}

static int is(struct token token, const char *text)
{
    return token.length == strlen(text) && memcmp(token.at, text, token.length) == 0;
}

static int is_one_of(struct token token, const char *signs)
{
    return token.length == 1 && strchr(signs, *token.at) != NULL;
}

static int are_equal(struct token a, struct token b)
{
    return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

static int is_sum(const struct reading *r, struct token token)
{
    for (size_t n = 0; n < r->num_sums; n++)
        if (are_equal(r->sums[n], token))
            return 1;
    return 0;
}

/* Reads "const TYPE const NAME"; the number of the token after it, 0 if it is something else. */
static size_t read_parameter(const struct reading *r, size_t n, const char *type,
                             struct token *name)
{
    n += is(r->tokens[n], "const");
    if (!is(r->tokens[n], type))
        return 0;
    n++;
    n += is(r->tokens[n], "const");
    *name = r->tokens[n];
    return n + (r->tokens[n].length > 0);
}

/* Reads the parameters of a definition of score(), whose name is token n; the number of the token after its "{", 0 if it is
 * none. */
static size_t read_head(struct reading *r, size_t n)
{
    static const char *const types[] = {"float", "pair", "operands"};
    struct token operands, *const names[] = {&r->sums[0], &r->pair, &operands};

    if (!is(r->tokens[n], "score") || !is(r->tokens[n + 1], "("))
        return 0;
    n += 2;
    for (int m = 0; m < 3; m++) {
        n = read_parameter(r, n, types[m], names[m]);
        if (n == 0 || !is(r->tokens[n], m < 2 ? "," : ")"))
            return 0;
        n++;
    }
    r->num_sums = 1;
    return is(r->tokens[n], "{") ? n + 1 : 0;
}

/* Whether token n, the pair, is that of a member which all pairs of a head have, or of the difference of its positions in an
 * integer expression. Then *n becomes its last token. */
static int reads_distance(const struct reading *r, size_t *n)
{
    static const char *const shared[] = {"batch",    "head",        "kv_head", "own_batch",
                                         "own_head", "own_kv_head", "queries", "keys"};
    const struct token *const t = r->tokens + *n, before = t[-1];

    if (!is(t[1], "."))
        return 0;
    for (size_t m = 0; m < sizeof shared / sizeof *shared; m++)
        if (is(t[2], shared[m])) {
            *n += 2;
            return 1;
        }
    const int own = is(t[2], "own_query") || is(t[2], "own_key");
    const int key_first = is(t[2], "key") || is(t[2], "own_key");
    if (!own && !key_first && !is(t[2], "query"))
        return 0;
    const char *const other =
        own ? (key_first ? "own_query" : "own_key") : (key_first ? "query" : "key");
    *n += 6;
    return (is_one_of(before, "(,=?:<>&|") || is(before, "return")) && is(t[3], "-") &&
           are_equal(t[4], r->pair) && is(t[5], ".") && is(t[6], other) &&
           is_one_of(t[7], "),;?:<>=!&|+-") && !(is_one_of(t[7], "&|") && !are_equal(t[7], t[8]));
}

/* The first token from n on that ends an expression. */
static size_t end_of_expression(const struct reading *r, size_t n)
{
    int depth = 0;

    for (; n < r->count; n++) {
        depth += is_one_of(r->tokens[n], "([");
        depth -= is_one_of(r->tokens[n], ")]");
        if (depth < 0 || (depth == 0 && is_one_of(r->tokens[n], ",;")))
            break;
    }
    return n;
}

static size_t count_sums(const struct reading *r, size_t n, size_t end)
{
    size_t count = 0;

    for (; n < end; n++)
        count += (size_t)is_sum(r, r->tokens[n]);
    return count;
}

/* Whether the expression adds to a sum: "s", "s + ...", "s - ..." or "... + s". */
static int adds_to_sum(const struct reading *r, size_t n, size_t end)
{
    const int first =
        is_sum(r, r->tokens[n]) && (n + 1 == end || is_one_of(r->tokens[n + 1], "+-"));
    const int last = is_sum(r, r->tokens[end - 1]) && end > n + 2 && is(r->tokens[end - 2], "+");
    int depth = 0;

    if (count_sums(r, n, end) != 1 || (!first && !last))
        return 0;
    for (; n < end; n++) {
        depth += is_one_of(r->tokens[n], "([");
        depth -= is_one_of(r->tokens[n], ")]");
        if (depth == 0 && is_one_of(r->tokens[n], "<>=!?:&|^"))
            return 0;
    }
    return 1;
}

/* Reads "return ..."; whether it is understood. *n becomes the token that ends it. */
static int read_return(struct reading *r, size_t *n)
{
    const size_t begin = *n + 1, end = end_of_expression(r, begin);

    *n = end;
    if (end == begin + 2 && is(r->tokens[begin], "-") && is(r->tokens[begin + 1], "INFINITY"))
        return r->hides = 1;
    return end > begin && adds_to_sum(r, begin, end);
}

/* Reads "float x = ..., y = ..." as far as sums are concerned. */
static int read_floats(struct reading *r, size_t *n)
{
    do {
        const struct token name = r->tokens[++*n];
        if (is_sum(r, name) || !is(r->tokens[*n + 1], "="))
            return !is_sum(r, name) && !is(r->tokens[*n + 1], "[");
        const size_t begin = *n + 2, end = end_of_expression(r, begin);
        *n = end;
        if (count_sums(r, begin, end) > 0) {
            if (!adds_to_sum(r, begin, end) || r->num_sums == MOST_SUMS)
                return 0;
            r->sums[r->num_sums++] = name;
        }
    } while (is(r->tokens[*n], ","));
    return 1;
}

/* Reads a statement "s += ...;" or "s -= ...;". */
static int read_addition(const struct reading *r, size_t *n)
{
    const struct token *const t = r->tokens + *n;
    const size_t begin = *n + 3, end = end_of_expression(r, begin);

    if (!(is_one_of(t[-1], ";{})") || is(t[-1], "else")) || !is_one_of(t[1], "+-") ||
        !is(t[2], "=") || !is(r->tokens[end], ";"))
        return 0;
    *n = end;
    return count_sums(r, begin, end) == 0;
}

/* Reads the body of score() from token n on. */
static int read_body(struct reading *r, const size_t first)
{
    int depth = 1, understood = 1;
    size_t end = first;

    for (; end < r->count && depth > 0; end++) {
        depth += is(r->tokens[end], "{");
        depth -= is(r->tokens[end], "}");
    }
    for (size_t n = first; n < end && understood; n++)
        if (are_equal(r->tokens[n], r->pair))
            understood = reads_distance(r, &n);
    for (size_t n = first; n < end && understood; n++) {
        if (is(r->tokens[n], "return"))
            understood = read_return(r, &n);
        else if (is(r->tokens[n], "float") && !is(r->tokens[n + 1], ")"))
            understood = read_floats(r, &n);
        else if (is_sum(r, r->tokens[n]))
            understood = read_addition(r, &n);
    }
    return understood;
}

int ca_function_find_distance(struct clattn_function *f)
{
    struct reading *r = calloc(1, sizeof *r);
    struct token *tokens = calloc(strlen(f->compiled) + 8, sizeof *tokens);
    const int made = r && tokens;
    int depth = 0;

    if (made && !strchr(f->compiled, '#')) { /* macros may hide anything */
        r->tokens = tokens;
        read_tokens(r, f->compiled);
        for (size_t n = 0; n < r->count && !f->of_distance; n++) {
            const size_t body = depth == 0 ? read_head(r, n) : 0;
            if (body > 0 && !read_body(r, body))
                break;
            f->of_distance = body > 0;
            f->hides_distances = r->hides;
            f->loads_of_distance = f->of_distance;
            for (size_t m = 0; m < f->num_operands; m++)
                f->loads_of_distance &= !f->operands[m].by_hand;
            depth += is_one_of(tokens[n], "({");
            depth -= is_one_of(tokens[n], ")}");
        }
    }
    free(r);
    free(tokens);
    return made;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "problem/text/parse_values.h"
#include "problem/layout.h"
#include "problem/problem.h"
#include "problem/text/problem_words.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ca_parse_pair(const char *text, size_t *first, size_t *second)
{
    if (!ca_parse_size(&text, first))
        return 0;
    size_t other = *first;
    if (*text == '/') {
        text++;
        if (!ca_parse_size(&text, &other))
            return 0;
    }
    if (second)
        *second = other;
    return *text == '\0' && (second || other == *first);
}

int ca_parse_float(const char *text, float *value)
{
    char copy[64], *end;
    const char *point = localeconv()->decimal_point;
    const char *mark = strchr(text, '.');
    const int before = mark ? (int)(mark - text) : (int)strlen(text);

    if (!isdigit((unsigned char)text[*text == '-']) || text[strspn(text, "+-.0123456789eE")])
        return 0;
    if (snprintf(copy, sizeof copy, "%.*s%s%s", before, text, mark ? point : "",
                 mark ? mark + 1 : "") >= (int)sizeof copy)
        return 0;
    *value = strtof(copy, &end);
    return *end == '\0' && isfinite(*value);
}

int ca_parse_name(const char *text, const char *const *names, size_t count, int *value)
{
    for (size_t n = 0; n < count; n++) {
        if (strcmp(names[n], text) == 0) {
            *value = (int)n;
            return 1;
        }
    }
    return 0;
}

/* Four numbers with points between them. */
static int parse_strides(const char *text, clattn_layout *layout)
{
    for (int n = 0; n < 4; n++) {
        if (n > 0 && *text++ != '.')
            return 0;
        if (!ca_parse_size(&text, &layout->stride[n]))
            return 0;
    }
    return *text == '\0';
}

int ca_parse_layout(const char *text, const size_t sizes[4], clattn_layout *layout)
{
    if (!ca_layout_is_order(text))
        return parse_strides(text, layout);
    ca_layout_pack(text, sizes, layout);
    return 1;
}

int ca_parse_weights(const char *value, clattn_projection_problem *p)
{
    const size_t sizes[4] = {p->x_heads, p->x_dim, p->y_heads, p->y_dim};

    if (strcmp(value, "io") != 0 && strcmp(value, "oi") != 0)
        return parse_strides(value, &p->w);
    ca_layout_pack(*value == 'i' ? "bhsd" : CA_OUT_IN, sizes, &p->w);
    return 1;
}

int ca_parse_spanning(const char *text, const clattn_problem *p, size_t columns,
                      clattn_layout *layout)
{
    if (parse_strides(text, layout))
        return 1;
    for (unsigned axes = 15; axes > 0; axes--) {
        char letters[5];
        ca_spanning_layout(p, columns, axes, letters, layout);
        if (strcmp(text, letters) == 0)
            return 1;
    }
    return 0;
}

int ca_parse_scales(const char *text, const size_t sizes[4], clattn_layout *layout)
{
    if (parse_strides(text, layout))
        return 1;
    for (unsigned axes = 7; axes > 0; axes--) {
        char letters[5];
        ca_scales_layout(sizes, axes, letters, layout);
        if (strcmp(text, letters) == 0)
            return 1;
    }
    return 0;
}

int ca_parse_step(const char **text, int64_t *step)
{
    size_t value;

    if (**text == '*') {
        ++*text;
        *step = CLATTN_UNLIMITED;
        return 1;
    }
    if (!ca_parse_size(text, &value) || value > CA_MAX_SIZE)
        return 0;
    *step = (int64_t)value;
    return 1;
}

int ca_parse_diagonal(const char *text, clattn_diagonal *diagonal, int64_t *offset)
{
    const int negative = *text == '-';
    size_t value;

    if (strcmp(text, "tl") == 0 || strcmp(text, "br") == 0) {
        *diagonal = *text == 't' ? CLATTN_TOP_LEFT : CLATTN_BOTTOM_RIGHT;
        return 1;
    }
    text += negative;
    if (!ca_parse_size(&text, &value) || *text != '\0' || value > CA_MAX_SIZE)
        return 0;
    *diagonal = CLATTN_OFFSET;
    *offset = negative ? -(int64_t)value : (int64_t)value;
    return 1;
}

int ca_parse_dtype(const char *text, clattn_dtype *dtype)
{
    int value;

    if (!ca_parse_name(text, ca_dtype_names, CA_NUM_DTYPES, &value))
        return 0;
    *dtype = (clattn_dtype)value;
    return 1;
}

int ca_parse_cache(const char *text, clattn_cache *cache)
{
    int value;

    if (!ca_parse_name(text, ca_cache_names, CA_NUM_CACHES, &value) || value == CLATTN_CACHE_PLAIN)
        return 0;
    *cache = (clattn_cache)value;
    return 1;
}

int ca_parse_rope(const char *text, clattn_append_problem *p)
{
    static const char tables[] = "tables:";
    const char *colon = strchr(text, ':');
    char name[16];
    int value;

    if (!colon || colon - text >= (int)sizeof name)
        return 0;
    snprintf(name, sizeof name, "%.*s", (int)(colon - text), text);
    if (!ca_parse_name(name, ca_rotary_names, CA_ROTARY_NAMES, &value) ||
        value == CLATTN_ROTARY_NONE)
        return 0;
    p->rotary = (clattn_rotary)value;
    text = colon + 1;
    if (!ca_parse_size(&text, &p->rotary_dim) || *text++ != ':')
        return 0;
    if (strncmp(text, tables, strlen(tables)) != 0)
        return ca_parse_float(text, &p->rotary_base);
    text += strlen(tables);
    return ca_parse_size(&text, &p->rotary_length) && *text == '\0' && p->rotary_length > 0;
}

int ca_parse_blocks(const char *text, clattn_problem *p)
{
    if (!ca_parse_size(&text, &p->block_q) || *text++ != 'x' ||
        !ca_parse_size(&text, &p->block_kv) || *text++ != ':' ||
        !ca_parse_size(&text, &p->max_blocks))
        return 0;
    p->block_batches = strcmp(text, ":b") == 0 || strcmp(text, ":bh") == 0;
    p->block_heads = strcmp(text, ":h") == 0 || strcmp(text, ":bh") == 0;
    return p->block_q != 0 && (*text == '\0' || p->block_batches || p->block_heads);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "problem/text/problem_words.h"
#include "problem/layout.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

const char *const ca_operation_names[CA_NUM_OPERATIONS] = {
#define OPERATION(ID, name, word, ...) [CLATTN_##ID] = word,
    CA_OPERATIONS(OPERATION)
#undef OPERATION
};
const char *const ca_dtype_names[CA_NUM_DTYPES] = {
#define DTYPE(ID, word, bytes) [CLATTN_##ID] = word,
    CA_DTYPES(DTYPE)
#undef DTYPE
};
const char *const ca_scores_names[CA_SCORES_NAMES] = {"none", "raw",     "softcap",
                                                      "bias", "weights", "mean"};
const char *const ca_cache_names[CA_NUM_CACHES] = {[CLATTN_CACHE_PLAIN] = "plain",
#define FORMAT(ID, number, name, ...) [CLATTN_CACHE_##ID] = #name,
                                                   CA_BLOCK_FORMATS(FORMAT, )
#undef FORMAT
#define DTYPE(ID, word, bytes) [CLATTN_CACHE_##ID] = word,
                                                       CA_DTYPES(DTYPE)
#undef DTYPE
};
const char *const ca_rotary_names[CA_ROTARY_NAMES] = {"none", "pairs", "halves"};

struct ca_size_words ca_size_words(clattn_problem *p)
{
    static struct ca_size_words (*const of[])(clattn_problem *) = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = ca_##name##_sizes,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    return of[p->operation](p);
}

const struct ca_layout_word *ca_layout_words(clattn_operation operation)
{
    static const struct ca_layout_word *const of[] = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = ca_##name##_layouts,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    return of[operation];
}

const struct ca_layout_word ca_attention_layouts[] = {
    {CA_Q, "q"},   {CA_K, "k"},   {CA_V, "v"},   {CA_O, "o"}, {CA_DO, "do"},
    {CA_DQ, "dq"}, {CA_DK, "dk"}, {CA_DV, "dv"}, {0, NULL},
};

struct ca_size_words ca_attention_sizes(clattn_problem *p)
{
    return (struct ca_size_words){.dtype = &p->dtype,
                                  .b = &p->batch,
                                  .h = &p->heads,
                                  .second_h = &p->kv_heads,
                                  .q = &p->seq_q,
                                  .k = &p->seq_kv,
                                  .d = &p->dim_qk,
                                  .second_d = &p->dim_v,
                                  .page_size = &p->page_size,
                                  .pages = &p->pages};
}

/* The layout of some of the axes, with these names. */
static void name_axes(const char *names, const size_t sizes[4], unsigned axes, char letters[5],
                      clattn_layout *layout)
{
    for (unsigned n = 0; n < 4; n++)
        if (axes & 1u << n)
            *letters++ = names[n];
    *letters = '\0';
    for (unsigned n = 0; n < 4; n++)
        if (sizes[n] == 1)
            axes &= ~(1u << n); /* a single element broadcasts */
    ca_layout_spread(axes, sizes, layout);
}

void ca_spanning_layout(const clattn_problem *p, size_t columns, unsigned axes, char letters[5],
                        clattn_layout *layout)
{
    name_axes("bhqk", (size_t[]){p->batch, p->heads, p->seq_q, columns}, axes, letters, layout);
}

void ca_scales_layout(const size_t sizes[4], unsigned axes, char letters[5], clattn_layout *layout)
{
    name_axes("bhk", sizes, axes & 7, letters, layout);
}

int ca_parse_size(const char **text, size_t *value)
{
    char *end;

    if (!isdigit((unsigned char)**text))
        return 0;
    errno = 0;
    const unsigned long long number = strtoull(*text, &end, 10);
    if (errno == ERANGE || number > SIZE_MAX)
        return 0;
    *text = end;
    *value = (size_t)number;
    return 1;
}

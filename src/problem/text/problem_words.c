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
    clattn_projection_problem *y = &p->projection;
    clattn_merge_problem *m = &p->merge;
    clattn_append_problem *a = &p->append;
    clattn_double_backward_problem *g = &p->double_backward;
    clattn_indexer_problem *x = &p->indexer;

    switch (p->operation) {
    case CLATTN_PROJECTION:
        return (struct ca_size_words){.dtype = &y->dtype,
                                      .b = &y->batch,
                                      .h = &y->y_heads,
                                      .second_h = &y->x_heads,
                                      .q = &y->rows,
                                      .d = &y->x_dim,
                                      .second_d = &y->y_dim};
    case CLATTN_MERGE:
        return (struct ca_size_words){.dtype = &m->dtype,
                                      .b = &m->batch,
                                      .h = &m->heads,
                                      .q = &m->seq_q,
                                      .d = &m->dim,
                                      .n = &m->states};
    case CLATTN_APPEND:
        return (struct ca_size_words){.dtype = &a->dtype,
                                      .b = &a->batch,
                                      .h = &a->heads,
                                      .second_h = &a->kv_heads,
                                      .q = &a->tokens,
                                      .k = &a->capacity,
                                      .d = &a->dim_qk,
                                      .second_d = &a->dim_v};
    case CLATTN_DOUBLE_BACKWARD:
        return (struct ca_size_words){.dtype = &g->dtype,
                                      .b = &g->batch,
                                      .h = &g->heads,
                                      .second_h = &g->kv_heads,
                                      .q = &g->seq_q,
                                      .k = &g->seq_kv,
                                      .d = &g->dim_qk,
                                      .second_d = &g->dim_v};
    case CLATTN_INDEXER:
        return (struct ca_size_words){.dtype = &x->dtype,
                                      .b = &x->batch,
                                      .h = &x->heads,
                                      .q = &x->seq_q,
                                      .k = &x->seq_kv,
                                      .d = &x->dim};
    default:
        return (struct ca_size_words){.dtype = &p->dtype,
                                      .b = &p->batch,
                                      .h = &p->heads,
                                      .second_h = &p->kv_heads,
                                      .q = &p->seq_q,
                                      .k = &p->seq_kv,
                                      .d = &p->dim_qk,
                                      .second_d = &p->dim_v};
    }
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

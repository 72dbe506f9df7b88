/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the cases of operations beside attention share. */
#include "selfcheck/case_parts.h"
#include "selfcheck/answer_row.h"
#include "selfcheck/values.h"

#include <stdlib.h>
#include <string.h>

void ca_trust_fill_elements(struct ca_trust_case *c, unsigned argument, clattn_dtype dtype,
                            float low, float high, unsigned *state)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(&c->problem, tensors);
    const struct ca_tensor *t = &tensors[argument];
    const size_t *sizes = t->sizes;
    if (!t->present)
        return;
    for (size_t n = 0; n < sizes[0] * sizes[1] * sizes[2] * sizes[3]; n++)
        ca_value_store(c->bytes[argument] + CA_TRUST_GUARD, dtype,
                       ca_trust_position(&t->layout, n / sizes[3] / sizes[2] / sizes[1],
                                         n / sizes[3] / sizes[2] % sizes[1],
                                         n / sizes[3] % sizes[2], n % sizes[3]),
                       low + (high - low) * (0.5f + 0.5f * ca_value_next(state)));
}

int ca_trust_keep_before(struct ca_trust_case *c)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(&c->problem, tensors);
    for (size_t n = 0; n < CA_WORKSPACE; n++) {
        if (!tensors[n].present || tensors[n].written != CA_UPDATED)
            continue;
        c->before[n] = malloc(c->sizes[n]);
        if (!c->before[n])
            return 0;
        memcpy(c->before[n], c->bytes[n], c->sizes[n]);
    }
    return 1;
}

clattn_layout ca_trust_gapped(const int order[4], const size_t sizes[4], size_t innermost,
                              size_t gap)
{
    clattn_layout layout;
    size_t step = innermost;

    for (int n = 3; n >= 0; n--) {
        layout.stride[order[n]] = step;
        step = step * sizes[order[n]] + gap;
    }
    return layout;
}

clattn_layout ca_trust_keep_unit(const clattn_layout *real, size_t b, size_t h, size_t rows,
                                 size_t dim)
{
    return ca_trust_gapped((const int[]){0, 1, 2, 3}, (size_t[]){b, h, rows, dim},
                           real->stride[3] == 1 ? 1 : 2, CA_TRUST_GAP);
}

cl_int ca_trust_number(const struct ca_trust_case *c, unsigned argument, size_t n)
{
    cl_int number;

    memcpy(&number, ca_trust_elements(c, argument) + n * sizeof number, sizeof number);
    return number;
}

void ca_trust_set_number(struct ca_trust_case *c, unsigned argument, size_t n, int64_t number)
{
    const cl_int entry = (cl_int)number;

    if (c->bytes[argument])
        memcpy(c->bytes[argument] + CA_TRUST_GUARD + n * sizeof entry, &entry, sizeof entry);
}

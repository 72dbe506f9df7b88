/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of operation CLATTN_MERGE: the functions that problem.c and problem_class.c call for
 * them. */
#include "base/log.h"
#include "problem/classes/class_size.h"
#include "problem/layout.h"
#include "problem/operations.h"
#include "problem/tensors.h"
#include "problem/text/problem_words.h"

/* Rows and states in a representative. */
enum { MOST_ROWS = 1 << 20, MOST_STATES = 64 };

const clattn_merge_problem ca_merge_initial = {
    .states = 1, .batch = 1, .heads = 1, .seq_q = 1, .dim = 1};

struct ca_size_words ca_merge_sizes(clattn_problem *p)
{
    return (struct ca_size_words){.dtype = &p->merge.dtype,
                                  .b = &p->merge.batch,
                                  .h = &p->merge.heads,
                                  .q = &p->merge.seq_q,
                                  .d = &p->merge.dim,
                                  .n = &p->merge.states};
}

const struct ca_layout_word ca_merge_layouts[] = {
    {CA_MERGE_PARTS, "parts"},
    {CA_MERGE_O, "o"},
    {0, NULL},
};

struct merge_shape ca_merge_shape(const clattn_merge_problem *p)
{
    return (struct merge_shape){.states = (cl_long)p->states,
                                .batch = (cl_long)p->batch,
                                .heads = (cl_long)p->heads,
                                .seq_q = (cl_long)p->seq_q,
                                .dim = (cl_long)p->dim,
                                CA_MERGE_OPERANDS(CA_SHAPE_STRIDES, )};
}

clattn_dtype ca_merge_dtype(const clattn_problem *p, unsigned argument)
{
    return argument == CA_MERGE_PARTS || argument == CA_MERGE_O ? p->merge.dtype : CLATTN_F32;
}

clattn_status ca_merge_check(const clattn_problem *problem, char *reason, size_t bytes)
{
    const clattn_merge_problem *p = &problem->merge;
    const struct ca_enum_value choices[] = {{"dtype", (int)p->dtype, CA_NUM_DTYPES - 1}};
    const struct ca_size sizes[] = {
        {"states", p->states, 0}, {"batch", p->batch, 0}, {"heads", p->heads, 1},
        {"seq_q", p->seq_q, 0},   {"dim", p->dim, 1},
    };
    clattn_status status = ca_check_members(choices, sizeof choices / sizeof *choices, sizes,
                                            sizeof sizes / sizeof *sizes, reason, bytes);

    if (status == CLATTN_SUCCESS && p->batch > 0 && p->states > CA_MAX_SIZE / p->batch)
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, bytes,
                              "states * batch, all states' batches, is over %zu", CA_MAX_SIZE);
    return status;
}

double ca_merge_flops(const clattn_problem *problem)
{
    const clattn_merge_problem *p = &problem->merge;

    return 2.0 * (double)p->states * (double)p->batch * (double)p->heads * (double)p->seq_q *
           (double)p->dim;
}

clattn_problem ca_merge_representative(const clattn_problem *problem)
{
    const clattn_merge_problem *p = &problem->merge;
    const double rows = (double)p->batch * (double)p->heads * (double)p->seq_q;
    clattn_problem made;
    clattn_merge_problem *r = &made.merge;

    clattn_problem_init_operation(&made, CLATTN_MERGE);
    r->dtype = p->dtype;
    r->accumulate = p->accumulate != 0;
    r->sinks = p->sinks != 0;
    r->dim = p->dim;
    r->states = ca_size_rounded(p->states, MOST_STATES);
    r->seq_q = ca_size_rounded(rows < MOST_ROWS ? (size_t)rows : MOST_ROWS, MOST_ROWS);
    for (;;) {
        r->parts = ca_class_layout(&p->parts, 1, r->seq_q, r->dim);
        r->o = ca_class_layout(&p->o, 1, r->seq_q, r->dim);
        /* Rounding up may take a huge dim past the limits of indexing. The loop ends: a single row
         * of all states is no longer than the problem's own. */
        if (r->seq_q == 1 || clattn_problem_check(&made, NULL, 0) == CLATTN_SUCCESS)
            return made;
        r->seq_q /= 2;
    }
}

/* Problems of operation CLATTN_MERGE: what problem.c and problem_class.c ask for them. */
#include "base/log.h"
#include "problem/classes/class_size.h"
#include "problem/layout.h"
#include "problem/operations.h"
#include "problem/tensors.h"

/* Rows and states in a representative. */
enum { MOST_ROWS = 1 << 20, MOST_STATES = 64 };

clattn_problem ca_merge_normal(const clattn_problem *p)
{
    struct ca_tensor tensors[CA_WORKSPACE];
    clattn_problem normal = *p;

    ca_problem_tensors(p, tensors);
    normal.q = tensors[CA_Q].layout;
    normal.o = tensors[CA_O].layout;
    return normal;
}

clattn_status ca_merge_check(const clattn_problem *p, char *reason, size_t reason_bytes)
{
    const struct {
        const char *name;
        size_t value, other;
        const char *what;
    } same[] = {
        {"kv_heads", p->kv_heads, p->heads, "heads"},
        {"dim_qk", p->dim_qk, p->dim_v, "dim_v"},
    };
    clattn_problem others = *p;

    others.sinks = 0; /* a merge has them as well */
    const clattn_status status = ca_refuse_options(&others, "a merge", reason, reason_bytes);
    if (status != CLATTN_SUCCESS)
        return status;
    if (p->bias) {
        ca_reason(reason, reason_bytes, "a merge has no bias");
        return CLATTN_INVALID_PROBLEM;
    }
    for (size_t n = 0; n < sizeof same / sizeof *same; n++) {
        if (same[n].value != same[n].other) {
            ca_reason(reason, reason_bytes, "%s is %zu but must be %s (%zu) in a merge",
                      same[n].name, same[n].value, same[n].what, same[n].other);
            return CLATTN_INVALID_PROBLEM;
        }
    }
    if (p->batch > 0 && p->seq_kv > CA_MAX_SIZE / p->batch) {
        ca_reason(reason, reason_bytes, "seq_kv * batch, all states' batches, is over %zu",
                  CA_MAX_SIZE);
        return CLATTN_INVALID_PROBLEM;
    }
    return CLATTN_SUCCESS;
}

double ca_merge_flops(const clattn_problem *p)
{
    return 2.0 * (double)p->seq_kv * (double)p->batch * (double)p->heads * (double)p->seq_q *
           (double)p->dim_v;
}

/* Packed; if dim is not innermost, with a gap after each element. */
static clattn_layout simple_layout(const clattn_layout *given, size_t rows, size_t dim)
{
    clattn_layout layout = {{0}};

    if (given->stride[3] != 1 && dim > 1)
        layout = (clattn_layout){{2 * rows * dim, 2 * rows * dim, 2 * dim, 2}};
    return layout;
}

clattn_problem ca_merge_representative(const clattn_problem *p)
{
    const double rows = (double)p->batch * (double)p->heads * (double)p->seq_q;
    clattn_problem r;

    clattn_problem_init(&r);
    r.operation = CLATTN_MERGE;
    r.dtype = p->dtype;
    r.accumulate = p->accumulate != 0;
    r.sinks = p->sinks != 0;
    r.dim_qk = r.dim_v = p->dim_v;
    r.seq_kv = ca_size_rounded(p->seq_kv, MOST_STATES);
    r.seq_q = ca_size_rounded(rows < MOST_ROWS ? (size_t)rows : MOST_ROWS, MOST_ROWS);
    for (;;) {
        r.q = simple_layout(&p->q, r.seq_q, r.dim_v);
        r.o = simple_layout(&p->o, r.seq_q, r.dim_v);
        /* Rounding up may take a huge dim past the limits of indexing. It ends: a single row of all
         * states is no longer than the problem's own. */
        if (r.seq_q == 1 || clattn_problem_check(&r, NULL, 0) == CLATTN_SUCCESS)
            return r;
        r.seq_q /= 2;
    }
}

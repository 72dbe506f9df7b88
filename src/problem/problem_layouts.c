/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts of a problem, all at once, and the backward problem of a forward one. */
#include "base/log.h"
#include "problem/layout.h"
#include "problem/problem.h"
#include "problem/tensors.h"

void ca_problem_order(clattn_problem *p, const char *order, uint64_t arguments)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(p, tensors);
    for (unsigned n = 0; n < CA_WORKSPACE; n++) {
        clattn_layout *layout = ca_tensor_layout(p, &tensors[n]);
        const int is_w = p->operation == CLATTN_PROJECTION && n == CA_PROJECTION_W;
        if (layout && !is_w && tensors[n].present && arguments & CA_BIT(n))
            ca_layout_pack(order, tensors[n].sizes, layout);
    }
}

static clattn_status set_layout(clattn_problem *problem, const char *order, char *reason,
                                size_t reason_bytes)
{
    ca_reason(reason, reason_bytes, "%s", "");
    if (!problem || problem->struct_size != sizeof *problem)
        return ca_status_with(CLATTN_INVALID_ARGUMENT, reason, reason_bytes,
                              "problem is null or its struct_size is not that of this library");
    if (!ca_layout_is_order(order)) {
        return ca_status_with(CLATTN_INVALID_ARGUMENT, reason, reason_bytes,
                              "order is %s%.40s%s but must be a permutation of 'bhsd'",
                              order ? "'" : "", order ? order : "null", order ? "'" : "");
    }
    clattn_problem set = *problem;
    ca_problem_order(&set, order, ~0u);
    const clattn_status status = clattn_problem_check(&set, reason, reason_bytes);
    if (status == CLATTN_SUCCESS)
        *problem = set;
    return status;
}

clattn_status clattn_problem_set_layout(clattn_problem *problem, const char *order, char *reason,
                                        size_t reason_bytes)
{
    char why[CA_LOG_BYTES];

    return ca_give_reason(set_layout(problem, order, why, sizeof why), why, reason, reason_bytes);
}

/* The layout of a gradient: that of its tensor, or the packed one if elements of that share places. */
static clattn_layout for_gradient(const struct ca_tensor *t, const clattn_layout *layout)
{
    return ca_layout_injective(&t->layout, t->sizes) ? *layout : (clattn_layout){{0}};
}

static clattn_status make_backward(clattn_problem *forward, clattn_problem *backward, char *reason,
                                   size_t reason_bytes)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_reason(reason, reason_bytes, "%s", "");
    if (backward)
        clattn_problem_init(backward);
    if (!backward)
        return ca_status_with(CLATTN_INVALID_ARGUMENT, reason, reason_bytes, "backward is null");
    clattn_status status = clattn_problem_check(forward, reason, reason_bytes);
    if (status != CLATTN_SUCCESS)
        return status;
    if (forward->operation != CLATTN_FORWARD)
        return ca_status_with(CLATTN_INVALID_PROBLEM, reason, reason_bytes,
                              "forward is not of operation CLATTN_FORWARD");
    clattn_problem made = *forward;
    ca_problem_tensors(forward, tensors);
    made.operation = CLATTN_BACKWARD;
    made.scores = CLATTN_SCORES_NONE;
    made.key_sums = 0;
    made.lse = 0; /* always read */
    made.d_o = made.o;
    made.dq = for_gradient(&tensors[CA_Q], &forward->q);
    made.dk = for_gradient(&tensors[CA_K], &forward->k);
    made.dv = for_gradient(&tensors[CA_V], &forward->v);
    status = clattn_problem_check(&made, reason, reason_bytes);
    if (status != CLATTN_SUCCESS)
        return status;
    forward->lse = 1;
    *backward = made;
    return CLATTN_SUCCESS;
}

clattn_status clattn_problem_backward(clattn_problem *forward, clattn_problem *backward,
                                      char *reason, size_t reason_bytes)
{
    char why[CA_LOG_BYTES];

    return ca_give_reason(make_backward(forward, backward, why, sizeof why), why, reason,
                          reason_bytes);
}

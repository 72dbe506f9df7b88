/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/measurer_data.h"
#include "execute/execute.h"
#include "execute/plan.h"
#include "families/candidate.h"
#include "program/program.h"
#include "selfcheck/selfcheck.h"

/* ---- data of problems ----------------------------------------------------------------------- */

static int is_there(const struct ca_work *work)
{
    return work->data.answers != NULL;
}

static void drop(struct ca_work *work)
{
    ca_trust_case_release(work->buffers);
    ca_trust_case_free(&work->data);
}

/* Makes room for data, which may take half of the device's memory: the least recently used is
 * released first. */
static void make_room(struct ca_measuring *m, size_t bytes)
{
    for (;;) {
        struct ca_work *oldest = NULL;
        size_t there = 0;
        for (size_t n = 0; n < m->num_works; n++) {
            struct ca_work *work = &m->works[n];
            if (!is_there(work))
                continue;
            there += work->bytes;
            if (!oldest || work->used < oldest->used)
                oldest = work;
        }
        if (!oldest || there + bytes <= m->ctx->device.global_memory_bytes / 2)
            return;
        drop(oldest);
    }
}

clattn_status ca_work_open(struct ca_measuring *m, size_t problem, struct ca_work **work)
{
    struct ca_work *w = &m->works[problem];

    *work = w;
    w->used = ++m->now;
    if (is_there(w))
        return CLATTN_SUCCESS;
    make_room(m, w->bytes);
    if (!ca_trust_case_make_ordinary(&w->data, m->ctx, &w->problem.normal))
        return w->data.failure != CLATTN_SUCCESS ? w->data.failure
                                                 : ca_fail(&m->ctx->log, CLATTN_OUT_OF_MEMORY,
                                                           "no host memory for a problem's data");
    const clattn_status status = ca_trust_case_upload(m->ctx, &w->data, w->buffers);
    if (status == CLATTN_SUCCESS)
        ca_trust_case_drop_inputs(&w->data);
    else
        drop(w);
    return status;
}

clattn_status ca_work_tensors(struct ca_measuring *m, const struct ca_work *work,
                              const clattn_plan *plan, struct ca_tensors *tensors)
{
    cl_int err = CL_SUCCESS;

    if (plan->workspace_bytes > m->workspace_bytes) {
        if (m->workspace)
            clReleaseMemObject(m->workspace);
        m->workspace =
            clCreateBuffer(m->ctx->cl, CL_MEM_READ_WRITE, plan->workspace_bytes, NULL, &err);
        m->workspace_bytes = err == CL_SUCCESS ? plan->workspace_bytes : 0;
        if (err != CL_SUCCESS) {
            m->workspace = NULL;
            return ca_fail_cl(&m->ctx->log, err, "clCreateBuffer for a workspace of %zu bytes",
                              plan->workspace_bytes);
        }
    }
    *tensors = ca_trust_case_tensors(&work->data, work->buffers);
    if (plan->workspace_bytes > 0)
        tensors->at[CA_WORKSPACE].buffer = m->workspace;
    return CLATTN_SUCCESS;
}

/* ---- plans ---------------------------------------------------------------------------------- */

static void forget(struct ca_ready *ready)
{
    clattn_plan_release(ready->plan);
    *ready = (struct ca_ready){NULL, 0, {NULL, {0}}, 0.0, 0};
}

/* Returns the candidate's slot, or the least recently used one. */
static struct ca_ready *find(struct ca_measuring *m, size_t problem,
                             const struct ca_candidate *candidate)
{
    struct ca_ready *oldest = &m->ready[0];

    for (size_t n = 0; n < CA_READY; n++) {
        struct ca_ready *ready = &m->ready[n];
        if (ready->plan && ready->problem == problem &&
            ca_candidates_equal(&ready->candidate, candidate))
            return ready;
        if (ready->used < oldest->used)
            oldest = ready;
    }
    forget(oldest);
    return oldest;
}

clattn_status ca_ready_open(struct ca_measuring *m, size_t problem,
                            const struct ca_candidate *candidate, struct ca_ready **ready)
{
    const struct ca_problem *p = &m->works[problem].problem;
    clattn_status status = CLATTN_SUCCESS;
    cl_program program;

    *ready = find(m, problem, candidate);
    if (!(*ready)->plan) {
        status = ca_program_get(m->ctx, candidate, p, ca_trust_check, &program);
        if (status == CLATTN_SUCCESS)
            status = ca_plan_make(m->ctx, candidate, "It is being measured.", p, program, 1,
                                  &(*ready)->plan);
    }
    if (status != CLATTN_SUCCESS)
        return status;
    (*ready)->problem = problem;
    (*ready)->candidate = *candidate;
    (*ready)->used = ++m->now;
    return CLATTN_SUCCESS;
}

void ca_measuring_empty(struct ca_measuring *m)
{
    for (size_t n = 0; n < CA_READY; n++)
        forget(&m->ready[n]);
    for (size_t n = 0; n < m->num_works; n++)
        drop(&m->works[n]);
    if (m->workspace)
        clReleaseMemObject(m->workspace);
    m->workspace = NULL;
    m->workspace_bytes = 0;
}

/* What is wrong in the integers that lie in device memory. */
#include "base/log.h"
#include "execute/buffers.h"
#include "execute/execute.h"
#include "execute/plan.h"

#include <stdlib.h>

/* The integers of one operand; NULL if the problem has none. */
struct integers {
    cl_int *at;
    size_t count;
};

static clattn_status read_back(const clattn_plan *plan, cl_command_queue queue,
                               enum ca_argument argument, const clattn_buffer *given,
                               struct integers *integers)
{
    const struct ca_log *log = &plan->context->log;
    struct ca_operand operand = plan->operands[argument];

    *integers = (struct integers){NULL, 0};
    if (!operand.present || operand.span == 0)
        return CLATTN_SUCCESS;
    operand.optional = 0;
    clattn_status status = ca_check_buffers(plan->context, plan->problem_text, &operand, given, 1);
    if (status != CLATTN_SUCCESS)
        return status;
    integers->at = malloc(operand.span * sizeof(cl_int));
    if (!integers->at)
        return ca_fail(log, CLATTN_OUT_OF_MEMORY, "no host memory for %s", operand.name);
    integers->count = operand.span;
    const cl_int err =
        clEnqueueReadBuffer(queue, given->buffer, CL_TRUE, given->offset * sizeof(cl_int),
                            operand.span * sizeof(cl_int), integers->at, 0, NULL, NULL);
    return err == CL_SUCCESS ? CLATTN_SUCCESS
                             : ca_fail_cl(log, err, "clEnqueueReadBuffer for %s", operand.name);
}

static clattn_status check_lengths(const struct integers *lengths, const char *name,
                                   const char *limit_name, size_t limit, char *reason, size_t bytes)
{
    for (size_t b = 0; b < lengths->count; b++)
        if (lengths->at[b] < 0 || (size_t)lengths->at[b] > limit) {
            ca_reason(reason, bytes, "%s[%zu] is %d but must be from 0 to %s, %zu", name, b,
                      lengths->at[b], limit_name, limit);
            return CLATTN_INVALID_ARGUMENT;
        }
    return CLATTN_SUCCESS;
}

static clattn_status check_pages(const clattn_problem *p, const struct integers *table,
                                 const struct integers *lengths, char *reason, size_t bytes)
{
    const size_t columns = ca_table_pages(p);

    for (size_t n = 0; n < table->count; n++) {
        const size_t b = n / columns, column = n % columns;
        const size_t keys = lengths->at ? (size_t)lengths->at[b] : p->seq_kv;
        if (column * p->page_size >= keys || (table->at[n] >= 0 && (size_t)table->at[n] < p->pages))
            continue;
        ca_reason(
            reason, bytes,
            "page_table[%zu][%zu] is %d but must be from 0 to %zu: batch %zu uses %zu keys, in "
            "pages of %zu",
            b, column, table->at[n], p->pages - 1, b, keys, p->page_size);
        return CLATTN_INVALID_ARGUMENT;
    }
    return CLATTN_SUCCESS;
}

clattn_status clattn_check_tables(const clattn_plan *plan, cl_command_queue queue,
                                  const clattn_forward *tensors, char *reason, size_t reason_bytes)
{
    struct integers q_lengths = {NULL, 0}, kv_lengths = {NULL, 0}, table = {NULL, 0};
    int in_order;

    ca_reason(reason, reason_bytes, "%s", "");
    clattn_status status = ca_check_call(plan, CLATTN_FORWARD,
                                         tensors && tensors->struct_size == sizeof *tensors, NULL);
    if (status != CLATTN_SUCCESS)
        return status;
    const clattn_problem *p = &plan->problem;
    if ((status = ca_check_queue(plan->context, queue, &in_order)) != CLATTN_SUCCESS)
        return status;
    if ((status = read_back(plan, queue, CA_Q_LENGTHS, &tensors->q_lengths, &q_lengths)) ==
            CLATTN_SUCCESS &&
        (status = read_back(plan, queue, CA_KV_LENGTHS, &tensors->kv_lengths, &kv_lengths)) ==
            CLATTN_SUCCESS &&
        (status = read_back(plan, queue, CA_PAGE_TABLE, &tensors->page_table, &table)) ==
            CLATTN_SUCCESS &&
        (status = check_lengths(&q_lengths, "q_lengths", "seq_q", p->seq_q, reason,
                                reason_bytes)) == CLATTN_SUCCESS &&
        (status = check_lengths(&kv_lengths, "kv_lengths", "seq_kv", p->seq_kv, reason,
                                reason_bytes)) == CLATTN_SUCCESS)
        status = check_pages(p, &table, &kv_lengths, reason, reason_bytes);
    free(table.at);
    free(kv_lengths.at);
    free(q_lengths.at);
    return status;
}

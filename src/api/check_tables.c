/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the integers in device memory. */
#include "base/log.h"
#include "base/structs.h"
#include "execute/buffers.h"
#include "execute/execute.h"
#include "execute/plan.h"

#include <stdlib.h>

/* The integers of one operand; NULL if the problem has no such operand. */
struct integers {
    cl_int *at;
    size_t count;
};

static clattn_status read_back(const clattn_plan *plan, cl_command_queue queue,
                               enum ca_argument argument, const clattn_buffer *given,
                               struct integers *integers)
{
    const struct ca_log *log = &plan->context->log;
    struct ca_operand operand = ca_plan_whole(plan)->operands[argument];

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
    const cl_int err = ca_buffer_read(plan->context, queue, given, given->offset * sizeof(cl_int),
                                      operand.span * sizeof(cl_int), integers->at);
    return err == CL_SUCCESS ? CLATTN_SUCCESS
                             : ca_fail_cl(log, err, "reading %s back", operand.name);
}

static clattn_status check_lengths(const struct integers *lengths, const char *name,
                                   const char *limit_name, size_t limit, char *reason, size_t bytes)
{
    for (size_t b = 0; b < lengths->count; b++)
        if (lengths->at[b] < 0 || (size_t)lengths->at[b] > limit)
            return ca_status_with(CLATTN_INVALID_ARGUMENT, reason, bytes,
                                  "%s[%zu] is %d but must be from 0 to %s, %zu", name, b,
                                  lengths->at[b], limit_name, limit);
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
        return ca_status_with(
            CLATTN_INVALID_ARGUMENT, reason, bytes,
            "page_table[%zu][%zu] is %d but must be from 0 to %zu: batch %zu uses %zu keys, in "
            "pages of %zu",
            b, column, table->at[n], p->pages - 1, b, keys, p->page_size);
    }
    return CLATTN_SUCCESS;
}

/* Checks the starts of sequences: at most `longest` rows each, `total` together. */
static clattn_status check_starts(const struct integers *starts, const char *name,
                                  const char *total_name, size_t total, const char *longest_name,
                                  size_t longest, char *reason, size_t bytes)
{
    for (size_t b = 0; b < starts->count; b++) {
        const cl_int start = starts->at[b], before = b > 0 ? starts->at[b - 1] : 0;
        if (start < 0 || (size_t)start > total)
            ca_reason(reason, bytes, "%s[%zu] is %d but must be from 0 to %s, %zu", name, b, start,
                      total_name, total);
        else if (start < before)
            ca_reason(reason, bytes, "%s[%zu] is %d but must be at least %s[%zu], %d", name, b,
                      start, name, b - 1, before);
        else if (b > 0 && (size_t)(start - before) > longest)
            ca_reason(reason, bytes,
                      "%s[%zu] is %d, %d after %s[%zu], but a sequence has at most %s, %zu", name,
                      b, start, start - before, name, b - 1, longest_name, longest);
        else
            continue;
        return CLATTN_INVALID_ARGUMENT;
    }
    return CLATTN_SUCCESS;
}

/* Block lists: offsets that do not decrease, columns that exist. */
static clattn_status check_blocks(const clattn_problem *p, const struct integers *offsets,
                                  const struct integers *entries, char *reason, size_t bytes)
{
    const size_t row_ends = ca_block_rows(p) + 1, columns = ca_block_columns(p);

    for (size_t n = 0; n < offsets->count; n++) {
        const size_t list = n / row_ends, row = n % row_ends;
        const cl_int offset = offsets->at[n], before = row > 0 ? offsets->at[n - 1] : 0;
        if (offset < before || (size_t)offset > p->max_blocks)
            return ca_status_with(
                CLATTN_INVALID_ARGUMENT, reason, bytes,
                "block_offsets[%zu][%zu] is %d but must be from %d to max_blocks, %zu", list, row,
                offset, before, p->max_blocks);
        for (cl_int e = before; row > 0 && e < offset; e++) {
            const cl_int entry = entries->at[list * p->max_blocks + (size_t)e];
            if (entry >= 0 && (size_t)(entry & ~CLATTN_BLOCK_FULL) < columns)
                continue;
            return ca_status_with(
                CLATTN_INVALID_ARGUMENT, reason, bytes,
                "block_entries[%zu][%d] is %d but must be a column from 0 to %zu, with "
                "CLATTN_BLOCK_FULL or without",
                list, e, entry, columns - 1);
        }
    }
    return CLATTN_SUCCESS;
}

/* Lists of chosen keys: keys, or -1. */
static clattn_status check_chosen(const clattn_problem *p, const struct integers *lists,
                                  char *reason, size_t bytes)
{
    for (size_t n = 0; n < lists->count; n++)
        if (lists->at[n] < -1 || (lists->at[n] >= 0 && (size_t)lists->at[n] >= p->seq_kv))
            return ca_status_with(CLATTN_INVALID_ARGUMENT, reason, bytes,
                                  "topk_indices: entry %zu of list %zu is %d but must be a key "
                                  "below seq_kv, %zu, or -1",
                                  n % p->topk, n / p->topk, lists->at[n], p->seq_kv);
    return CLATTN_SUCCESS;
}

/* All that is looked at. */
static clattn_status check_all(const clattn_problem *p, const struct integers *of, char *reason,
                               size_t bytes)
{
    clattn_status status;

    if ((status = check_lengths(&of[CA_Q_LENGTHS], "q_lengths", "seq_q", p->seq_q, reason,
                                bytes)) == CLATTN_SUCCESS &&
        (status = check_lengths(&of[CA_KV_LENGTHS], "kv_lengths", "seq_kv", p->seq_kv, reason,
                                bytes)) == CLATTN_SUCCESS &&
        (status = check_starts(&of[CA_Q_STARTS], "q_starts", "total_q", p->total_q, "seq_q",
                               p->seq_q, reason, bytes)) == CLATTN_SUCCESS &&
        (status = check_starts(&of[CA_KV_STARTS], "kv_starts", "total_kv", p->total_kv, "seq_kv",
                               p->seq_kv, reason, bytes)) == CLATTN_SUCCESS &&
        (status = check_blocks(p, &of[CA_BLOCK_OFFSETS], &of[CA_BLOCK_ENTRIES], reason, bytes)) ==
            CLATTN_SUCCESS &&
        (status = check_chosen(p, &of[CA_TOPK_INDICES], reason, bytes)) == CLATTN_SUCCESS)
        status = check_pages(p, &of[CA_PAGE_TABLE], &of[CA_KV_LENGTHS], reason, bytes);
    return status;
}

clattn_status clattn_check_tables(const clattn_plan *plan, cl_command_queue queue,
                                  const clattn_forward_tensors *tensors)
{
    struct integers of[CA_WORKSPACE] = {{NULL, 0}};
    clattn_forward_tensors own;
    char why[CA_REASON_BYTES];
    int in_order;

    tensors = CA_READ(clattn_forward_tensors, "tensors", tensors, &own, why);
    clattn_status status = ca_check_call(plan, CLATTN_FORWARD, tensors ? NULL : why, NULL);
    if (status != CLATTN_SUCCESS ||
        (status = ca_check_queue(plan->context, queue, &in_order)) != CLATTN_SUCCESS)
        return status;
    const clattn_buffer *const looked_at[CA_WORKSPACE] = {
        [CA_Q_LENGTHS] = &tensors->q_lengths,         [CA_KV_LENGTHS] = &tensors->kv_lengths,
        [CA_PAGE_TABLE] = &tensors->page_table,       [CA_Q_STARTS] = &tensors->q_starts,
        [CA_KV_STARTS] = &tensors->kv_starts,         [CA_BLOCK_OFFSETS] = &tensors->block_offsets,
        [CA_BLOCK_ENTRIES] = &tensors->block_entries, [CA_TOPK_INDICES] = &tensors->topk_indices,
    };
    for (unsigned n = 0; n < CA_WORKSPACE && status == CLATTN_SUCCESS; n++)
        if (looked_at[n])
            status = read_back(plan, queue, (enum ca_argument)n, looked_at[n], &of[n]);
    if (status == CLATTN_SUCCESS && (status = check_all(&ca_plan_whole(plan)->problem.normal, of,
                                                        why, sizeof why)) != CLATTN_SUCCESS)
        ca_remember(&plan->context->log, "%s", why);
    for (unsigned n = 0; n < CA_WORKSPACE; n++)
        free(of[n].at);
    return status;
}

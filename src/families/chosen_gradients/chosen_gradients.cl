/* SPDX-License-Identifier: Apache-2.0 */
/* chosen_gradients: gradients by lists of chosen keys, some lists at a time (src/problem/chosen_keys.h). Other kernels compute
 * dense gradients of copies, in which each list is a batch of its own:
 *
 *   copy_lists     the rows of k and v that a list names, ascending, and its query's rows of q, do, o, lse and dlse; query
 *                  heads of a kv head become queries
 *   (gradients of these copies, in f32)
 *   store_queries  dq of the lists' queries
 *   add_keys       adds dk and dv of the copies to sums, which the last execution stores
 *   add_sinks      dsinks, after the last execution; lse has the sinks in it, so that all else is as without them
 *
 * NDRange    local (ITEMS, 1, 1). copy_lists: groups along (PARTS of a list's keys, kv heads of a list, lists of the
 *            execution). store_queries: (1, kv heads, lists). add_keys: (RANGES of keys, kv heads, batches of keys).
 *            add_sinks: (heads).
 * Order      A group of add_keys owns a range of keys and goes through the lists by number: the same inputs give the same bits
 *            whatever the device does at a time, and lists in any order.
 * Lists      families/chosen_keys has written the rows of each list, none of them twice. The last execution may have fewer
 *            lists than batches; the others have length 0.
 * Workspace  tables of all lists (common/chosen_lists.h); of an execution its first list, its number of batches, and arrays
 *            (common/chosen_part.h). The first list is the call's first query.
 * Tunables   src/families/chosen_gradients/chosen_gradients.def, all defined by the host; no fallbacks here. */
#if !defined(ITEMS) || !defined(PARTS) || !defined(RANGES)
#error "chosen_gradients.cl must be built with all of its tunables defined"
#endif
#include "common/backward.h"
#include "common/chosen_lists.h"
#include "common/chosen_part.h"

/* Elements of q, k, v and do are copied as words. */
#if DTYPE == DTYPE_F32
typedef uint word;
#else
typedef ushort word;
#endif

/* An execution's part of the workspace. */
struct part {
    long first, lists; /* its first list, and its batches */
    __global float *at;
    struct chosen_places to;
    struct made_lists made;
    const __global int *counts, *table;
};

INLINE long kv_heads_of_list(const struct arguments *args)
{
    return HAS_TOPK_HEADS ? 1 : args->shape->kv_heads;
}

INLINE struct part part_at(const struct arguments *args, const long first, const long lists)
{
    struct part part;

    part.first = first;
    part.lists = lists;
    part.made = made_lists(args);
    part.counts = (const __global int *)args->workspace;
    part.table = part.counts + part.made.table;
    part.at = args->workspace + part.made.end;
    part.to = chosen_places_of((struct chosen_part){
        lists, kv_heads_of_list(args), args->shape->group, part.made.width, DIM_QK, DIM_V,
        sizeof(word),
        args->shape->kv_heads *
            (HAS_TOTAL_KV ? args->shape->total_kv : args->shape->batch * args->shape->seq_kv)});
    return part;
}

/* The part that copy_lists has made. */
INLINE struct part part_of(const struct arguments *args)
{
    const struct made_lists made = made_lists(args);
    const __global int *head = (const __global int *)(args->workspace + made.end);

    return part_at(args, head[0], head[1]);
}

/* The work-items of a group copy a row together. */
INLINE void copy_row(const int dim, const __global word *from, const long step, __global word *to)
{
    const int whole = ITEMS == 1 && step == 1 ? dim / 16 * 16 : 0;

    for (int d = 0; d < whole; d += 16)
        vstore16(vload16(0, from + d), 0, to + d);
    for (int d = whole + (int)get_local_id(0); d < dim; d += ITEMS)
        to[d] = from[d * step];
}

/* Copies the rows of query head h of kv head `head` of list n. row: of the query among those that follow each other. */
INLINE void copy_query(const struct arguments *args, const struct part *part, const long n,
                       const long head, const struct query query, const long h, const long row)
{
    const long b = HAS_TOTAL_Q ? 0 : query.b, group = args->shape->group;
    const long to = (n * kv_heads_of_list(args) + head) * group + h % group;
    const long lse = lse_head(args, b * args->shape->heads + h, h) + row;
    const __global o_storage *const o = args->o + row_offset(args->shape->o_stride, b, h, row);
    __global float *const to_o = part->at + part->to.o + to * DIM_V;

    copy_row(DIM_QK,
             (const __global word *)(args->q + row_offset(args->shape->q_stride, b, h, row)),
             q_step(args), (__global word *)(part->at + part->to.q) + to * DIM_QK);
    copy_row(DIM_V,
             (const __global word *)(args->d_o + row_offset(args->shape->d_o_stride, b, h, row)),
             do_step(args), (__global word *)(part->at + part->to.d_o) + to * DIM_V);
    for (int d = get_local_id(0); d < DIM_V; d += ITEMS)
        to_o[d] = load1_of(O_DTYPE, o, d * o_step(args));
    if (get_local_id(0) == 0) {
        part->at[part->to.lse + to] = args->lse[lse];
#if HAS_DLSE
        part->at[part->to.dlse + to] = args->dlse[lse];
#endif
    }
}

/* Copies keys begin .. end - 1 of list n. `head` counts the kv heads of the list; it is kv head g of the problem. */
INLINE void copy_keys(const struct arguments *args, const struct part *part, const long n,
                      const long head, const struct query query, const long g, const long begin,
                      const long end)
{
    const __global int *const rows = part->table + (part->first + n) * part->made.width;
    const long b = HAS_TOTAL_KV ? 0 : query.b;
    const long to = (n * kv_heads_of_list(args) + head) * part->made.width;
    __global word *const k = (__global word *)(part->at + part->to.k) + to * DIM_QK;
    __global word *const v = (__global word *)(part->at + part->to.v) + to * DIM_V;

    for (long m = begin; m < end; m++) {
        const long row = rows[m];
        copy_row(DIM_QK,
                 (const __global word *)(args->k + row_offset(args->shape->k_stride, b, g, row)),
                 k_step(args), k + m * DIM_QK);
        copy_row(DIM_V,
                 (const __global word *)(args->v + row_offset(args->shape->v_stride, b, g, row)),
                 v_step(args), v + m * DIM_V);
    }
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void copy_lists(PARAMETERS_copy_lists)
{
    const struct arguments arguments = ARGUMENTS_copy_lists, *const args = &arguments;
    const long which = get_group_id(0), head = get_group_id(1), n = get_group_id(2);
    const struct part part = part_at(args, args->call->dropout_i, get_num_groups(2));
    struct query query;

    const bool exists =
        part.first + n < part.made.lists && find_query(args, part.first + n, &query);
    const long count = exists ? part.counts[part.first + n] : 0;
    if (which == 0 && head == 0 && get_local_id(0) == 0) {
        ((__global int *)part.at)[0] = (int)part.first;
        ((__global int *)part.at)[1] = (int)part.lists;
        ((__global int *)(part.at + part.to.lengths))[n] = (int)count;
        ((__global int *)(part.at + part.to.batches))[n] = exists ? (int)query.b : -1;
    }
    if (!exists)
        return;
    const long g = HAS_TOPK_HEADS ? query.kv_head : head, group = args->shape->group;
    if (which == 0)
        for (long h = g * group; h < (g + 1) * group; h++)
            copy_query(args, &part, n, head, query, h, (part.first + n) % queries_together(args));
    copy_keys(args, &part, n, head, query, g, count * which / PARTS, count * (which + 1) / PARTS);
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
store_queries(PARAMETERS_store_queries)
{
    const struct arguments arguments = ARGUMENTS_store_queries, *const args = &arguments;
    const struct part part = part_of(args);
    const long head = get_group_id(1), n = get_group_id(2), group = args->shape->group;
    struct query query;

    if (part.first + n >= part.made.lists || !find_query(args, part.first + n, &query))
        return;
    const long g = HAS_TOPK_HEADS ? query.kv_head : head;
    const long b = HAS_TOTAL_Q ? 0 : query.b, row = (part.first + n) % queries_together(args);
    for (long h = 0; h < group; h++) {
        const __global float *const from =
            part.at + part.to.dq + ((n * kv_heads_of_list(args) + head) * group + h) * DIM_QK;
        __global o_storage *const to =
            args->dq + row_offset(args->shape->dq_stride, b, g * group + h, row);
        for (int d = get_local_id(0); d < DIM_QK; d += ITEMS)
            store1_of(O_DTYPE, from[d], to, d * dq_step(args));
    }
}

/* The work-items of a group add a row together, each always the same elements. */
INLINE void add_to_sums(const int dim, const __global float *from, __global float *to)
{
    const int whole = ITEMS == 1 ? dim / 16 * 16 : 0;

    for (int d = 0; d < whole; d += 16)
        vstore16(vload16(0, to + d) + vload16(0, from + d), 0, to + d);
    for (int d = whole + (int)get_local_id(0); d < dim; d += ITEMS)
        to[d] += from[d];
}

INLINE void clear_row(const int dim, __global float *to)
{
    for (int d = get_local_id(0); d < dim; d += ITEMS)
        to[d] = 0.0f;
}

/* The first of `count` ascending rows that is not before `row`. */
INLINE long search_row(const __global int *rows, const long count, const long row)
{
    long begin = 0, end = count;

    while (begin < end) {
        const long middle = (begin + end) / 2;
        if (rows[middle] < row)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

/* Stores rows begin to end of the sums of one kv head. */
INLINE void store_keys(const struct arguments *args, const __global float *sums_k,
                       const __global float *sums_v, const long b, const long g, const long begin,
                       const long end)
{
    for (long row = begin; row < end; row++) {
        __global o_storage *const dk = args->dk + row_offset(args->shape->dk_stride, b, g, row);
        __global o_storage *const dv = args->dv + row_offset(args->shape->dv_stride, b, g, row);
        for (int d = get_local_id(0); d < DIM_QK; d += ITEMS)
            store1_of(O_DTYPE, sums_k[row * DIM_QK + d], dk, d * dk_step(args));
        for (int d = get_local_id(0); d < DIM_V; d += ITEMS)
            store1_of(O_DTYPE, sums_v[row * DIM_V + d], dv, d * dv_step(args));
    }
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void add_keys(PARAMETERS_add_keys)
{
    const struct arguments arguments = ARGUMENTS_add_keys, *const args = &arguments;
    const struct part part = part_of(args);
    const long g = get_group_id(1), b = get_group_id(2);
    const long rows = HAS_TOTAL_KV ? args->shape->total_kv : args->shape->seq_kv;
    const long begin = rows * get_group_id(0) / RANGES, end = rows * (get_group_id(0) + 1) / RANGES;
    __global float *const sums_k =
        part.at + part.to.sums_k + (b * args->shape->kv_heads + g) * rows * DIM_QK;
    __global float *const sums_v =
        part.at + part.to.sums_v + (b * args->shape->kv_heads + g) * rows * DIM_V;
    const __global int *const batches = (const __global int *)(part.at + part.to.batches);
    const long head = HAS_TOPK_HEADS ? 0 : g;

    for (long row = part.first ? end : begin; row < end; row++) {
        clear_row(DIM_QK, sums_k + row * DIM_QK);
        clear_row(DIM_V, sums_v + row * DIM_V);
    }
    for (long n = 0; n < part.lists; n++) {
        const long list = part.first + n;
        const long own = HAS_TOTAL_KV ? batches[n] : b; /* packed keys are of all batches */
        if (batches[n] < 0 || batches[n] != own)
            continue;
        if (HAS_TOPK_HEADS && list / queries_together(args) % args->shape->kv_heads != g)
            continue;
        const __global int *const table = part.table + list * part.made.width;
        const long count = part.counts[list],
                   copies = (n * kv_heads_of_list(args) + head) * part.made.width;
        for (long m = search_row(table, count, begin); m < count && table[m] < end; m++) {
            add_to_sums(DIM_QK, part.at + part.to.dk + (copies + m) * DIM_QK,
                        sums_k + table[m] * DIM_QK);
            add_to_sums(DIM_V, part.at + part.to.dv + (copies + m) * DIM_V,
                        sums_v + table[m] * DIM_V);
        }
    }
    if (part.first + part.lists < part.made.lists)
        return;
#if HAS_TOTAL_KV /* rows of no sequence keep what they hold */
    for (long s = 0, first, keys; s < args->shape->batch; s++) {
        find_rows_of(args->kv_starts, s, args->shape->total_kv, args->shape->seq_kv, &first, &keys);
        store_keys(args, sums_k, sums_v, 0, g, max(first, begin), min(first + keys, end));
    }
#else
    store_keys(args, sums_k, sums_v, b, g, begin, end);
#endif
}

#if HAS_DSINKS
/* Returns the sum of all work-items' values of x to work-item 0. It is added in the items' order. */
INLINE float sum_of_items(const float x, __local float *all)
{
    float sum = x;

#if ITEMS > 1
    all[get_local_id(0)] = x;
    barrier(CLK_LOCAL_MEM_FENCE); /* all have stored theirs */
    for (int n = 1; n < ITEMS; n++)
        sum = n == 1 ? all[0] + all[1] : sum + all[n];
#endif
    return sum;
}

/* The term of a query in dsinks of head h. row: the query's row in its batch, or among all packed rows. */
INLINE float sink_share(const struct arguments *args, const long b, const long h, const long row)
{
    const long place = lse_head(args, b * args->shape->heads + h, h) + row;
    const float lse = args->lse[place];
    float delta = row_delta(args, HAS_TOTAL_Q ? 0 : b, h, row);

#if HAS_DLSE
    delta -= args->dlse[place];
#endif
    return lse == -INFINITY ? 0.0f : -exp(args->sinks[h] - lse) * delta;
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void add_sinks(PARAMETERS_add_sinks)
{
    const struct arguments arguments = ARGUMENTS_add_sinks, *const args = &arguments;
    const long h = get_group_id(0);
    __local float all[ITEMS];
    float sum = 0.0f;

    for (long b = 0; b < args->shape->batch; b++) {
        long first = 0, queries = args->shape->seq_q;
#if HAS_TOTAL_Q
        find_rows_of(args->q_starts, b, args->shape->total_q, args->shape->seq_q, &first, &queries);
#endif
        for (long i = get_local_id(0); i < queries; i += ITEMS)
            sum += sink_share(args, b, h, first + i);
    }
    sum = sum_of_items(sum, all);
    if (get_local_id(0) == 0)
        args->dsinks[h] = sum;
}
#endif

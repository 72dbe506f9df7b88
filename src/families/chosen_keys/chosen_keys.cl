/* SPDX-License-Identifier: Apache-2.0 */
/* chosen_keys: makes of lists of chosen keys ("Chosen keys" in clattn/problem.h) what attention without lists reads, in the
 * workspace (src/problem/chosen_keys.h).
 *
 *   list_rows  for each list the rows of its visible keys in ascending order, as a page table of pages of one key, and
 *              their number; where queries are sequences (PACKED) their starts, too
 *   mark_keys  a mask of pairs: 1 for a key of the query's list that the problem's own mask, if any, lets through
 *
 * NDRange    local (ITEMS, 1, 1). list_rows: groups take lists in turns. mark_keys: a group has a row of the mask.
 * Lists      An entry may hold anything. A group of list_rows sets a bit for each key of a list and then goes over the bits: a
 *            key that stands several times is one, and rows are the same for any order of the list.
 * Workspace  list_rows: numbers of keys, starts, tables, then the bits of each group; mark_keys: the mask.
 * Tunables   src/families/chosen_keys/chosen_keys.def, all defined by the host; no fallbacks here. */
#if !defined(ITEMS) || !defined(GROUPS) || !defined(PACKED) || !defined(COUNTS_BATCHES) ||         \
    !defined(COUNTS_HEADS)
#error "chosen_keys.cl must be built with all of its tunables defined"
#endif
#include "common/common.h"
#include "common/key_rows.h"
#include "common/sequence.h"
#include "common/chosen_lists.h"

/* ---- page tables ----------------------------------------------------------------------------- */

INLINE long greatest_divisor(long a, long b)
{
    while (b) {
        const long rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Rows of keys are so many units apart: from page to page or batch to batch, from kv head to kv head, from key to key. */
struct row_steps {
    long block, head, key;
};

INLINE struct row_steps row_steps_of(const struct arguments *args)
{
    const long block = COUNTS_BATCHES ? args->shape->k_stride[0] : 0;
    const long head = COUNTS_HEADS ? args->shape->k_stride[1] : 0;
    const long key = args->shape->k_stride[2];
    const long unit = max(greatest_divisor(key, greatest_divisor(head, block)), 1L);

    return (struct row_steps){block / unit, head / unit, key / unit};
}

/* The queries and keys of batch b, as extent_of() has them for a sequence. *first: its first key in a packed batch. */
INLINE struct extent extent_of_batch(const struct arguments *all, const long b, long *first)
{
    struct attention_shape shape = *all->shape;
    struct arguments own = *all;

    *first = 0;
#if HAS_TOTAL_Q
    long first_query;
    find_rows_of(all->q_starts, b, shape.total_q, shape.longest_q, &first_query, &shape.seq_q);
#endif
#if HAS_TOTAL_KV
    find_rows_of(all->kv_starts, b, shape.total_kv, shape.longest_kv, first, &shape.seq_kv);
#endif
    own.shape = &shape;
    return extent_of(&own, b);
}

/* The row of key j, which has one, among the pages of one key. first: as extent_of_batch() finds it. */
INLINE int chosen_row(const struct arguments *args, const struct row_steps steps,
                      const struct query query, const long first, const long j)
{
#if PAGE_SIZE
    const long key = page_of(args, query.b, j) * steps.block + j % PAGE_SIZE * steps.key;
#else
    const long key = query.b * steps.block + (first + j) * steps.key;
#endif
    return (int)(key + query.kv_head * steps.head);
}

/* Sets the bits of the list's keys that lengths, causality, windows and pages let the query see. None was set. */
INLINE void set_chosen_bits(const struct arguments *args, const struct query query,
                            const struct extent e, const __global int *list, __global uint *bits)
{
    const long begin = first_key(args, e, query.i), end = end_key(args, e, query.i);

    for (long n = get_local_id(0); n < args->shape->topk; n += ITEMS) {
        const long j = list[n];
        if (j < begin || j >= end)
            continue;
        if (!has_row(args, query.b, j))
            continue;
#if ITEMS > 1
        atomic_or((__global int *)bits + j / 32, (int)(1u << j % 32));
#else
        bits[j / 32] |= 1u << j % 32;
#endif
    }
}

INLINE int count_chosen(const __global uint *bits, const long begin, const long end)
{
    int count = 0;

    for (long word = begin; word < end; word++)
        count += (int)popcount(bits[word]);
    return count;
}

/* Writes the rows of the bits in words begin to end, in ascending order of their keys. */
INLINE void write_rows(const struct arguments *args, const struct row_steps steps,
                       const struct query query, const long first, const __global uint *bits,
                       const long begin, const long end, __global int *to)
{
    for (long word = begin; word < end; word++)
        for (uint left = bits[word]; left; left &= left - 1)
            *to++ = chosen_row(args, steps, query, first, word * 32 + 31 - clz(left & -left));
}

/* Writes the start of sequence `query`, a row of its own or none, and behind the last one where all end. */
INLINE void write_start(__global int *starts, const long query, const long queries,
                        const bool exists)
{
    starts[query] = (int)(exists ? query : queries);
    if (query == queries - 1)
        starts[queries] = (int)queries;
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void list_rows(PARAMETERS_list_rows)
{
    const struct arguments arguments = ARGUMENTS_list_rows, *const args = &arguments;
    const long words = (args->shape->seq_kv + 31) / 32;
    const struct made_lists made = made_lists(args);
    const long lists = made.lists, width = made.width;
    __global int *const counts = (__global int *)args->workspace;
    __global int *const starts = counts + made.starts, *const table = counts + made.table;
    __global uint *const bits = (__global uint *)counts + made.end + get_group_id(0) * words;
    const struct row_steps steps = row_steps_of(args);
    const int item = get_local_id(0);
    const long from = words * item / ITEMS, end = words * (item + 1) / ITEMS;
#if ITEMS > 1
    __local int found[ITEMS + 1];
#endif

    for (long n = get_group_id(0); n < lists; n += get_num_groups(0)) {
        struct query query;
        struct extent e;
        long first, place = 0;
        const bool exists = find_query(args, n, &query);
        for (long word = from; word < end; word++)
            bits[word] = 0;
        if (exists)
            e = extent_of_batch(args, query.b, &first);
        barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE); /* no bit is set */
        if (exists)
            set_chosen_bits(args, query, e, args->topk_indices + n * args->shape->topk, bits);
        barrier(CLK_GLOBAL_MEM_FENCE); /* all bits are set */
        int count = count_chosen(bits, from, end);
#if ITEMS > 1
        found[item + 1] = count;
        barrier(CLK_LOCAL_MEM_FENCE); /* all have counted */
        count = 0;
        for (int other = 0; other < ITEMS; other++) {
            place += other < item ? found[other + 1] : 0;
            count += found[other + 1];
        }
#endif
        if (exists)
            write_rows(args, steps, query, first, bits, from, end, table + n * width + place);
        if (item == 0)
            counts[n] = count;
        if (PACKED && item == 0 && n < queries_together(args))
            write_start(starts, n, queries_together(args), exists);
    }
}

/* ---- a mask ---------------------------------------------------------------------------------- */

/* The list of query i for head h of batch b. Packed sequences have entered theirs (sequence.h). */
INLINE const __global int *list_of_keys(const struct arguments *args, const long b, const long h,
                                        const long i)
{
    const long heads = HAS_TOPK_HEADS ? args->shape->kv_heads : 1;
    const long head = HAS_TOPK_HEADS ? h / args->shape->group : 0;
    const long rows = HAS_TOTAL_Q ? args->shape->total_q : args->shape->seq_q;
    const long block = HAS_TOTAL_Q ? 0 : b;

    return args->topk_indices + ((block * heads + head) * rows + i) * args->shape->topk;
}

/* Returns whether the problem's own mask lets query i of head h see key j. */
INLINE bool is_let_through(const struct arguments *args, const struct extent e, const long b,
                           const long h, const long i, const long j)
{
#if HAS_MASK
    if (j >= e.mask_begin && j < e.keys)
        return args->mask[row_offset(args->shape->mask_stride, b, h, i) +
                          (j - e.mask_begin) * args->shape->mask_stride[3]] != 0;
#endif
    return true;
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void mark_keys(PARAMETERS_mark_keys)
{
    struct arguments arguments = ARGUMENTS_mark_keys;
    const bool differ = HAS_MASK ? true : HAS_TOPK_HEADS ? arguments.shape->kv_heads > 1 : false;
    const long heads = differ ? arguments.shape->heads : 1;
    const long row = get_group_id(0), bh = row / longest_q(&arguments);
    const long b = bh / heads, h = bh % heads, i = row % longest_q(&arguments);
    __global uchar *const marks =
        (__global uchar *)arguments.workspace + row * longest_kv(&arguments);

    for (long j = get_local_id(0); j < longest_kv(&arguments); j += ITEMS)
        marks[j] = 0;
    barrier(CLK_GLOBAL_MEM_FENCE); /* the row is empty */
    ENTER_SEQUENCE(args, &arguments, b);
    const struct extent e = extent_of(args, b);
    const __global int *const list = list_of_keys(args, b, h, i);
    for (long n = i < args->shape->seq_q ? get_local_id(0) : args->shape->topk;
         n < args->shape->topk; n += ITEMS) {
        const long j = list[n];
        if (j >= 0 && j < args->shape->seq_kv && is_let_through(args, e, b, h, i, j))
            marks[j] = 1;
    }
}

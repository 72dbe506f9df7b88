/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of lists of chosen keys (src/problem/chosen_keys.h), compiled by the host and by the device. It is of ints and
 * floats, and each array begins at a multiple of 32: what is made of all lists, and for gradients an execution of some
 * lists. */
#pragma once
#include "common/argument_types.h"

/* The workspace of lists: the number of each list's keys, starts of sequences, and a table with `width` rows of keys for each
 * list, in ascending order. */
struct made_lists {
    ca_long lists, width, starts, table, end;
};

static inline ca_long whole_lines(const ca_long ints)
{
    return (ints + 31) / 32 * 32;
}

static inline struct made_lists made_lists_of(const ca_long lists, const ca_long width)
{
    struct made_lists made = {lists, width, 0, 0, 0};

    made.starts = whole_lines(lists);
    made.table = made.starts + whole_lines(lists + 1);
    made.end = made.table + whole_lines(lists * width);
    return made;
}

enum {
    CHOSEN_PART_HEAD = 32
}; /* floats for two ints: the execution's first list, and its number of lists */

/* An execution, and the keys whose gradients are summed up. */
struct chosen_part {
    ca_long lists;    /* the batches of the execution */
    ca_long kv_heads; /* that share a list */
    ca_long group;    /* query heads of a kv head */
    ca_long width;    /* keys of a list that is full */
    ca_long dim_qk, dim_v, value_bytes;
    ca_long sums; /* keys of all batches and kv heads */
};

/* Where its arrays begin. q, k, v and d_o have values of value_bytes; lengths and batches are ints. */
struct chosen_places {
    ca_long lengths, batches, lse, dlse, q, d_o, o, dq, k, v, dk, dv, sums_k, sums_v, end;
};

static inline ca_long chosen_floats(const ca_long count, const ca_long bytes)
{
    return whole_lines((count * bytes + 3) / 4);
}

static inline struct chosen_places chosen_places_of(const struct chosen_part p)
{
    const ca_long rows = p.lists * p.kv_heads * p.group, keys = p.lists * p.kv_heads * p.width;
    struct chosen_places at;

    at.lengths = CHOSEN_PART_HEAD;
    at.batches = at.lengths + chosen_floats(p.lists, 4);
    at.lse = at.batches + chosen_floats(p.lists, 4);
    at.dlse = at.lse + chosen_floats(rows, 4);
    at.q = at.dlse + chosen_floats(rows, 4);
    at.d_o = at.q + chosen_floats(rows * p.dim_qk, p.value_bytes);
    at.o = at.d_o + chosen_floats(rows * p.dim_v, p.value_bytes);
    at.dq = at.o + chosen_floats(rows * p.dim_v, 4);
    at.k = at.dq + chosen_floats(rows * p.dim_qk, 4);
    at.v = at.k + chosen_floats(keys * p.dim_qk, p.value_bytes);
    at.dk = at.v + chosen_floats(keys * p.dim_v, p.value_bytes);
    at.dv = at.dk + chosen_floats(keys * p.dim_qk, 4);
    at.sums_k = at.dv + chosen_floats(keys * p.dim_v, 4);
    at.sums_v = at.sums_k + chosen_floats(p.sums * p.dim_qk, 4);
    at.end = at.sums_v + chosen_floats(p.sums * p.dim_v, 4);
    return at;
}

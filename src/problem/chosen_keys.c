/* SPDX-License-Identifier: Apache-2.0 */
#include "problem/chosen_keys.h"
#include "base/sizes.h"
#include "problem/layout.h"
#include "problem/operations.h"

#include <stdint.h>
#include <string.h>

/* ---- rows ------------------------------------------------------------------------------------ */

static size_t greatest_divisor(size_t a, size_t b)
{
    while (b) {
        const size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* How rows of keys are numbered: batches (pages), kv heads and rows of a tensor are so many units apart. */
struct numbering {
    size_t unit, step[3];
};

static struct numbering numbering_of(const clattn_layout *layout, const int counted[3])
{
    struct numbering n = {0, {0}};

    for (int axis = 0; axis < 3; axis++)
        n.unit = counted[axis] ? greatest_divisor(layout->stride[axis], n.unit) : n.unit;
    for (int axis = 0; axis < 3; axis++)
        n.step[axis] = counted[axis] && n.unit ? layout->stride[axis] / n.unit : 0;
    return n;
}

/* Numbers the rows of k, v and their scales alike, as pages of one key. Returns 0 if they cannot be, or if an int cannot
 * hold the numbers. */
static int number_rows(const clattn_problem *p, const int counted[3], clattn_problem *to)
{
    const struct numbering k = numbering_of(&p->k, counted), v = numbering_of(&p->v, counted);
    const clattn_layout *const scales[] = {&p->k_scales_layout, &p->v_scales_layout};
    clattn_layout *const to_scales[] = {&to->k_scales_layout, &to->v_scales_layout};
    const size_t sizes[3] = {ca_cache_batch(p), p->kv_heads, ca_cache_rows(p)};
    size_t last = 0;

    for (int axis = 0; axis < 3; axis++) {
        size_t reach;
        if (k.step[axis] != v.step[axis])
            return 0;
        if (!ca_multiply(k.step[axis], sizes[axis] - 1, &reach) || reach > INT32_MAX - 1 - last)
            return 0;
        last += reach;
    }
    for (int n = 0; n < 2; n++) {
        const struct numbering own = numbering_of(scales[n], counted);
        for (int axis = 0; axis < 3 && own.unit; axis++) /* else all rows share a scale */
            if (own.step[axis] != k.step[axis])
                return 0;
        *to_scales[n] = (clattn_layout){{own.unit, scales[n]->stride[1], 0, 0}};
    }
    to->page_size = 1;
    to->pages = last + 1;
    to->k = (clattn_layout){{k.unit, p->k.stride[1], p->dim_qk, p->k.stride[3]}};
    to->v = (clattn_layout){{v.unit, p->v.stride[1], p->dim_v, p->v.stride[3]}};
    return 1;
}

/* Returns whether the problem has options that look at a pair's place, which a list does not keep. */
static int needs_places(const clattn_problem *p)
{
    return p->bias || p->mask || p->alibi || p->score_function || p->mask_function ||
           p->dropout > 0.0f;
}

/* Leaves out what the lists have taken into account: lengths, causality and windows, packed sequences of keys. A batch has
 * the keys of a list. */
static void leave_out_places(struct ca_chosen_keys *chosen)
{
    clattn_problem *to = &chosen->problem;

    to->seq_kv = chosen->width;
    to->total_kv = 0;
    to->kv_lengths = 1;
    to->q_lengths = 0;
    to->causal = 0;
    to->diagonal = CLATTN_TOP_LEFT;
    to->diagonal_offset = 0;
    to->window_left = to->window_right = CLATTN_UNLIMITED;
}

/* Returns whether the heads of all batches are evenly spaced: the batch stride is the head stride times the heads. */
static int goes_on(const clattn_layout *layout, size_t batch, size_t kv_heads, size_t group)
{
    return batch == 1 || layout->stride[0] == kv_heads * group * layout->stride[1];
}

/* The layout with each kv head's rows as a batch of its own; `step` is the distance of these batches. */
static clattn_layout rows_apart(const clattn_layout *of, size_t step)
{
    return (clattn_layout){{step, of->stride[1], of->stride[2], of->stride[3]}};
}

static int derive_rows(const clattn_problem *p, struct ca_chosen_keys *chosen)
{
    clattn_problem *to = &chosen->problem;
    const size_t own = ca_topk_heads(p), batch = ca_query_batch(p), group = p->heads / p->kv_heads;
    const int heads_differ = own > 1;

    if (p->operation != CLATTN_FORWARD || needs_places(p))
        return 0;
    chosen->packed = p->total_q || p->seq_q > 1;
    const int together =
        !chosen->packed && (!heads_differ || (!p->sinks && goes_on(&p->q, batch, own, group) &&
                                              goes_on(&p->o, batch, own, group)));
    chosen->counts_heads = heads_differ && together;
    chosen->counts_batches = p->page_size != 0 || (together && batch > 1 && !p->total_kv);
    int numbered = number_rows(p, (int[]){chosen->counts_batches, chosen->counts_heads, 1}, to);
    chosen->batches = together ? 1 : batch;
    chosen->kv_heads = together ? 1 : own;
    if (!numbered && !p->page_size) { /* each batch begins anew */
        chosen->counts_batches = chosen->counts_heads = 0;
        chosen->batches = batch;
        chosen->kv_heads = own;
        numbered = number_rows(p, (int[]){0, 0, 1}, to);
    }
    if (!numbered)
        return 0;
    const size_t queries = chosen->lists / (chosen->batches * chosen->kv_heads);
    to->batch = queries;
    to->seq_q = 1;
    to->total_q = chosen->packed ? queries : 0;
    leave_out_places(chosen);
    if (heads_differ) {
        to->heads = group;
        to->kv_heads = 1;
    }
    to->d_o = to->dq = to->dk = to->dv = (clattn_layout){{0}};
    if (!chosen->packed && chosen->counts_heads) {
        to->q = rows_apart(&p->q, group * p->q.stride[1]);
        to->o = rows_apart(&p->o, group * p->o.stride[1]);
    }
    chosen->executions = chosen->batches * chosen->kv_heads;
    return clattn_problem_check(to, NULL, 0) == CLATTN_SUCCESS;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* What an execution has at most, unless a single list has more: bytes of arrays, and lists, which occupy every device. */
enum { PART_BYTES = 128 << 20, PART_LISTS = 64 };

/* lse has the sinks in it; heads become queries. */
static int derive_copies(const clattn_problem *p, struct ca_chosen_keys *chosen)
{
    clattn_problem *to = &chosen->problem;
    const size_t kv_heads = ca_topk_heads(p) > 1 ? 1 : p->kv_heads;
    const size_t keys = ca_cache_batch(p) * p->kv_heads * ca_cache_rows(p);
    struct chosen_part *part = &chosen->copies;

    if (p->operation != CLATTN_BACKWARD || needs_places(p) || ca_cache_rows(p) > INT32_MAX ||
        chosen->lists > INT32_MAX)
        return 0;
    *part = (struct chosen_part){.lists = 1,
                                 .kv_heads = (ca_long)kv_heads,
                                 .group = (ca_long)(p->heads / p->kv_heads),
                                 .width = (ca_long)chosen->width,
                                 .dim_qk = (ca_long)p->dim_qk,
                                 .dim_v = (ca_long)p->dim_v,
                                 .value_bytes = p->dtype == CLATTN_F32 ? 4 : 2};
    const size_t list_bytes = 4 * (size_t)chosen_places_of(*part).end;
    const size_t most = list_bytes < PART_BYTES ? PART_BYTES / list_bytes : 1;
    chosen->executions = ca_divide_up(chosen->lists, ca_smaller(most, PART_LISTS));
    part->lists = (ca_long)ca_divide_up(chosen->lists, chosen->executions);
    part->sums = (ca_long)keys;
    to->batch = (size_t)part->lists;
    to->heads = to->kv_heads = kv_heads;
    to->seq_q = (size_t)part->group;
    to->total_q = 0;
    to->o_f32 = 1; /* gradients are added up in f32 */
    to->sinks = to->dsinks = 0;
    to->q = to->k = to->v = to->o = to->d_o = to->dq = to->dk = to->dv = (clattn_layout){{0}};
    leave_out_places(chosen);
    if (clattn_problem_check(to, NULL, 0) != CLATTN_SUCCESS)
        return 0;
    *to = ca_problem_normal(to);
    return 1;
}

/* ---- a mask ---------------------------------------------------------------------------------- */

static void derive_mask(const clattn_problem *p, struct ca_chosen_keys *chosen)
{
    clattn_problem *to = &chosen->problem;
    const int of_heads = p->heads > 1 && (p->mask || ca_topk_heads(p) > 1);
    const size_t sizes[4] = {p->batch, of_heads ? p->heads : 1, p->seq_q, p->seq_kv};

    to->mask = 1;
    to->mask_keys = 0;
    if (!ca_layout_spread(of_heads ? 15 : 13, sizes, &to->mask_layout) ||
        !ca_layout_span(&to->mask_layout, sizes, &chosen->mask_bytes))
        chosen->mask_bytes = SIZE_MAX;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* The time of a pair where so many rows share what is read of keys, relative to many rows. Measured on two cores with AVX-512
 * and AMX: prompts of 256 queries in f16, 4 rows, took 6 times as long by rows, and MLA's 128 rows in bf16 1.3 times. */
static double time_of_pair(size_t rows)
{
    return 1.0 + 24.0 / (double)rows;
}

/* The same of gradients by copies, which move each listed key several times. Measured on the same cores: 19 with 4 rows, 4.6
 * with 16 and 1.4 with 128 in f32; 80, 15 and 2.5 in bf16, whose tiles multiply faster. */
static double time_of_copied_pair(clattn_dtype dtype, size_t rows)
{
    return 1.0 + (dtype == CLATTN_BF16 ? 250.0 : 70.0) / (double)rows;
}

/* Returns whether attention to all keys with a mask takes less time than attention to the listed keys. With a mask, a tile of
 * keys serves many queries. Masks of over 2^30 bytes are not made. */
static int is_faster_by_mask(const clattn_problem *p, const struct ca_chosen_keys *chosen)
{
    const size_t rows = p->heads / p->kv_heads;
    const double mask = (double)p->batch * (double)(ca_topk_heads(p) > 1 ? p->heads : 1) *
                        (double)p->seq_q * (double)p->seq_kv;
    const double listed = (double)chosen->width * (p->operation == CLATTN_BACKWARD
                                                       ? time_of_copied_pair(p->dtype, rows)
                                                       : time_of_pair(rows));

    return mask <= (double)(1 << 30) && (double)p->seq_kv * time_of_pair(rows * p->seq_q) < listed;
}

/* Tries to derive the problem without lists. Copies are for gradients, and rows for forward attention. */
static int derive(const clattn_problem *p, enum ca_chosen_way way, struct ca_chosen_keys *chosen)
{
    const struct ca_chosen_keys before = *chosen;

    chosen->way = way;
    if (way == CA_BY_COPIES ? derive_copies(p, chosen) : derive_rows(p, chosen))
        return 1;
    *chosen = before;
    return 0;
}

int ca_chosen_keys(const clattn_problem *normal, struct ca_chosen_keys *chosen)
{
    const int backward = normal->operation == CLATTN_BACKWARD;

    memset(chosen, 0, sizeof *chosen);
    chosen->problem = *normal;
    chosen->problem.topk = 0;
    chosen->problem.topk_heads = 0;
    chosen->executions = chosen->batches = chosen->kv_heads = 1;
    chosen->lists = ca_query_batch(normal) * ca_topk_heads(normal) * ca_query_rows(normal);
    if (ca_problem_empty(normal) || normal->seq_kv == 0 || chosen->lists == 0)
        return 0;
    chosen->width = ca_smaller(normal->topk, normal->seq_kv);
    if (is_faster_by_mask(normal, chosen) ||
        !derive(normal, backward ? CA_BY_COPIES : CA_BY_ROWS, chosen))
        derive_mask(normal, chosen);
    return 1;
}

int ca_has_chosen_keys(const clattn_problem *p)
{
    return ca_is_attention(p) && p->topk > 0;
}

struct made_lists ca_chosen_keys_made(const struct ca_chosen_keys *chosen)
{
    return made_lists_of((ca_long)chosen->lists, (ca_long)chosen->width);
}

size_t ca_chosen_keys_bytes(const struct ca_chosen_keys *chosen, size_t bits)
{
    if (chosen->way != CA_BY_MASK) {
        const size_t part =
            chosen->way == CA_BY_COPIES ? 4 * (size_t)chosen_places_of(chosen->copies).end : 0;
        return ca_round_up(
            4 * (size_t)ca_chosen_keys_made(chosen).end + (bits > part ? bits : part), 128);
    }
    return chosen->mask_bytes > CA_MAX_ELEMENTS ? SIZE_MAX : ca_round_up(chosen->mask_bytes, 128);
}

struct ca_problem ca_problem_chosen(const struct ca_problem *p)
{
    struct ca_problem chosen = *p;
    clattn_problem *const forms[] = {&chosen.given, &chosen.normal};
    struct ca_chosen_keys keys;

    for (size_t n = 0; n < 2 && ca_has_weight_sums(&p->normal); n++) {
        forms[n]->key_sums = 0;
        if (forms[n]->scores == CLATTN_SCORES_MEAN)
            forms[n]->scores = CLATTN_SCORES_NONE;
    }
    if (!ca_has_chosen_keys(&p->normal))
        return chosen;
    ca_chosen_keys(&p->normal, &keys);
    return ca_problem_own(&keys.problem);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/steps.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 32 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t round_up(size_t n, size_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

static size_t group(const clattn_problem *p)
{
    return p->heads / p->kv_heads;
}

struct row_place step_row(const struct step *step, const clattn_problem *p, size_t entry,
                          size_t row)
{
    const size_t slice = step->slice + (step->same_slice ? 0 : entry);
    const size_t r = step->row + row + (step->same_slice ? entry * p->seq_q : 0);

    return (struct row_place){.head = slice * group(p) + r / p->seq_q, .i = r % p->seq_q};
}

size_t step_row_stride(const struct step *step, const clattn_problem *p)
{
    return step->same_slice ? p->seq_q : group(p) * p->seq_q;
}

size_t step_slice_stride(const struct step *step)
{
    return step->same_slice ? 0 : 1;
}

size_t step_first_row(const struct step *step, const clattn_problem *p)
{
    return step->slice * group(p) * p->seq_q + step->row;
}

/* ---- cutting --------------------------------------------------------------------------------- */

/* The columns that some row of the step may see. */
static void find_keys(struct step *step, const clattn_problem *p)
{
    const size_t first_row = step->row % p->seq_q;
    const bool whole = step->rows > p->seq_q - first_row; /* Rows of more than one head. */
    const size_t from = whole ? 0 : first_row, to = whole ? p->seq_q : first_row + step->rows;
    size_t low = SIZE_MAX, high = 0;

    for (size_t i = from; i < to; i++) {
        const struct key_range range = problem_visible(p, i);
        if (range.end > range.first) {
            low = least(low, range.first);
            high = high > range.end ? high : range.end;
        }
    }
    step->key = high > 0 ? low / ALIGNMENT * ALIGNMENT : 0;
    step->keys = high > 0 ? high - step->key : 1;
    step->stride = round_up(step->keys, ALIGNMENT);
}

static bool add(struct steps *steps, size_t *capacity, struct step step, const clattn_problem *p)
{
    if (steps->count == *capacity) {
        *capacity = *capacity * 2 + 16;
        struct step *grown = realloc(steps->step, *capacity * sizeof *grown);
        if (grown == NULL)
            return false;
        steps->step = grown;
    }
    find_keys(&step, p);
    const size_t rows = step.entries * step.rows, scores = rows * step.stride;
    steps->most_scores = scores > steps->most_scores ? scores : steps->most_scores;
    steps->most_rows = rows > steps->most_rows ? rows : steps->most_rows;
    steps->most_keys = step.keys > steps->most_keys ? step.keys : steps->most_keys;
    steps->step[steps->count++] = step;
    return true;
}

/* All rows [row, row + rows) of each slice, or of each head in turn where `by_head`. */
static bool cut(struct steps *steps, const clattn_problem *p, size_t rows, size_t entries,
                bool by_head)
{
    const size_t slices = p->batch * p->kv_heads;
    const bool same_slice = by_head && group(p) > 1;
    const size_t unit = by_head ? p->seq_q : group(p) * p->seq_q;
    const size_t outer = same_slice ? slices : 1, inner = same_slice ? group(p) : slices;
    size_t capacity = 0;
    bool ok = true;

    for (size_t s = 0; s < outer; s++) {
        for (size_t row = 0; row < unit; row += rows) {
            for (size_t n = 0; ok && n < inner; n += entries) {
                const struct step step = {.slice = same_slice ? s : n,
                                          .entries = least(entries, inner - n),
                                          .same_slice = same_slice,
                                          .row = row + (same_slice ? n * p->seq_q : 0),
                                          .rows = least(rows, unit - row)};
                ok = add(steps, &capacity, step, p);
            }
        }
    }
    return ok;
}

bool steps_make(struct steps *steps, const clattn_problem *p, const struct step_limits *limits,
                struct message *why)
{
    const size_t stride = round_up(p->seq_kv, ALIGNMENT);
    const size_t fitting = limits->scores / stride > 1 ? limits->scores / stride : 1;
    const bool by_head = problem_limited(p) && p->seq_q > limits->rows; /* Keys are left out. */
    const size_t unit = by_head ? p->seq_q : group(p) * p->seq_q;
    const size_t wish = by_head || limits->always_by_rows ? limits->rows : unit;
    const size_t rows = least(least(wish, unit), fitting);
    const size_t entries = least(fitting / rows > 1 ? fitting / rows : 1, limits->entries);

    memset(steps, 0, sizeof *steps);
    if (cut(steps, p, rows, entries, by_head))
        return true;
    steps_free(steps);
    return message_set(why, "no memory for the list of its matrix products");
}

void steps_free(struct steps *steps)
{
    free(steps->step);
    memset(steps, 0, sizeof *steps);
}
